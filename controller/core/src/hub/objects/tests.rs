//! Tables of decisions about objects that are no Workflows, one file per behavior. Here are the
//! fake WDS and ITS that they share.
//!
//! Both are maps. The actions of the index are carried out on them, and the changes are fed back as
//! watch events.

mod collecting;
mod copies;
mod crons;
mod kinds;
mod late;
mod many_policies;
mod needs;
mod order;
mod policies;
mod quiet;
mod removing;
mod returning;
mod templates;
mod transforms;
mod unseen;

use std::collections::VecDeque;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::{
    Reconcile,
    model::json_patch::JsonPatch,
    testing::{read, with},
};

fn start() -> Timestamp {
    "2026-11-21T10:00:00Z".parse().unwrap()
}

fn kind(group: &str, resource: &str, kind: &str, is_namespaced: bool, has_status: bool) -> Kind {
    Kind {
        group: group.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        kind: kind.to_owned(),
        is_namespaced,
        has_status,
    }
}

fn config_maps() -> Kind {
    kind("", "configmaps", "ConfigMap", true, false)
}

fn deployments() -> Kind {
    kind("apps", "deployments", "Deployment", true, true)
}

fn namespaces() -> Kind {
    kind("", "namespaces", "Namespace", false, true)
}

/// The ConfigMap `team/settings` with UID `c1`.
fn settings() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "namespace": "team", "name": "settings", "uid": "c1", "labels": { "app": "web" } },
        "data": { "a": "1" },
    })
}

/// The Deployment `team/web` with UID `d1`.
fn web() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "namespace": "team", "name": "web", "uid": "d1", "labels": { "app": "web" } },
        "spec": { "replicas": 2 },
    })
}

/// A policy that sends objects with the label `app: web` to clusters with these labels.
fn policy(name: &str, clusters: &Value) -> Value {
    json!({
        "metadata": { "name": name, "uid": format!("policy-{name}"), "generation": 1 },
        "spec": {
            "clusterSelectors": [{ "matchLabels": clusters }],
            "downsync": [{ "objectSelectors": [{ "matchLabels": { "app": "web" } }] }],
        },
    })
}

fn wanting(policy: Value, wanted: Value) -> Value {
    let clause = with(policy["spec"]["downsync"][0].clone(), wanted);
    with(policy, json!({ "spec": { "downsync": [clause] } }))
}

/// The index, and the WDS and ITS that it talks to.
struct Spaces {
    index: ObjectIndex,
    version: u64,
    now: Timestamp,
    /// WDS objects by UID.
    objects: BTreeMap<String, Value>,
    policies: BTreeMap<String, Value>,
    bindings: BTreeMap<String, Value>,
    collectors: BTreeMap<String, Value>,
    combined: BTreeMap<String, Value>,
    /// ManifestWorks by cluster and name.
    works: BTreeMap<(String, String), Value>,
    /// WorkStatuses by cluster and UID.
    reports: BTreeMap<(String, String), Value>,
    /// Requests in the order they were made, as they are shown in logs.
    log: Vec<String>,
    /// Events for users about these requests.
    told: Vec<String>,
    /// Keys to be decided again when time has passed.
    pending: BTreeSet<DownsyncKey>,
    /// Clusters take time to delete an object.
    is_slow: bool,
    /// The WDS refuses reads of objects.
    refuses_reads: bool,
}

impl Spaces {
    /// Clusters `cluster1` and `cluster2`, three kinds, and nothing else.
    fn new() -> Self {
        let kinds = vec![config_maps(), deployments(), namespaces()];
        let mut spaces = Self {
            index: ObjectIndex::new(DownsyncConfig {
                wds_name: "wds1".to_owned(),
                is_guarded: true,
                linger: LINGER,
            }),
            version: 0,
            now: start(),
            objects: BTreeMap::new(),
            policies: BTreeMap::new(),
            bindings: BTreeMap::new(),
            collectors: BTreeMap::new(),
            combined: BTreeMap::new(),
            works: BTreeMap::new(),
            reports: BTreeMap::new(),
            log: Vec::new(),
            told: Vec::new(),
            pending: BTreeSet::new(),
            is_slow: false,
            refuses_reads: false,
        };
        spaces.learn(DownsyncInput::Kinds(kinds.clone()));
        for input in spaces.lists(&[]) {
            spaces.learn(input);
        }
        for kind in kinds {
            spaces.learn(DownsyncInput::object(Arc::new(kind), Change::Reset(Vec::new())));
        }
        spaces
    }

