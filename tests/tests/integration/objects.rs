//! Objects of any kind from the WDS to the clusters, through real controller and agents.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use argosy_api::{Binding, BindingPolicy, CustomTransform, names};
use argosy_tests::testenv::{
    Fixture, Member,
    definitions::is_established,
    objects::create,
    waiting::{until, until_gone},
};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret, ServiceAccount},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

fn maps_of(fixture: &Fixture) -> Api<ConfigMap> {
    Api::namespaced(fixture.control.clone(), &fixture.namespace)
}

fn maps_on(fixture: &Fixture, member: &Member) -> Api<ConfigMap> {
    Api::namespaced(member.wec.clone(), &fixture.namespace)
}

fn policies(fixture: &Fixture) -> Api<BindingPolicy> {
    Api::all(fixture.control.clone())
}

fn config_map(name: &str, value: &str) -> Result<ConfigMap> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "app": "web" } }, "data": { "a": value },
    }))?)
}

/// A policy of the fixture that selects these clusters and objects with the label `app: web`.
/// `clause` overrides fields of its only clause.
fn policy(fixture: &Fixture, name: &str, clusters: &[&Member], clause: &Value) -> Result<BindingPolicy> {
    let mut only = json!({ "namespaces": [fixture.namespace], "objectSelectors": [{ "matchLabels": { "app": "web" } }] });
    for (field, value) in clause.as_object().into_iter().flatten() {
        only[field] = value.clone();
    }
    let names: Vec<&str> = clusters.iter().map(|member| member.cluster.as_str()).collect();
    let selector = json!({ "matchExpressions": [{ "key": "name", "operator": "In", "values": names }] });
    Ok(serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": format!("{}-{name}", fixture.namespace) },
        "spec": { "clusterSelectors": [selector], "downsync": [only] },
    }))?)
}

async fn merge<K>(api: &Api<K>, name: &str, patch: Value) -> Result<K>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    Ok(api
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?)
}

fn value(map: &ConfigMap) -> Option<&str> {
    map.data.as_ref()?.get("a").map(String::as_str)
}

/// Waits until the policy's status says that all selected objects are applied on its clusters.
async fn all_applied(fixture: &Fixture, policy: &BindingPolicy, applied: &str) -> Result<BindingPolicy> {
    let is_so = |policy: &BindingPolicy| {
        policy
            .status
            .as_ref()
            .and_then(|status| status.applied.as_deref())
            == Some(applied)
    };
    until(
        &policies(fixture),
        &policy.name_any(),
        "everything is applied",
        is_so,
    )
    .await
}

#[tokio::test]
async fn an_object_goes_to_every_cluster_of_its_policy_follows_its_changes_and_goes_with_it() -> Result<()> {
    let fixture = Fixture::new("objects-follow").await?;
    let (one, two) = (fixture.pull().await?, fixture.push().await?);
    let both = create(
        &policies(&fixture),
        &policy(&fixture, "both", &[&one, &two], &json!({}))?,
    )
    .await?;
    create(&maps_of(&fixture), &config_map("settings", "1")?).await?;
    for member in [&one, &two] {
        let map = until(&maps_on(&fixture, member), "settings", "it is there", |map| {
            value(map) == Some("1")
        })
        .await?;
        assert_eq!(map.labels()["app"], "web");
    }
    let told = all_applied(&fixture, &both, "2/2").await?;
    let status = told.status.context("the policy has a status")?;
    assert_eq!((status.objects, status.clusters), (1, 2));
    assert!(
        status.conditions.iter().all(|known| known.status == "True"),
        "{status:?}"
    );

    merge(&maps_of(&fixture), "settings", json!({ "data": { "a": "2" } })).await?;
    for member in [&one, &two] {
        until(&maps_on(&fixture, member), "settings", "it has changed", |map| {
            value(map) == Some("2")
        })
        .await?;
    }
    // A change on a cluster is reverted.
    merge(
        &maps_on(&fixture, &one),
        "settings",
        json!({ "data": { "a": "drift" } }),
    )
    .await?;
    until(&maps_on(&fixture, &one), "settings", "it is put back", |map| {
        value(map) == Some("2")
    })
    .await?;

    merge(
        &policies(&fixture),
        &both.name_any(),
        json!(policy(&fixture, "both", &[&one], &json!({}))?),
    )
    .await?;
    until_gone(
        &maps_on(&fixture, &two),
        "settings",
        "the policy no longer names the cluster",
    )
    .await?;
    merge(
        &maps_of(&fixture),
        "settings",
        json!({ "metadata": { "labels": { "app": "db" } } }),
    )
    .await?;
    until_gone(&maps_on(&fixture, &one), "settings", "its label has gone").await?;
    merge(
        &maps_of(&fixture),
        "settings",
        json!({ "metadata": { "labels": { "app": "web" } } }),
    )
    .await?;
    until(&maps_on(&fixture, &one), "settings", "it is back", |_| true).await?;
    maps_of(&fixture)
        .delete("settings", &DeleteParams::default())
        .await?;
    until_gone(&maps_on(&fixture, &one), "settings", "it was deleted").await
}

