//! Real claims, and Workflows that only look claimed.

use anyhow::Result;
use argosy_api::names;
use argosy_tests::testenv::{
    Fixture, fake_argo,
    objects::{self, create, phase, says},
    waiting::until,
};
use kube::ResourceExt;
use serde_json::json;

#[tokio::test]
async fn a_workflow_that_was_not_held_at_first_sight_is_not_sent() -> Result<()> {
    let fixture = Fixture::new("claims-unheld").await?;
    let member = fixture.pull().await?;
    let mut workflow = objects::workflow("hello", &member.cluster);
    workflow.spec["suspend"] = json!(false);
    create(&fixture.workflows(), &workflow).await?;
    let refused = until(
        &fixture.workflows(),
        "hello",
        "it says why it is not sent",
        |workflow| says(workflow, "NotDispatchable", "True", "NotHeld"),
    )
    .await?;
    assert!(!refused.annotations().contains_key(names::CLAIM_ANNOTATION));
    assert!(
        !refused.labels().contains_key(names::ARGO_COMPLETED_LABEL),
        "the local Argo may run it"
    );
    fixture.round_trip("sentinel", &member).await?;
    assert!(member.workflows().get_opt("hello").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_workflow_that_had_started_before_it_was_selected_is_not_sent() -> Result<()> {
    let fixture = Fixture::new("claims-started").await?;
    let member = fixture.pull().await?;
    let mut workflow = objects::workflow("hello", "nobody");
    workflow.status = Some(fake_argo::running("hello"));
    create(&fixture.workflows(), &workflow).await?;
    fake_argo::edit(&fixture.workflows(), "hello", |workflow| {
        workflow.labels_mut().insert(
            names::KUBESTELLAR_CLUSTER_LABEL.to_owned(),
            member.cluster.clone(),
        );
    })
    .await?;
    let refused = until(
        &fixture.workflows(),
        "hello",
        "it says why it is not sent",
        |workflow| says(workflow, "NotDispatchable", "True", "AlreadyStarted"),
    )
    .await?;
    assert_eq!(phase(&refused), "Running", "the local Argo's status stays");
    fixture.round_trip("sentinel", &member).await?;
    assert!(member.workflows().get_opt("hello").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_copy_of_a_claimed_workflow_is_claimed_anew_and_runs_by_itself() -> Result<()> {
    let fixture = Fixture::new("claims-copy").await?;
    let member = fixture.pull().await?;
    fixture.dispatch("original", &member).await?;
    let original = fixture.workflows().get("original").await?;
    // As `kubectl get -o yaml | sed | kubectl create` does.
    let mut copy = original.clone();
    copy.metadata.name = Some("copy".to_owned());
    copy.metadata.uid = None;
    copy.metadata.resource_version = None;
    copy.metadata.managed_fields = None;
    let copy = create(&fixture.workflows(), &copy).await?;
    let object = until(&member.workflows(), "copy", "the copy is sent", |_| true).await?;
    assert_eq!(
        Some(&object.labels()[names::ORIGIN_UID_LABEL]),
        copy.metadata.uid.as_ref()
    );
    member.argo().finish("copy", "Succeeded").await?;
    until(&fixture.workflows(), "copy", "the copy has ended", |copy| {
        phase(copy) == "Succeeded"
    })
    .await?;
    assert_eq!(
        phase(&fixture.workflows().get("original").await?),
        "Pending",
        "the original is another run"
    );
    Ok(())
}

#[tokio::test]
async fn a_claim_that_was_copied_onto_an_unheld_workflow_is_none() -> Result<()> {
    let fixture = Fixture::new("claims-resubmit").await?;
    let member = fixture.pull().await?;
    fixture.dispatch("original", &member).await?;
    let original = fixture.workflows().get("original").await?;
    let mut copy = objects::workflow("copy", &member.cluster);
    copy.spec["suspend"] = json!(null);
    *copy.annotations_mut() = original.annotations().clone();
    create(&fixture.workflows(), &copy).await?;
    until(
        &fixture.workflows(),
        "copy",
        "it says why it is not sent",
        |workflow| says(workflow, "NotDispatchable", "True", "NotHeld"),
    )
    .await?;
    fixture.round_trip("sentinel", &member).await?;
    assert!(member.workflows().get_opt("copy").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_claim_that_was_taken_off_a_started_workflow_comes_back() -> Result<()> {
    let fixture = Fixture::new("claims-lost").await?;
    let member = fixture.pull().await?;
    let (_, object) = fixture.dispatch("hello", &member).await?;
    member.argo().start("hello").await?;
    until(
        &fixture.workflows(),
        "hello",
        "it is shown as running",
        |workflow| phase(workflow) == "Running",
    )
    .await?;
    // As `kubectl replace` with the user's own file does.
    fake_argo::edit(&fixture.workflows(), "hello", |workflow| {
        workflow.metadata.annotations = None;
        workflow.metadata.finalizers = None;
        workflow.metadata.labels = objects::workflow("hello", &member.cluster).metadata.labels;
        workflow.status = None;
    })
    .await?;
    let again = until(
        &fixture.workflows(),
        "hello",
        "it is shown as running again",
        |workflow| {
            phase(workflow) == "Running" && workflow.annotations().contains_key(names::CLAIM_ANNOTATION)
        },
    )
    .await?;
    assert_eq!(again.labels()[names::ARGO_COMPLETED_LABEL], "true");
    assert!(
        again
            .finalizers()
            .contains(&names::CONTROLLER_FINALIZER.to_owned())
    );
    assert_eq!(member.workflows().get("hello").await?.uid(), object.uid());
    Ok(())
}

#[tokio::test]
async fn a_hold_that_is_lifted_is_put_back() -> Result<()> {
    let fixture = Fixture::new("claims-hold").await?;
    let member = fixture.pull().await?;
    fixture.dispatch("hello", &member).await?;
    // As `argo retry` does, with a finalizer that makes the local Argo process a held object.
    let lifted = fake_argo::edit(&fixture.workflows(), "hello", |workflow| {
        workflow.labels_mut().remove(names::ARGO_COMPLETED_LABEL);
        workflow
            .finalizers_mut()
            .push(names::ARGO_ARTIFACT_GC_FINALIZER.to_owned());
    })
    .await?;
    assert!(!lifted.labels().contains_key(names::ARGO_COMPLETED_LABEL));
    let held = until(&fixture.workflows(), "hello", "the hold is back", |workflow| {
        workflow
            .labels()
            .get(names::ARGO_COMPLETED_LABEL)
            .is_some_and(|held| held == "true")
    })
    .await?;
    assert_eq!(held.finalizers(), [names::CONTROLLER_FINALIZER]);
    Ok(())
}
