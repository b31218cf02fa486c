//! What comes back to objects of any kind: statuses, aggregates, and what StatusCollectors collect. The clusters' controllers are played.

use anyhow::Result;
use argosy_api::{BindingPolicy, CombinedStatus, ManagedCluster, StatusCollector, names};
use argosy_tests::lab::{
    Member, Scene,
    objects::{create, create_namespace, deployment},
    waiting::{until, until_gone},
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

fn deployments(scene: &Scene) -> Api<Deployment> {
    Api::namespaced(scene.control.clone(), &scene.namespace)
}

fn deployments_on(scene: &Scene, member: &Member) -> Api<Deployment> {
    Api::namespaced(member.wec.clone(), &scene.namespace)
}

fn policies(scene: &Scene) -> Api<BindingPolicy> {
    Api::all(scene.control.clone())
}

fn web() -> Result<Deployment> {
    deployment("web")
}

fn policy(scene: &Scene, clusters: &[&Member], wanted: &Value) -> Result<BindingPolicy> {
    let mut only = json!({ "namespaces": [scene.namespace], "resources": ["deployments", "configmaps"], "objectSelectors": [{ "matchLabels": { "app": "web" } }] });
    for (field, value) in wanted.as_object().into_iter().flatten() {
        only[field] = value.clone();
    }
    let names: Vec<&str> = clusters.iter().map(|member| member.cluster.as_str()).collect();
    let selector = json!({ "matchExpressions": [{ "key": "name", "operator": "In", "values": names }] });
    Ok(serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": scene.namespace },
        "spec": { "clusterSelectors": [selector], "downsync": [only] },
    }))?)
}

