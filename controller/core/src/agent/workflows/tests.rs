//! Tables of the agent's decisions, one file per behavior. This file has the cluster that they
//! share.
//!
//! The agent is that of cluster1. The WDS object has UID `u1`, and its object on the cluster is
//! `argo/w`.

mod control;
mod copies;
mod creating;
mod delaying;
mod deleting;
mod doubting;
mod ending;
mod failing;
mod fencing;
mod forgetting;
mod rebuilding;
mod reporting;
mod withdrawing;

use std::collections::HashSet;

use jiff::SignedDuration;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::{
    Reconcile, WorkflowKey,
    model::json_patch::JsonPatch,
    testing::{read, with},
};

struct Cluster {
    agent: RunIndex,
    version: u64,
    now: Timestamp,
}

fn now() -> Timestamp {
    "2026-11-21T10:00:00Z".parse().unwrap()
}

fn origin() -> OriginUid {
    "u1".into()
}

fn key() -> WorkflowKey {
    WorkflowKey::new("argo", "w")
}

/// The object that the agent reads if attempt 1 may have been created.
fn sought() -> Sought {
    Sought {
        key: key(),
        attempt: 1,
        uid: None,
    }
}

fn deleting(object: Value) -> Value {
    with(
        object,
        json!({ "metadata": { "deletionTimestamp": "2026-11-21T09:30:00Z" } }),
    )
}

/// The manifest of an attempt, as the controller sends it.
fn manifest(attempt: u64) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {
            "namespace": "argo", "name": "w",
            "labels": { "team": "a", "argosy.dev/cluster": "cluster1", "argosy.dev/origin-uid": "u1" },
            "annotations": { "argosy.dev/attempt": attempt.to_string() },
        },
        "spec": { "entrypoint": "main" },
    })
}

fn work(attempt: u64) -> Value {
    json!({
        "metadata": {
            "namespace": "cluster1", "name": "argosy-u1", "uid": "work", "finalizers": ["argosy.dev/agent"],
            "labels": { "argosy.dev/origin-uid": "u1" },
            "annotations": { "argosy.dev/attempt": attempt.to_string() },
        },
        "spec": { "workload": { "manifests": [manifest(attempt)] } },
    })
}

fn asked_back(attempt: u64) -> Value {
    with(
        work(attempt),
        json!({ "metadata": { "annotations": { "argosy.dev/withdraw": attempt.to_string() } } }),
    )
}

fn applied(attempt: u64) -> Value {
    let applied = json!({
        "type": "Applied", "status": "True", "reason": "Created", "message": "argo/w was created",
        "lastTransitionTime": "2026-11-21T09:00:00Z",
    });
    let available = with(applied.clone(), json!({ "type": "Available" }));
    with(
        work(attempt),
        json!({ "status": { "conditions": [applied, available] } }),
    )
}

/// The object on the cluster, in the given phase.
fn object(attempt: u64, phase: &str) -> Value {
    let ours = json!({ "metadata": { "uid": "object", "finalizers": ["argosy.dev/agent"] } });
    let object = with(manifest(attempt), ours);
    if phase.is_empty() {
        object
    } else {
        with(object, json!({ "status": { "phase": phase } }))
    }
}

fn record(attempt: u64, outcome: &str) -> Value {
    json!({
        "metadata": {
            "name": "argosy-u1", "uid": "record", "labels": { "argosy.dev/origin-uid": "u1" },
            "annotations": { "argosy.dev/attempt": attempt.to_string(), "argosy.dev/outcome": outcome },
        },
        "spec": { "hubHash": "", "manifestWorkName": "argosy-u1" },
    })
}

/// A WorkStatus that differs from the present state of the object.
fn written(attempt: u64) -> Value {
    json!({ "metadata": {
        "namespace": "cluster1", "name": "argosy-u1", "labels": { "argosy.dev/origin-uid": "u1" },
        "annotations": { "argosy.dev/attempt": attempt.to_string(), "argosy.dev/digest": "0" },
    } })
}

impl Cluster {
    fn new() -> Self {
        let mut cluster = Self {
            agent: RunIndex::new(AgentConfig {
                cluster: "cluster1".into(),
                cluster_id: None,
                request_lifetime: crate::index::reconciler::REQUEST_LIFETIME,
                argo_instance: None,
                conditions_on_demand: false,
            }),
            version: 100,
            now: now(),
        };
        cluster.learn(AgentInput::work(Change::Reset(Vec::new())));
        cluster.learn(AgentInput::work_status(Change::Reset(Vec::new())));
        cluster.learn(AgentInput::record(Change::Reset(Vec::new())));
        cluster.learn(AgentInput::object(Change::Reset(Vec::new())));
        cluster
    }

