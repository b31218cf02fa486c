//! Tables of the controller's decisions, one file per behavior, and the fleet that they share.
//!
//! The fleet has two clusters, a policy for each and one for both, and the Workflow `argo/w` with
//! UID `u1`.

mod answers;
mod artifacts;
mod best_cluster;
mod born;
mod claiming;
mod clusters;
mod control;
mod cordoning;
mod counting;
mod deleting;
mod demand;
mod events;
mod everywhere;
mod keeping;
mod late;
mod losing;
mod mirroring;
mod moving;
mod order;
mod pausing;
mod placing;
mod policies;
mod rebuilding;
mod refusing;
mod removing;
mod reporting;
mod sending;
mod templates;
mod transforms;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::{
    Reconcile,
    testing::{read, with},
};

struct Fleet {
    hub: WorkflowIndex,
    version: u64,
}

fn now() -> Timestamp {
    "2026-11-21T10:00:00Z".parse().unwrap()
}

fn after(seconds: i64) -> Timestamp {
    now().saturating_add(SignedDuration::from_secs(seconds)).unwrap()
}

fn key() -> WorkflowKey {
    WorkflowKey::new("argo", "w")
}

/// A Workflow as a user creates it for a cluster.
fn held(cluster: &str) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {
            "namespace": "argo", "name": "w", "uid": "u1", "labels": { "kubestellar.io/cluster": cluster },
        },
        "spec": { "suspend": true, "entrypoint": "main" },
    })
}

/// The same Workflow after its claim was written.
fn claimed(cluster: &str, attempt: u64) -> Value {
    let claim = json!({ "cluster": cluster, "attempt": attempt, "uid": "u1", "status": true });
    with(
        held(cluster),
        json!({
            "metadata": {
                "labels": {
                    "argosy.dev/cluster": cluster,
                    "workflows.argoproj.io/completed": "true", "workflows.argoproj.io/phase": "Pending",
                },
                "annotations": { "argosy.dev/claim": claim.to_string() },
                "finalizers": ["argosy.dev/controller"],
            },
            "status": { "phase": "Pending", "conditions": [dispatched(cluster, attempt)] },
        }),
    )
}

fn dispatched(cluster: &str, attempt: u64) -> Value {
    json!({ "type": "Dispatched", "status": "True", "message": format!("Claimed: sent to {cluster}, attempt {attempt}") })
}

fn work(cluster: &str, attempt: u64) -> Value {
    json!({
        "metadata": {
            "namespace": cluster, "name": "argosy-u1", "uid": format!("work-{cluster}"),
            "labels": { "argosy.dev/origin-uid": "u1" }, "finalizers": ["argosy.dev/agent"],
            "annotations": { "argosy.dev/attempt": attempt.to_string() },
        },
        "spec": {},
    })
}

fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": "said by the agent",
        "lastTransitionTime": "2026-11-21T09:00:00Z",
    })
}

fn work_with(cluster: &str, attempt: u64, conditions: &[Value]) -> Value {
    with(
        work(cluster, attempt),
        json!({ "status": { "conditions": conditions } }),
    )
}

/// A ManifestWork whose agent has created the object.
fn started(cluster: &str, attempt: u64) -> Value {
    work_with(cluster, attempt, &[condition("Applied", "True", "Created")])
}

/// A ManifestWork whose agent was asked to withdraw the attempt.
fn asked(cluster: &str, attempt: u64, conditions: &[Value]) -> Value {
    let annotations =
        json!({ "metadata": { "annotations": { "argosy.dev/withdraw": attempt.to_string() } } });
    with(work_with(cluster, attempt, conditions), annotations)
}

fn promised(cluster: &str, attempt: u64) -> Value {
    asked(
        cluster,
        attempt,
        &[condition("Withdrawn", "True", "NeverCreated")],
    )
}

fn deleting(object: Value) -> Value {
    with(
        object,
        json!({ "metadata": { "deletionTimestamp": "2026-11-21T10:00:00Z" } }),
    )
}

fn report(cluster: &str, attempt: u64, status: Value) -> Value {
    let mut report = json!({
        "metadata": {
            "namespace": cluster, "name": "argosy-u1", "uid": "r1", "labels": { "argosy.dev/origin-uid": "u1" },
        },
        "reported": { "attempt": attempt },
    });
    report["status"] = status;
    report
}

fn cluster(name: &str) -> Value {
    let available = json!({
        "type": "ManagedClusterConditionAvailable", "status": "True", "reason": "LeaseRenewed",
        "message": "the cluster's agent renews its lease", "lastTransitionTime": "2026-11-21T09:00:00Z",
    });
    json!({
        "metadata": { "name": name, "labels": { "name": name } }, "spec": {}, "status": { "conditions": [available] },
    })
}

fn lease(cluster: &str, renewed: &str) -> Value {
    json!({
        "metadata": { "namespace": cluster, "name": "managed-cluster-lease" },
        "spec": { "renewTime": format!("2026-11-21T{renewed}.000000Z"), "leaseDurationSeconds": 30 },
    })
}

fn policy(name: &str, clusters: Value) -> Value {
    let mut policy = json!({
        "metadata": { "name": name, "uid": name, "generation": 1 },
        "spec": {
            "clusterSelectors": [{}],
            "downsync": [{
                "apiGroup": "argoproj.io", "resources": ["workflows"], "wantSingletonReportedState": true,
                "objectSelectors": [{ "matchLabels": { "kubestellar.io/cluster": name } }],
            }],
        },
    });
    policy["spec"]["clusterSelectors"][0]["matchLabels"] = clusters;
    policy
}

