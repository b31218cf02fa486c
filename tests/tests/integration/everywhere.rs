//! If a policy asks for every cluster, a Workflow has a run with its own status on each of them,
//! and its status is the sum of these runs.

use anyhow::Result;
use argosy_api::{BindingPolicy, Workflow, names};
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    admission::{eventually, is_held, try_unsuspended, unsuspended},
    objects::{self, condition, create, phase, says},
    waiting::{until, until_gone},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

/// The label value that the policy of [`everywhere`] selects.
const EVERYWHERE: &str = "everywhere";

/// A policy that runs Workflows on every cluster with one of these names.
async fn everywhere(fixture: &Fixture, clusters: &[&str]) -> Result<()> {
    let name = format!("{}-everywhere", fixture.namespace);
    let mut policy: BindingPolicy = objects::policy(&name, &fixture.namespace, EVERYWHERE)?;
    policy.spec.cluster_selectors = serde_json::from_value(json!([
        { "matchExpressions": [{ "key": "name", "operator": "In", "values": clusters }] },
    ]))?;
    policy
        .annotations_mut()
        .insert(names::RUNS_ANNOTATION.to_owned(), names::EVERY_CLUSTER.to_owned());
    create(&Api::all(fixture.control.clone()), &policy).await?;
    Ok(())
}

/// Two clusters, and a policy for both.
async fn both(fixture: &Fixture) -> Result<[Member; 2]> {
    let members = [fixture.pull().await?, fixture.push().await?];
    everywhere(fixture, &[&members[0].cluster, &members[1].cluster]).await?;
    Ok(members)
}

fn run_on(member: &Member) -> String {
    format!("hello-{}", member.cluster)
}

async fn until_on(member: &Member) -> Result<Workflow> {
    until(
        &member.workflows(),
        &run_on(member),
        "its run is on the cluster",
        |_| true,
    )
    .await
}

async fn patch(fixture: &Fixture, fields: Value) -> Result<Workflow> {
    let params = PatchParams::default();
    Ok(fixture
        .workflows()
        .patch("hello", &params, &Patch::Merge(fields))
        .await?)
}

