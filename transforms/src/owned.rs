//! The fields of a sent object that no transform may set: those that identify it, that the API
//! server sets, or with which Argosy and Argo's controller mark and hold it.
//!
//! They are the fields that the built-in rules for the object remove (`object`, `workflow`) or keep
//! as they are (`location`). Not here: fields that a built-in rule removes because they mean
//! something on one cluster only, such as a node port; a transform may set these for a cluster.

use serde_json::Value;

use crate::location::{Location, Step};
use crate::{object, workflow};

/// The keys at one level of an owned place.
enum Keys {
    /// This key.
    One(&'static str),
    /// The keys for which the function returns true.
    Those(fn(&str) -> bool),
}

impl Keys {
    fn have(&self, key: &str) -> bool {
        match self {
            Self::One(one) => *one == key,
            Self::Those(test) => test(key),
        }
    }
}

use Keys::{One, Those};

/// The owned places in objects of every kind.
static OF_EVERY_KIND: [&[Keys]; 6] = [
    &[One("apiVersion")],
    &[One("kind")],
    &[One("status")],
    &[One("metadata"), Those(object::is_server_metadata)],
    &[One("metadata"), One("labels"), Those(object::is_our_label)],
    &[
        One("metadata"),
        One("annotations"),
        Those(object::is_our_annotation),
    ],
];

/// The owned places in Workflows.
static OF_WORKFLOWS: [&[Keys]; 3] = [
    &[One("spec"), One("suspend")],
    &[
        One("metadata"),
        One("labels"),
        Those(workflow::is_controller_label),
    ],
    &[
        One("metadata"),
        One("annotations"),
        Those(workflow::is_controller_annotation),
    ],
];

/// The owned places in CronWorkflows.
static OF_CRON_WORKFLOWS: [&[Keys]; 3] = [
    &[One("spec"), One("suspend")],
    &[One("metadata"), One("labels"), Those(workflow::is_cron_label)],
    &[
        One("metadata"),
        One("annotations"),
        Those(workflow::is_cron_annotation),
    ],
];

/// Returns true if `value` at `location` of an object of this resource would set an owned field: if
/// the location is an owned place or inside one, or if the value has a member that is one.
pub(crate) fn is_touched(group: &str, resource: &str, location: &Location, value: &Value) -> bool {
    let of_kind: &[&[Keys]] = match (group, resource) {
        ("argoproj.io", "workflows") => &OF_WORKFLOWS,
        ("argoproj.io", "cronworkflows") => &OF_CRON_WORKFLOWS,
        _ => &[],
    };
    let mut places = OF_EVERY_KIND.iter().chain(of_kind);
    location.is_protected() || places.any(|place| touches(&location.0, value, place))
}

fn touches(location: &[Step], value: &Value, place: &[Keys]) -> bool {
    match (location, place) {
        (_, []) => true,
        ([], rest) => has(value, rest),
        ([Step::Key(key), location @ ..], [keys, place @ ..]) => {
            keys.have(key) && touches(location, value, place)
        }
        ([Step::Index(_), ..], _) => false,
    }
}

fn has(value: &Value, place: &[Keys]) -> bool {
    match place {
        [] => true,
        [keys, rest @ ..] => value.as_object().is_some_and(|members| {
            members
                .iter()
                .any(|(key, member)| keys.have(key) && has(member, rest))
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(resource: &str, keys: &[&str], value: &Value, expected: bool) {
        let group = if resource == "configmaps" {
            ""
        } else {
            "argoproj.io"
        };
        let location = Location(keys.iter().map(|key| Step::Key((*key).to_owned())).collect());
        assert_eq!(
            is_touched(group, resource, &location, value),
            expected,
            "{resource} {location} {value}"
        );
    }

    #[test]
    fn the_identity_and_the_marks_of_any_object_are_owned_at_every_level() {
        for keys in [
            &[][..],
            &["kind"],
            &["apiVersion"],
            &["status"],
            &["status", "phase"],
            &["metadata"],
            &["metadata", "name"],
            &["metadata", "namespace"],
            &["metadata", "generateName"],
            &["metadata", "uid"],
            &["metadata", "resourceVersion"],
            &["metadata", "finalizers"],
            &["metadata", "finalizers", "0"],
            &["metadata", "ownerReferences"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "managedFields"],
            &["metadata", "labels", "argosy.dev/cluster"],
            &["metadata", "labels", "managed-by.kubestellar.io/singletonstatus"],
            &["metadata", "annotations", "argosy.dev/claim"],
            &[
                "metadata",
                "annotations",
                "control.kubestellar.io/expand-templates",
            ],
        ] {
            check("configmaps", keys, &json!(1), true);
        }
        for keys in [
            &["spec"][..],
            &["spec", "suspend"],
            &["data", "status"],
            &["metadata", "labels"],
            &["metadata", "labels", "workflows.argoproj.io/completed"],
            &["metadata", "annotations", "note"],
        ] {
            check("configmaps", keys, &json!({ "a": 1 }), false);
        }
    }

    #[test]
    fn a_value_may_not_bring_along_an_owned_field() {
        for (keys, value, expected) in [
            (&["metadata", "labels"][..], json!({ "argosy.dev/x": "1" }), true),
            (&["metadata", "labels"], json!({ "argosy.devel/x": "1" }), false),
            (
                &["metadata", "annotations"],
                json!({ "argosy.dev/claim": "{}" }),
                true,
            ),
            (&["metadata", "labels"], json!(["argosy.dev/x"]), false),
            (
                &["spec"],
                json!({ "metadata": { "name": "n" }, "status": 1 }),
                false,
            ),
        ] {
            check("configmaps", keys, &value, expected);
        }
        for (keys, value, expected) in [
            (&["spec"][..], json!({ "suspend": false }), true),
            (&["spec"], json!({ "templates": [{ "suspend": {} }] }), false),
            (
                &["metadata", "labels"],
                json!({ "workflows.argoproj.io/phase": "Failed" }),
                true,
            ),
        ] {
            check("workflows", keys, &value, expected);
        }
    }

    #[test]
    fn the_hold_and_the_marks_of_argo_are_owned() {
        for resource in ["workflows", "cronworkflows"] {
            check(resource, &["spec", "suspend"], &json!(true), true);
            check(resource, &["spec", "templates"], &json!([]), false);
            let instance = "workflows.argoproj.io/controller-instanceid";
            check(resource, &["metadata", "labels", instance], &json!("x"), true);
        }
        let completed = "workflows.argoproj.io/completed";
        check(
            "workflows",
            &["metadata", "labels", completed],
            &json!("true"),
            true,
        );
        let cron = "cronworkflows.argoproj.io/last-used-schedule";
        check(
            "cronworkflows",
            &["metadata", "annotations", cron],
            &json!(""),
            true,
        );
    }
}
