//! Leftovers on objects that were deselected while no controller was running.

use anyhow::{Context, Result};
use argosy_api::{BindingPolicy, CombinedStatus, StatusCollector, names};
use argosy_tests::testenv::{
    Fixture, TestEnv,
    objects::{create, deployment},
    waiting::{until, until_gone},
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

fn is_marked(deployment: &Deployment) -> bool {
    deployment.labels().contains_key(names::SINGLETON_STATUS_LABEL)
}

fn replicas(deployment: &Deployment) -> Option<i32> {
    deployment.status.as_ref()?.replicas
}

#[tokio::test]
async fn a_controller_that_comes_back_rids_objects_of_what_is_ours_that_no_watch_tells_of() -> Result<()> {
    let fixture = Fixture::on(TestEnv::own("objects-left").await?, "objects-left").await?;
    let member = fixture.pull().await?;
    let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
    let collectors: Api<StatusCollector> = Api::all(fixture.control.clone());
    let deployments: Api<Deployment> = Api::namespaced(fixture.control.clone(), &fixture.namespace);
    let combined: Api<CombinedStatus> = Api::namespaced(fixture.control.clone(), &fixture.namespace);
    let on_cluster: Api<Deployment> = Api::namespaced(member.wec.clone(), &fixture.namespace);
    let collector: StatusCollector = serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "StatusCollector", "metadata": { "name": "left" },
        "spec": { "select": [{ "name": "cluster", "def": "inventory.name" }], "limit": 20 },
    }))?;
    create(&collectors, &collector).await?;
    let policy: BindingPolicy = serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy", "metadata": { "name": "left" },
        "spec": {
            "clusterSelectors": [{ "matchLabels": { "name": member.cluster } }],
            "downsync": [{
                "apiGroup": "apps", "resources": ["deployments"], "namespaces": [fixture.namespace],
                "objectSelectors": [{ "matchLabels": { "app": "web" } }],
                "wantSingletonReportedState": true, "statusCollectors": ["left"],
            }],
        },
    }))?;
    create(&policies, &policy).await?;
    let policy = policies.get("left").await?.uid().context("it has a UID")?;
    let mut tables = Vec::new();
    for name in ["relabeled", "kept"] {
        create(&deployments, &deployment(name)?).await?;
        until(&on_cluster, name, "it is on the cluster", |_| true).await?;
        let status = json!({ "status": { "replicas": 2, "observedGeneration": 1 } });
        on_cluster
            .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
        let shown = until(&deployments, name, "its status is there", |shown| {
            replicas(shown) == Some(2)
        })
        .await?;
        assert!(is_marked(&shown));
        let table = format!("{}.{policy}", shown.uid().unwrap_or_default());
        until(&combined, &table, "it has a table", |_| true).await?;
        tables.push(table);
    }
    let is_clean = |shown: &Deployment| !is_marked(shown) && replicas(shown).is_none();
    fixture.env.controller.kill()?;
    let label = json!({ "metadata": { "labels": { "app": Value::Null } } });
    deployments
        .patch("relabeled", &PatchParams::default(), &Patch::Merge(label))
        .await?;
    fixture.env.controller.start_again().await?;
    until(
        &deployments,
        "relabeled",
        "nothing of ours is left on it",
        is_clean,
    )
    .await?;
    until_gone(&combined, &tables[0], "its table goes").await?;
    until_gone(&on_cluster, "relabeled", "it goes from the cluster").await?;
    let kept = deployments.get("kept").await?;
    assert!(is_marked(&kept) && replicas(&kept) == Some(2));
    // Without a policy, the controller does not watch the kind.
    fixture.env.controller.kill()?;
    policies.delete("left", &DeleteParams::default()).await?;
    fixture.env.controller.start_again().await?;
    until(&deployments, "kept", "nothing of ours is left on it", is_clean).await?;
    until_gone(&combined, &tables[1], "its table goes").await?;
    until_gone(&on_cluster, "kept", "it goes from the cluster").await?;
    Ok(())
}