    /// The lists of all kinds that are always watched, of stored objects and these WorkStatuses.
    fn lists(&self, reports: &[Value]) -> Vec<DownsyncInput> {
        fn list<'a, K: DeserializeOwned>(objects: impl IntoIterator<Item = &'a Value>) -> Change<K> {
            Change::Reset(objects.into_iter().cloned().map(read).collect())
        }
        let system = json!({ "metadata": { "name": "kube-system", "uid": "space" } });
        let clusters = ["cluster1", "cluster2"].map(|name| managed(name, json!({})));
        vec![
            DownsyncInput::Policy(list(self.policies.values())),
            DownsyncInput::Transform(Change::Reset(Vec::new())),
            DownsyncInput::Namespace(list([&system])),
            DownsyncInput::Binding(list(self.bindings.values())),
            DownsyncInput::Cluster(list(&clusters)),
            DownsyncInput::Properties(Change::Reset(Vec::new())),
            DownsyncInput::SecretProperties(Change::Reset(Vec::new())),
            DownsyncInput::work(list(self.works.values())),
            DownsyncInput::report(list(reports)),
            DownsyncInput::Collector(list(self.collectors.values())),
            DownsyncInput::Combined(list(self.combined.values())),
        ]
    }

    /// Replaces the index by one that knows nothing.
    fn forget(&mut self) {
        self.index = ObjectIndex::new(DownsyncConfig {
            wds_name: "wds1".to_owned(),
            is_guarded: true,
            linger: LINGER,
        });
        self.log.clear();
    }

    fn next(&mut self, object: Value) -> Value {
        self.version += 1;
        let version = self.version.to_string();
        with(object, json!({ "metadata": { "resourceVersion": version } }))
    }

    /// Learns an input, and carries out actions until there are none left.
    fn learn(&mut self, input: DownsyncInput) {
        let dirty = self.index.apply(input, self.now);
        self.settle(dirty);
    }

    fn settle(&mut self, dirty: BTreeSet<DownsyncKey>) {
        let mut queue: VecDeque<DownsyncKey> = dirty.into_iter().collect();
        let mut steps = 0;
        while let Some(key) = queue.pop_front() {
            steps += 1;
            assert!(steps < 10_000, "{key} does not settle: {:#?}", self.log);
            let decision = self.index.decide(&key, self.now);
            if decision.requeue_at.is_some() {
                self.pending.insert(key.clone());
            }
            let Some(action) = decision.action else { continue };
            self.index.started(&key);
            self.log.push(format!("{key}: {action}"));
            if self.refuses_reads && matches!(action, DownsyncAction::Read(_)) {
                let failure = Failure::Refused("it is forbidden".to_owned());
                queue.extend(self.index.failed(&key, &action, &failure, self.now));
                continue;
            }
            self.told.extend(crons::told_of(&action));
            let answer = self.carry_out(&action);
            queue.extend(self.index.succeeded(&key, answer, self.now));
            queue.push_back(key);
        }
    }

    /// Lets some seconds pass, after which numbers are written again.
    fn pass(&mut self, seconds: i64) {
        self.now = self
            .now
            .saturating_add(jiff::SignedDuration::from_secs(seconds))
            .unwrap();
        let dirty = self.index.every_key();
        self.settle(dirty);
    }

    fn carry_out(&mut self, action: &DownsyncAction) -> DownsyncInput {
        match action {
            DownsyncAction::Read(place) => {
                let Some(object) = self.objects.get(place.uid.as_str()).cloned() else {
                    return DownsyncInput::ObjectGone(place.uid.clone());
                };
                DownsyncInput::object(Arc::clone(&place.kind), Change::Apply(read(object)))
            }
            DownsyncAction::ReadReport { .. } => self.reported(action),
            DownsyncAction::CreateWork {
                cluster,
                work,
                digest,
            } => {
                let name = work.metadata.name.clone().unwrap();
                let work = with(
                    json!(work),
                    json!({ "metadata": { "uid": format!("{cluster}/{name}"), "generation": 1 } }),
                );
                let work = self.next(work);
                let taken = self.works.insert((cluster.to_string(), name), work.clone());
                assert_eq!(taken, None, "it was there");
                DownsyncInput::wrote_work(*digest, read(work))
            }
            DownsyncAction::ChangeWork {
                cluster,
                origin,
                patch,
                digest,
            } => {
                let address = (cluster.to_string(), names_of(origin));
                let work = self.patched(self.works[&address].clone(), patch);
                self.works.insert(address, work.clone());
                DownsyncInput::wrote_work(*digest, read(work))
            }
            DownsyncAction::DeleteWork { cluster, origin, .. } if self.is_slow => {
                let address = (cluster.to_string(), names_of(origin));
                let deleting = json!({ "metadata": { "deletionTimestamp": "2026-11-21T09:00:00Z" } });
                let work = self.next(with(self.works[&address].clone(), deleting));
                self.works.insert(address, work.clone());
                DownsyncInput::work(Change::Apply(read(work)))
            }
            DownsyncAction::ReleaseWork {
                cluster,
                origin,
                patch,
            } => {
                let address = (cluster.to_string(), names_of(origin));
                let work = self.patched(self.works[&address].clone(), patch);
                self.works.insert(address, work.clone());
                DownsyncInput::work(Change::Apply(read(work)))
            }
            DownsyncAction::DeleteWork { cluster, origin, .. }
            | DownsyncAction::DropWork { cluster, origin, .. } => {
                self.works.remove(&(cluster.to_string(), names_of(origin)));
                DownsyncInput::WorkGone(cluster.clone(), origin.clone())
            }
            DownsyncAction::PatchObject { place, patch, .. } => {
                let object = self.patched(self.objects[place.uid.as_str()].clone(), patch);
                self.objects.insert(place.uid.to_string(), object.clone());
                match status_in(patch) {
                    Some(wanted) => {
                        DownsyncInput::wrote_status(Arc::clone(&place.kind), wanted, read(object))
                    }
                    None => DownsyncInput::object(Arc::clone(&place.kind), Change::Apply(read(object))),
                }
            }
            DownsyncAction::PolicyStatus { name, status } => {
                let policy = with(self.policies[name].clone(), json!({ "status": null }));
                let policy = self.next(with(policy, json!({ "status": status })));
                self.policies.insert(name.clone(), policy.clone());
                DownsyncInput::Policy(Change::Apply(read(policy)))
            }
            DownsyncAction::CreateBinding(binding) => {
                let name = binding.metadata.name.clone().unwrap();
                let binding = self.next(with(
                    json!(binding),
                    json!({ "metadata": { "uid": format!("binding-{name}") } }),
                ));
                self.bindings.insert(name, binding.clone());
                DownsyncInput::Binding(Change::Apply(read(binding)))
            }
            DownsyncAction::ChangeBinding { name, patch } => {
                let binding = self.patched(self.bindings[name].clone(), patch);
                self.bindings.insert(name.clone(), binding.clone());
                DownsyncInput::Binding(Change::Apply(read(binding)))
            }
            DownsyncAction::CollectorStatus { name, status } => {
                let collector = with(self.collectors[name].clone(), json!({ "status": null }));
                let collector = self.next(with(collector, json!({ "status": status })));
                self.collectors.insert(name.clone(), collector.clone());
                DownsyncInput::Collector(Change::Apply(read(collector)))
            }
            DownsyncAction::Combine(combining) => self.combine(combining),
            DownsyncAction::DeleteCombined { name, .. } => {
                self.combined.remove(name);
                DownsyncInput::CombinedGone(name.clone())
            }
        }
    }

    fn reported(&self, action: &DownsyncAction) -> DownsyncInput {
        let DownsyncAction::ReadReport {
            cluster,
            origin,
            version,
            ..
        } = action
        else {
            panic!("{action} reads no report");
        };
        let report = self.reports.get(&(cluster.to_string(), origin.to_string()));
        report.map_or_else(
            || DownsyncInput::ReportGone {
                cluster: cluster.clone(),
                origin: origin.clone(),
                version: version.clone(),
            },
            |report| DownsyncInput::report(Change::Apply(read(report.clone()))),
        )
    }

    fn combine(&mut self, combining: &Combining) -> DownsyncInput {
        let content = combining.content.clone();
        let content = content.unwrap_or_else(|| Arc::new(self.objects[combining.place.uid.as_str()].clone()));
        let status = combining.combine(&content);
        let name = status.metadata.name.clone().unwrap();
        if let Some(there) = combining
            .known
            .as_ref()
            .filter(|there| there.says == says(&status))
        {
            return DownsyncInput::CombinedStands(name, there.resource_version.clone(), combining.digest);
        }
        let status = with(
            json!(status),
            json!({ "metadata": { "uid": format!("combined-{name}") } }),
        );
        let status = self.next(status);
        self.combined.insert(name, status.clone());
        DownsyncInput::WroteCombined(combining.digest, read(status))
    }

    fn patched(&mut self, mut object: Value, patch: &JsonPatch) -> Value {
        let patch: json_patch::Patch = read(patch.to_value());
        let version = object["metadata"]["resourceVersion"].clone();
        json_patch::patch(&mut object, &patch).unwrap();
        assert_eq!(
            object["metadata"]["resourceVersion"], version,
            "it was decided on an older version"
        );
        self.next(object)
    }

    /// A user writes an object of the WDS.
    fn write(&mut self, kind: &Kind, object: Value) {
        let object = self.next(object);
        let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
        self.objects.insert(uid, object.clone());
        self.learn(DownsyncInput::object(
            Arc::new(kind.clone()),
            Change::Apply(read(object)),
        ));
    }

    /// A user deletes an object of the WDS.
    fn delete(&mut self, kind: &Kind, uid: &str) {
        let object = self.objects.remove(uid).unwrap();
        let object = self.next(object);
        self.learn(DownsyncInput::object(
            Arc::new(kind.clone()),
            Change::Delete(read(object)),
        ));
    }

    fn policy(&mut self, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let generation = self
            .policies
            .get(&name)
            .map_or(1, |known| known["metadata"]["generation"].as_i64().unwrap() + 1);
        let object = self.next(with(object, json!({ "metadata": { "generation": generation } })));
        self.policies.insert(name, object.clone());
        self.learn(DownsyncInput::Policy(Change::Apply(read(object))));
    }

    fn delete_policy(&mut self, name: &str) {
        let object = self.policies.remove(name).unwrap();
        self.learn(DownsyncInput::Policy(Change::Delete(read(object))));
    }

    fn cluster(&mut self, name: &str, labels: Value) {
        self.learn(DownsyncInput::Cluster(Change::Apply(read(managed(name, labels)))));
    }

    /// The cluster's agent reports the result of a ManifestWork.
    fn applied(&mut self, cluster: &str, name: &str, status: &str, message: &str) {
        let condition = json!({
            "type": "Applied", "status": status, "reason": "Said", "message": message,
            "lastTransitionTime": "2026-11-21T09:00:00Z",
        });
        let address = (cluster.to_owned(), name.to_owned());
        let work = self.next(with(
            self.works[&address].clone(),
            json!({ "status": { "conditions": [condition] } }),
        ));
        self.works.insert(address, work.clone());
        self.learn(DownsyncInput::work(Change::Apply(read(work))));
    }

    /// The cluster's agent reports the status of an object.
    fn report(&mut self, cluster: &str, uid: &str, status: &Value) {
        let report = self.next(work_status(cluster, uid, status));
        self.reports
            .insert((cluster.to_owned(), uid.to_owned()), report.clone());
        self.learn(DownsyncInput::report(Change::Apply(read(report))));
    }

    /// The contents of the mailboxes, such as `cluster1/c1`.
    fn sent(&self) -> Vec<String> {
        let addresses = self.works.keys();
        addresses
            .map(|(cluster, name)| format!("{cluster}/{}", name.trim_start_matches("argosy-")))
            .collect()
    }

    fn manifest(&self, cluster: &str, uid: &str) -> Value {
        self.work(cluster, uid)["spec"]["workload"]["manifests"][0].clone()
    }

    fn work(&self, cluster: &str, uid: &str) -> Value {
        self.works[&(cluster.to_owned(), format!("argosy-{uid}"))].clone()
    }

    fn status(&self, policy: &str) -> Value {
        self.policies[policy]["status"].clone()
    }

    /// Status and reason of a condition, such as `True Ready`.
    fn condition(&self, policy: &str, type_: &str) -> String {
        let status = self.status(policy);
        let conditions = status["conditions"].as_array().unwrap();
        let known = conditions.iter().find(|one| one["type"] == type_);
        known.map_or_else(String::new, |one| {
            format!(
                "{} {}",
                one["status"].as_str().unwrap(),
                one["reason"].as_str().unwrap()
            )
        })
    }
}

/// A WorkStatus of the object with this UID.
fn work_status(cluster: &str, uid: &str, status: &Value) -> Value {
    json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "WorkStatus",
        "metadata": { "namespace": cluster, "name": format!("argosy-{uid}"), "labels": { "argosy.dev/object-uid": uid } },
        "spec": { "sourceRef": { "group": "", "version": "v1", "resource": "x", "kind": "X", "name": "x" } },
        "status": status,
    })
}

fn managed(name: &str, labels: Value) -> Value {
    let labels = with(json!({ "name": name, "fleet": "a" }), labels);
    json!({ "metadata": { "name": name, "labels": labels }, "spec": {} })
}

fn names_of(origin: &OriginUid) -> String {
    argosy_api::names::work_name(origin.as_str())
}
