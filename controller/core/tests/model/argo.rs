//! Argo, as far as it matters here. On the execution clusters it runs the Workflows that it gets.
//! On the control cluster it processes every Workflow that is not labeled as completed, based on
//! reads that may be stale.
//!
//! A run has a step `n`. A Workflow may ask for a step `w`, which waits to be resumed, and for a
//! step `m`, which fails the first time.

use argosy_api::{names, workflow};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    api_server::{Kind, is_deleting, text},
    faults::is_foreign,
    gate::Writer,
    ledger::{is_claimed, phase},
    servers::label,
    world::World,
};

/// The effect of one step of Argo on a run.
enum Next {
    /// Nothing can be done now.
    Wait,
    /// The node gets this phase.
    Node(&'static str, &'static str),
    End(&'static str),
}

fn node<'a>(object: &'a Value, name: &str) -> &'a str {
    text(object, &format!("/status/nodes/{name}/phase"))
}

fn set_phase(object: &mut Value, phase: &str) {
    if !object["status"].is_object() {
        object["status"] = json!({});
    }
    object["status"]["phase"] = json!(phase);
    object["metadata"]["labels"][names::ARGO_PHASE_LABEL] = json!(phase);
}

fn set_node(object: &mut Value, name: &str, phase: &str, now: Timestamp) {
    let kind = if name == "w" { "Suspend" } else { "Pod" };
    let known = text(object, &format!("/status/nodes/{name}/startedAt")).to_owned();
    let started_at = if phase == "Running" || known.is_empty() {
        now.to_string()
    } else {
        known
    };
    object["status"]["nodes"][name] = json!({
        "id": name, "name": name, "type": kind, "phase": phase, "startedAt": started_at,
    });
}

impl World {
    pub(crate) fn pick(
        &self,
        cluster: usize,
        choice: usize,
        is_fit: impl Fn(&Value) -> bool,
    ) -> Option<Value> {
        let fit: Vec<&Value> = self.servers.wecs[cluster]
            .list(Kind::Workflow)
            .filter(|object| !is_foreign(object) && is_fit(object))
            .collect();
        fit.get(choice % fit.len().max(1)).map(|object| (*object).clone())
    }

    /// Makes one step of one run of a cluster. Returns true if there was one to make.
    pub(crate) fn argo(&mut self, cluster: usize, choice: usize) -> bool {
        let is_going = |object: &Value| {
            label(object, names::ARGO_COMPLETED_LABEL) != "true"
                && !is_deleting(object)
                && !(phase(object) == "Running" && matches!(self.next(object), Next::Wait))
        };
        let Some(mut object) = self.pick(cluster, choice, is_going) else {
            return false;
        };
        let next = self.next(&object);
        set_phase(&mut object, "Running");
        object["status"]["synchronization"] = json!({ "mutex": {} });
        object["metadata"]["annotations"][names::ARGO_LAST_SEEN_ANNOTATION] = json!("1");
        match next {
            Next::Wait => {}
            Next::Node(name, phase) => {
                let now = self.servers.now;
                if phase == "Running" && name != "w" {
                    self.servers.ledger.note_pod(&object, name);
                    self.servers.ledger.note_running(&object, name, now);
                }
                set_node(&mut object, name, phase, now);
            }
            Next::End(phase) => end(&mut object, phase),
        }
        self.servers.wecs[cluster]
            .update(Kind::Workflow, object)
            .expect("is as it was read");
        true
    }

    fn next(&self, object: &Value) -> Next {
        let is_over = ["n", "w", "m"].iter().any(|name| node(object, name) == "Failed");
        if !text(object, "/spec/shutdown").is_empty() || is_over {
            return Next::End("Failed");
        }
        if object["spec"]["suspend"] == true {
            return Next::Wait;
        }
        let waits = object["spec"]["waits"] == true;
        let fails = object["spec"]["fails"] == true;
        match (node(object, "n"), node(object, "w"), node(object, "m")) {
            ("", ..) => Next::Node("n", "Running"),
            ("Running", ..) => Next::Node("n", "Succeeded"),
            (_, "", _) if waits => Next::Node("w", "Running"),
            (_, "Running", _) if waits => Next::Wait,
            (.., "") => Next::Node("m", "Running"),
            (.., "Running") if fails && self.servers.ledger.pods(object, "m") == 1 => {
                Next::Node("m", "Failed")
            }
            (.., "Running") => Next::Node("m", "Succeeded"),
            _ => Next::End("Succeeded"),
        }
    }

    pub(crate) fn expire(&mut self, cluster: usize, choice: usize) {
        let is_over = |object: &Value| workflow::is_final(phase(object));
        if let Some(object) = self.pick(cluster, choice, is_over) {
            self.delete_object(cluster, &object);
        }
    }

    pub(crate) fn delete_object(&mut self, cluster: usize, object: &Value) {
        let wec = &mut self.servers.wecs[cluster];
        wec.delete(Kind::Workflow, "argo", text(object, "/metadata/name"), None)
            .expect("is there");
    }

