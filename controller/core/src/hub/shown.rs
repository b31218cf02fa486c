//! The status of a run as the control cluster shows it: what its cluster reported, with what Argosy says about it put in.
//!
//! Which of that differs from what stands there is found by digests, so that a decision about a status of a thousand nodes that is
//! shown already reads none of them.

use argosy_api::{
    conditions::{WorkflowCondition, reason, workflow as types},
    workflow,
};
use serde_json::{Map, Value, json};

use super::{
    Hub, Report,
    workflow_view::{WorkflowView, is_ours},
};
use crate::{claim::Claim, digest::Digest, held::PENDING, packed::Packed, patch::JsonPatch};

/// Fields of the status of a run whose last report is lost.
pub(super) type Lost = Map<String, Value>;

/// What is to be shown.
pub(super) struct Shown<'a> {
    report: &'a Report,
    lost: Option<Lost>,
    /// Argosy's own.
    conditions: Vec<WorkflowCondition>,
}

impl Hub {
    /// What is to be shown of `report`.
    pub(super) fn shown<'a>(&self, view: &WorkflowView, claim: &Claim, report: &'a Report) -> Shown<'a> {
        let mut shown = Shown {
            report,
            lost: self
                .lost(view, claim)
                .filter(|_| !workflow::is_final(&report.phase)),
            conditions: Vec::new(),
        };
        shown.conditions = self.conditions(view, claim, workflow::is_final(shown.phase()));
        if report.is_offloaded {
            let message =
                "the nodes of this Workflow lie in the cluster's SQL database and cannot be shown here";
            shown.conditions.push(WorkflowCondition::new(
                types::STATUS_COMPLETE,
                false,
                reason::NODES_OFFLOADED,
                message,
            ));
        }
        shown
    }
}

impl Shown<'_> {
    /// The phase in it.
    pub(super) fn phase(&self) -> &str {
        let lost = || self.lost.as_ref()?.get("phase")?.as_str();
        match self.report.phase.as_str() {
            phase if workflow::is_final(phase) => phase,
            "" => lost().unwrap_or(PENDING),
            phase => lost().unwrap_or(phase),
        }
    }

    /// Sets the status unless it is there already, or the API server has made what is there out of it before.
    pub(super) fn add_to(&self, patch: JsonPatch, view: &WorkflowView) -> JsonPatch {
        let there = |wanted| view.status.digest.map(|there| (wanted, there));
        let settled = there(self.digest());
        if settled.is_some() && view.settled.get() == settled {
            return patch;
        }
        let added = add_status(patch.clone(), view, self.status());
        if added == patch {
            view.settled.set(settled);
        }
        added
    }

    /// Of all that the status is made of.
    fn digest(&self) -> Digest {
        Digest::of(&json!([
            self.report.digest.to_string(),
            self.lost,
            self.conditions
        ]))
    }

    fn status(&self) -> Value {
        let mut status = self.report.status.as_ref().map(Packed::value).unwrap_or_default();
        let Some(fields) = status.as_object_mut() else {
            return json!({ "phase": self.phase(), "conditions": self.conditions });
        };
        fields.remove("synchronization");
        if self.report.is_offloaded {
            fields.remove("offloadNodeStatusVersion");
        }
        fields.extend(self.lost.clone().into_iter().flatten());
        fields.insert("phase".to_owned(), json!(self.phase()));
        let mut conditions = match fields.remove("conditions") {
            Some(Value::Array(conditions)) => conditions,
            _ => Vec::new(),
        };
        conditions.retain(|known| !is_ours(known));
        conditions.extend(self.conditions.iter().map(|ours| json!(ours)));
        fields.insert("conditions".to_owned(), Value::Array(conditions));
        status
    }
}

/// Sets the status unless it is there already, or the API server has made what is there out of it before.
pub(super) fn add_status(patch: JsonPatch, view: &WorkflowView, status: Value) -> JsonPatch {
    let wanted = Digest::of(&status);
    let is_known = view.status.digest == Some(wanted)
        || view
            .wrote
            .is_some_and(|wrote| Some(wrote) == view.status.digest.map(|there| (wanted, there)));
    if is_known {
        patch
    } else {
        patch.set("/status", status)
    }
}
