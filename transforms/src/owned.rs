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

/// The owned field that `value` at `location` of an object of this resource would set: the location,
/// if it is an owned place or inside one, or else a member of the value that is one.
pub(crate) fn touched(group: &str, resource: &str, location: &Location, value: &Value) -> Option<Location> {
    if location.is_protected() {
        return Some(location.clone());
    }
    let of_kind: &[&[Keys]] = match (group, resource) {
        ("argoproj.io", "workflows") => &OF_WORKFLOWS,
        ("argoproj.io", "cronworkflows") => &OF_CRON_WORKFLOWS,
        _ => &[],
    };
    let mut places = OF_EVERY_KIND.iter().chain(of_kind);
    let inside = places.find_map(|place| touches(&location.0, value, place))?;
    Some(Location([location.0.as_slice(), &inside].concat()))
}

/// The steps from `location` to the owned field; none if the location is owned itself.
fn touches(location: &[Step], value: &Value, place: &[Keys]) -> Option<Vec<Step>> {
    match (location, place) {
        (_, []) => Some(Vec::new()),
        ([], rest) => member(value, rest),
        ([Step::Key(key), location @ ..], [keys, place @ ..]) if keys.have(key) => {
            touches(location, value, place)
        }
        _ => None,
    }
}

/// The steps to a member of `value` at `place`.
fn member(value: &Value, place: &[Keys]) -> Option<Vec<Step>> {
    let [keys, rest @ ..] = place else {
        return Some(Vec::new());
    };
    let members = value.as_object()?.iter();
    let mut owned = members.filter(|(key, _)| keys.have(key));
    owned.find_map(|(key, inner)| {
        let mut steps = vec![Step::Key(key.clone())];
        steps.extend(member(inner, rest)?);
        Some(steps)
    })
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
            touched(group, resource, &location, value).is_some(),
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
    fn the_owned_field_is_named_wherever_it_is() {
        for (keys, value, expected) in [
            (
                &["metadata", "labels"][..],
                json!({ "a": "b", "argosy.dev/x": "1" }),
                "$['metadata']['labels']['argosy.dev/x']",
            ),
            (&["spec"], json!({ "suspend": false }), "$['spec']['suspend']"),
            (&["metadata"], json!({}), "$['metadata']"),
            (&["status", "phase"], json!("x"), "$['status']['phase']"),
        ] {
            let location = Location(keys.iter().map(|key| Step::Key((*key).to_owned())).collect());
            let field = touched("argoproj.io", "workflows", &location, &value);
            assert_eq!(field.unwrap().to_string(), expected);
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
