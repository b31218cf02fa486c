use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    http::{StatusCode, Uri},
    response::IntoResponse,
};
use clap::Parser;
use kube::core::Status;

use super::{
    super::{Asked, Printer},
    *,
};
use crate::{
    cli::{Cli, Command},
    runtime::tunnel::CUT_WITHIN_LINE,
};

/// A reading of the pod of node `a`, from an API server that gives these answers to requests for its
/// log, one after the other.
fn reading(answers: Vec<(u16, String)>) -> Live {
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let answer = move |uri: Uri| async move {
        let missing = || (StatusCode::NOT_FOUND, String::new());
        if !uri.path().ends_with("/pods/pod-a/log") {
            return missing().into_response();
        }
        let next = answers.lock().unwrap().pop_front();
        let answer = next.map(|(code, text)| (StatusCode::from_u16(code).unwrap(), text));
        answer.unwrap_or_else(missing).into_response()
    };
    let client = Client::new(Router::new().fallback(answer), "default");
    let mut live = Live::of(&client, "argo", "hello", "main");
    live.running.insert("a".to_owned(), "pod-a".to_owned());
    live
}

/// The parts up to the next end of a reading, as a text, and that end.
async fn read(live: &mut Live) -> (String, Pause) {
    let mut text = String::new();
    loop {
        let part = timeout(REQUEST_TIMEOUT, live.next()).await.unwrap();
        match part.map(|part| part.content) {
            Some(Content::Bytes(bytes)) => text.push_str(std::str::from_utf8(&bytes).unwrap()),
            Some(Content::Pause(pause)) => return (text, pause),
            None => {}
        }
    }
}

fn ok(text: &str) -> (u16, String) {
    (200, text.to_owned())
}

fn refused(code: u16) -> (u16, String) {
    let mut status = Status::failure("refused", "Refused");
    status.code = code;
    (code, serde_json::to_string(&status).unwrap())
}

#[tokio::test]
async fn the_log_of_a_step_that_ends_while_its_stream_is_cut_is_read_to_its_end() {
    let mut live = reading(vec![
        ok(&format!("one\ntw\n{CUT_WITHIN_LINE}, because\n")),
        ok("one\ntwo\nthree\n"),
    ]);
    live.follow("a", 0);
    let (text, pause) = read(&mut live).await;
    // A line on the terminal ends where the log was cut off, but that is no byte of the log.
    assert_eq!((text.as_str(), pause.printed), ("one\ntw\n", 6));
    assert!(!pause.is_complete && !pause.is_last);
    live.finish("a", pause.printed, pause.is_complete);
    let (text, pause) = read(&mut live).await;
    assert_eq!((text.as_str(), pause.printed), ("o\nthree\n", 14));
    assert!(pause.is_complete && pause.is_last);
}

#[tokio::test]
async fn a_log_that_cannot_be_read_to_its_end_is_incomplete() {
    let cut = format!("one\n{CUT}, because\n");
    for (first, last, is_complete) in [
        (ok("one\n"), vec![refused(404)], true),
        (ok("one\n"), vec![refused(400)], true),
        (ok(&cut), vec![refused(404)], false),
        (ok(&cut), vec![refused(500), ok("one\n")], true),
        (ok(&cut), vec![ok(&cut), refused(404)], false),
    ] {
        let answers = std::iter::once(first.clone()).chain(last.clone()).collect();
        let mut live = reading(answers);
        live.follow("a", 0);
        let (text, pause) = read(&mut live).await;
        assert_eq!(text, "one\n");
        live.finish("a", pause.printed, pause.is_complete);
        let (text, pause) = read(&mut live).await;
        assert_eq!(
            (text.as_str(), pause.is_complete, pause.is_last),
            ("", is_complete, true),
            "{first:?} {last:?}"
        );
    }
}

#[tokio::test]
async fn parts_of_a_reader_that_was_replaced_are_not_printed_twice() {
    let mut live = reading(vec![ok("one\n"), ok("one\ntwo\n")]);
    live.follow("a", 0);
    let first = live.parts.recv().await.unwrap();
    assert_eq!(first.content, Content::Bytes(b"one\n".to_vec()));
    live.parts = {
        let (sender, parts) = mpsc::channel(QUEUE);
        sender.send(first).await.unwrap();
        live.sender = sender;
        parts
    };
    live.finish("a", 0, false);
    assert_eq!(read(&mut live).await.0, "one\ntwo\n");
}

#[test]
fn lines_that_the_archived_log_does_not_contain_are_left_out() {
    let captures = r#"time="2026-11-25T12:29:57.171Z" level=info msg="capturing logs" argo=true"#;
    for (container, line, expected) in [
        ("main", captures, true),
        ("main", "argosy: this log is cut off here, because", true),
        ("wait", captures, false),
        ("main", "hello argo=true", false),
        ("main", "time=noon", false),
    ] {
        assert_eq!(
            is_of_executor(container, line.as_bytes()),
            expected,
            "{container}: {line}"
        );
    }
}

#[tokio::test]
async fn a_log_that_was_printed_from_the_bucket_before_its_step_has_ended_is_not_read_from_its_pod() {
    let mut live = reading(vec![ok("one\n")]);
    let logs = json!([{ "name": "main-logs", "s3": { "key": "hello/a/main.log" } }]);
    let workflow = serde_json::from_value(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": { "name": "hello" }, "spec": {},
        "status": { "phase": "Running", "nodes": { "a": {
            "id": "a", "name": "hello", "displayName": "hello", "type": "Pod", "phase": "Running",
            "outputs": { "artifacts": logs },
        } } },
    }));
    let workflow: argosy_api::Workflow = workflow.unwrap();
    let Command::Logs(args) = Cli::parse_from(["argosy", "logs", "hello", "-f"]).command else {
        panic!("another command");
    };
    let mut printer = Printer {
        args: &args,
        client: Client::new(Router::new(), "default"),
        bucket: None,
        printed: HashSet::from(["a".to_owned()]),
        written: HashMap::new(),
        paused: HashMap::new(),
        asked: Asked::Granted,
        is_complete: true,
    };
    printer.choose(&workflow, &mut live, false).unwrap();
    assert!(!live.is_followed("a"));
    printer.printed.clear();
    printer.choose(&workflow, &mut live, false).unwrap();
    assert!(live.is_followed("a"));
}
