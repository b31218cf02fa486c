//! `argosy logs`: the logs of a run that can be read on the control cluster, and the messages about
//! the others.

use anyhow::Result;
use argosy_tests::testenv::{
    Fixture, Member,
    binaries::{Answer, argosy, argosy_prints},
    s3::S3,
    waiting::until,
};
use serde_json::{Value, json};

/// A run on a cluster whose Argo keeps logs in the S3 server that the control cluster reads.
struct Run {
    fixture: Fixture,
    member: Member,
    s3: S3,
}

impl Run {
    async fn new(name: &str) -> Result<Self> {
        let fixture = Fixture::new(name).await?;
        let s3 = S3::start().await?;
        s3.configure(&fixture.control, &fixture.namespace).await?;
        let member = fixture.pull().await?;
        fixture.dispatch("hello", &member).await?;
        Ok(Self { fixture, member, s3 })
    }

    /// Lets Argo report `nodes`, and waits until the control cluster shows them.
    async fn report(&self, phase: &str, nodes: Value) -> Result<()> {
        let count = nodes.as_object().map(serde_json::Map::len);
        let status = json!({ "phase": phase, "startedAt": "2026-01-01T00:00:00Z", "nodes": nodes });
        self.member.argo().report("hello", status).await?;
        until(
            &self.fixture.workflows(),
            "hello",
            "its steps are shown",
            |workflow| {
                let status = workflow.status.as_ref();
                let shown = status.and_then(|status| status["nodes"].as_object());
                argosy_tests::testenv::objects::phase(workflow) == phase
                    && shown.map(serde_json::Map::len) == count
            },
        )
        .await?;
        Ok(())
    }

    fn arguments<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        let namespace = self.fixture.namespace.as_str();
        let mut arguments = vec!["logs", "hello", "-n", namespace, "--argo-namespace", namespace];
        arguments.extend(rest);
        arguments
    }

    async fn logs(&self, rest: &[&str]) -> Result<Answer> {
        argosy(self.fixture.env.control.kubeconfig(), &self.arguments(rest)).await
    }
}

fn step(name: &str, phase: &str, artifacts: &Value) -> Value {
    json!({
        "id": format!("hello-{name}"), "name": format!("hello.{name}"), "displayName": name, "type": "Pod", "phase": phase,
        "startedAt": "2026-01-01T00:00:00Z", "outputs": { "artifacts": artifacts },
    })
}

fn log(key: &str) -> Value {
    json!([{ "name": "main-logs", "s3": { "key": key } }])
}

#[tokio::test]
async fn logs_of_steps_that_have_ended_are_printed_and_of_the_others_it_is_said_where_they_are() -> Result<()>
{
    let run = Run::new("logs-kept").await?;
    run.s3.put("hello/first/main.log", "one\ntwo\n").await?;
    // A log that is read in many pieces and whose last line has no newline.
    let long = "0123456789abcdef\n".repeat(200_000);
    run.s3.put("hello/second/main.log", &format!("{long}end")).await?;
    let nodes = json!({
        "hello": { "id": "hello", "name": "hello", "displayName": "hello", "type": "DAG", "phase": "Running" },
        "a": step("first", "Succeeded", &log("hello/first/main.log")),
        "b": step("second", "Failed", &log("hello/second/main.log")),
        "c": step("third", "Running", &json!([])),
    });
    run.report("Running", nodes).await?;

    let first = run.logs(&["--step", "first"]).await?;
    assert_eq!(
        (first.code, first.output.as_str()),
        (Some(0), "first: one\nfirst: two\n"),
        "{}",
        first.errors
    );
    let plain = run.logs(&["--node", "hello-first", "--no-prefix"]).await?;
    assert_eq!(plain.output, "one\ntwo\n");

    let all = run.logs(&[]).await?;
    assert_eq!(all.code, Some(0), "{}", all.errors);
    let expected = format!(
        "first: one\nfirst: two\n{}second: end\n",
        "second: 0123456789abcdef\n".repeat(200_000)
    );
    assert!(
        all.output == expected,
        "{} bytes were printed of {}",
        all.output.len(),
        expected.len()
    );
    let cluster = &run.member.cluster;
    for hint in [
        "have not ended: third; argosy logs -f",
        &format!("with a kubeconfig of {cluster}: kubectl logs --namespace logs-kept"),
    ] {
        assert!(all.errors.contains(hint), "{}", all.errors);
    }

    let nobody = run.logs(&["--step", "nobody"]).await?;
    assert_eq!(nobody.code, Some(1));
    assert!(
        nobody.errors.contains("has no step named nobody"),
        "{}",
        nobody.errors
    );
    let sidecar = run.logs(&["--step", "first", "-c", "sidecar"]).await?;
    assert_eq!(sidecar.code, Some(1));
    assert!(
        sidecar
            .errors
            .contains("the log of first has no container sidecar; it has main"),
        "{}",
        sidecar.errors
    );
    Ok(())
}

