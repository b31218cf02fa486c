//! Indexes with a given number of live Workflows, and the objects that are applied to them.

use std::sync::Arc;

use argosy_core::{
    Change, Reconcile,
    agent::workflows::{AgentConfig, AgentInput, RunIndex},
    hub::{
        objects::{DownsyncConfig, DownsyncInput, LINGER, ObjectIndex, kind::Kind},
        workflows::{HubConfig, HubInput, WorkflowIndex},
    },
};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

pub(crate) fn read<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).expect("what is read was written here")
}

pub(crate) fn list<K: DeserializeOwned>(objects: impl IntoIterator<Item = Value>) -> Change<K> {
    Change::Reset(objects.into_iter().map(read).collect())
}

pub(crate) fn change<K: DeserializeOwned>(object: Value) -> Change<K> {
    Change::Apply(Box::new(read(object)))
}

/// The status of a run with `nodes` nodes.
pub(crate) fn status(phase: &str, nodes: usize) -> Value {
    let nodes = (0..nodes).map(|number| {
        let id = format!("w-{number}");
        let node = json!({
            "id": id, "name": format!("w.step-{number}"), "displayName": format!("step-{number}"), "type": "Pod",
            "phase": phase, "templateName": "step", "startedAt": "2026-11-21T10:00:00Z", "progress": "0/1",
        });
        (id, node)
    });
    let nodes: serde_json::Map<String, Value> = nodes.collect();
    json!({ "phase": phase, "startedAt": "2026-11-21T10:00:00Z", "progress": "0/1", "nodes": nodes })
}

/// A Workflow of the WDS that is claimed for `member` and has the status of its run.
pub(crate) fn showing(number: usize, status: &Value) -> Value {
    let mut object = claimed(number);
    let conditions = object["status"]["conditions"].take();
    object["status"] = status.clone();
    object["status"]["conditions"] = conditions;
    object
}

/// A Workflow of the WDS that is claimed for `member`.
pub(crate) fn claimed(number: usize) -> Value {
    let claim = json!({ "cluster": "member", "attempt": 1, "uid": format!("u{number}"), "status": true });
    let dispatched = json!({
        "type": "Dispatched", "status": "True", "message": "Claimed: sent to member, attempt 1",
    });
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {
            "namespace": "argo", "name": format!("w{number}"), "uid": format!("u{number}"), "resourceVersion": "1",
            "labels": {
                "kubestellar.io/cluster": "member", "argosy.dev/cluster": "member",
                "workflows.argoproj.io/completed": "true", "workflows.argoproj.io/phase": "Pending",
            },
            "annotations": { "argosy.dev/claim": claim.to_string() },
            "finalizers": ["argosy.dev/controller"],
        },
        "spec": { "suspend": true, "entrypoint": "main" },
        "status": { "phase": "Pending", "conditions": [dispatched] },
    })
}

/// The run of the Workflow with this number in the WEC.
pub(crate) fn run(number: usize, version: usize, status: &Value) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {
            "namespace": "argo", "name": format!("w{number}"), "uid": format!("run-{number}"),
            "resourceVersion": version.to_string(), "finalizers": ["argosy.dev/agent"],
            "labels": { "argosy.dev/cluster": "member", "argosy.dev/origin-uid": format!("u{number}") },
            "annotations": { "argosy.dev/attempt": "1" },
        },
        "spec": { "entrypoint": "main" },
        "status": status,
    })
}

/// The ManifestWork of the Workflow with this number, after the agent has created its object.
pub(crate) fn work(number: usize) -> Value {
    let condition = |type_: &str| {
        json!({
            "type": type_, "status": "True", "reason": "Created", "message": "created",
            "lastTransitionTime": "2026-11-21T09:00:00Z",
        })
    };
    json!({
        "metadata": {
            "namespace": "member", "name": format!("argosy-u{number}"), "uid": format!("work-{number}"),
            "resourceVersion": "1", "finalizers": ["argosy.dev/agent"],
            "labels": { "argosy.dev/origin-uid": format!("u{number}") },
            "annotations": { "argosy.dev/attempt": "1" },
        },
        "spec": { "workload": { "manifests": [run(number, 1, &Value::Null)] } },
        "status": { "conditions": [condition("Applied"), condition("Available")] },
    })
}

pub(crate) fn report(number: usize, status: &Value) -> Value {
    json!({
        "metadata": {
            "namespace": "member", "name": format!("argosy-u{number}"), "uid": format!("report-{number}"),
            "resourceVersion": "2", "labels": { "argosy.dev/origin-uid": format!("u{number}") },
        },
        "reported": { "attempt": 1 }, "status": status,
    })
}

