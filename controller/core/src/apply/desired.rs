//! The object that is applied: the manifest with our marks, without the fields that are to be left as they are on the cluster.
//!
//! Not here: whether it is applied at all (`item`).

use argosy_api::{manifest_work::IgnoreFields, names};
use serde_json::{Map, Value, json};

use super::{
    drift::{applied_by, owns_object},
    ids::ObjectKey,
    jsonpath::{self, JsonPath, Location, Step},
    views::{Item, Object},
};

/// What an object is marked with.
#[derive(Debug)]
pub(super) struct Marks<'a> {
    pub(super) cluster: &'a str,
    pub(super) work: &'a str,
    pub(super) is_adopted: bool,
}

/// The object of `item`, marked.
pub(super) fn marked(item: &Item, key: &ObjectKey, marks: &Marks<'_>) -> Value {
    let mut object = item.manifest.clone();
    mark(&mut object, item, key, marks);
    object
}

/// Only the marks, for an object that is there and is not to be written. They are for the object as it was read.
pub(super) fn only_marks(item: &Item, key: &ObjectKey, marks: &Marks<'_>, there: &Object) -> Value {
    let mut object = json!({
        "apiVersion": item.api.to_string(), "kind": item.kind,
        "metadata": { "name": item.name, "resourceVersion": there.resource_version },
    });
    mark(&mut object, item, key, marks);
    object
}

fn mark(object: &mut Value, item: &Item, key: &ObjectKey, marks: &Marks<'_>) {
    let Some(metadata) = entry(object, "metadata") else {
        return;
    };
    // A manifest of a cluster-scoped kind may name a namespace, which its path has none for.
    if key.namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        metadata.insert("namespace".to_owned(), json!(&*key.namespace));
    }
    put(metadata, "labels", names::CLUSTER_LABEL, marks.cluster);
    put(
        metadata,
        "annotations",
        names::APPLIED_ANNOTATION,
        &item.digest.to_string(),
    );
    put(
        metadata,
        "annotations",
        names::MANIFEST_WORK_ANNOTATION,
        marks.work,
    );
    if marks.is_adopted {
        put(metadata, "annotations", names::ADOPTED_ANNOTATION, "true");
    }
}

fn entry<'a>(object: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    object
        .as_object_mut()?
        .entry(field)
        .or_insert_with(|| json!({}))
        .as_object_mut()
}

fn put(metadata: &mut Map<String, Value>, field: &str, key: &str, value: &str) {
    let entries = metadata.entry(field).or_insert_with(|| json!({}));
    if entries.is_null() {
        *entries = json!({});
    }
    if let Some(entries) = entries.as_object_mut() {
        entries.insert(key.to_owned(), json!(value));
    }
}

/// Leaves out of `wanted` what `rules` say is to stay as it is in `there`. A path that cannot be read is an error.
pub(super) fn without_ignored(
    mut wanted: Value,
    rules: &[IgnoreFields],
    there: &Object,
    manager: &str,
) -> Result<Value, String> {
    if rules.is_empty() {
        return Ok(wanted);
    }
    let live = serde_json::to_value(&*there.whole).unwrap_or_default();
    for rule in rules {
        for path in &rule.json_paths {
            let mut locations = JsonPath::parse(path)?.locate(&wanted);
            // The last first, so that the places of the others stay what they are.
            locations.reverse();
            for location in locations {
                let is_ours = owns_location(there, manager, &wanted, &location);
                leave(
                    &mut wanted,
                    &location,
                    jsonpath::at(&live, &location),
                    rule,
                    is_ours,
                );
            }
        }
    }
    Ok(wanted)
}

/// A field that is ours alone would be deleted if it were left out: it is said again as it is.
fn leave(wanted: &mut Value, location: &Location, live: Option<&Value>, rule: &IgnoreFields, is_ours: bool) {
    let said = jsonpath::at(wanted, location);
    match rule.condition.as_str() {
        "OnSpokeChange" if is_ours || live.is_none() || said == live => {}
        "OnSpokeChange" => jsonpath::remove(wanted, location),
        _ if is_ours => {
            if let (Some(said), Some(live)) = (jsonpath::at_mut(wanted, location), live) {
                *said = live.clone();
            }
        }
        _ => jsonpath::remove(wanted, location),
    }
}

/// Whether `manager` owns what is at one place. An element of a list is looked up by its keys, so it is kept whole.
fn owns_location(there: &Object, manager: &str, wanted: &Value, location: &[Step]) -> bool {
    let Some(owned) = applied_by(there.metadata(), manager) else {
        return false;
    };
    let fields: Vec<&Step> = location
        .iter()
        .take_while(|step| matches!(step, Step::Field(_)))
        .collect();
    let Some(value) = jsonpath::at(wanted, location.get(..fields.len()).unwrap_or_default()) else {
        return false;
    };
    let only = fields.iter().rev().fold(value.clone(), |inner, step| match step {
        Step::Field(name) => json!({ name: inner }),
        Step::Index(_) => inner,
    });
    owns_object(owned, &only)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(condition: &str) -> Vec<IgnoreFields> {
        vec![IgnoreFields {
            condition: condition.to_owned(),
            json_paths: vec![".spec.replicas".to_owned()],
        }]
    }

    fn there(replicas: i32, owner: &str) -> Object {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "managedFields": [{
                "manager": owner, "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
                "fieldsV1": { "f:spec": { "f:replicas": {} } },
            }] },
            "spec": { "replicas": replicas },
        });
        Object::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn ignored_fields_stay_as_they_are_on_the_cluster() {
        let wanted = json!({ "spec": { "replicas": 1, "paused": true } });
        for (condition, there, said) in [
            ("OnSpokePresent", there(3, "hpa"), json!({ "paused": true })),
            // Left out, it would be deleted, because nobody else owns it.
            (
                "OnSpokePresent",
                there(3, "ours"),
                json!({ "replicas": 3, "paused": true }),
            ),
            ("OnSpokeChange", there(3, "hpa"), json!({ "paused": true })),
            (
                "OnSpokeChange",
                there(1, "hpa"),
                json!({ "replicas": 1, "paused": true }),
            ),
            (
                "OnSpokeChange",
                there(3, "ours"),
                json!({ "replicas": 1, "paused": true }),
            ),
        ] {
            let left = without_ignored(wanted.clone(), &rules(condition), &there, "ours").unwrap();
            assert_eq!(left["spec"], said, "{condition}");
        }
    }

    #[test]
    fn a_path_that_cannot_be_read_is_an_error() {
        let rules = vec![IgnoreFields {
            condition: "OnSpokePresent".to_owned(),
            json_paths: vec![".spec[".to_owned()],
        }];
        assert!(without_ignored(json!({}), &rules, &there(1, "ours"), "ours").is_err());
    }
}
