//! Copies of runs that people and Argo's own tools make on the clusters. A copy has every label and
//! annotation of the run, runs by itself, and belongs only to its maker.

use argosy_api::names;
use argosy_core::agent::workflows::AgentAction;
use serde_json::{Value, json};

use crate::{
    api_server::{Kind, is_deleting, text},
    faults::is_foreign,
    ledger::{Ledger, has_finalizer},
    removal,
    script::CopyStep,
    servers::{CLUSTERS, Servers, label},
    world::World,
};

impl World {
    pub(crate) fn copy_run(&mut self, cluster: usize, choice: usize, what: CopyStep) {
        let ledger = &self.servers.ledger;
        let is_copied = |object: &Value| match what {
            CopyStep::Create | CopyStep::Resubmit => true,
            CopyStep::Replace => ledger.is_run(object) && self.is_reported(cluster, object),
            CopyStep::Delete => !ledger.is_run(object) && !is_deleting(object),
        };
        let Some(object) = self.pick(cluster, choice, is_copied) else {
            return;
        };
        let name = text(&object, "/metadata/name");
        let wec = &mut self.servers.wecs[cluster];
        let name = match what {
            CopyStep::Delete => return self.delete_object(cluster, &object),
            CopyStep::Replace => {
                let free = |object: &mut Value| object["metadata"]["finalizers"] = json!([]);
                wec.edit(Kind::Workflow, &object, free).expect("is there");
                drop(wec.delete(Kind::Workflow, "argo", name, None));
                let origin = label(&object, names::ORIGIN_UID_LABEL).to_owned();
                self.servers.ledger.tampered.insert(origin);
                name.to_owned()
            }
            CopyStep::Create | CopyStep::Resubmit => format!("{name}-{}", choice % 2),
        };
        // The name may be taken.
        drop(wec.create(Kind::Workflow, copied(&object, &name, what)));
    }
}

impl World {
    /// True if exactly this object was reported to the control space.
    pub(crate) fn is_reported(&self, cluster: usize, object: &Value) -> bool {
        let name = names::work_name(label(object, names::ORIGIN_UID_LABEL));
        let report = self.servers.its.get(Kind::Status, CLUSTERS[cluster], &name);
        report.is_ok_and(|report| report["reported"]["uid"] == object["metadata"]["uid"])
    }
}

fn copied(object: &Value, name: &str, what: CopyStep) -> Value {
    let mut copy = object.clone();
    copy["metadata"]["name"] = json!(name);
    let metadata = copy["metadata"].as_object_mut().expect("has metadata");
    for field in ["uid", "resourceVersion", "deletionTimestamp", "generation"] {
        metadata.remove(field);
    }
    if matches!(what, CopyStep::Resubmit) {
        metadata.remove("finalizers");
        let labels = metadata["labels"].as_object_mut().expect("has labels");
        labels.remove(names::ARGO_COMPLETED_LABEL);
        labels.remove(names::ARGO_PHASE_LABEL);
        let fields = copy.as_object_mut().expect("is an object");
        fields.remove("status");
    }
    copy
}

impl Ledger {
    /// Checks an object that an agent is about to write, as the run or as a copy of one.
    pub(crate) fn check_target(&self, uid: &str, is_run: bool) {
        assert_eq!(
            self.created.contains(uid),
            is_run,
            "{uid} was written, and is not what it was taken for"
        );
    }

    /// Agents report runs only, never copies.
    pub(crate) fn check_report(&self, action: &AgentAction) {
        if let AgentAction::WriteStatus { status } = action
            && let Some(reported) = &status.reported
        {
            assert!(
                reported.is_remembered || self.created.contains(&reported.uid),
                "a copy was reported: {reported:?}"
            );
        }
    }
}

/// No copy keeps the agent's finalizer.
pub(crate) fn check_let_go(servers: &Servers) {
    for wec in removal::served(servers) {
        for object in wec.list(Kind::Workflow).filter(|object| !is_foreign(object)) {
            assert!(
                servers.ledger.is_run(object) || !has_finalizer(object, names::AGENT_FINALIZER),
                "a copy is held: {object:#}"
            );
        }
    }
}

#[test]
fn a_copy_under_the_name_of_a_run_that_was_reported_is_no_answer_to_a_look_for_the_run() {
    use crate::{
        actor::Fault::{Answer, None},
        script::Step::{Argo, CatchUp, Copy, Deliver, Hours, Restart, User},
        script::UserStep::Create,
        users::PLAIN,
    };
    crate::run(
        true,
        &[
            User(0, Create("cluster2", PLAIN)),
            CatchUp(0, None),
            CatchUp(2, Answer),
            Deliver(0, 0),
            Argo(1, 0),
            Hours(0),
            Copy(5, 0, CopyStep::Replace),
            Restart(2),
        ],
    );
}