#[tokio::test]
async fn deleting_a_policy_takes_back_what_no_other_policy_sends() -> Result<()> {
    let fixture = Fixture::new("objects-policies").await?;
    let member = fixture.pull().await?;
    let narrow = json!({ "objectNames": ["kept"] });
    create(
        &policies(&fixture),
        &policy(&fixture, "narrow", &[&member], &narrow)?,
    )
    .await?;
    let wide = create(
        &policies(&fixture),
        &policy(&fixture, "wide", &[&member], &json!({}))?,
    )
    .await?;
    for name in ["kept", "gone"] {
        create(&maps_of(&fixture), &config_map(name, "1")?).await?;
        until(&maps_on(&fixture, &member), name, "it is there", |_| true).await?;
    }
    let bindings: Api<Binding> = Api::all(fixture.control.clone());
    let binding = until(&bindings, &wide.name_any(), "the Binding names both", |binding| {
        binding.spec.workload.namespace_scope.len() == 2
    })
    .await?;
    assert_eq!(binding.spec.destinations[0].cluster_id, member.cluster);
    policies(&fixture)
        .delete(&wide.name_any(), &DeleteParams::default())
        .await?;
    until_gone(&maps_on(&fixture, &member), "gone", "nobody sends it any more").await?;
    assert_eq!(value(&maps_on(&fixture, &member).get("kept").await?), Some("1"));
    Ok(())
}