impl Fleet {
    fn new() -> Self {
        Self::with_guard(false)
    }

    fn with_guard(is_guarded: bool) -> Self {
        let mut fleet = Self {
            hub: WorkflowIndex::new(HubConfig {
                wds_name: "wds1".to_owned(),
                is_guarded,
                request_lifetime: crate::index::reconciler::REQUEST_LIFETIME,
                report_budget: crate::REPORT_BUDGET,
                workflow_budget: crate::WORKFLOW_BUDGET,
            }),
            version: 100,
        };
        fleet.learn(HubInput::workflow(Change::Reset(Vec::new())));
        fleet.learn(HubInput::Transform(Change::Reset(Vec::new())));
        let namespace = json!({ "metadata": { "name": "argo", "labels": { "team": "a" } } });
        fleet.learn(HubInput::Namespace(Change::Reset(vec![read(namespace)])));
        fleet.learn(HubInput::Template(Change::Reset(Vec::new())));
        fleet.learn(HubInput::ClusterTemplate(Change::Reset(Vec::new())));
        fleet.learn(HubInput::work(Change::Reset(Vec::new())));
        fleet.learn(HubInput::report(Change::Reset(Vec::new())));
        let names = ["cluster1", "cluster2"];
        let clusters = names.map(|name| read(fleet.next(cluster(name)))).into();
        fleet.learn(HubInput::Cluster(Change::Reset(clusters)));
        let leases = names.map(|name| read(fleet.next(lease(name, "10:00:00")))).into();
        fleet.learn(HubInput::Lease(Change::Reset(leases)));
        let policies = [
            policy("cluster1", json!({ "name": "cluster1" })),
            policy("cluster2", json!({ "name": "cluster2" })),
            policy("both", json!({})),
            policy("none", json!({ "name": "cluster9" })),
        ];
        let policies = policies.map(|policy| read(fleet.next(policy))).into();
        fleet.learn(HubInput::Policy(Change::Reset(policies)));
        fleet
    }

    /// A fleet with this Workflow.
    fn of(workflow: Value) -> Self {
        let mut fleet = Self::new();
        fleet.workflow(workflow);
        fleet
    }

    /// The object with the next resource version.
    fn next(&mut self, object: Value) -> Value {
        self.version += 1;
        with(
            object,
            json!({ "metadata": { "resourceVersion": self.version.to_string() } }),
        )
    }

    fn change<K: DeserializeOwned>(&mut self, object: Value) -> Change<K> {
        Change::Apply(Box::new(read(self.next(object))))
    }

    fn learn(&mut self, input: HubInput) -> BTreeSet<HubKey> {
        let mut dirty = self.hub.apply(input, now());
        dirty.extend(self.hub.due());
        dirty
    }

    fn workflow(&mut self, object: Value) -> BTreeSet<HubKey> {
        let change = self.change(object);
        self.learn(HubInput::workflow(change))
    }

    /// Applies the patch to the object, sends the result to the index, and returns it.
    fn written(&mut self, object: Value, patch: &JsonPatch) -> Value {
        let mut written = with(object, json!({ "metadata": { "resourceVersion": "" } }));
        json_patch::patch(&mut written, &read::<json_patch::Patch>(patch.to_value())).unwrap();
        self.workflow(written.clone());
        written
    }

    fn work(&mut self, object: Value) -> BTreeSet<HubKey> {
        let change = self.change(object);
        self.learn(HubInput::work(change))
    }

    fn work_gone(&mut self, object: Value) {
        let object = self.next(object);
        self.learn(HubInput::work(Change::Delete(Box::new(read(object)))));
    }

    fn report(&mut self, object: Value) {
        let change = self.change(object);
        self.learn(HubInput::report(change));
    }

    fn fail(&mut self, failure: &Failure) {
        let action = self.decide().expect("there is something to fail");
        self.hub.failed(&HubKey::Workflow(key()), &action, failure, now());
    }

    fn decide(&self) -> Option<HubAction> {
        self.hub.decide(&HubKey::Workflow(key()), now()).action
    }

    /// The patch of the next decision, which must be for `purpose`.
    #[track_caller]
    fn patch(&self, purpose: Purpose) -> JsonPatch {
        match self.decide() {
            Some(HubAction::PatchWorkflow {
                patch,
                purpose: decided,
                ..
            }) if decided == purpose => patch,
            other => panic!("expected a patch for {purpose:?}, not {other:#?}"),
        }
    }

    #[track_caller]
    fn rests(&self) {
        assert_eq!(self.decide(), None);
    }

    /// The conditions in the patch of the next decision, as `Type=Status Reason`.
    #[track_caller]
    fn conditions(&self, purpose: Purpose) -> Vec<String> {
        let patch = self.patch(purpose);
        let whole = patch
            .value_at("/status")
            .and_then(|status| status.get("conditions"));
        let conditions = patch
            .value_at("/status/conditions")
            .or(whole)
            .and_then(Value::as_array);
        conditions
            .expect("conditions are written")
            .iter()
            .map(short)
            .collect()
    }

    /// The ManifestWork that the next decision creates.
    #[track_caller]
    fn created(&self) -> (ClusterName, ManifestWork) {
        match self.decide() {
            Some(HubAction::CreateWork { cluster, work }) => (cluster, *work),
            other => panic!("expected a ManifestWork, not {other:#?}"),
        }
    }
}

fn short(condition: &Value) -> String {
    let field = |name| condition.get(name).and_then(Value::as_str).unwrap_or_default();
    let reason = field("message").split(':').next().unwrap_or_default();
    format!("{}={} {reason}", field("type"), field("status"))
}
