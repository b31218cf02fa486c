//! The data that comes back to objects of any kind: statuses, aggregates, and the results of
//! StatusCollectors. The clusters' controllers are played.

use anyhow::Result;
use argosy_api::{BindingPolicy, CombinedStatus, ManagedCluster, StatusCollector, names};
use argosy_tests::testenv::{
    Fixture, Member,
    objects::{create, create_namespace, deployment},
    waiting::{until, until_gone},
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

fn deployments(fixture: &Fixture) -> Api<Deployment> {
    Api::namespaced(fixture.control.clone(), &fixture.namespace)
}

fn deployments_on(fixture: &Fixture, member: &Member) -> Api<Deployment> {
    Api::namespaced(member.wec.clone(), &fixture.namespace)
}

fn policies(fixture: &Fixture) -> Api<BindingPolicy> {
    Api::all(fixture.control.clone())
}

fn web() -> Result<Deployment> {
    deployment("web")
}

fn policy(fixture: &Fixture, clusters: &[&Member], wanted: &Value) -> Result<BindingPolicy> {
    let mut only = json!({ "namespaces": [fixture.namespace], "resources": ["deployments", "configmaps"], "objectSelectors": [{ "matchLabels": { "app": "web" } }] });
    for (field, value) in wanted.as_object().into_iter().flatten() {
        only[field] = value.clone();
    }
    let names: Vec<&str> = clusters.iter().map(|member| member.cluster.as_str()).collect();
    let selector = json!({ "matchExpressions": [{ "key": "name", "operator": "In", "values": names }] });
    Ok(serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": fixture.namespace },
        "spec": { "clusterSelectors": [selector], "downsync": [only] },
    }))?)
}

