//! Users at the control cluster, and the writes of their tools: `kubectl`, and `argo`, which writes
//! whole objects.

use argosy_api::{names, workflow};
use serde_json::{Value, json};

use crate::{
    api_server::{Kind, is_deleting, text},
    gate::Writer,
    ledger::{is_claimed, phase},
    runs::is_run,
    script::{Draft, Forgery, UserStep},
    servers::{CLUSTERS, annotation, label},
    world::World,
};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn workflow_named(number: usize) -> String {
    format!("workflow-{number}")
}

fn write(name: &str, cluster: &str, draft: Draft) -> Value {
    let mut object = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {
            "namespace": "argo", "name": name,
            "labels": { names::KUBESTELLAR_CLUSTER_LABEL: cluster }, "annotations": {},
        },
        "spec": { "entrypoint": "main", "waits": draft.waits, "fails": draft.fails },
    });
    if draft.is_suspended {
        object["spec"]["suspend"] = json!(true);
    }
    if draft.is_applied {
        object["metadata"]["annotations"][LAST_APPLIED] = json!(object.to_string());
    }
    object
}

fn remove(object: &mut Value, parent: &str, field: &str) {
    if let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
        parent.remove(field);
    }
}

fn is_waiting(object: &Value) -> bool {
    text(object, "/status/nodes/w/phase") == "Running"
}

impl World {
    /// A user's step. Returns true if it was accepted.
    pub(crate) fn user(&mut self, number: usize, what: UserStep) -> bool {
        self.user_of(&workflow_named(number), number, what)
    }

    /// A user's step on a run of a Workflow that runs on every cluster.
    pub(crate) fn user_of_run(&mut self, choice: usize, what: UserStep) {
        let runs: Vec<Value> = self.workflows().into_iter().filter(is_run).collect();
        if let Some(run) = runs.get(choice % runs.len().max(1)) {
            self.user_of(text(run, "/metadata/name"), choice % 3, what);
        }
    }

    /// A user's step on the Workflow `name`. A copy gets a name derived from `number`.
    pub(crate) fn user_of(&mut self, name: &str, number: usize, what: UserStep) -> bool {
        let there = self.servers.wds.get(Kind::Workflow, "argo", name).ok();
        match (what, there) {
            (UserStep::Room(room), _) => self.servers.set_room(CLUSTERS[number % CLUSTERS.len()], room),
            (UserStep::Create(cluster, draft), None) => {
                self.servers.create_workflow(write(name, cluster, draft)).is_ok()
            }
            (UserStep::Forge(forgery @ (Forgery::Birth | Forgery::HeldBirth)), None) => {
                let object = born(write(name, "nowhere", PLAIN), forgery);
                self.servers.create_workflow(object).is_ok()
            }
            (UserStep::Delete, Some(there)) => self.servers.delete_workflow(Writer::User, &there).is_ok(),
            (UserStep::Copy | UserStep::Resubmit, Some(there)) => self.copy(number, &there, what),
            (UserStep::Forge(forgery), Some(there))
                if !(is_deleting(&there) || matches!(forgery, Forgery::Labels) && is_claimed(&there)) =>
            {
                let forged = forge(&there, forgery);
                self.servers.update_workflow(Writer::User, &there, forged).is_ok()
            }
            (_, Some(there)) if !is_deleting(&there) && self.may(&there, what) => {
                let Some(written) = change(&there, what) else {
                    return false;
                };
                let is_guarded = self.servers.is_guarded;
                let written = self.servers.update_workflow(Writer::User, &there, written);
                let is_retry = matches!(what, UserStep::Again);
                assert!(
                    !is_retry || !is_guarded || written.is_ok() || self.servers.is_webhook_down,
                    "a retry was refused: {written:?}"
                );
                written.is_ok()
            }
            _ => false,
        }
    }

