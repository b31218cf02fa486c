//! Tables of the applier's decisions, one file per behavior. This file has the cluster that they
//! share.
//!
//! The applier of cluster1 is asked for its next action again and again. A small API server
//! answers; it implements as much of server-side apply as the tables need.

mod adopting;
mod applying;
mod cluster;
mod completing;
mod deleting;
mod discovering;
mod failing;
mod following;
mod reporting;
mod ruling;

use std::collections::BTreeMap;

use argosy_api::names;
use serde_json::{Value, json};

use super::*;
use crate::{
    Reconcile,
    testing::{read, with},
};

/// The applier with its cluster and mailbox.
struct World {
    applier: ManifestIndex,
    now: Timestamp,
    version: u64,
    /// Objects of the cluster, by key.
    objects: BTreeMap<ObjectKey, Value>,
    /// ManifestWorks of the mailbox, by name.
    works: BTreeMap<String, Value>,
    /// Records that OCM's agent left behind, by ManifestWork. They do not have our label, so no
    /// watch reports them.
    left: BTreeMap<String, Value>,
    /// Kinds that are watched.
    watched: BTreeSet<Resource>,
    /// Actions that were carried out, in order.
    done: Vec<String>,
    /// Name of the ServiceAccount that may read ConfigMaps.
    reader: &'static str,
}

fn key(plural: &str, name: &str) -> ObjectKey {
    let (api, namespace) = match plural {
        "configmaps" | "serviceaccounts" => ("v1", "shop"),
        "rolebindings" => ("rbac.authorization.k8s.io/v1", "shop"),
        "namespaces" => ("v1", ""),
        "widgets" => ("example.com/v1", "shop"),
        "cronworkflows" => ("argoproj.io/v1alpha1", "shop"),
        _ => ("apiextensions.k8s.io/v1", ""),
    };
    ObjectKey::new(Resource::new(GroupVersion::parse(api), plural), namespace, name)
}

fn config_map(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "shop" }, "data": { "a": value } })
}

fn widget(name: &str) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name, "namespace": "shop" }, "spec": { "size": 1 } })
}

fn nightly() -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "CronWorkflow", "metadata": { "name": "nightly", "namespace": "shop" },
        "spec": { "schedules": ["@daily"] },
    })
}

/// A ManifestWork that somebody other than Argosy wrote.
fn theirs(manifests: &[Value]) -> Value {
    json!({
        "metadata": { "finalizers": [names::MANIFEST_WORK_FINALIZER] },
        "spec": { "workload": { "manifests": manifests } },
    })
}

/// A ManifestWork as Argosy's controller makes it.
fn ours(manifest: &Value) -> Value {
    with(
        theirs(std::slice::from_ref(manifest)),
        json!({ "metadata": {
        "labels": { names::OBJECT_UID_LABEL: "u1", names::ORIGIN_WDS_LABEL: "wds" },
    } }),
    )
}

/// The `fieldsV1` of all fields of an object. Lists are owned as a whole.
fn fields(value: &Value) -> Value {
    let Value::Object(map) = value else {
        return json!({});
    };
    let noted = map
        .iter()
        .map(|(name, value)| (format!("f:{name}"), fields(value)));
    Value::Object(noted.collect())
}

impl World {
    /// A world whose mailbox `works` has been listed.
    fn new(works: &[(&str, Value)]) -> Self {
        let mut world = Self {
            applier: ManifestIndex::new(ApplierConfig {
                cluster: "cluster1".into(),
                hub_hash: "hub".to_owned(),
                argo_instance: None,
            }),
            now: "2026-11-21T10:00:00Z".parse().unwrap(),
            version: 100,
            objects: BTreeMap::new(),
            works: BTreeMap::new(),
            left: BTreeMap::new(),
            watched: BTreeSet::new(),
            done: Vec::new(),
            reader: "reader",
        };
        for (name, work) in works {
            world.put_work(name, work.clone());
        }
        world.restart();
        world
    }

    /// Restarts the applier; the mailbox and the records are listed again.
    fn restart(&mut self) {
        let records = self.applier.records.keys().cloned().collect::<Vec<_>>();
        let records: Vec<AppliedManifestWork> =
            records.iter().map(|name| self.record(name.as_str())).collect();
        self.applier = ManifestIndex::new(self.applier.config.clone());
        self.watched.clear();
        let works = self.works.values().map(|work| read(work.clone())).collect();
        self.feed(ApplyInput::Work(Change::Reset(works)));
        self.feed(ApplyInput::WorkStatus(Change::Reset(Vec::new())));
        self.feed(ApplyInput::Record(Change::Reset(records)));
    }

    fn record(&self, name: &str) -> AppliedManifestWork {
        let record = &self.applier.records[&WorkName::from(name)];
        read(json!({
            "metadata": { "name": format!("hub-{name}"), "uid": record.uid, "resourceVersion": record.resource_version },
            "spec": { "hubHash": "hub", "manifestWorkName": name },
            "status": { "appliedResources": record.resources },
        }))
    }

    fn feed(&mut self, input: ApplyInput) {
        let now = self.now;
        self.applier.apply(input, now);
    }