fn policy() -> Value {
    json!({
        "metadata": { "name": "p", "uid": "p", "generation": 1, "resourceVersion": "1" },
        "spec": {
            "clusterSelectors": [{ "matchLabels": { "name": "member" } }],
            "downsync": [{
                "apiGroup": "argoproj.io", "resources": ["workflows"], "wantSingletonReportedState": true,
                "objectSelectors": [{ "matchLabels": { "kubestellar.io/cluster": "member" } }],
            }],
        },
    })
}

fn cluster() -> Value {
    let available = json!({
        "type": "ManagedClusterConditionAvailable", "status": "True", "reason": "LeaseRenewed", "message": "it is there",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    });
    json!({
        "metadata": { "name": "member", "labels": { "name": "member" }, "resourceVersion": "1" },
        "spec": {}, "status": { "conditions": [available] },
    })
}

/// A controller with one cluster, one policy and running Workflows, whose reports are already
/// mirrored.
pub(crate) fn hub(workflows: usize, told: Option<&Value>) -> WorkflowIndex {
    let mut hub = WorkflowIndex::new(HubConfig {
        wds_name: "wds".to_owned(),
        is_guarded: true,
        request_lifetime: argosy_core::index::reconciler::REQUEST_LIFETIME,
        report_budget: argosy_core::REPORT_BUDGET,
        workflow_budget: argosy_core::WORKFLOW_BUDGET,
    });
    let lease = json!({
        "metadata": { "namespace": "member", "name": "managed-cluster-lease", "resourceVersion": "1" },
        "spec": { "renewTime": "1970-01-01T00:00:00.000000Z", "leaseDurationSeconds": 30 },
    });
    let namespace = json!({ "metadata": { "name": "argo", "resourceVersion": "1" } });
    for input in [
        HubInput::Transform(list([])),
        HubInput::Namespace(list([namespace])),
        HubInput::Template(Change::Reset(Vec::new())),
        HubInput::ClusterTemplate(Change::Reset(Vec::new())),
        HubInput::Cluster(list([cluster()])),
        HubInput::Lease(list([lease])),
        HubInput::Policy(list([policy()])),
        HubInput::workflow(list([])),
        HubInput::work(list([])),
        HubInput::report(list([])),
    ] {
        hub.apply(input, now());
    }
    // One by one, as watches deliver them.
    for number in 0..workflows {
        let workflow = told.map_or_else(|| claimed(number), |status| showing(number, status));
        hub.apply(HubInput::workflow(change(workflow)), now());
        hub.apply(HubInput::work(change(work(number))), now());
        if let Some(status) = told {
            hub.apply(HubInput::report(change(report(number, status))), now());
        }
    }
    hub
}

/// The controller's index of all objects, which counts Workflows for Bindings.
pub(crate) fn downsync(workflows: usize) -> ObjectIndex {
    let mut index = ObjectIndex::new(DownsyncConfig {
        wds_name: "wds".to_owned(),
        is_guarded: true,
        linger: LINGER,
    });
    let kind = Kind {
        group: "argoproj.io".to_owned(),
        version: "v1alpha1".to_owned(),
        resource: "workflows".to_owned(),
        kind: "Workflow".to_owned(),
        is_namespaced: true,
        has_status: false,
    };
    for input in [
        DownsyncInput::Kinds(vec![kind.clone()]),
        DownsyncInput::Policy(list([policy()])),
        DownsyncInput::Transform(list([])),
        DownsyncInput::Namespace(list([])),
        DownsyncInput::Binding(list([])),
        DownsyncInput::Cluster(list([cluster()])),
        DownsyncInput::Properties(list([])),
        DownsyncInput::SecretProperties(list([])),
        DownsyncInput::work(list([])),
        DownsyncInput::report(list([])),
        DownsyncInput::Collector(list([])),
        DownsyncInput::Combined(list([])),
    ] {
        index.apply(input, now());
    }
    let kind = Arc::new(kind);
    index.apply(DownsyncInput::object(Arc::clone(&kind), list([])), now());
    for number in 0..workflows {
        let mut metadata = claimed(number);
        metadata["status"].take();
        metadata["spec"].take();
        index.apply(DownsyncInput::object(Arc::clone(&kind), change(metadata)), now());
    }
    index
}

/// An agent whose cluster runs Workflows that are already reported.
pub(crate) fn agent(workflows: usize, nodes: usize) -> RunIndex {
    let mut agent = RunIndex::new(AgentConfig {
        cluster: "member".into(),
        cluster_id: None,
        request_lifetime: argosy_core::index::reconciler::REQUEST_LIFETIME,
        argo_instance: None,
        conditions_on_demand: false,
    });
    for input in [
        AgentInput::work(list((0..workflows).map(work))),
        AgentInput::work_status(list([])),
        AgentInput::record(list([])),
        AgentInput::object(list(
            (0..workflows).map(|number| run(number, 1, &status("Pending", nodes))),
        )),
    ] {
        agent.apply(input, now());
    }
    agent
}
