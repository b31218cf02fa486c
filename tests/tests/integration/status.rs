//! The status of a run on its way back to the control cluster.

use anyhow::Result;
use argosy_api::{Workflow, names};
use argosy_tests::testenv::{
    Fixture, Member, fake_argo,
    fixture::work_name,
    objects::{create, phase, workflow},
    waiting::until,
};
use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

/// The status without the fields that Argosy adds and those that it never mirrors.
fn comparable(mut status: Value) -> Value {
    if let Some(fields) = status.as_object_mut() {
        fields.remove("synchronization");
        fields.remove("conditions");
    }
    status
}

fn shown(workflow: &Workflow) -> Value {
    comparable(workflow.status.clone().unwrap_or_default())
}

async fn comes_back_from(fixture: &Fixture, member: &Member) -> Result<()> {
    fixture.dispatch("hello", member).await?;
    member.argo().start("hello").await?;
    let there = until(
        &fixture.workflows(),
        "hello",
        "it is shown as running",
        |workflow| phase(workflow) == "Running",
    )
    .await?;
    assert_eq!(shown(&there), comparable(fake_argo::running("hello")));
    let conditions = &there.status.as_ref().unwrap_or(&Value::Null)["conditions"];
    assert_eq!(
        conditions[0],
        json!({ "type": "PodRunning", "status": "True" }),
        "Argo's conditions stay"
    );
    assert_eq!(there.labels()[names::ARGO_PHASE_LABEL], "Running");
    assert_eq!(
        there.labels()[names::ARGO_COMPLETED_LABEL],
        "true",
        "the hold is gone"
    );
    assert_eq!(there.annotations()[names::ARGO_POD_NAME_FORMAT_ANNOTATION], "v2");
    assert!(!there.annotations().contains_key(names::ARGO_LAST_SEEN_ANNOTATION));
    assert!(
        there
            .status
            .as_ref()
            .is_some_and(|status| status.get("synchronization").is_none())
    );

    member.argo().finish("hello", "Succeeded").await?;
    let ended = until(
        &fixture.workflows(),
        "hello",
        "it has ended as it ended there",
        |workflow| phase(workflow) == "Succeeded",
    )
    .await?;
    assert_eq!(
        shown(&ended),
        comparable(fake_argo::ended("hello", "Succeeded")),
        "nodes that are gone there are gone here"
    );
    assert_eq!(ended.labels()[names::ARGO_PHASE_LABEL], "Succeeded");

    let released = until(
        &member.workflows(),
        "hello",
        "the agent lets an ended object go",
        |object| object.finalizers().is_empty(),
    )
    .await?;
    assert_eq!(phase(&released), "Succeeded");
    let record = until(
        &member.records(),
        &work_name(&ended),
        "the end is recorded",
        |_| true,
    )
    .await?;
    assert_eq!(record.annotations()[names::OUTCOME_ANNOTATION], "Finished");
    Ok(())
}

#[tokio::test]
async fn status_comes_back_from_a_cluster_whose_agent_pulls() -> Result<()> {
    let fixture = Fixture::new("status-pull").await?;
    let member = fixture.pull().await?;
    comes_back_from(&fixture, &member).await
}

#[tokio::test]
async fn status_comes_back_from_a_cluster_whose_agent_the_controller_hosts() -> Result<()> {
    let fixture = Fixture::new("status-push").await?;
    let member = fixture.push().await?;
    comes_back_from(&fixture, &member).await
}

/// A Lease of a cluster that somebody else has marked keeps the marks.
#[tokio::test]
async fn objects_that_an_agent_writes_again_and_again_have_no_managed_fields() -> Result<()> {
    let fixture = Fixture::new("status-fields").await?;
    let member = fixture.pull().await?;
    let leases: Api<Lease> = Api::namespaced(fixture.env.control.client().await?, &member.cluster);
    let has_none = |metadata: &ObjectMeta| metadata.managed_fields.is_none();
    let lease = until(&leases, names::CLUSTER_LEASE, "it is renewed", |lease| {
        has_none(&lease.metadata)
    })
    .await?;
    let marked = leases
        .patch_metadata(
            names::CLUSTER_LEASE,
            &PatchParams::default(),
            &Patch::Merge(json!({ "metadata": { "annotations": { "mine": "kept" } } })),
        )
        .await?;
    let renewed = until(&leases, names::CLUSTER_LEASE, "it is renewed again", |lease| {
        lease.resource_version() != marked.resource_version()
    })
    .await?;
    assert_eq!(renewed.annotations()["mine"], "kept");
    assert_eq!(renewed.labels(), lease.labels());
    assert!(has_none(&renewed.metadata));

    fixture.dispatch("hello", &member).await?;
    member.argo().start("hello").await?;
    member.argo().finish("hello", "Succeeded").await?;
    let ended = until(&fixture.workflows(), "hello", "its end is shown", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    let report = until(
        &member.reports(),
        &work_name(&ended),
        "it was written twice",
        |report| has_none(&report.metadata),
    )
    .await?;
    let written_at: Timestamp = report.annotations()[names::WRITTEN_AT_ANNOTATION].parse()?;
    let created_at = report.metadata.creation_timestamp.map(|time| time.0);
    assert!(
        Some(written_at) >= created_at,
        "`argosy why` shows the last write"
    );
    Ok(())
}

#[tokio::test]
async fn a_failed_run_ends_failed_with_its_message() -> Result<()> {
    let fixture = Fixture::new("status-failed").await?;
    let member = fixture.pull().await?;
    fixture.dispatch("hello", &member).await?;
    member.argo().finish("hello", "Failed").await?;
    let ended = until(&fixture.workflows(), "hello", "it has failed", |workflow| {
        phase(workflow) == "Failed"
    })
    .await?;
    assert_eq!(ended.status.unwrap_or_default()["message"], "child failed");
    Ok(())
}

#[tokio::test]
async fn labels_and_annotations_added_on_the_cluster_are_shown_and_those_of_the_user_are_not_undone()
-> Result<()> {
    let fixture = Fixture::new("status-labels").await?;
    let member = fixture.pull().await?;
    let mut submitted = workflow("hello", &member.cluster);
    submitted
        .labels_mut()
        .insert("mine".to_owned(), "before".to_owned());
    create(&fixture.workflows(), &submitted).await?;
    until(
        &member.workflows(),
        "hello",
        "the object is on the cluster",
        |_| true,
    )
    .await?;
    fake_argo::edit(&fixture.workflows(), "hello", |workflow| {
        workflow
            .labels_mut()
            .insert("mine".to_owned(), "after".to_owned());
    })
    .await?;
    member
        .argo()
        .update("hello", |workflow| {
            workflow.status = Some(fake_argo::running("hello"));
            let labels = workflow.labels_mut();
            labels.insert("nightly".to_owned(), "true".to_owned());
            // The control cluster's Argo counts Workflows with this label.
            labels.insert(
                "workflows.argoproj.io/cron-workflow".to_owned(),
                "nightly".to_owned(),
            );
            workflow
                .annotations_mut()
                .insert("added".to_owned(), "there".to_owned());
        })
        .await?;
    let shown = until(
        &fixture.workflows(),
        "hello",
        "it is shown as running",
        |workflow| phase(workflow) == "Running",
    )
    .await?;
    assert_eq!(shown.labels()["nightly"], "true");
    assert!(!shown.labels().contains_key("workflows.argoproj.io/cron-workflow"));
    assert_eq!(shown.annotations()["added"], "there");
    assert_eq!(shown.labels()["mine"], "after");
    Ok(())
}
