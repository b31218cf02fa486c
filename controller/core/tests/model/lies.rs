//! A member of the fleet that lies. The first cluster's agent behaves correctly, but somebody with
//! its credential also writes into its mailbox whatever that credential permits.
//!
//! The admission policy `argosy-members` protects the ITS, so names, labels and annotations of the
//! controller's objects stay as the controller wrote them. A decoy can exist if the policy is not
//! installed. Only a member's statements about its own runs may be false.

use argosy_api::names;
use serde_json::{Value, json};

use crate::{
    actor::Fault,
    api_server::{Kind, text},
    ledger::{Ledger, claimed_attempt},
    run,
    script::{
        Lie,
        Step::{self, CatchUp, Deliver, LocalExpire, Restart, User},
        UserStep,
    },
    servers::{CLUSTERS, Servers, label},
    users::PLAIN,
    world::World,
};

pub(crate) const LIAR: &str = CLUSTERS[0];

impl World {
    pub(crate) fn lie(&mut self, choice: usize, what: Lie) {
        let workflows = self.workflows();
        let Some(about) = workflows.get(choice % workflows.len().max(1)) else {
            return;
        };
        let uid = text(about, "/metadata/uid");
        let its = &mut self.servers.its;
        match what {
            Lie::Decoy => {
                let decoy = decoy(choice % 2, uid);
                if its.create(Kind::Work, decoy.clone()).is_err() {
                    let relabel =
                        |there: &mut Value| there["metadata"]["labels"] = decoy["metadata"]["labels"].clone();
                    its.edit(Kind::Work, &decoy, relabel).expect("is there");
                }
                return;
            }
            Lie::Begun | Lie::Withdrawn | Lie::Gone | Lie::Freed => {
                let Ok(work) = its.get(Kind::Work, LIAR, &names::work_name(uid)) else {
                    return;
                };
                let lie = |work: &mut Value| match what {
                    Lie::Withdrawn => say(work, "Withdrawn", "NeverCreated"),
                    Lie::Gone => say(work, "Applied", "DeletedOnCluster"),
                    Lie::Freed => work["metadata"]["finalizers"] = json!([]),
                    _ => say(work, "Applied", "Created"),
                };
                its.edit(Kind::Work, &work, lie).expect("is there");
            }
            Lie::Ended(attempt, is_well) => {
                let attempt = if attempt == 0 {
                    claimed_attempt(about)
                } else {
                    attempt
                };
                let phase = if is_well { "Succeeded" } else { "Failed" };
                let report = report(uid, attempt, phase);
                self.servers.ledger.note_end(uid, attempt, phase);
                if its.create(Kind::Status, report.clone()).is_err() {
                    let forge = |there: &mut Value| {
                        there["status"] = report["status"].clone();
                        there["reported"] = report["reported"].clone();
                    };
                    its.edit(Kind::Status, &report, forge).expect("is there");
                }
            }
        }
        self.servers.ledger.lied.insert(uid.to_owned());
    }
}

impl Ledger {
    /// True if the Workflow is claimed for the liar, who has lied about it.
    pub(crate) fn is_lied_about(&self, object: &Value) -> bool {
        label(object, names::CLUSTER_LABEL) == LIAR && self.lied.contains(text(object, "/metadata/uid"))
    }

    /// True if the object is on the liar's cluster and the liar may have released its ManifestWork.
    pub(crate) fn is_of_liar(&self, object: &Value) -> bool {
        label(object, names::CLUSTER_LABEL) == LIAR
            && self.lied.contains(label(object, names::ORIGIN_UID_LABEL))
    }

    /// True if only the liar has written this object of the ITS.
    pub(crate) fn is_lie(&self, object: &Value) -> bool {
        let origin = label(object, names::ORIGIN_UID_LABEL);
        let is_decoy = text(object, "/metadata/name") != names::work_name(origin);
        let is_of_liar = text(object, "/metadata/namespace") == LIAR && self.lied.contains(origin);
        is_decoy || (is_of_liar && object.get("reported").is_some())
    }
}