async fn change(fixture: &Fixture, policy: &BindingPolicy) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": policy.spec }));
    policies(fixture)
        .patch(&policy.name_any(), &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// Reports the number of ready replicas, as the cluster's own controllers do.
async fn report(fixture: &Fixture, member: &Member, ready: i32) -> Result<()> {
    let api = deployments_on(fixture, member);
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
    let fixture = Fixture::new("status-singleton").await?;
    let (one, two) = (fixture.pull().await?, fixture.push().await?);
    let wanted = json!({ "wantSingletonReportedState": true });
    create(&policies(&fixture), &policy(&fixture, &[&one], &wanted)?).await?;
    create(&deployments(&fixture), &web()?).await?;
    report(&fixture, &one, 1).await?;
    let shown = until(&deployments(&fixture), "web", "its status is there", |web| {
        ready(web) == Some(1)
    })
    .await?;
    assert_eq!(shown.labels()[names::SINGLETON_STATUS_LABEL], "true");
    report(&fixture, &one, 2).await?;
    until(&deployments(&fixture), "web", "its status follows", |web| {
        ready(web) == Some(2)
    })
    .await?;
    // With a second cluster, there is no single status any more.
    change(&fixture, &policy(&fixture, &[&one, &two], &wanted)?).await?;
    let is_cleared =
        |web: &Deployment| ready(web).is_none() && !web.labels().contains_key(names::SINGLETON_STATUS_LABEL);
    until(
        &deployments(&fixture),
        "web",
        "its status is taken back",
        is_cleared,
    )
    .await?;
    until(
        &policies(&fixture),
        &fixture.namespace,
        "the policy says why",
        |policy| {
            let errors = policy.status.iter().flat_map(|status| &status.errors);
            errors
                .clone()
                .any(|error| error.starts_with("Singleton reported status return is requested"))
        },
    )
    .await?;
    change(&fixture, &policy(&fixture, &[&one], &wanted)?).await?;
    until(&deployments(&fixture), "web", "its status is back", |web| {
        ready(web) == Some(2)
    })
    .await?;
    change(&fixture, &policy(&fixture, &[&one], &json!({}))?).await?;
    until(
        &deployments(&fixture),
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
    let fixture = Fixture::new("status-multi").await?;
    let (one, two) = (fixture.pull().await?, fixture.push().await?);
    let wanted = json!({ "wantMultiWECReportedState": true });
    create(&policies(&fixture), &policy(&fixture, &[&one, &two], &wanted)?).await?;
    create(&deployments(&fixture), &web()?).await?;
    report(&fixture, &one, 2).await?;
    report(&fixture, &two, 1).await?;
    let is_least =
        |web: &Deployment| ready(web) == Some(1) && web.labels().contains_key(names::MULTI_STATUS_LABEL);
    until(
        &deployments(&fixture),
        "web",
        "the least of both is there",
        is_least,
    )
    .await?;
    report(&fixture, &two, 2).await?;
    until(&deployments(&fixture), "web", "it follows", |web| {
        ready(web) == Some(2)
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_collector_fills_the_combined_status_of_each_object() -> Result<()> {
    let fixture = Fixture::new("status-collected").await?;
    let (one, two) = (fixture.pull().await?, fixture.push().await?);
    let collectors: Api<StatusCollector> = Api::all(fixture.control.clone());
    let collector = json!({
        "metadata": { "name": fixture.namespace },
        "spec": { "select": [
            { "name": "cluster", "def": "inventory.name" },
            { "name": "ready", "def": "has(returned.status.readyReplicas) ? returned.status.readyReplicas : 0" },
        ] },
    });
    let wanted = json!({ "statusCollectors": [fixture.namespace] });
    let both = create(&policies(&fixture), &policy(&fixture, &[&one, &two], &wanted)?).await?;
    until(
        &policies(&fixture),
        &fixture.namespace,
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
    let web = create(&deployments(&fixture), &web()?).await?;
    report(&fixture, &one, 2).await?;
    report(&fixture, &two, 1).await?;
    let name = format!(
        "{}.{}",
        web.uid().unwrap_or_default(),
        both.uid().unwrap_or_default()
    );
    let combined: Api<CombinedStatus> = Api::namespaced(fixture.control.clone(), &fixture.namespace);
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
    assert_eq!(status.labels()[names::COMBINED_POLICY_LABEL], fixture.namespace);
    assert_eq!(status.owner_references()[0].uid, web.uid().unwrap_or_default());
    change(&fixture, &policy(&fixture, &[&one, &two], &json!({}))?).await?;
    until_gone(&combined, &name, "nobody asks for it any more").await
}

#[tokio::test]
async fn templates_are_expanded_for_each_cluster_and_an_error_takes_nothing_back() -> Result<()> {
    let fixture = Fixture::new("objects-templates").await?;
    let (one, two) = (fixture.pull().await?, fixture.push().await?);
    create(&policies(&fixture), &policy(&fixture, &[&one, &two], &json!({}))?).await?;
    let maps: Api<ConfigMap> = Api::namespaced(fixture.control.clone(), &fixture.namespace);
    let map = json!({
        "metadata": {
            "name": "settings", "labels": { "app": "web" },
            "annotations": { names::EXPAND_TEMPLATES_ANNOTATION: "true" },
        },
        "data": { "a": "{{.clusterName}}" },
    });
    create(&maps, &serde_json::from_value(map)?).await?;
    let maps_on =
        |member: &Member| -> Api<ConfigMap> { Api::namespaced(member.wec.clone(), &fixture.namespace) };
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
        &policies(&fixture),
        &fixture.namespace,
        "the policy says what is missing",
        |policy| {
            let errors = policy.status.iter().flat_map(|status| &status.errors);
            errors.clone().any(|error| error.contains("zone"))
        },
    )
    .await?;
    // The label of the ManagedCluster is a property, and a ConfigMap with the cluster's name has
    // further properties.
    let clusters: Api<ManagedCluster> = fixture.clusters();
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
    let _ = create_namespace(&fixture.control, names::PROPERTIES_NAMESPACE).await;
    let properties: Api<ConfigMap> = Api::namespaced(fixture.control.clone(), names::PROPERTIES_NAMESPACE);
    let of_two = json!({ "metadata": { "name": two.cluster }, "data": { "zone": "east" } });
    create(&properties, &serde_json::from_value(of_two)?).await?;
    until(&maps_on(&two), "settings", "it names its zone, too", says("east")).await?;
    Ok(())
}