#[tokio::test]
async fn create_only_is_honored() -> Result<()> {
    let fixture = Fixture::new("objects-once").await?;
    let member = fixture.pull().await?;
    let once = create(
        &policies(&fixture),
        &policy(&fixture, "once", &[&member], &json!({ "createOnly": true }))?,
    )
    .await?;
    create(&maps_of(&fixture), &config_map("settings", "1")?).await?;
    until(&maps_on(&fixture, &member), "settings", "it is there", |_| true).await?;
    all_applied(&fixture, &once, "1/1").await?;
    merge(&maps_of(&fixture), "settings", json!({ "data": { "a": "2" } })).await?;
    // With create-only, the change does not reach the cluster; the sentinel proves that.
    create(&maps_of(&fixture), &config_map("sentinel", "1")?).await?;
    until(
        &maps_on(&fixture, &member),
        "sentinel",
        "what came later is there",
        |_| true,
    )
    .await?;
    assert_eq!(
        value(&maps_on(&fixture, &member).get("settings").await?),
        Some("1")
    );
    merge(
        &policies(&fixture),
        &once.name_any(),
        json!(policy(&fixture, "once", &[&member], &json!({}))?),
    )
    .await?;
    until(&maps_on(&fixture, &member), "settings", "it follows now", |map| {
        value(map) == Some("2")
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_kind_that_comes_later_is_found_and_its_objects_travel_with_it() -> Result<()> {
    let fixture = Fixture::new("objects-kinds").await?;
    let member = fixture.pull().await?;
    let (group, plural) = (format!("{}.example.com", fixture.namespace), "gadgets");
    let by_kind = json!([
        { "apiGroup": group },
        { "apiGroup": "apiextensions.k8s.io", "objectNames": [format!("{plural}.{group}")] },
    ]);
    let mut both = policy(&fixture, "kinds", &[&member], &json!({}))?;
    both.spec.downsync = serde_json::from_value(by_kind)?;
    create(&policies(&fixture), &both).await?;
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": plural, "singular": "gadget", "kind": "Gadget" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            } } }],
        },
    }))?;
    let definitions: Api<CustomResourceDefinition> = Api::all(fixture.control.clone());
    create(&definitions, &definition).await?;
    until(
        &definitions,
        &definition.name_any(),
        "the kind is served",
        is_established,
    )
    .await?;
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&group, "v1", "Gadget"), plural);
    let gadgets: Api<DynamicObject> =
        Api::namespaced_with(fixture.control.clone(), &fixture.namespace, &kind);
    let gadget: DynamicObject = serde_json::from_value(json!({
        "apiVersion": format!("{group}/v1"), "kind": "Gadget", "metadata": { "name": "g" }, "spec": { "size": 3 },
    }))?;
    create(&gadgets, &gadget).await?;
    let there: Api<DynamicObject> = Api::namespaced_with(member.wec.clone(), &fixture.namespace, &kind);
    let sent = until(&there, "g", "the object is there", |_| true).await?;
    assert_eq!(sent.data["spec"]["size"], 3);
    Ok(())
}

#[tokio::test]
async fn secrets_and_service_accounts_travel_and_what_every_cluster_makes_for_itself_stays() -> Result<()> {
    let fixture = Fixture::new("objects-core").await?;
    let member = fixture.pull().await?;
    let mut all = policy(&fixture, "all", &[&member], &json!({}))?;
    all.spec.downsync = serde_json::from_value(json!([{
        "apiGroup": "", "resources": ["configmaps", "secrets", "serviceaccounts"], "namespaces": [fixture.namespace],
    }]))?;
    let root = "kube-root-ca.crt";
    let mut own = config_map(root, "of the control cluster")?;
    own.metadata.labels = None;
    create(&maps_of(&fixture), &own).await?;
    let mut ordinary = config_map("ordinary", "of a user")?;
    ordinary.metadata.labels = None;
    create(&maps_of(&fixture), &ordinary).await?;
    let secrets: Api<Secret> = Api::namespaced(fixture.control.clone(), &fixture.namespace);
    let accounts: Api<ServiceAccount> = Api::namespaced(fixture.control.clone(), &fixture.namespace);
    let secret = json!({ "metadata": { "name": "s" }, "stringData": { "password": "x" } });
    create(&secrets, &serde_json::from_value(secret)?).await?;
    create(
        &accounts,
        &serde_json::from_value(json!({ "metadata": { "name": "runner" } }))?,
    )
    .await?;
    create(&policies(&fixture), &all).await?;
    let there: Api<Secret> = Api::namespaced(member.wec.clone(), &fixture.namespace);
    let sent = until(&there, "s", "the secret is there", |_| true).await?;
    assert_eq!(sent.data.context("it has data")?["password"].0, b"x");
    let there: Api<ServiceAccount> = Api::namespaced(member.wec.clone(), &fixture.namespace);
    until(&there, "runner", "the account is there", |_| true).await?;
    until(&maps_on(&fixture, &member), "ordinary", "it is there", |_| true).await?;
    assert!(maps_on(&fixture, &member).get_opt(root).await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_transform_that_changes_later_changes_what_is_out_there() -> Result<()> {
    let fixture = Fixture::new("objects-transform").await?;
    let member = fixture.pull().await?;
    create(
        &policies(&fixture),
        &policy(
            &fixture,
            "p",
            &[&member],
            &json!({ "resources": ["limitranges"] }),
        )?,
    )
    .await?;
    let kind =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "LimitRange"), "limitranges");
    let ranges: Api<DynamicObject> = Api::namespaced_with(fixture.control.clone(), &fixture.namespace, &kind);
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange",
        "metadata": { "name": "r", "labels": { "app": "web" }, "annotations": { fixture.namespace.clone(): "x", "note": "y" } },
        "spec": { "limits": [{ "type": "Container", "max": { "cpu": "1" } }] },
    });
    create(&ranges, &serde_json::from_value(range)?).await?;
    let there: Api<DynamicObject> = Api::namespaced_with(member.wec.clone(), &fixture.namespace, &kind);
    let has = |note: &str| {
        let note = note.to_owned();
        move |object: &DynamicObject| object.annotations().contains_key(&note)
    };
    until(&there, "r", "it is there whole", has(&fixture.namespace)).await?;
    let transforms: Api<CustomTransform> = Api::all(fixture.control.clone());
    let transform = |path: String| -> Result<CustomTransform> {
        Ok(serde_json::from_value(json!({
            "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "CustomTransform",
            "metadata": { "name": fixture.namespace },
            "spec": { "apiGroup": "", "resource": "limitranges", "remove": [path] },
        }))?)
    };
    create(
        &transforms,
        &transform(format!("$.metadata.annotations[\"{}\"]", fixture.namespace))?,
    )
    .await?;
    let without = has(&fixture.namespace);
    until(&there, "r", "the annotation is gone", |object| !without(object)).await?;
    transforms
        .delete(&fixture.namespace, &DeleteParams::default())
        .await?;
    until(&there, "r", "the annotation is back", has(&fixture.namespace)).await?;
    Ok(())
}

