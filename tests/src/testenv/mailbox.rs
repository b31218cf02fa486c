//! ManifestWorks as foreign writers create them in a mailbox, and as Argosy's controller creates
//! them for objects of any kind, and the agent's conditions on them.

use anyhow::Result;
use argosy_api::{ManifestWork, names};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::objects::create;

/// A ConfigMap with the key `a`.
pub fn config_map(namespace: &str, name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "namespace": namespace, "name": name },
        "data": { "a": value },
    })
}

/// A foreign ManifestWork. As in OCM, its record on the cluster is named only after hub and
/// ManifestWork, so tests whose clusters share an API server must not share names.
pub fn theirs(name: &str, manifests: &[Value]) -> Result<ManifestWork> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": { "name": name },
        "spec": { "workload": { "manifests": manifests } },
    }))?)
}

/// The ManifestWork that Argosy's controller creates for an object of the WDS with `uid`.
/// `strategy` is the type of its update strategy.
pub fn ours(uid: &str, resource: &str, manifest: &Value, strategy: &str) -> Result<ManifestWork> {
    let mut manifest = manifest.clone();
    if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("labels".to_owned(), json!({ names::OBJECT_UID_LABEL: uid }));
    }
    let (group_version, plural) = resource.rsplit_once('/').unwrap_or_default();
    let group = group_version.rsplit_once('/').map_or("", |(group, _)| group);
    let text = |pointer: &str| {
        manifest
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    let update = match strategy {
        "ServerSideApply" => json!({
            "type": strategy, "serverSideApply": { "force": true, "fieldManager": names::APPLIER },
        }),
        _ => json!({ "type": strategy }),
    };
    Ok(serde_json::from_value(json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {
            "name": names::work_name(uid),
            "labels": { names::OBJECT_UID_LABEL: uid, names::ORIGIN_WDS_LABEL: "wds" },
            "annotations": {
                names::ORIGIN_RESOURCE_ANNOTATION: resource,
                names::ORIGIN_NAMESPACE_ANNOTATION: namespace,
                names::ORIGIN_NAME_ANNOTATION: name,
            },
            "finalizers": [names::MANIFEST_WORK_FINALIZER],
        },
        "spec": {
            "workload": { "manifests": [manifest] },
            "manifestConfigs": [{
                "resourceIdentifier": { "group": group, "resource": plural, "namespace": namespace, "name": name },
                "updateStrategy": update,
            }],
        },
    }))?)
}

/// Creates a ManifestWork.
pub async fn send(works: &Api<ManifestWork>, work: &ManifestWork) -> Result<ManifestWork> {
    create(works, work).await
}

/// Changes a ManifestWork by a merge patch.
pub async fn change(works: &Api<ManifestWork>, name: &str, patch: &Value) -> Result<ManifestWork> {
    Ok(works
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?)
}

/// Status, reason and message of a condition of the ManifestWork, or of its manifest number
/// `ordinal`.
pub fn condition(
    work: &ManifestWork,
    ordinal: Option<usize>,
    type_: &str,
) -> Option<(String, String, String)> {
    let status = work.status.as_ref()?;
    let conditions = match ordinal {
        None => &status.conditions,
        Some(ordinal) => {
            &status
                .resource_status
                .as_ref()?
                .manifests
                .get(ordinal)?
                .conditions
        }
    };
    let known = conditions.iter().find(|known| known.type_ == type_)?;
    Some((known.status.clone(), known.reason.clone(), known.message.clone()))
}

/// True if the ManifestWork is applied in its current generation.
pub fn is_applied(work: &ManifestWork) -> bool {
    says(work, "Applied", "True") && observed(work) == work.metadata.generation
}

/// True if a condition of the ManifestWork has this status.
pub fn says(work: &ManifestWork, type_: &str, status: &str) -> bool {
    condition(work, None, type_).is_some_and(|(known, ..)| known == status)
}

fn observed(work: &ManifestWork) -> Option<i64> {
    let conditions = work.status.as_ref()?.conditions.iter();
    conditions
        .filter(|known| known.type_ == "Applied")
        .find_map(|known| known.observed_generation)
}

/// Sets a key of a ConfigMap, as somebody on the cluster.
pub async fn tamper(maps: &Api<ConfigMap>, name: &str, key: &str, value: &str) -> Result<ConfigMap> {
    let params = PatchParams {
        field_manager: Some("somebody".to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({ "data": { key: value } }));
    Ok(maps.patch(name, &params, &patch).await?)
}

/// The value of a key of a ConfigMap.
pub fn value<'a>(map: &'a ConfigMap, key: &str) -> Option<&'a str> {
    map.data.as_ref()?.get(key).map(String::as_str)
}

/// True if an object has the marks of the applier.
pub fn is_marked(map: &ConfigMap) -> bool {
    map.labels().contains_key(names::CLUSTER_LABEL)
        || map.annotations().contains_key(names::MANIFEST_WORK_ANNOTATION)
}