/// Waits until every run's spec on its cluster has this value in the field.
async fn until_asked(members: &[Member], field: &str, value: &Value) -> Result<()> {
    for member in members {
        until(
            &member.workflows(),
            &run_on(member),
            &format!("{field} is {value} on the cluster"),
            |object| object.spec.get(field).unwrap_or(&Value::Null) == value,
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_workflow_runs_on_every_cluster_and_is_the_sum_of_its_runs() -> Result<()> {
    let fixture = Fixture::new("everywhere").await?;
    let members = both(&fixture).await?;
    let parent = create(&fixture.workflows(), &objects::workflow("hello", EVERYWHERE)).await?;
    for member in &members {
        let object = until_on(member).await?;
        let run = fixture.workflows().get(&run_on(member)).await?;
        assert_eq!(
            Some(&object.labels()[names::ORIGIN_UID_LABEL]),
            run.uid().as_ref()
        );
        assert_eq!(run.labels()[names::RUN_OF_LABEL], "hello");
        assert_eq!(run.labels()[names::RUN_ON_LABEL], member.cluster);
        assert_eq!(Some(&run.owner_references()[0].uid), parent.uid().as_ref());
        assert!(is_held(&run));
        assert!(
            member.workflows().get_opt("hello").await?.is_none(),
            "it runs itself"
        );
    }
    members[0].argo().start(&run_on(&members[0])).await?;
    let running = until(&fixture.workflows(), "hello", "it runs", |workflow| {
        phase(workflow) == "Running"
    })
    .await?;
    assert!(is_held(&running) && says(&running, "Dispatched", "True", "EveryCluster"));
    assert_eq!(running.labels()[names::CLUSTER_LABEL], names::EVERY_CLUSTER);

    members[0]
        .argo()
        .finish(&run_on(&members[0]), "Succeeded")
        .await?;
    members[1].argo().finish(&run_on(&members[1]), "Failed").await?;
    let ended = until(&fixture.workflows(), "hello", "it has ended", |workflow| {
        phase(workflow) == "Failed"
    })
    .await?;
    let status = ended.status.unwrap_or_default();
    assert_eq!(status["progress"], "2/2");
    assert_eq!(status["finishedAt"], "2026-01-01T00:00:09Z");
    assert_eq!(status["message"], format!("Failed on {}", members[1].cluster));
    for (member, phase_there) in members.iter().zip(["Succeeded", "Failed"]) {
        let run = fixture.workflows().get(&run_on(member)).await?;
        assert_eq!(phase(&run), phase_there);
        let status = run.status.unwrap_or_default();
        assert!(
            status["nodes"].get(format!("{}-2", run_on(member))).is_some(),
            "{status}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn stop_reaches_every_run_and_deletion_takes_all_away() -> Result<()> {
    let fixture = Fixture::new("everywhere-stop").await?;
    let members = both(&fixture).await?;
    create(&fixture.workflows(), &objects::workflow("hello", EVERYWHERE)).await?;
    for member in &members {
        until_on(member).await?;
        member.argo().start(&run_on(member)).await?;
    }
    patch(&fixture, json!({ "spec": { "shutdown": "Stop" } })).await?;
    until_asked(&members, "shutdown", &json!("Stop")).await?;

    fixture
        .workflows()
        .delete("hello", &DeleteParams::default())
        .await?;
    until_gone(&fixture.workflows(), "hello", "it is gone").await?;
    for member in &members {
        let name = run_on(member);
        assert!(
            fixture.workflows().get_opt(&name).await?.is_none(),
            "{name} is left"
        );
        assert!(
            member.workflows().get_opt(&name).await?.is_none(),
            "{name} is left on its cluster"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_run_that_was_deleted_is_not_made_again_and_a_cluster_that_joins_gets_one() -> Result<()> {
    let fixture = Fixture::on(TestEnv::own("everywhere-once").await?, "everywhere-once").await?;
    let members = [fixture.pull().await?, fixture.push().await?];
    let third = format!("{}-third", fixture.namespace);
    everywhere(&fixture, &[&members[0].cluster, &members[1].cluster, &third]).await?;
    create(&fixture.workflows(), &objects::workflow("hello", EVERYWHERE)).await?;
    for member in &members {
        until_on(member).await?;
    }
    let deleted = run_on(&members[0]);
    fixture
        .workflows()
        .delete(&deleted, &DeleteParams::default())
        .await?;
    until_gone(&fixture.workflows(), &deleted, "its user has deleted it").await?;
    assert!(members[0].workflows().get_opt(&deleted).await?.is_none());

    fixture.env.controller.restart().await?;
    let joined = fixture.join_pull("third", 30).await?;
    until_on(&joined).await?;
    for member in [&members[1], &joined] {
        member.argo().finish(&run_on(member), "Succeeded").await?;
    }
    let ended = until(&fixture.workflows(), "hello", "it has ended", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    assert_eq!(ended.status.unwrap_or_default()["progress"], "2/2");
    fixture.round_trip("sentinel", &members[0]).await?;
    assert!(
        fixture.workflows().get_opt(&deleted).await?.is_none(),
        "it was made again"
    );
    Ok(())
}

#[tokio::test]
async fn with_the_webhook_it_is_claimed_at_its_creation_and_suspended_everywhere_at_once() -> Result<()> {
    let fixture = Fixture::on(TestEnv::guarded().await?, "everywhere-guarded").await?;
    let members = both(&fixture).await?;
    let workflows = fixture.workflows();
    eventually("the webhook claims what the policy selects", async || {
        let tried = try_unsuspended(&workflows, EVERYWHERE).await;
        Ok(tried.is_ok_and(|tried| tried.labels().get(names::CLUSTER_LABEL).is_some()))
    })
    .await?;
    let created = create(&workflows, &unsuspended("hello", EVERYWHERE)).await?;
    assert_eq!(created.labels()[names::CLUSTER_LABEL], names::EVERY_CLUSTER);
    for member in &members {
        until_on(member).await?;
        member.argo().start(&run_on(member)).await?;
    }
    patch(&fixture, json!({ "spec": { "suspend": true } })).await?;
    until_asked(&members, "suspend", &json!(true)).await?;
    patch(&fixture, json!({ "spec": { "suspend": null } })).await?;
    for member in &members {
        until(&member.workflows(), &run_on(member), "it goes on", |object| {
            object.spec.get("suspend") != Some(&json!(true))
        })
        .await?;
    }

    for member in &members {
        member.argo().finish(&run_on(member), "Failed").await?;
    }
    let ended = until(&workflows, "hello", "it has ended", |workflow| {
        phase(workflow) == "Failed"
    })
    .await?;
    // As `argo retry` writes it.
    let mut retried = ended;
    retried.labels_mut().remove(names::ARGO_COMPLETED_LABEL);
    if let Some(status) = &mut retried.status {
        status["phase"] = json!("Running");
    }
    workflows
        .replace("hello", &kube::api::PostParams::default(), &retried)
        .await?;
    let told = until(&workflows, "hello", "it says whom to ask", |workflow| {
        says(workflow, "ControlApplied", "False", "AskTheRuns")
    })
    .await?;
    let message = condition(&told, "ControlApplied", "False").unwrap_or_default();
    assert!(message.contains(&run_on(&members[0])), "{message}");
    assert!(is_held(&told) && phase(&told) == "Failed");
    Ok(())
}