    /// Writes a ManifestWork and sends the watch event.
    fn put_work(&mut self, name: &str, work: Value) {
        self.version += 1;
        let generation = self.version;
        let work = with(
            work,
            json!({ "metadata": {
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": self.version.to_string(), "generation": generation,
        } }),
        );
        self.works.insert(name.to_owned(), work.clone());
        self.feed(ApplyInput::Work(Change::Apply(Box::new(read(work)))));
    }

    fn delete_work(&mut self, name: &str) {
        let work = self.works[name].clone();
        self.put_work(
            name,
            with(
                work,
                json!({ "metadata": { "deletionTimestamp": "2026-11-21T09:59:00Z" } }),
            ),
        );
    }

    /// Writes an object to the cluster, and sends the watch event if it has the label.
    fn put(&mut self, key: &ObjectKey, object: Value) {
        self.version += 1;
        let uid = self.objects.get(key).map_or_else(
            || json!(format!("uid-{}", self.version)),
            |there| there["metadata"]["uid"].clone(),
        );
        let object = with(
            object,
            json!({ "metadata": {
            "name": &*key.name, "uid": uid, "resourceVersion": self.version.to_string(),
        } }),
        );
        self.objects.insert(key.clone(), object.clone());
        if is_marked(&object) {
            self.feed(ApplyInput::Objects(
                key.resource.clone(),
                Change::Apply(Box::new(read(object))),
            ));
        }
    }

    /// Another manager sets a field of an object and so becomes its owner.
    fn take(&mut self, key: &ObjectKey, field: &str, value: &str) {
        let mut object = self.objects[key].clone();
        object["data"][field] = json!(value);
        for entry in object["metadata"]["managedFields"].as_array_mut().unwrap() {
            if let Some(data) = entry["fieldsV1"].get_mut("f:data").and_then(Value::as_object_mut) {
                data.remove(&format!("f:{field}"));
                data.insert(".".to_owned(), json!({}));
            }
        }
        self.put(key, object);
    }

    /// Somebody deletes an object.
    fn remove(&mut self, key: &ObjectKey) {
        let object = self.objects.remove(key).unwrap();
        if is_marked(&object) {
            self.feed(ApplyInput::Objects(
                key.resource.clone(),
                Change::Delete(Box::new(read(object))),
            ));
        }
    }

    /// The next decision about a ManifestWork.
    fn decide(&self, name: &str) -> Decision<ApplyAction> {
        self.applier.decide(&name.into(), self.now)
    }

    /// Starts the watches and carries out the decisions until there is none. Returns the actions.
    fn settle(&mut self, name: &str) -> Vec<String> {
        self.done.clear();
        for _ in 0..40 {
            self.watch();
            let Some(action) = self.decide(name).action else {
                return std::mem::take(&mut self.done);
            };
            self.done.push(action.to_string());
            let work = WorkName::from(name);
            self.applier.started(&work);
            let input = self.carry_out(name, action);
            let now = self.now;
            self.applier.succeeded(&work, input, now);
        }
        panic!("it does not come to rest: {:?}", self.done);
    }

    /// Sends the answer to a request for a ManifestWork.
    fn answer(&mut self, name: &str, input: ApplyInput) {
        let (work, now) = (WorkName::from(name), self.now);
        self.applier.started(&work);
        self.applier.succeeded(&work, input, now);
    }

    /// Ends the watches of kinds that are no longer needed, and starts new ones, as the shell does.
    fn watch(&mut self) {
        let kinds: BTreeSet<Resource> = self.applier.kinds().cloned().collect();
        for ended in self.watched.difference(&kinds).cloned().collect::<Vec<_>>() {
            self.feed(ApplyInput::Unwatched(ended));
        }
        let former = std::mem::replace(&mut self.watched, kinds.clone());
        for kind in kinds.difference(&former).cloned() {
            if !self.applier.listings.contains_key(&kind) {
                let of_kind = self
                    .objects
                    .iter()
                    .filter(|(key, object)| key.resource == kind && is_marked(object));
                let live = of_kind.map(|(_, object)| read(object.clone())).collect();
                self.feed(ApplyInput::Objects(kind, Change::Reset(live)));
            }
        }
    }

    /// Status, reason and message of a condition of the ManifestWork, or of its manifest number
    /// `ordinal`.
    fn says(&self, name: &str, ordinal: Option<usize>, type_: &str) -> (String, String, String) {
        let status = &self.works[name]["status"];
        let conditions = match ordinal {
            None => &status["conditions"],
            Some(ordinal) => &status["resourceStatus"]["manifests"][ordinal]["conditions"],
        };
        let known = conditions
            .as_array()
            .unwrap()
            .iter()
            .find(|known| known["type"] == type_);
        let known = known.unwrap_or_else(|| panic!("no {type_} in {conditions}"));
        let text = |field: &str| known[field].as_str().unwrap().to_owned();
        (text("status"), text("reason"), text("message"))
    }

    /// Adds the namespace of the objects in the tables.
    fn with_namespace(mut self) -> Self {
        self.put(&key("namespaces", "shop"), json!({}));
        self
    }

    fn later(&mut self, seconds: i64) {
        self.now = self
            .now
            .saturating_add(jiff::SignedDuration::from_secs(seconds))
            .unwrap();
    }
}

fn is_marked(object: &Value) -> bool {
    object["metadata"]["labels"][names::CLUSTER_LABEL] == json!("cluster1")
}
