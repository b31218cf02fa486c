//! A Workflow on its way to a cluster: what arrives there, and what stands on the control cluster.

use anyhow::Result;
use argosy_api::names;
use argosy_tests::lab::{
    Member, Scene,
    objects::{self, create, phase, says},
    scene::work_name,
    waiting::until,
};
use kube::ResourceExt;
use serde_json::json;

/// Everything that a dispatched Workflow must look like, on both ends.
async fn is_dispatched_to(scene: &Scene, member: &Member) -> Result<()> {
    let mut workflow = objects::workflow("hello", &member.cluster);
    workflow.labels_mut().insert("team".to_owned(), "blue".to_owned());
    workflow
        .labels_mut()
        .insert(names::ARGO_PHASE_LABEL.to_owned(), "Running".to_owned());
    workflow
        .annotations_mut()
        .insert(names::ARGO_LAST_SEEN_ANNOTATION.to_owned(), "7".to_owned());
    let created = create(&scene.workflows(), &workflow).await?;
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

    let held = until(&scene.workflows(), "hello", "the claim stands", |workflow| {
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
    let scene = Scene::new("dispatch-pull").await?;
    let member = scene.pull().await?;
    is_dispatched_to(&scene, &member).await
}

#[tokio::test]
async fn a_workflow_reaches_a_cluster_whose_agent_the_controller_hosts() -> Result<()> {
    let scene = Scene::new("dispatch-push").await?;
    let member = scene.push().await?;
    is_dispatched_to(&scene, &member).await
}
