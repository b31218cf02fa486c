//! Computes the object to apply: the manifest plus Argosy's marks, without the fields that must
//! stay as they are on the cluster.
//!
//! Not here: the decision to apply (`manifest`).

use argosy_api::{manifest_work::IgnoreFields, names};
use serde_json::{Map, Value, json};

use super::{
    drift::{Owner, Owners},
    ids::ObjectKey,
    jsonpath::{self, JsonPath, Location},
    object_view::ObjectView,
    views::Item,
};

/// The values of Argosy's labels and annotations on an object.
#[derive(Debug)]
pub(super) struct Marks<'a> {
    pub(super) cluster: &'a str,
    pub(super) work: &'a str,
    pub(super) is_adopted: bool,
    /// For CronWorkflows: the `instanceID` of the cluster's Argo, if it has one.
    pub(super) argo_instance: Option<&'a str>,
}

/// The manifest of `item` with marks.
pub(super) fn marked(item: &Item, key: &ObjectKey, marks: &Marks<'_>) -> Value {
    let mut object = item.manifest.value();
    mark(&mut object, item, key, marks);
    object
}

/// The marks alone, for an existing object that must not be written otherwise. The resource version
/// restricts them to the object as it was read.
pub(super) fn only_marks(item: &Item, key: &ObjectKey, marks: &Marks<'_>, there: &ObjectView) -> Value {
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
    // A manifest of a cluster-scoped kind may wrongly name a namespace. The request path has none,
    // so the API server would reject it.
    if key.namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        metadata.insert("namespace".to_owned(), json!(&*key.namespace));
    }
    put(metadata, "labels", names::CLUSTER_LABEL, marks.cluster);
    if let Some(instance) = marks.argo_instance {
        put(metadata, "labels", names::ARGO_INSTANCE_LABEL, instance);
    }
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

/// Removes the fields from `wanted` that `rules` leave as they are in `there`. A path that cannot
/// be parsed is an error.
pub(super) fn without_ignored(
    mut wanted: Value,
    rules: &[IgnoreFields],
    there: &ObjectView,
    manager: &str,
) -> Result<Value, String> {
    if rules.is_empty() {
        return Ok(wanted);
    }
    let live = there.to_value();
    let applied = there.applied_by(manager);
    let mut owners = Owners::new(applied.as_ref());
    for rule in rules {
        for path in &rule.json_paths {
            let mut locations = JsonPath::parse(path)?.locate(&wanted);
            // Removing from the end keeps the indexes of the remaining locations valid.
            locations.reverse();
            for location in locations {
                let owner = owners.of(&wanted, &location);
                leave(
                    &mut wanted,
                    &location,
                    jsonpath::at(&live, &location),
                    rule,
                    owner,
                );
            }
        }
    }
    Ok(wanted)
}

/// Removes an ignored field from `wanted`. An apply that omits a field deletes it if only our
/// manager owns it. If our manager owns the field, it is therefore sent: with `OnSpokeChange` as
/// the manifest has it, otherwise with its present value. A field of an unknown owner keeps its present
/// value, too.
fn leave(wanted: &mut Value, location: &Location, live: Option<&Value>, rule: &IgnoreFields, owner: Owner) {
    let said = jsonpath::at(wanted, location);
    let is_sent = owner == Owner::Ours || live.is_none() || said == live;
    match owner {
        _ if rule.condition == "OnSpokeChange" && is_sent => {}
        Owner::Others => jsonpath::remove(wanted, location),
        Owner::Ours | Owner::Unknown => {
            if let (Some(said), Some(live)) = (jsonpath::at_mut(wanted, location), live) {
                *said = live.clone();
            }
        }
    }
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

    fn there(replicas: i32, owner: &str) -> ObjectView {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "managedFields": [{
                "manager": owner, "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
                "fieldsV1": { "f:spec": { "f:replicas": {} } },
            }] },
            "spec": { "replicas": replicas },
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn ignored_fields_stay_as_they_are_on_the_cluster() {
        let wanted = json!({ "spec": { "replicas": 1, "paused": true } });
        for (condition, there, said) in [
            ("OnSpokePresent", there(3, "hpa"), json!({ "paused": true })),
            // Only our manager owns the field, so an apply without it would delete it.
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

    /// An object of which our manager has applied these fields.
    fn applied(spec: &Value, owned: &Value) -> ObjectView {
        let object = json!({
            "apiVersion": "a.b/v1", "kind": "Any",
            "metadata": { "name": "x", "managedFields": [{
                "manager": "ours", "operation": "Apply", "apiVersion": "a.b/v1", "fieldsType": "FieldsV1",
                "fieldsV1": { "f:spec": owned },
            }] },
            "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn an_element_of_a_list_that_another_manager_changed_takes_nothing_from_the_others() {
        let owned = json!({ "f:containers": {
            "k:{\"name\":\"a\"}": { ".": {}, "f:name": {} },
            "k:{\"name\":\"b\"}": { ".": {}, "f:name": {}, "f:image": {} },
        } });
        let live =
            json!({ "containers": [{ "name": "a", "image": "theirs" }, { "name": "b", "image": "old" }] });
        let wanted = json!({ "spec": { "containers": [
            { "name": "a", "image": "new" }, { "name": "b", "image": "new" },
        ] } });
        for (condition, of_b) in [("OnSpokeChange", "new"), ("OnSpokePresent", "old")] {
            let mut rules = rules(condition);
            rules[0].json_paths = vec![".spec.containers[*].image".to_owned()];
            let left = without_ignored(wanted.clone(), &rules, &applied(&live, &owned), "ours").unwrap();
            let said = json!([{ "name": "a" }, { "name": "b", "image": of_b }]);
            assert_eq!(left["spec"]["containers"], said, "{condition}");
        }
    }

    #[test]
    fn an_ignored_field_of_an_unknown_owner_keeps_its_value() {
        let [old, new] = ["a", "b"].map(|letter| json!([letter.repeat(20_000)]));
        let owned = json!({ "f:certs": { format!("v:{}", old[0]): {} } });
        for condition in ["OnSpokeChange", "OnSpokePresent"] {
            let mut rules = rules(condition);
            rules[0].json_paths = vec![".spec.certs".to_owned()];
            let there = applied(&json!({ "certs": old }), &owned);
            let wanted = json!({ "spec": { "certs": new } });
            let left = without_ignored(wanted, &rules, &there, "ours").unwrap();
            assert_eq!(left["spec"]["certs"], old, "{condition}");
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