async fn change(scene: &Scene, policy: &BindingPolicy) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": policy.spec }));
    policies(scene)
        .patch(&policy.name_any(), &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// The cluster's own controllers say how many replicas are ready.
async fn report(scene: &Scene, member: &Member, ready: i32) -> Result<()> {
    let api = deployments_on(scene, member);
    until(&api, "web", "the Deployment is there", |_| true).await?;
    let status = json!({ "status": { "replicas": 2, "readyReplicas": ready, "observedGeneration": 1 } });
    api.patch_status("web", &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}

fn ready(deployment: &Deployment) -> Option<i32> {
    deployment.status.as_ref()?.ready_replicas
}

#[tokio::test]
async fn the_status_of_the_one_cluster_appears_follows_and_disappears() -> Result<()> {
    let scene = Scene::new("status-singleton").await?;
    let (one, two) = (scene.pull().await?, scene.push().await?);
    let wanted = json!({ "wantSingletonReportedState": true });
    create(&policies(&scene), &policy(&scene, &[&one], &wanted)?).await?;
    create(&deployments(&scene), &web()?).await?;
    report(&scene, &one, 1).await?;
    let shown = until(&deployments(&scene), "web", "its status is there", |web| {
        ready(web) == Some(1)
    })
    .await?;
    assert_eq!(shown.labels()[names::SINGLETON_STATUS_LABEL], "true");
    report(&scene, &one, 2).await?;
    until(&deployments(&scene), "web", "its status follows", |web| {
        ready(web) == Some(2)
    })
    .await?;
    // With a second cluster there is not one status.
    change(&scene, &policy(&scene, &[&one, &two], &wanted)?).await?;
    let is_cleared =
        |web: &Deployment| ready(web).is_none() && !web.labels().contains_key(names::SINGLETON_STATUS_LABEL);
    until(
        &deployments(&scene),
        "web",
        "its status is taken back",
        is_cleared,
    )
    .await?;
    until(
        &policies(&scene),
        &scene.namespace,
        "the policy says why",
        |policy| {
            let errors = policy.status.iter().flat_map(|status| &status.errors);
            errors
                .clone()
                .any(|error| error.starts_with("Singleton reported status return is requested"))
        },
    )
    .await?;
    change(&scene, &policy(&scene, &[&one], &wanted)?).await?;
    until(&deployments(&scene), "web", "its status is back", |web| {
        ready(web) == Some(2)
    })
    .await?;
    change(&scene, &policy(&scene, &[&one], &json!({}))?).await?;
    until(
        &deployments(&scene),
        "web",
        "nobody wants it any more",
        is_cleared,
    )
    .await?;
    until_gone(&one.reports(), &work_name(&shown), "nor is it reported").await
}

fn work_name(deployment: &Deployment) -> String {
    names::work_name(&deployment.uid().unwrap_or_default())
}

#[tokio::test]
async fn the_statuses_of_several_clusters_come_back_as_one() -> Result<()> {
    let scene = Scene::new("status-multi").await?;
    let (one, two) = (scene.pull().await?, scene.push().await?);
    let wanted = json!({ "wantMultiWECReportedState": true });
    create(&policies(&scene), &policy(&scene, &[&one, &two], &wanted)?).await?;
    create(&deployments(&scene), &web()?).await?;
    report(&scene, &one, 2).await?;
    report(&scene, &two, 1).await?;
    let is_least =
        |web: &Deployment| ready(web) == Some(1) && web.labels().contains_key(names::MULTI_STATUS_LABEL);
    until(
        &deployments(&scene),
        "web",
        "the least of both is there",
        is_least,
    )
    .await?;
    report(&scene, &two, 2).await?;
    until(&deployments(&scene), "web", "it follows", |web| {
        ready(web) == Some(2)
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_collector_fills_the_combined_status_of_each_object() -> Result<()> {
    let scene = Scene::new("status-collected").await?;
    let (one, two) = (scene.pull().await?, scene.push().await?);
    let collectors: Api<StatusCollector> = Api::all(scene.control.clone());
    let collector = json!({
        "metadata": { "name": scene.namespace },
        "spec": { "select": [
            { "name": "cluster", "def": "inventory.name" },
            { "name": "ready", "def": "has(returned.status.readyReplicas) ? returned.status.readyReplicas : 0" },
        ] },
    });
    let wanted = json!({ "statusCollectors": [scene.namespace] });
    let both = create(&policies(&scene), &policy(&scene, &[&one, &two], &wanted)?).await?;
    until(
        &policies(&scene),
        &scene.namespace,
        "the policy misses the collector",
        |policy| {
            let conditions = policy.status.iter().flat_map(|status| &status.conditions);
            conditions
                .clone()
                .any(|known| known.type_ == "StatusCollectorsAvailable" && known.status == "False")
        },
    )
    .await?;
    create(&collectors, &serde_json::from_value(collector)?).await?;
    let web = create(&deployments(&scene), &web()?).await?;
    report(&scene, &one, 2).await?;
    report(&scene, &two, 1).await?;
    let name = format!(
        "{}.{}",
        web.uid().unwrap_or_default(),
        both.uid().unwrap_or_default()
    );
    let combined: Api<CombinedStatus> = Api::namespaced(scene.control.clone(), &scene.namespace);
    let rows = |status: &CombinedStatus| -> Vec<(Option<String>, Option<String>)> {
        let rows = status.results.iter().flat_map(|result| &result.rows);
        rows.map(|row| (row.columns[0].string.clone(), row.columns[1].float.clone()))
            .collect()
    };
    let some = |text: &str| Some(text.to_owned());
    let expected = vec![(some(&one.cluster), some("2")), (some(&two.cluster), some("1"))];
    let status = until(&combined, &name, "both clusters have their rows", |status| {
        rows(status) == expected
    })
    .await?;
    assert_eq!(status.labels()[names::COMBINED_NAME_LABEL], "web");
    assert_eq!(status.labels()[names::COMBINED_POLICY_LABEL], scene.namespace);
    assert_eq!(status.owner_references()[0].uid, web.uid().unwrap_or_default());
    change(&scene, &policy(&scene, &[&one, &two], &json!({}))?).await?;
    until_gone(&combined, &name, "nobody asks for it any more").await
}

#[tokio::test]
async fn templates_are_expanded_for_each_cluster_and_an_error_takes_nothing_back() -> Result<()> {
    let scene = Scene::new("objects-templates").await?;
    let (one, two) = (scene.pull().await?, scene.push().await?);
    create(&policies(&scene), &policy(&scene, &[&one, &two], &json!({}))?).await?;
    let maps: Api<ConfigMap> = Api::namespaced(scene.control.clone(), &scene.namespace);
    let map = json!({
        "metadata": {
            "name": "settings", "labels": { "app": "web" },
            "annotations": { names::EXPAND_TEMPLATES_ANNOTATION: "true" },
        },
        "data": { "a": "{{.clusterName}}" },
    });
    create(&maps, &serde_json::from_value(map)?).await?;
    let maps_on =
        |member: &Member| -> Api<ConfigMap> { Api::namespaced(member.wec.clone(), &scene.namespace) };
    let says = |text: &str| {
        let text = text.to_owned();
        move |map: &ConfigMap| map.data.as_ref().and_then(|data| data.get("a")) == Some(&text)
    };
    for member in [&one, &two] {
        until(
            &maps_on(member),
            "settings",
            "it names its cluster",
            says(&member.cluster),
        )
        .await?;
    }
    let zones = Patch::Merge(json!({ "data": { "a": "{{.zone}}" } }));
    maps.patch("settings", &PatchParams::default(), &zones).await?;
    until(
        &policies(&scene),
        &scene.namespace,
        "the policy says what is missing",
        |policy| {
            let errors = policy.status.iter().flat_map(|status| &status.errors);
            errors.clone().any(|error| error.contains("zone"))
        },
    )
    .await?;
    // The label of the ManagedCluster is a property, and a ConfigMap of the cluster's name has more of them.
    let clusters: Api<ManagedCluster> = scene.clusters();
    let label = Patch::Merge(json!({ "metadata": { "labels": { "zone": "west" } } }));
    clusters
        .patch(&one.cluster, &PatchParams::default(), &label)
        .await?;
    until(&maps_on(&one), "settings", "it names its zone", says("west")).await?;
    until(
        &maps_on(&two),
        "settings",
        "the other is as it was",
        says(&two.cluster),
    )
    .await?;
    let _ = create_namespace(&scene.control, names::PROPERTIES_NAMESPACE).await;
    let properties: Api<ConfigMap> = Api::namespaced(scene.control.clone(), names::PROPERTIES_NAMESPACE);
    let of_two = json!({ "metadata": { "name": two.cluster }, "data": { "zone": "east" } });
    create(&properties, &serde_json::from_value(of_two)?).await?;
    until(&maps_on(&two), "settings", "it names its zone, too", says("east")).await?;
    Ok(())
}
