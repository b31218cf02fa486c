//! What is left on objects that were deselected while no controller was there.

use anyhow::{Context, Result};
use argosy_api::{BindingPolicy, CombinedStatus, StatusCollector, names};
use argosy_tests::lab::{
    Scene, Stage,
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
    let scene = Scene::on(Stage::own("objects-left").await?, "objects-left").await?;
    let member = scene.pull().await?;
    let policies: Api<BindingPolicy> = Api::all(scene.control.clone());
    let collectors: Api<StatusCollector> = Api::all(scene.control.clone());
    let deployments: Api<Deployment> = Api::namespaced(scene.control.clone(), &scene.namespace);
    let combined: Api<CombinedStatus> = Api::namespaced(scene.control.clone(), &scene.namespace);
    let on_cluster: Api<Deployment> = Api::namespaced(member.wec.clone(), &scene.namespace);
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
                "apiGroup": "apps", "resources": ["deployments"], "namespaces": [scene.namespace],
                "objectSelectors": [{ "matchLabels": { "app": "web" } }],
                "wantSingletonReportedState": true, "statusCollectors": ["left"],
            }],
        },
    }))?;
    create(&policies, &policy).await?;
    let policy = policies.get("left").await?.uid().context("it has a UID")?;
    let mut tables = Vec::new();
    for name in ["relabelled", "kept"] {
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
    scene.stage.controller.kill()?;
    let label = json!({ "metadata": { "labels": { "app": Value::Null } } });
    deployments
        .patch("relabelled", &PatchParams::default(), &Patch::Merge(label))
        .await?;
    scene.stage.controller.start_again().await?;
    until(
        &deployments,
        "relabelled",
        "nothing of ours is left on it",
        is_clean,
    )
    .await?;
    until_gone(&combined, &tables[0], "its table goes").await?;
    until_gone(&on_cluster, "relabelled", "it goes from the cluster").await?;
    let kept = deployments.get("kept").await?;
    assert!(is_marked(&kept) && replicas(&kept) == Some(2));
    // Without a policy nobody watches the kind.
    scene.stage.controller.kill()?;
    policies.delete("left", &DeleteParams::default()).await?;
    scene.stage.controller.start_again().await?;
    until(&deployments, "kept", "nothing of ours is left on it", is_clean).await?;
    until_gone(&combined, &tables[1], "its table goes").await?;
    until_gone(&on_cluster, "kept", "it goes from the cluster").await?;
    Ok(())
}