    /// A cluster whose mailbox holds this ManifestWork.
    fn of(work: Value) -> Self {
        let mut cluster = Self::new();
        cluster.work(work);
        cluster
    }

    /// A cluster on which attempt 1 runs and has been reported to the hub.
    fn running(phase: &str) -> Self {
        let mut cluster = Self::of(applied(1));
        cluster.object(object(1, phase));
        cluster.report();
        cluster
    }

    fn next<K: DeserializeOwned>(&mut self, object: Value) -> K {
        self.version += 1;
        read(with(
            object,
            json!({ "metadata": { "resourceVersion": self.version.to_string() } }),
        ))
    }

    fn learn(&mut self, input: AgentInput) -> BTreeSet<OriginUid> {
        self.agent.apply(input, self.now)
    }

    fn work(&mut self, object: Value) {
        let object = Box::new(self.next(object));
        self.learn(AgentInput::work(Change::Apply(object)));
    }

    fn work_gone(&mut self, object: Value) {
        let object = Box::new(self.next(object));
        self.learn(AgentInput::work(Change::Delete(object)));
    }

    fn object(&mut self, object: Value) {
        let object = Box::new(self.next(object));
        self.learn(AgentInput::object(Change::Apply(object)));
    }

    fn object_gone(&mut self, object: Value) {
        let object = Box::new(self.next(object));
        self.learn(AgentInput::object(Change::Delete(object)));
    }

    fn record(&mut self, object: Value) {
        let object = Box::new(self.next(object));
        self.learn(AgentInput::record(Change::Apply(object)));
    }

    fn work_status(&mut self, object: Value) {
        let object = Box::new(self.next(object));
        self.learn(AgentInput::work_status(Change::Apply(object)));
    }

    /// Stores the report that is decided, if there is one.
    fn report(&mut self) {
        if let Some(AgentAction::WriteStatus { status, .. }) = self.decide() {
            self.work_status(serde_json::to_value(*status).unwrap());
        }
    }

    fn fail(&mut self, failure: &Failure) {
        let action = self.decide().expect("there is something to fail");
        self.agent.failed(&origin(), &action, failure, self.now);
    }

    fn decide(&self) -> Option<AgentAction> {
        self.agent.decide(&origin(), self.now).action
    }

    /// Advances the clock.
    fn wait(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    fn wait_milliseconds(&mut self, milliseconds: i64) {
        self.now += SignedDuration::from_millis(milliseconds);
    }

    /// Nothing is decided for this number of seconds. Advances the clock to their end.
    #[track_caller]
    fn waits(&mut self, seconds: i64) {
        let end = self.now + SignedDuration::from_secs(seconds);
        assert_eq!(self.agent.decide(&origin(), self.now), Decision::requeue_at(end));
        self.now = end;
    }

    #[track_caller]
    fn rests(&self) {
        assert_eq!(self.decide(), None);
    }

    #[track_caller]
    fn created(&self) -> Workflow {
        match self.decide() {
            Some(AgentAction::Create { object, .. }) => *object,
            other => panic!("expected a creation, not {other:#?}"),
        }
    }

    /// The conditions that are written, as `Type=Status Reason`.
    #[track_caller]
    fn conditions(&self) -> Vec<String> {
        match self.decide() {
            Some(AgentAction::Conditions { conditions, .. }) => conditions
                .iter()
                .map(|one| format!("{}={} {}", one.type_, one.status, one.reason))
                .collect(),
            other => panic!("expected conditions, not {other:#?}"),
        }
    }

    /// The outcome that is recorded.
    #[track_caller]
    fn recorded(&self) -> String {
        match self.decide() {
            Some(AgentAction::Record(record)) => {
                record.metadata.annotations.unwrap()["argosy.dev/outcome"].clone()
            }
            other => panic!("expected a record, not {other:#?}"),
        }
    }

    /// Stores the record that is decided, with a version and UID from the cluster.
    #[track_caller]
    fn keep_record(&mut self) {
        let Some(AgentAction::Record(record)) = self.decide() else {
            panic!("expected a record");
        };
        let named = json!({ "metadata": { "uid": "record" } });
        self.record(with(serde_json::to_value(*record).unwrap(), named));
    }

    #[track_caller]
    fn release(&self) -> JsonPatch {
        match self.decide() {
            Some(AgentAction::Release { patch, .. }) => patch,
            other => panic!("expected the ManifestWork's release, not {other:#?}"),
        }
    }
}