#[tokio::test]
async fn a_log_is_printed_once_its_step_has_ended_and_following_ends_with_the_run() -> Result<()> {
    let run = Run::new("logs-follow").await?;
    run.s3.put("hello/first/main.log", "early\n").await?;
    run.s3.put("hello/second/main.log", "late\n").await?;
    let first = step("first", "Succeeded", &log("hello/first/main.log"));
    run.report(
        "Running",
        json!({ "a": first, "b": step("second", "Running", &json!([])) }),
    )
    .await?;
    let control = run.fixture.env.control.kubeconfig();
    let arguments = run.arguments(&["--follow"]);
    let second = step("second", "Succeeded", &log("hello/second/main.log"));
    let nodes = json!({ "a": first, "b": second });
    // The second step ends only after a follower has printed the log of the first one.
    let (printed, followed) = tokio::join!(
        async {
            argosy_prints(control, &arguments, &["first: early"]).await?;
            run.report("Succeeded", nodes).await
        },
        argosy(control, &arguments),
    );
    printed?;
    let followed = followed?;
    assert_eq!(followed.code, Some(0), "{followed:?}");
    assert_eq!(followed.output, "first: early\nsecond: late\n");
    Ok(())
}

#[tokio::test]
async fn a_log_that_was_never_kept_or_is_gone_is_told_with_the_reason() -> Result<()> {
    let run = Run::new("logs-missing").await?;
    let waiting = run.logs(&[]).await?;
    assert_eq!(waiting.code, Some(1));
    assert!(
        waiting.errors.contains("hello has no steps yet"),
        "{}",
        waiting.errors
    );

    run.report(
        "Succeeded",
        json!({ "a": step("first", "Succeeded", &json!([])) }),
    )
    .await?;
    let never = run.logs(&[]).await?;
    assert_eq!((never.code, never.output.as_str()), (Some(1), ""));
    assert!(
        never.errors.contains("the log of first was not archived"),
        "{}",
        never.errors
    );
    assert!(
        never.errors.contains("argosy.dev/archive-logs"),
        "{}",
        never.errors
    );
    Ok(())
}

#[tokio::test]
async fn a_log_whose_object_or_bucket_is_away_is_told_from_an_empty_one() -> Result<()> {
    let run = Run::new("logs-gone").await?;
    run.s3.put("hello/first/main.log", "").await?;
    let nodes = json!({
        "a": step("first", "Succeeded", &log("hello/first/main.log")),
        "b": step("second", "Succeeded", &log("hello/second/main.log")),
    });
    run.report("Succeeded", nodes).await?;
    let empty = run.logs(&["--step", "first"]).await?;
    assert_eq!(
        (empty.code, empty.output.as_str()),
        (Some(0), ""),
        "{}",
        empty.errors
    );
    let gone = run.logs(&["--step", "second"]).await?;
    assert_eq!(gone.code, Some(1));
    assert!(
        gone.errors.contains("the log of second is not in http://"),
        "{}",
        gone.errors
    );
    run.s3.kill()?;
    let away = run.logs(&["--step", "first"]).await?;
    assert_eq!(away.code, Some(2));
    assert!(away.errors.contains(&run.s3.endpoint), "{}", away.errors);

    let nobody = argosy(
        run.fixture.env.control.kubeconfig(),
        &["logs", "nobody", "-n", "logs-gone"],
    )
    .await?;
    assert_eq!(nobody.code, Some(2));
    assert_eq!(nobody.errors, "argosy: there is no Workflow logs-gone/nobody\n");
    Ok(())
}