/// True if the liar has replaced the content of a report that the agent wrote, and left the agent's
/// digest on it. The agent reads the metadata only, so it takes the report for its own.
pub(crate) fn is_overwritten(servers: &Servers, uid: &str) -> bool {
    let report = servers.its.get(Kind::Status, LIAR, &names::work_name(uid));
    report.is_ok_and(|report| {
        report.pointer("/reported/labels/forged").is_some()
            && report
                .pointer("/metadata/annotations/argosy.dev~1digest")
                .is_some()
    })
}

fn decoy(number: usize, uid: &str) -> Value {
    let mut decoy = json!({
        "metadata": {
            "namespace": LIAR, "name": format!("decoy-{number}"),
            "labels": { names::ORIGIN_UID_LABEL: uid, names::ORIGIN_WDS_LABEL: "wds1" },
            "annotations": { names::ATTEMPT_ANNOTATION: "999" },
        },
        "spec": {},
    });
    say(&mut decoy, "Applied", "Created");
    decoy
}

/// Sets a condition of a ManifestWork to true.
fn say(work: &mut Value, condition: &str, reason: &str) {
    let mut conditions = work
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    conditions.retain(|known| known["type"] != condition);
    conditions.push(json!({
        "type": condition, "status": "True", "reason": reason, "message": "said by a liar",
        "lastTransitionTime": "2026-11-21T10:00:00Z",
    }));
    work["status"] = json!({ "conditions": conditions });
}

fn report(uid: &str, attempt: u64, phase: &str) -> Value {
    let forged = json!({ "id": "forged", "type": "Pod", "phase": phase });
    json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "WorkStatus",
        "metadata": {
            "namespace": LIAR, "name": names::work_name(uid), "labels": { names::ORIGIN_UID_LABEL: uid },
            "annotations": { names::ATTEMPT_ANNOTATION: attempt.to_string() },
        },
        "spec": { "sourceRef": { "group": "", "version": "", "resource": "", "kind": "", "name": "", "namespace": "" } },
        "status": { "phase": phase, "nodes": { "forged": forged }, "storedTemplates": { "forged": {} } },
        "reported": { "attempt": attempt, "outcome": "Finished", "labels": { "forged": "true" } },
    })
}

#[test]
fn a_member_that_tells_the_end_before_the_manifest_work_has_landed_leaves_it_in_its_own_mailbox_only() {
    run(
        true,
        &[
            User(0, UserStep::Create("cluster1", PLAIN)),
            Deliver(0, 0),
            Deliver(0, 0),
            Deliver(0, 0),
            Deliver(0, 0),
            CatchUp(0, Fault::Late),
            Step::Lie(0, Lie::Ended(0, false)),
            CatchUp(0, Fault::None),
            Deliver(0, 0),
            Restart(0),
            LocalExpire(0),
        ],
    );
}

#[test]
fn a_copy_that_a_member_has_told_steps_of_is_not_sent_when_it_is_retried() {
    run(
        true,
        &[
            User(0, UserStep::Create("cluster1", PLAIN)),
            Step::Lie(0, Lie::Ended(0, false)),
            CatchUp(0, Fault::None),
            User(3, UserStep::Suspend),
            User(3, UserStep::Copy),
            User(10, UserStep::Again),
            CatchUp(0, Fault::None),
        ],
    );
}

#[test]
fn a_member_that_overwrites_the_end_that_its_own_agent_told_is_shown_in_its_last_state() {
    run(
        true,
        &[
            User(0, UserStep::Create("cluster1", PLAIN)),
            CatchUp(0, Fault::None),
            CatchUp(1, Fault::None),
            Step::Argo(0, 0),
            Step::Argo(0, 0),
            Step::Argo(0, 0),
            Step::Argo(0, 0),
            Step::Argo(0, 0),
            CatchUp(1, Fault::None),
            Step::Lie(0, Lie::Ended(2, false)),
        ],
    );
}
