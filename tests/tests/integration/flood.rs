//! What the controller's memory is worth to who wants it to end: the webhook reads what others write, and anybody reaches its port.

use std::{
    io::Write,
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, Result, anyhow, ensure};
use argosy_api::names;
use argosy_tests::lab::{
    Member, Scene, Stage,
    admission::{is_held, refusal, try_unsuspended, unsuspended, until_held},
    objects::{create, phase},
    stage::LONG,
    waiting::until,
};
use futures::future::{join_all, try_join_all};
use k8s_openapi::ByteString;
use kube::{
    Client, Config, ResourceExt,
    api::{Patch, PatchParams, PostParams, Request},
};
use serde_json::{Value, json};

/// The chart allows 512.
const MOST_MIB: u64 = 300;

/// `{"a":[0,0,…]}`, 64 MiB of it, as nodes that Argo has packed: less than 128 KiB.
fn bomb() -> Result<Value> {
    let json = format!(r#"{{"a":[{}0]}}"#, "0,".repeat(32 << 20));
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
    let packed = json!(ByteString(output.stdout));
    ensure!(packed.as_str().is_some_and(|text| text.len() < 128 << 10));
    Ok(packed)
}

/// Reviews that somebody makes up, whose trees would take some hundred MiB; one of them is as heavy as is looked at.
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

/// Sends each of them some times at once, as any pod of the control cluster may.
async fn post_reviews(port: u16) -> Result<()> {
    let mut config = Config::new(format!("https://127.0.0.1:{port}").parse()?);
    config.accept_invalid_certs = true;
    let webhook = Client::try_from(config)?;
    let reviews = reviews();
    let posts = (0..3).flat_map(|_| &reviews).map(async |review| {
        let request = Request::new("/admit").create(&PostParams::default(), review.clone().into_bytes())?;
        anyhow::Ok(webhook.request_text(request).await)
    });
    // Some are answered, some are told that there is no room, and what is too long is cut off while it is sent.
    for answer in join_all(posts).await {
        match answer? {
            Ok(_) | Err(kube::Error::Api(_) | kube::Error::Service(_)) => {}
            Err(error) => return Err(error).context("no review can be asked for"),
        }
    }
    Ok(())
}

/// Writes a Workflow some times. What is on it is looked at each time.
async fn touch(scene: &Scene, name: &str, packed: Option<&Value>) -> Result<()> {
    for round in 0..2 {
        let mut patch = json!({ "metadata": { "labels": { "round": round.to_string() } } });
        if let Some(packed) = packed {
            patch["status"] = json!({ "phase": "Running", "compressedNodes": packed, "nodes": null });
        }
        let written = scene
            .workflows()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        assert!(is_held(&written), "{name} is held no more");
    }
    Ok(())
}

/// Held or refused, whatever else happens.
async fn is_never_created_unheld(scene: &Scene, member: &Member) -> Result<()> {
    for _ in 0..10 {
        let tried = try_unsuspended(&scene.workflows(), &member.cluster).await;
        if refusal(&tried).is_none() {
            assert!(is_held(&tried?), "it was created unheld");
        }
    }
    Ok(())
}

#[tokio::test]
async fn nobody_fills_the_controllers_memory_through_the_webhook() -> Result<()> {
    let scene = Scene::on(Stage::own_guarded("flood", LONG).await?, "flood").await?;
    let member = scene.pull().await?;
    until_held(&scene, &member).await?;
    let packed = bomb()?;
    // A tenant's own Workflow, and one whose cluster reports what it likes.
    for name in ["tenants", "members"] {
        create(&scene.workflows(), &unsuspended(name, &member.cluster)).await?;
        until(&member.workflows(), name, "it is on the cluster", |_| true).await?;
    }
    let report = json!({ "phase": "Running", "compressedNodes": packed });
    member.argo().report("members", report).await?;
    until(&scene.workflows(), "members", "its status is shown", |workflow| {
        phase(workflow) == "Running"
    })
    .await?;
    let port = scene.stage.webhook_port.context("there is a webhook")?;
    let tenants = (0..4).map(|_| touch(&scene, "tenants", Some(&packed)));
    let members = (0..4).map(|_| touch(&scene, "members", None));
    tokio::try_join!(
        try_join_all(tenants),
        try_join_all(members),
        post_reviews(port),
        is_never_created_unheld(&scene, &member),
    )?;
    until_held(&scene, &member).await?;
    let created = create(&scene.workflows(), &unsuspended("hello", &member.cluster)).await?;
    assert!(is_held(&created));
    assert_eq!(created.labels()[names::CLUSTER_LABEL], member.cluster);
    let peak = scene.stage.controller.peak_memory();
    let peak = peak.context("the controller has ended")?;
    assert!(peak < MOST_MIB, "it took {peak} MiB");
    Ok(())
}
