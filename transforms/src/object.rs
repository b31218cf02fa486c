//! The parts of an object of any kind that are not sent to a WEC.
//!
//! Owned here: the rules for every kind. They remove fields set by the API server, references to
//! objects of this API server, and the marks of Argosy and KubeStellar. Not here: rules for one
//! kind (`kinds`, `workflow`).

use serde_json::{Map, Value};

/// Metadata that the API server sets, or that refers to objects of this API server only.
const METADATA: [&str; 11] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Written by `kubectl apply`. On the WEC, kubectl would treat it as the base of an apply that has
/// never happened there.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Prefix of every label and annotation of Argosy.
const ARGOSY_PREFIX: &str = "argosy.dev/";

/// Prefix of the labels that mark objects of the control cluster whose status is returned.
const STATUS_MARKS_PREFIX: &str = "managed-by.kubestellar.io/";

/// Requests the expansion of templates before sending; the sent object has none.
const EXPAND_TEMPLATES: &str = "control.kubestellar.io/expand-templates";

/// Removes status, metadata set by the API server, finalizers, ownerReferences, the annotation of
/// `kubectl apply`, every label and annotation of Argosy, and KubeStellar's marks of a returned
/// status and of templates. Labels and annotations that become empty are removed as well.
pub fn strip(object: &mut Value) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    object.remove("status");
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for field in METADATA {
        metadata.remove(field);
    }
    retain_keys(metadata, "labels", |key| !is_our_label(key));
    retain_keys(metadata, "annotations", |key| !is_our_annotation(key));
}

/// True for the fields of `metadata` that identify the object or are set by the API server.
pub(crate) fn is_server_metadata(field: &str) -> bool {
    METADATA.contains(&field) || ["name", "namespace"].contains(&field)
}

/// True for labels that are never sent as they are in the WDS.
pub(crate) fn is_our_label(key: &str) -> bool {
    key.starts_with(ARGOSY_PREFIX) || key.starts_with(STATUS_MARKS_PREFIX)
}

/// True for annotations that are never sent as they are in the WDS.
pub(crate) fn is_our_annotation(key: &str) -> bool {
    key.starts_with(ARGOSY_PREFIX) || [LAST_APPLIED, EXPAND_TEMPLATES].contains(&key)
}

/// Keeps only the keys of the map `parent[field]` for which `keep` returns true, and removes the
/// map if it becomes empty.
pub(crate) fn retain_keys(parent: &mut Map<String, Value>, field: &str, keep: impl Fn(&str) -> bool) {
    let Some(entries) = parent.get_mut(field).and_then(Value::as_object_mut) else {
        return;
    };
    entries.retain(|key, _| keep(key));
    if entries.is_empty() {
        parent.remove(field);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(mut object: Value, expected: &Value) {
        strip(&mut object);
        assert_eq!(&object, expected);
    }

    #[test]
    fn server_set_metadata_and_status_go_and_the_rest_stays() {
        check(
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"uid": "kept", "status": "kept"},
                "status": {"x": 1},
                "metadata": {
                    "name": "n", "namespace": "ns", "labels": {"app": "a"}, "annotations": {"note": "b"},
                    "uid": "1", "resourceVersion": "2", "generation": 3, "selfLink": "/x", "generateName": "n-",
                    "creationTimestamp": "t", "deletionTimestamp": "t", "deletionGracePeriodSeconds": 0,
                    "finalizers": ["f"], "ownerReferences": [{}], "managedFields": [{}],
                },
            }),
            &json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"uid": "kept", "status": "kept"},
                "metadata": {"name": "n", "namespace": "ns", "labels": {"app": "a"}, "annotations": {"note": "b"}},
            }),
        );
    }

    #[test]
    fn labels_and_annotations_of_argosy_go_and_leave_no_empty_map() {
        check(
            json!({"metadata": {
                "name": "n", "labels": {"argosy.dev/cluster": "c"},
                "annotations": {"argosy.dev/claim": "{}", LAST_APPLIED: "{}"},
            }}),
            &json!({"metadata": {"name": "n"}}),
        );
    }

    #[test]
    fn marks_of_kubestellar_stay_on_the_control_cluster_and_what_it_reads_there_travels() {
        check(
            json!({"metadata": {
                "labels": {
                    "managed-by.kubestellar.io/singletonstatus": "true", "managed-by.kubestellar.io/multiwecstatus": "true",
                    "kubestellar.io/cluster": "c",
                },
                "annotations": {EXPAND_TEMPLATES: "true", "control.kubestellar.io/preserve": "nodeport"},
            }}),
            &json!({"metadata": {
                "labels": {"kubestellar.io/cluster": "c"},
                "annotations": {"control.kubestellar.io/preserve": "nodeport"},
            }}),
        );
    }

    #[test]
    fn a_prefix_that_only_begins_alike_is_kept() {
        let object = json!({"metadata": {"labels": {"argosy.dev": "1", "argosy.devel/x": "2", "my.argosy.dev/x": "3"}}});
        check(object.clone(), &object);
    }

    #[test]
    fn what_is_not_an_object_is_left_alone() {
        for value in [
            json!(null),
            json!([{"status": 1}]),
            json!("x"),
            json!({"metadata": []}),
        ] {
            check(value.clone(), &value);
        }
        let odd = json!({"metadata": {"labels": ["argosy.dev/x"], "annotations": null}});
        check(odd.clone(), &odd);
    }
}
