//! A started run stays: no change of policies, labels or clusters affects it.

use anyhow::Result;
use argosy_api::{BindingPolicy, names};
use argosy_tests::testenv::{Fixture, fake_argo, objects::phase, waiting::until};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

#[tokio::test]
async fn a_run_outlives_its_policy_its_label_and_its_clusters_label() -> Result<()> {
    let fixture = Fixture::new("pinned").await?;
    let (member, other) = (fixture.pull().await?, fixture.push().await?);
    fixture.dispatch("hello", &member).await?;
    let started = member.argo().start("hello").await?;
    let before = until(
        &fixture.workflows(),
        "hello",
        "it is shown as running",
        |workflow| phase(workflow) == "Running",
    )
    .await?;

    fake_argo::edit(&fixture.workflows(), "hello", |workflow| {
        workflow
            .labels_mut()
            .insert(names::KUBESTELLAR_CLUSTER_LABEL.to_owned(), other.cluster.clone());
    })
    .await?;
    let relabel = Patch::Merge(json!({ "metadata": { "labels": { "name": "another" } } }));
    fixture
        .clusters()
        .patch(&member.cluster, &PatchParams::default(), &relabel)
        .await?;
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    policies.delete(&member.cluster, &DeleteParams::default()).await?;
    fixture.round_trip("sentinel", &other).await?;

    let after = fixture.workflows().get("hello").await?;
    assert_eq!(
        after.annotations()[names::CLAIM_ANNOTATION],
        before.annotations()[names::CLAIM_ANNOTATION]
    );
    assert_eq!(after.labels()[names::ARGO_COMPLETED_LABEL], "true");
    assert_eq!(after.status, before.status);
    assert_eq!(
        member.workflows().get("hello").await?.resource_version(),
        started.resource_version()
    );
    assert!(other.workflows().get_opt("hello").await?.is_none());

    member.argo().finish("hello", "Succeeded").await?;
    until(
        &fixture.workflows(),
        "hello",
        "its end is shown all the same",
        |workflow| phase(workflow) == "Succeeded",
    )
    .await?;
    Ok(())
}
