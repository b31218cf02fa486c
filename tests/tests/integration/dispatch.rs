//! The dispatch of a Workflow to a cluster: the object there, and the Workflow on the control
//! cluster.

use std::fs;

use anyhow::Result;
use argosy_api::names;
use argosy_tests::testenv::{
    Fixture, Member,
    fixture::work_name,
    objects::{self, create, phase, says},
    waiting::until,
};
use kube::{Api, ResourceExt};
use serde_json::json;

/// Checks all fields of a dispatched Workflow on both sides.
async fn is_dispatched_to(fixture: &Fixture, member: &Member) -> Result<()> {
    let mut workflow = objects::workflow("hello", &member.cluster);
    workflow.labels_mut().insert("team".to_owned(), "blue".to_owned());
    workflow
        .labels_mut()
        .insert(names::ARGO_PHASE_LABEL.to_owned(), "Running".to_owned());
    workflow
        .annotations_mut()
        .insert(names::ARGO_LAST_SEEN_ANNOTATION.to_owned(), "7".to_owned());
    let created = create(&fixture.workflows(), &workflow).await?;
    let uid = created.uid().unwrap_or_default();

    let object = until(
        &member.workflows(),
        "hello",
        "the object is on the cluster",
        |_| true,
    )
    .await?;
    assert_eq!(object.spec["suspend"], json!(null), "the hold went along");
    assert_eq!(object.spec["entrypoint"], "main");
    assert_eq!(object.labels()["team"], "blue");
    assert_eq!(object.labels()[names::CLUSTER_LABEL], member.cluster);
    assert_eq!(object.labels()[names::ORIGIN_UID_LABEL], uid);
    assert!(!object.labels().contains_key(names::ARGO_PHASE_LABEL));
    assert!(!object.labels().contains_key(names::ARGO_COMPLETED_LABEL));
    assert!(
        !object
            .annotations()
            .contains_key(names::ARGO_LAST_SEEN_ANNOTATION)
    );
    assert!(!object.annotations().contains_key(names::CLAIM_ANNOTATION));
    assert_eq!(object.annotations()[names::ATTEMPT_ANNOTATION], "1");
    assert_eq!(object.finalizers(), [names::AGENT_FINALIZER]);

    let held = until(&fixture.workflows(), "hello", "the claim stands", |workflow| {
        says(workflow, "Dispatched", "True", "Claimed")
    })
    .await?;
    let claim: serde_json::Value = serde_json::from_str(&held.annotations()[names::CLAIM_ANNOTATION])?;
    assert_eq!(claim["cluster"], member.cluster);
    assert_eq!(claim["uid"], uid);
    assert_eq!(claim["attempt"], 1);
    assert_eq!(phase(&held), "Pending");
    assert_eq!(held.labels()[names::ARGO_COMPLETED_LABEL], "true");
    assert_eq!(held.labels()[names::ARGO_PHASE_LABEL], "Pending");
    assert_eq!(held.labels()[names::CLUSTER_LABEL], member.cluster);
    assert_eq!(held.spec["suspend"], true);
    assert!(
        held.finalizers()
            .contains(&names::CONTROLLER_FINALIZER.to_owned())
    );

    let work = until(&member.works(), &work_name(&created), "it is applied", |work| {
        let conditions = work
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        ["Applied", "Available"].iter().all(|type_| {
            conditions
                .iter()
                .any(|known| known.type_ == *type_ && known.status == "True")
        })
    })
    .await?;
    assert_eq!(work.labels()[names::ORIGIN_WDS_LABEL], "control");
    assert_eq!(work.labels()[names::ORIGIN_UID_LABEL], uid);
    Ok(())
}

#[tokio::test]
async fn a_workflow_reaches_a_cluster_whose_agent_pulls() -> Result<()> {
    let fixture = Fixture::new("dispatch-pull").await?;
    let member = fixture.pull().await?;
    is_dispatched_to(&fixture, &member).await
}

#[tokio::test]
async fn a_workflow_reaches_a_cluster_whose_agent_the_controller_hosts() -> Result<()> {
    let fixture = Fixture::new("dispatch-push").await?;
    let member = fixture.push().await?;
    is_dispatched_to(&fixture, &member).await
}

#[tokio::test]
async fn a_hosted_agent_marks_what_it_creates_for_the_argo_of_its_cluster_and_tells_nobody() -> Result<()> {
    let fixture = Fixture::new("dispatch-instance").await?;
    let member = fixture.join("push", &fixture.env.servers.wecs[1]).await?;
    let mut secret = objects::kubeconfig_secret(&member.cluster, fs::read(&member.kubeconfig)?);
    let instance = (names::ARGO_INSTANCE_ANNOTATION.to_owned(), "there".to_owned());
    secret.metadata.annotations = Some([instance].into());
    create(
        &Api::namespaced(fixture.control.clone(), objects::CONTROLLER_NAMESPACE),
        &secret,
    )
    .await?;
    let (_, object) = fixture.dispatch("marked", &member).await?;
    assert_eq!(object.labels()[names::ARGO_INSTANCE_LABEL], "there");
    member.argo().finish("marked", "Succeeded").await?;
    let shown = until(&fixture.workflows(), "marked", "its end is shown", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    assert!(!shown.labels().contains_key(names::ARGO_INSTANCE_LABEL));
    Ok(())
}
