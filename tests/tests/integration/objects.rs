//! Objects of any kind on their way from the WDS to the clusters, by real controller and agents.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use argosy_api::{Binding, BindingPolicy, CustomTransform, names};
use argosy_tests::lab::{
    Member, Scene,
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

fn maps_of(scene: &Scene) -> Api<ConfigMap> {
    Api::namespaced(scene.control.clone(), &scene.namespace)
}

fn maps_on(scene: &Scene, member: &Member) -> Api<ConfigMap> {
    Api::namespaced(member.wec.clone(), &scene.namespace)
}

fn policies(scene: &Scene) -> Api<BindingPolicy> {
    Api::all(scene.control.clone())
}

fn config_map(name: &str, value: &str) -> Result<ConfigMap> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "app": "web" } }, "data": { "a": value },
    }))?)
}

/// A policy of the scene over these clusters, for what has the label `app: web`; `clause` is put over its only clause.
fn policy(scene: &Scene, name: &str, clusters: &[&Member], clause: &Value) -> Result<BindingPolicy> {
    let mut only =
        json!({ "namespaces": [scene.namespace], "objectSelectors": [{ "matchLabels": { "app": "web" } }] });
    for (field, value) in clause.as_object().into_iter().flatten() {
        only[field] = value.clone();
    }
    let names: Vec<&str> = clusters.iter().map(|member| member.cluster.as_str()).collect();
    let selector = json!({ "matchExpressions": [{ "key": "name", "operator": "In", "values": names }] });
    Ok(serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": format!("{}-{name}", scene.namespace) },
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

/// Everything that the policy selects is on its clusters, as far as the policy says.
async fn all_applied(scene: &Scene, policy: &BindingPolicy, applied: &str) -> Result<BindingPolicy> {
    let is_so = |policy: &BindingPolicy| {
        policy
            .status
            .as_ref()
            .and_then(|status| status.applied.as_deref())
            == Some(applied)
    };
    until(
        &policies(scene),
        &policy.name_any(),
        "everything is applied",
        is_so,
    )
    .await
}

#[tokio::test]
async fn an_object_goes_to_every_cluster_of_its_policy_follows_its_changes_and_goes_with_it() -> Result<()> {
    let scene = Scene::new("objects-follow").await?;
    let (one, two) = (scene.pull().await?, scene.push().await?);
    let both = create(
        &policies(&scene),
        &policy(&scene, "both", &[&one, &two], &json!({}))?,
    )
    .await?;
    create(&maps_of(&scene), &config_map("settings", "1")?).await?;
    for member in [&one, &two] {
        let map = until(&maps_on(&scene, member), "settings", "it is there", |map| {
            value(map) == Some("1")
        })
        .await?;
        assert_eq!(map.labels()["app"], "web");
    }
    let told = all_applied(&scene, &both, "2/2").await?;
    let status = told.status.context("the policy has a status")?;
    assert_eq!((status.objects, status.clusters), (1, 2));
    assert!(
        status.conditions.iter().all(|known| known.status == "True"),
        "{status:?}"
    );

    merge(&maps_of(&scene), "settings", json!({ "data": { "a": "2" } })).await?;
    for member in [&one, &two] {
        until(&maps_on(&scene, member), "settings", "it has changed", |map| {
            value(map) == Some("2")
        })
        .await?;
    }
    // What somebody changes on a cluster is put back.
    merge(
        &maps_on(&scene, &one),
        "settings",
        json!({ "data": { "a": "drift" } }),
    )
    .await?;
    until(&maps_on(&scene, &one), "settings", "it is put back", |map| {
        value(map) == Some("2")
    })
    .await?;

    merge(
        &policies(&scene),
        &both.name_any(),
        json!(policy(&scene, "both", &[&one], &json!({}))?),
    )
    .await?;
    until_gone(
        &maps_on(&scene, &two),
        "settings",
        "the policy no longer names the cluster",
    )
    .await?;
    merge(
        &maps_of(&scene),
        "settings",
        json!({ "metadata": { "labels": { "app": "db" } } }),
    )
    .await?;
    until_gone(&maps_on(&scene, &one), "settings", "its label has gone").await?;
    merge(
        &maps_of(&scene),
        "settings",
        json!({ "metadata": { "labels": { "app": "web" } } }),
    )
    .await?;
    until(&maps_on(&scene, &one), "settings", "it is back", |_| true).await?;
    maps_of(&scene)
        .delete("settings", &DeleteParams::default())
        .await?;
    until_gone(&maps_on(&scene, &one), "settings", "it was deleted").await
}

#[tokio::test]
async fn deleting_a_policy_takes_back_what_no_other_policy_sends() -> Result<()> {
    let scene = Scene::new("objects-policies").await?;
    let member = scene.pull().await?;
    let narrow = json!({ "objectNames": ["kept"] });
    create(&policies(&scene), &policy(&scene, "narrow", &[&member], &narrow)?).await?;
    let wide = create(
        &policies(&scene),
        &policy(&scene, "wide", &[&member], &json!({}))?,
    )
    .await?;
    for name in ["kept", "gone"] {
        create(&maps_of(&scene), &config_map(name, "1")?).await?;
        until(&maps_on(&scene, &member), name, "it is there", |_| true).await?;
    }
    let bindings: Api<Binding> = Api::all(scene.control.clone());
    let binding = until(&bindings, &wide.name_any(), "the Binding names both", |binding| {
        binding.spec.workload.namespace_scope.len() == 2
    })
    .await?;
    assert_eq!(binding.spec.destinations[0].cluster_id, member.cluster);
    policies(&scene)
        .delete(&wide.name_any(), &DeleteParams::default())
        .await?;
    until_gone(&maps_on(&scene, &member), "gone", "nobody sends it any more").await?;
    assert_eq!(value(&maps_on(&scene, &member).get("kept").await?), Some("1"));
    Ok(())
}

#[tokio::test]
async fn create_only_is_honoured() -> Result<()> {
    let scene = Scene::new("objects-once").await?;
    let member = scene.pull().await?;
    let once = create(
        &policies(&scene),
        &policy(&scene, "once", &[&member], &json!({ "createOnly": true }))?,
    )
    .await?;
    create(&maps_of(&scene), &config_map("settings", "1")?).await?;
    until(&maps_on(&scene, &member), "settings", "it is there", |_| true).await?;
    all_applied(&scene, &once, "1/1").await?;
    merge(&maps_of(&scene), "settings", json!({ "data": { "a": "2" } })).await?;
    // Once the wish is gone, the change is there: until then it was not.
    create(&maps_of(&scene), &config_map("sentinel", "1")?).await?;
    until(
        &maps_on(&scene, &member),
        "sentinel",
        "what came later is there",
        |_| true,
    )
    .await?;
    assert_eq!(value(&maps_on(&scene, &member).get("settings").await?), Some("1"));
    merge(
        &policies(&scene),
        &once.name_any(),
        json!(policy(&scene, "once", &[&member], &json!({}))?),
    )
    .await?;
    until(&maps_on(&scene, &member), "settings", "it follows now", |map| {
        value(map) == Some("2")
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_kind_that_comes_later_is_found_and_its_objects_travel_with_it() -> Result<()> {
    let scene = Scene::new("objects-kinds").await?;
    let member = scene.pull().await?;
    let (group, plural) = (format!("{}.example.com", scene.namespace), "gadgets");
    let by_kind = json!([
        { "apiGroup": group },
        { "apiGroup": "apiextensions.k8s.io", "objectNames": [format!("{plural}.{group}")] },
    ]);
    let mut both = policy(&scene, "kinds", &[&member], &json!({}))?;
    both.spec.downsync = serde_json::from_value(by_kind)?;
    create(&policies(&scene), &both).await?;
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
    let definitions: Api<CustomResourceDefinition> = Api::all(scene.control.clone());
    create(&definitions, &definition).await?;
    let is_served = |definition: &CustomResourceDefinition| {
        let conditions = definition
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        conditions
            .into_iter()
            .any(|known| known.type_ == "Established" && known.status == "True")
    };
    until(
        &definitions,
        &definition.name_any(),
        "the kind is served",
        is_served,
    )
    .await?;
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&group, "v1", "Gadget"), plural);
    let gadgets: Api<DynamicObject> = Api::namespaced_with(scene.control.clone(), &scene.namespace, &kind);
    let gadget: DynamicObject = serde_json::from_value(json!({
        "apiVersion": format!("{group}/v1"), "kind": "Gadget", "metadata": { "name": "g" }, "spec": { "size": 3 },
    }))?;
    create(&gadgets, &gadget).await?;
    let there: Api<DynamicObject> = Api::namespaced_with(member.wec.clone(), &scene.namespace, &kind);
    let sent = until(&there, "g", "the object is there", |_| true).await?;
    assert_eq!(sent.data["spec"]["size"], 3);
    Ok(())
}

#[tokio::test]
async fn secrets_and_service_accounts_travel_and_what_every_cluster_makes_for_itself_stays() -> Result<()> {
    let scene = Scene::new("objects-core").await?;
    let member = scene.pull().await?;
    let mut all = policy(&scene, "all", &[&member], &json!({}))?;
    all.spec.downsync = serde_json::from_value(json!([{
        "apiGroup": "", "resources": ["configmaps", "secrets", "serviceaccounts"], "namespaces": [scene.namespace],
    }]))?;
    let root = "kube-root-ca.crt";
    let mut own = config_map(root, "of the control cluster")?;
    own.metadata.labels = None;
    create(&maps_of(&scene), &own).await?;
    let secrets: Api<Secret> = Api::namespaced(scene.control.clone(), &scene.namespace);
    let accounts: Api<ServiceAccount> = Api::namespaced(scene.control.clone(), &scene.namespace);
    let secret = json!({ "metadata": { "name": "s" }, "stringData": { "password": "x" } });
    create(&secrets, &serde_json::from_value(secret)?).await?;
    create(
        &accounts,
        &serde_json::from_value(json!({ "metadata": { "name": "runner" } }))?,
    )
    .await?;
    create(&policies(&scene), &all).await?;
    let there: Api<Secret> = Api::namespaced(member.wec.clone(), &scene.namespace);
    let sent = until(&there, "s", "the secret is there", |_| true).await?;
    assert_eq!(sent.data.context("it has data")?["password"].0, b"x");
    let there: Api<ServiceAccount> = Api::namespaced(member.wec.clone(), &scene.namespace);
    until(&there, "runner", "the account is there", |_| true).await?;
    assert!(maps_on(&scene, &member).get_opt(root).await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_transform_that_changes_later_changes_what_is_out_there() -> Result<()> {
    let scene = Scene::new("objects-transform").await?;
    let member = scene.pull().await?;
    create(
        &policies(&scene),
        &policy(&scene, "p", &[&member], &json!({ "resources": ["limitranges"] }))?,
    )
    .await?;
    let kind =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "LimitRange"), "limitranges");
    let ranges: Api<DynamicObject> = Api::namespaced_with(scene.control.clone(), &scene.namespace, &kind);
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange",
        "metadata": { "name": "r", "labels": { "app": "web" }, "annotations": { scene.namespace.clone(): "x", "note": "y" } },
        "spec": { "limits": [{ "type": "Container", "max": { "cpu": "1" } }] },
    });
    create(&ranges, &serde_json::from_value(range)?).await?;
    let there: Api<DynamicObject> = Api::namespaced_with(member.wec.clone(), &scene.namespace, &kind);
    let has = |note: &str| {
        let note = note.to_owned();
        move |object: &DynamicObject| object.annotations().contains_key(&note)
    };
    until(&there, "r", "it is there whole", has(&scene.namespace)).await?;
    let transforms: Api<CustomTransform> = Api::all(scene.control.clone());
    let transform = |path: String| -> Result<CustomTransform> {
        Ok(serde_json::from_value(json!({
            "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "CustomTransform",
            "metadata": { "name": scene.namespace },
            "spec": { "apiGroup": "", "resource": "limitranges", "remove": [path] },
        }))?)
    };
    create(
        &transforms,
        &transform(format!("$.metadata.annotations[\"{}\"]", scene.namespace))?,
    )
    .await?;
    let without = has(&scene.namespace);
    until(&there, "r", "the annotation is gone", |object| !without(object)).await?;
    transforms
        .delete(&scene.namespace, &DeleteParams::default())
        .await?;
    until(&there, "r", "the annotation is back", has(&scene.namespace)).await?;
    Ok(())
}

#[tokio::test]
async fn nothing_is_written_when_the_controller_starts_again() -> Result<()> {
    let scene = Scene::on(
        argosy_tests::lab::Stage::own("objects-restart").await?,
        "objects-restart",
    )
    .await?;
    let member = scene.pull().await?;
    let own = create(&policies(&scene), &policy(&scene, "p", &[&member], &json!({}))?).await?;
    create(&maps_of(&scene), &config_map("settings", "1")?).await?;
    all_applied(&scene, &own, "1/1").await?;
    let versions = async || -> Result<BTreeMap<String, Option<String>>> {
        let mut versions = BTreeMap::new();
        for work in member.works().list(&kube::api::ListParams::default()).await? {
            versions.insert(work.name_any(), work.resource_version());
        }
        versions.insert(
            "policy".to_owned(),
            policies(&scene).get(&own.name_any()).await?.resource_version(),
        );
        versions.insert(
            "map".to_owned(),
            maps_on(&scene, &member).get("settings").await?.resource_version(),
        );
        Ok(versions)
    };
    let bindings: Api<Binding> = Api::all(scene.control.clone());
    until(&bindings, &own.name_any(), "the Binding is there", |_| true).await?;
    let before = versions().await?;
    scene.stage.controller.kill()?;
    scene.stage.controller.start_again().await?;
    // What comes after everything that the start has brought about.
    create(&maps_of(&scene), &config_map("sentinel", "1")?).await?;
    until(
        &maps_on(&scene, &member),
        "sentinel",
        "what came later is there",
        |_| true,
    )
    .await?;
    let mut after = versions().await?;
    after.retain(|name, _| before.contains_key(name));
    let (mut before, mut after) = (before, after);
    // The sentinel is counted.
    before.remove("policy");
    after.remove("policy");
    assert_eq!(after, before);
    assert!(before.keys().any(|name| name.starts_with(&names::work_name(""))));
    Ok(())
}