#[tokio::test]
async fn nothing_is_written_when_the_controller_starts_again() -> Result<()> {
    let fixture = Fixture::on(
        argosy_tests::testenv::TestEnv::own("objects-restart").await?,
        "objects-restart",
    )
    .await?;
    let member = fixture.pull().await?;
    let own = create(
        &policies(&fixture),
        &policy(&fixture, "p", &[&member], &json!({}))?,
    )
    .await?;
    create(&maps_of(&fixture), &config_map("settings", "1")?).await?;
    all_applied(&fixture, &own, "1/1").await?;
    let versions = async || -> Result<BTreeMap<String, Option<String>>> {
        let mut versions = BTreeMap::new();
        for work in member.works().list(&kube::api::ListParams::default()).await? {
            versions.insert(work.name_any(), work.resource_version());
        }
        versions.insert(
            "policy".to_owned(),
            policies(&fixture).get(&own.name_any()).await?.resource_version(),
        );
        versions.insert(
            "map".to_owned(),
            maps_on(&fixture, &member)
                .get("settings")
                .await?
                .resource_version(),
        );
        Ok(versions)
    };
    let bindings: Api<Binding> = Api::all(fixture.control.clone());
    until(&bindings, &own.name_any(), "the Binding is there", |_| true).await?;
    let before = versions().await?;
    fixture.env.controller.kill()?;
    fixture.env.controller.start_again().await?;
    // Created after everything that the start has caused.
    create(&maps_of(&fixture), &config_map("sentinel", "1")?).await?;
    until(
        &maps_on(&fixture, &member),
        "sentinel",
        "what came later is there",
        |_| true,
    )
    .await?;
    let mut after = versions().await?;
    after.retain(|name, _| before.contains_key(name));
    let (mut before, mut after) = (before, after);
    // The sentinel counts, too.
    before.remove("policy");
    after.remove("policy");
    assert_eq!(after, before);
    assert!(before.keys().any(|name| name.starts_with(&names::work_name(""))));
    Ok(())
}
