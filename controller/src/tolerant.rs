//! Objects that a member of the fleet may write, read one by one: a malformed one is taken without what cannot be read of it, and
//! neither fails the list that it is in nor stops the watch.
//!
//! An API server checks types, but not all that it takes can be read here: the year 10000, a number that is too large, or anything, where an
//! older definition describes no fields. Not here: what follows from a part that is missing, which the index says.

use std::{borrow::Cow, fmt::Debug};

use kube::{Resource, core::ObjectMeta};
use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::Error};
use serde_json::{Map, Value, value::RawValue};

/// An object, and what was wrong with it.
#[derive(Clone, Debug)]
pub struct Tolerant<K> {
    object: K,
    flaw: Option<String>,
}

/// What of the metadata is kept where the rest cannot be read. An API server sets or checks these.
const METADATA: [&str; 8] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "labels",
    "annotations",
    "finalizers",
];

impl<K: Resource> Tolerant<K>
where
    K::DynamicType: Default,
{
    /// The object, or what of it could be read. Says in the log that this is not all.
    pub fn into_object(self) -> K {
        self.into_parts().0
    }

    /// The same, and why that is not all, if it is not.
    pub fn into_parts(self) -> (K, Option<String>) {
        if let Some(flaw) = &self.flaw {
            let metadata = self.object.meta();
            tracing::warn!(
                kind = %K::kind(&K::DynamicType::default()),
                cluster = metadata.namespace.as_ref().or(metadata.name.as_ref()),
                name = metadata.name,
                error = flaw,
                "an object cannot be read, and is taken without what is wrong with it"
            );
        }
        (self.object, self.flaw)
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Tolerant<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As text, so that what is well-formed is parsed once, and not by way of a tree.
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let error = match serde_json::from_str(text.get()) {
            Ok(object) => return Ok(Self { object, flaw: None }),
            Err(error) => error,
        };
        let value: Value = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let read = [
            without_status(&value),
            outline(&value, value.get("spec").cloned()),
            outline(&value, Some(Value::Object(Map::new()))),
            outline(&value, None),
        ]
        .iter()
        .find_map(|part| K::deserialize(part).ok());
        let object = read.ok_or_else(|| D::Error::custom(&error))?;
        Ok(Self {
            object,
            flaw: Some(error.to_string()),
        })
    }
}

fn without_status(value: &Value) -> Value {
    let mut rest = value.clone();
    if let Some(fields) = rest.as_object_mut() {
        fields.remove("status");
    }
    rest
}

/// Its metadata, and `spec` if there is any.
fn outline(value: &Value, spec: Option<Value>) -> Value {
    let known = value.get("metadata").and_then(Value::as_object);
    let mut metadata: Map<String, Value> = METADATA
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), known?.get(*field)?.clone())))
        .collect();
    // That it is going is told, whatever the time.
    if let Some(time) = known.and_then(|known| known.get("deletionTimestamp")) {
        let is_readable = time
            .as_str()
            .is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok());
        let epoch = Value::from("1970-01-01T00:00:00Z");
        metadata.insert(
            "deletionTimestamp".to_owned(),
            if is_readable { time.clone() } else { epoch },
        );
    }
    let mut fields: Map<String, Value> = ["apiVersion", "kind"]
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), value.get(*field)?.clone())))
        .collect();
    fields.insert("metadata".to_owned(), Value::Object(metadata));
    fields.extend(spec.map(|spec| ("spec".to_owned(), spec)));
    Value::Object(fields)
}

impl<K: Resource> Resource for Tolerant<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        self.object.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.object.meta_mut()
    }
}

#[cfg(test)]
mod tests {
    use argosy_api::{ManagedCluster, ManifestWork, WorkStatus};
    use k8s_openapi::api::coordination::v1::Lease;
    use kube::{ResourceExt, core::ObjectList};
    use serde_json::json;

    use super::*;

    fn read<K: Resource<DynamicType = ()> + DeserializeOwned>(value: Value) -> (K, Option<String>) {
        serde_json::from_value::<Tolerant<K>>(value).unwrap().into_parts()
    }

    #[test]
    fn what_is_well_formed_is_read_whole() {
        let (report, flaw) = read::<WorkStatus>(json!({
            "metadata": { "name": "a" }, "status": { "phase": "Running" }, "reported": { "attempt": 2 },
        }));
        assert_eq!(flaw, None);
        assert_eq!(report.reported.unwrap().attempt, 2);
    }

    #[test]
    fn one_malformed_object_fails_no_list() {
        let list = json!({
            "apiVersion": "v1", "kind": "List", "metadata": {},
            "items": [
                { "metadata": { "name": "a" }, "reported": { "attempt": "many" } },
                { "metadata": { "name": "b" }, "reported": { "attempt": 1 } },
            ],
        });
        let text = list.to_string();
        let list: ObjectList<Tolerant<WorkStatus>> = serde_json::from_str(&text).unwrap();
        let flaws: Vec<bool> = list.items.iter().map(|item| item.flaw.is_some()).collect();
        assert_eq!(flaws, [true, false]);
        assert_eq!(list.items[0].name_any(), "a");
    }

    #[test]
    fn what_an_administrator_has_written_outlives_a_malformed_status() {
        let (cluster, flaw) = read::<ManagedCluster>(json!({
            "metadata": { "name": "a" }, "spec": { "hubAcceptsClient": true },
            "status": { "conditions": [{ "type": "A", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "10000-01-01T00:00:00Z" }] },
        }));
        assert!(flaw.is_some());
        assert!(cluster.spec.hub_accepts_client);
        assert_eq!(cluster.status, None);
    }

    #[test]
    fn a_lease_of_the_year_ten_thousand_is_a_lease_that_nobody_renews() {
        let (lease, flaw) = read::<Lease>(json!({
            "metadata": { "name": "a", "namespace": "b", "managedFields": [{ "time": "10000-01-01T00:00:00Z" }] },
            "spec": { "renewTime": "10000-01-01T00:00:00.000000Z" },
        }));
        assert!(flaw.is_some());
        assert_eq!(
            (lease.name_any(), lease.namespace()),
            ("a".to_owned(), Some("b".to_owned()))
        );
        assert_eq!(lease.spec.and_then(|spec| spec.renew_time), None);
    }

    #[test]
    fn what_is_going_is_going_whatever_else_is_wrong_with_it() {
        let (work, flaw) = read::<ManifestWork>(json!({
            "metadata": { "name": "a", "deletionTimestamp": "10000-01-01T00:00:00Z", "finalizers": ["f"] },
            "spec": {}, "status": [],
        }));
        assert!(flaw.is_some());
        assert!(work.metadata.deletion_timestamp.is_some());
        assert_eq!(work.metadata.finalizers, Some(vec!["f".to_owned()]));
    }
}