    /// Without a guard, verbs that `argo` writes into the status have no effect, and a user who
    /// removes both holds starts the Workflow on the control cluster.
    fn may(&self, there: &Value, what: UserStep) -> bool {
        let is_held = is_claimed(there) && label(there, names::ARGO_COMPLETED_LABEL) == "true";
        self.servers.is_guarded
            || match what {
                UserStep::Tear | UserStep::Again | UserStep::ResumeStep => false,
                UserStep::Resume | UserStep::Suspend => is_held,
                _ => true,
            }
    }

    fn copy(&mut self, number: usize, there: &Value, what: UserStep) -> bool {
        let mut object = there.clone();
        object["metadata"]["name"] = json!(workflow_named((number + 1) % 3));
        for field in ["uid", "resourceVersion", "deletionTimestamp", "generation"] {
            remove(&mut object, "/metadata", field);
        }
        if matches!(what, UserStep::Resubmit) {
            remove(&mut object, "", "status");
            remove(&mut object, "/metadata", "finalizers");
            remove(&mut object, "/spec", "shutdown");
            for key in [names::ARGO_COMPLETED_LABEL, names::ARGO_PHASE_LABEL] {
                remove(&mut object, "/metadata/labels", key);
            }
        } else if !self.servers.is_guarded {
            // A copy with the hold and a foreign claim belongs to nobody, so the user removes the
            // marks.
            remove(&mut object, "", "status");
            remove(&mut object, "/metadata/labels", names::ARGO_COMPLETED_LABEL);
        }
        let created = self.servers.create_workflow(object);
        if let Ok(created) = &created {
            let ledger = &mut self.servers.ledger;
            let before = ledger.copied.get(text(there, "/metadata/uid")).cloned();
            let reporter =
                Some(label(there, names::CLUSTER_LABEL).to_owned()).filter(|label| !label.is_empty());
            if let Some(reporter) = reporter.or(before) {
                let uid = text(created, "/metadata/uid").to_owned();
                ledger.copied.insert(uid, reporter);
            }
        }
        created.is_ok()
    }
}

/// A Workflow without any special feature.
pub(crate) const PLAIN: Draft = Draft {
    is_suspended: false,
    is_applied: false,
    waits: false,
    fails: false,
};

/// The object as the webhook would write it, with forged additions.
fn born(mut object: Value, forgery: Forgery) -> Value {
    let claim = match forgery {
        Forgery::HeldBirth => json!({ "cluster": "", "attempt": 0, "held": true, "uid": "" }),
        _ => {
            json!({ "cluster": "cluster2", "attempt": 3, "status": true, "guarded": true, "started": true, "uid": "" })
        }
    };
    object["metadata"]["annotations"][names::CLAIM_ANNOTATION] = json!(claim.to_string());
    object["metadata"]["labels"][names::ARGO_COMPLETED_LABEL] = json!("true");
    object["metadata"]["labels"][names::ARGO_PHASE_LABEL] = json!("Pending");
    object["metadata"]["finalizers"] = json!([names::CONTROLLER_FINALIZER]);
    object["status"] = json!({ "phase": "Pending" });
    object
}

/// The object with fields that only Argosy writes.
fn forge(there: &Value, forgery: Forgery) -> Value {
    let mut object = there.clone();
    let uid = text(there, "/metadata/uid");
    let claim = match forgery {
        Forgery::Held | Forgery::Birth | Forgery::HeldBirth => return born(object, Forgery::HeldBirth),
        Forgery::Labels => return labeled(object),
        Forgery::Begun => json!({ "started": true }),
        Forgery::Retry => json!({ "retry": true }),
    };
    let mut forged =
        json!({ "cluster": "cluster2", "attempt": 5, "status": true, "guarded": true, "uid": uid });
    if let (Some(forged), Value::Object(claim)) = (forged.as_object_mut(), claim) {
        forged.extend(claim);
    }
    object["metadata"]["annotations"][names::CLAIM_ANNOTATION] = json!(forged.to_string());
    object
}

