//! The controller's memory under attack through the webhook: it reads objects that others write,
//! and every pod can reach its port.

use std::{
    io::Write,
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, Result, anyhow, ensure};
use argosy_api::names;
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    admission::{is_held, refusal, try_unsuspended, unsuspended, until_held},
    env::LONG,
    objects::{create, phase},
    waiting::{persistently, until},
};
use futures::future::try_join_all;
use k8s_openapi::ByteString;
use kube::{
    Client, Config, ResourceExt,
    api::{Patch, PatchParams, PostParams, Request},
};
use serde_json::{Value, json};

/// The chart permits 512.
const MOST_MIB: u64 = 300;

/// Nodes in Argo's compressed format.
pub(super) fn pack(json: String) -> Result<Value> {
    let mut gzip = Command::new("gzip")
        .args(["-9", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = gzip.stdin.take().context("it has an input")?;
    let writing = thread::spawn(move || input.write_all(json.as_bytes()));
    let output = gzip.wait_with_output()?;
    writing.join().map_err(|_| anyhow!("writing has failed"))??;
    ensure!(output.status.success(), "gzip: {}", output.status);
    Ok(json!(ByteString(output.stdout)))
}

/// 64 MiB of `{"a":[0,0,…]}` as compressed nodes of Argo: less than 128 KiB.
pub(super) fn bomb() -> Result<Value> {
    let packed = pack(format!(r#"{{"a":[{}0]}}"#, "0,".repeat(32 << 20)))?;
    ensure!(packed.as_str().is_some_and(|text| text.len() < 128 << 10));
    Ok(packed)
}

/// Forged reviews whose trees would take some hundred MiB. One of them has the maximum size that
/// the webhook still parses.
fn reviews() -> Vec<String> {
    let zeros = "0,".repeat(3 << 20);
    let looked_at = r#"{"":0},"#.repeat(150_000);
    let objects = r#"{"":0},"#.repeat(1_000_000);
    [
        format!(r#"{{"spec":[{zeros}0]}}"#),
        format!(r#"{{"spec":{{"arguments":[{zeros}0]}}}}"#),
        format!(r#"{{"metadata":{{"managedFields":[{{"fieldsV1":{{"a":[{objects}0]}}}}]}}}}"#),
        format!(r#"{{"metadata":{{"labels":{{}}}},"status":[{looked_at}0]}}"#),
        format!(r#"{{"status":[{objects}0]}}"#),
    ]
    .iter()
    .map(|object| {
        format!(r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"x","object":{object}}}}}"#)
    })
    .collect()
}

/// Sends each review several times at once, as any pod of the control cluster can. Returns the
/// number of answers.
pub(super) async fn post_reviews(port: u16) -> Result<usize> {
    let mut config = Config::new(format!("https://127.0.0.1:{port}").parse()?);
    config.accept_invalid_certs = true;
    let webhook = Client::try_from(config)?;
    let reviews = reviews();
    let posts = (0..3).flat_map(|_| &reviews).map(async |review| {
        let request = Request::new("/admit").create(&PostParams::default(), review.clone().into_bytes())?;
        anyhow::Ok(webhook.request_text(request).await)
    });
    // Some are answered, some are rejected for lack of room, and the upload of those that are too
    // long is aborted.
    let answers = try_join_all(posts).await?;
    let is_answer = |answer: &&kube::Result<String>| matches!(answer, Ok(_) | Err(kube::Error::Api(_)));
    Ok(answers.iter().filter(is_answer).count())
}

/// Writes a Workflow several times. The webhook inspects its content each time.
pub(super) async fn touch(fixture: &Fixture, name: &str, packed: Option<&Value>) -> Result<()> {
    for round in 0..2 {
        let mut patch = json!({ "metadata": { "labels": { "round": round.to_string() } } });
        if let Some(packed) = packed {
            patch["status"] = json!({ "phase": "Running", "compressedNodes": packed, "nodes": null });
        }
        let patch = Patch::Merge(patch);
        // An overloaded webhook inspects nothing, and then the status may not be written.
        let written = persistently(name, async || {
            let written = fixture
                .workflows()
                .patch(name, &PatchParams::default(), &patch)
                .await;
            if packed.is_some() && refusal(&written).is_some_and(|message| message.contains("argosy-hold")) {
                return Ok(None);
            }
            written.map(Some)
        })
        .await?;
        assert!(written.as_ref().is_none_or(is_held), "{name} is held no more");
    }
    Ok(())
}

/// A Workflow is always held or refused.
async fn is_never_created_unheld(fixture: &Fixture, member: &Member) -> Result<()> {
    for _ in 0..10 {
        let tried = try_unsuspended(&fixture.workflows(), &member.cluster).await;
        if refusal(&tried).is_none() {
            assert!(is_held(&tried?), "it was created unheld");
        }
    }
    Ok(())
}

#[tokio::test]
async fn nobody_fills_the_controllers_memory_through_the_webhook() -> Result<()> {
    let fixture = Fixture::on(TestEnv::own_guarded("flood", LONG).await?, "flood").await?;
    let member = fixture.pull().await?;
    until_held(&fixture, &member).await?;
    let packed = bomb()?;
    // One Workflow that its tenant manipulates, and one whose cluster reports arbitrary data.
    for name in ["tenants", "members"] {
        create(&fixture.workflows(), &unsuspended(name, &member.cluster)).await?;
        until(&member.workflows(), name, "it is on the cluster", |_| true).await?;
    }
    let report = json!({ "phase": "Running", "compressedNodes": packed });
    member.argo().report("members", report).await?;
    until(
        &fixture.workflows(),
        "members",
        "its status is shown",
        |workflow| phase(workflow) == "Running",
    )
    .await?;
    let port = fixture.env.webhook_port.context("there is a webhook")?;
    let tenants = (0..4).map(|_| touch(&fixture, "tenants", Some(&packed)));
    let members = (0..4).map(|_| touch(&fixture, "members", None));
    let (_, _, answered, ()) = tokio::try_join!(
        try_join_all(tenants),
        try_join_all(members),
        post_reviews(port),
        is_never_created_unheld(&fixture, &member),
    )?;
    assert!(answered > 0, "no review was answered");
    until_held(&fixture, &member).await?;
    let created = create(&fixture.workflows(), &unsuspended("hello", &member.cluster)).await?;
    assert!(is_held(&created));
    assert_eq!(created.labels()[names::CLUSTER_LABEL], member.cluster);
    let peak = fixture.env.controller.peak_memory();
    let peak = peak.context("the controller has ended")?;
    assert!(peak < MOST_MIB, "it took {peak} MiB");
    Ok(())
}