    /// Lets the control cluster's Argo process a Workflow in the version before the last `age`
    /// ones.
    pub(crate) fn local_argo(&mut self, choice: usize, age: usize) {
        let workflows = self.workflows();
        let Some(current) = workflows.get(choice % workflows.len().max(1)) else {
            return;
        };
        let uid = text(current, "/metadata/uid");
        // Without a guard, `spec.suspend` holds a Workflow as well. A user who removes it while a
        // late write of Argo removes the label starts the Workflow here; nothing can be promised
        // then.
        let is_late = !self.servers.is_guarded && is_claimed(current) && current["spec"]["suspend"] != true;
        let age = if is_late { 0 } else { age };
        let log = &self.servers.wds.log;
        let versions = log
            .iter()
            .rev()
            .filter(|event| event.kind != Kind::Pod)
            .take(40)
            .filter(|event| text(&event.object, "/metadata/uid") == uid);
        let versions: Vec<&Value> = versions.take(age % 4 + 1).map(|event| &event.object).collect();
        let Some(read) = versions.last().copied().cloned() else {
            return;
        };
        if is_deleting(current) {
            let mut written = current.clone();
            without_gc(&mut written);
            drop(self.servers.update_workflow(Writer::LocalArgo, current, written));
            return;
        }
        if label(&read, names::ARGO_COMPLETED_LABEL) == "true" {
            return;
        }
        let starts = read["spec"]["suspend"] != true;
        if starts && node(&read, "local").is_empty() {
            self.servers.check();
            self.servers.ledger.note_local_start(uid);
        }
        let mut written = current.clone();
        if text(&read, "/metadata/resourceVersion") != text(current, "/metadata/resourceVersion")
            && workflow::is_final(phase(current))
        {
            return;
        }
        mark(&mut written, &read, starts, self.servers.now);
        // The write may be refused; Argo processes the Workflow again anyway.
        drop(self.servers.update_workflow(Writer::LocalArgo, current, written));
    }

    /// The TTL counts from the first end, and a retry does not stop it (Argo's `gccontroller`).
    pub(crate) fn local_expire(&mut self, choice: usize) {
        let is_over = |object: &Value| {
            let is_final = workflow::is_final(phase(object));
            let was_final = self.servers.ledger.ended.contains(text(object, "/metadata/uid"));
            label(object, names::ARGO_COMPLETED_LABEL) == "true"
                && (is_final || (was_final && self.servers.is_guarded))
        };
        let over: Vec<Value> = self.workflows().into_iter().filter(is_over).collect();
        if let Some(object) = over.get(choice % over.len().max(1)) {
            let has_ended = workflow::is_final(phase(object));
            let deleted = self.servers.delete_workflow(Writer::LocalArgo, object);
            assert!(
                has_ended || deleted.is_err() || !is_claimed(object),
                "the copy of a run that goes on was deleted: {object:#}"
            );
        }
    }
}

fn end(object: &mut Value, phase: &str) {
    let nodes = object["status"]["nodes"].as_object_mut();
    for (_, node) in nodes.into_iter().flatten() {
        if node["phase"] == "Running" {
            node["phase"] = json!(phase);
        }
    }
    set_phase(object, phase);
    object["status"]["finishedAt"] = json!("2026-11-21T10:00:00Z");
    object["status"]["conditions"] = json!([{ "type": "Completed", "status": "True" }]);
    object["metadata"]["labels"][names::ARGO_COMPLETED_LABEL] = json!("true");
}

/// The write of Argo's controller when it processes an object that it has read as `read`.
fn mark(object: &mut Value, read: &Value, starts: bool, now: Timestamp) {
    set_phase(object, "Running");
    object["metadata"]["labels"][names::ARGO_COMPLETED_LABEL] = json!("false");
    object["metadata"]["annotations"][names::ARGO_LAST_SEEN_ANNOTATION] = json!("1");
    object["status"]["synchronization"] = json!({ "mutex": {} });
    let gc = json!(names::ARGO_ARTIFACT_GC_FINALIZER);
    let finalizers = object["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if !finalizers.contains(&gc) && !is_deleting(object) {
        object["metadata"]["finalizers"] = finalizers.into_iter().chain([gc]).collect();
    }
    match (starts, node(read, "local")) {
        (true, "") => set_node(object, "local", "Running", now),
        (true, "Running") => set_node(object, "local", "Succeeded", now),
        (true, _) => {
            end(object, "Succeeded");
            without_gc(object);
        }
        (false, _) => {}
    }
}

/// Removes Argo's finalizer, as Argo does after it has deleted the artifacts.
fn without_gc(object: &mut Value) {
    let finalizers = object["metadata"]
        .get_mut("finalizers")
        .and_then(Value::as_array_mut);
    if let Some(finalizers) = finalizers {
        finalizers.retain(|one| one != names::ARGO_ARTIFACT_GC_FINALIZER);
    }
}