/// The object with the labels and annotations that identify runs on clusters.
fn labeled(mut object: Value) -> Value {
    object["metadata"]["labels"][names::CLUSTER_LABEL] = json!("cluster2");
    object["metadata"]["labels"][names::ORIGIN_UID_LABEL] = json!("wds-6");
    object["metadata"]["annotations"][names::ATTEMPT_ANNOTATION] = json!("7");
    object["metadata"]["finalizers"] = json!([names::CONTROLLER_FINALIZER]);
    object
}

/// The object as the user's tool writes it. `None` if the tool has nothing to do.
fn change(there: &Value, what: UserStep) -> Option<Value> {
    let mut object = there.clone();
    let ended = workflow::is_final(phase(there));
    match what {
        UserStep::Relabel(cluster) => {
            object["metadata"]["labels"][names::KUBESTELLAR_CLUSTER_LABEL] = json!(cluster);
        }
        UserStep::Reapply => {
            let applied: Value = serde_json::from_str(annotation(there, LAST_APPLIED)).ok()?;
            object["metadata"]["labels"][names::KUBESTELLAR_CLUSTER_LABEL] =
                applied["metadata"]["labels"][names::KUBESTELLAR_CLUSTER_LABEL].clone();
            object["spec"]["suspend"] = applied["spec"].get("suspend")?.clone();
        }
        UserStep::Suspend => object["spec"]["suspend"] = json!(true),
        UserStep::Pause => object["metadata"]["annotations"][names::SUSPEND_ANNOTATION] = json!("true"),
        UserStep::Go => {
            object["metadata"]["annotations"]
                .as_object_mut()?
                .remove(names::SUSPEND_ANNOTATION)?;
        }
        UserStep::Resume => {
            remove(&mut object, "/spec", "suspend");
            if is_waiting(there) {
                resume_step(&mut object);
            }
            if object == *there {
                return None;
            }
        }
        UserStep::ResumeStep if is_waiting(there) => resume_step(&mut object),
        UserStep::Stop if !ended => object["spec"]["shutdown"] = json!("Stop"),
        UserStep::Terminate if !ended => object["spec"]["shutdown"] = json!("Terminate"),
        UserStep::Again if ["Failed", "Error"].contains(&phase(there)) => retry(&mut object),
        UserStep::Tear => {
            for key in [names::ARGO_COMPLETED_LABEL, names::CLUSTER_LABEL] {
                remove(&mut object, "/metadata/labels", key);
            }
            remove(&mut object, "/metadata/annotations", names::CLAIM_ANNOTATION);
            let finalizers = object["metadata"]["finalizers"].as_array_mut();
            if let Some(finalizers) = finalizers {
                finalizers.retain(|one| one != names::CONTROLLER_FINALIZER);
            }
        }
        _ => return None,
    }
    Some(object)
}

fn resume_step(object: &mut Value) {
    object["status"]["nodes"]["w"]["phase"] = json!("Succeeded");
    object["status"]["nodes"]["w"]["finishedAt"] = json!("2026-11-21T10:00:00Z");
}

/// The state that Argo's `FormulateRetryWorkflow` produces.
fn retry(object: &mut Value) {
    for key in [names::ARGO_COMPLETED_LABEL, names::ARGO_ARCHIVING_LABEL] {
        remove(object, "/metadata/labels", key);
    }
    object["metadata"]["labels"][names::ARGO_PHASE_LABEL] = json!("Running");
    remove(object, "/spec", "shutdown");
    object["status"]["phase"] = json!("Running");
    for field in ["message", "finishedAt"] {
        remove(object, "/status", field);
    }
    let nodes = object["status"]["nodes"].as_object_mut();
    if let Some(nodes) = nodes {
        nodes.retain(|_, node| node["phase"] != "Failed");
    }
    let conditions = object["status"]["conditions"].as_array_mut();
    for condition in conditions.into_iter().flatten() {
        if condition["type"] == "Completed" {
            condition["status"] = json!("False");
        }
    }
}
