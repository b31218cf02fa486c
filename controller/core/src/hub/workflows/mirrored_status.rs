//! The status of a run on the control cluster: the status that its cluster reported, combined with
//! Argosy's conditions.
//!
//! Differences to the stored status are found by digests. If a status of a thousand nodes is
//! already shown, a decision about it reads none of the nodes.

use argosy_api::{
    conditions::{WorkflowCondition, reason, workflow as types},
    workflow,
};
use serde_json::{Map, Value, json};

use super::{
    WorkStatusView, WorkflowIndex,
    artifacts::{Artifacts, withheld},
    conditions::Lost,
    view::{WorkflowView, is_ours},
};
use crate::{
    WorkflowKey,
    hub::workflows::locations::{repository, restrict},
    index::{compact_json::CompactJson, fingerprint::Fingerprint},
    model::{claim::Claim, hold::PENDING, json_patch::JsonPatch},
};

/// The status to show.
pub(super) struct MirroredStatus<'a> {
    report: &'a WorkStatusView,
    lost: Option<Lost>,
    /// Argosy's own conditions.
    conditions: Vec<WorkflowCondition>,
    artifacts: Artifacts,
    /// The namespaces of the Workflow and of Argo, in which repositories may be referenced.
    namespaces: [&'a str; 2],
    /// The artifact repository of the control cluster itself.
    own_repository: Option<&'a Value>,
    /// Digest of everything that the status is made of.
    digest: Fingerprint,
}

impl WorkflowIndex {
    /// The status to show for `report`.
    pub(super) fn shown<'a>(
        &'a self,
        key: &'a WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
        report: &'a WorkStatusView,
    ) -> MirroredStatus<'a> {
        let mut shown = MirroredStatus {
            report,
            lost: self
                .lost(view, claim)
                .filter(|_| !workflow::is_final(&report.phase)),
            conditions: Vec::new(),
            artifacts: self.artifacts(view, claim, report),
            namespaces: [&key.namespace, &self.local_argo.namespace],
            own_repository: self.local_argo.repository.as_ref(),
            digest: report.digest,
        };
        shown.conditions = self.conditions(view, claim, workflow::is_final(shown.phase()));
        if report.is_offloaded {
            let message =
                "the nodes of this Workflow are in the cluster's SQL database and cannot be shown here";
            shown.conditions.push(WorkflowCondition::new(
                types::STATUS_COMPLETE,
                false,
                reason::NODES_OFFLOADED,
                message,
            ));
        }
        let is_said = |condition: &WorkflowCondition| condition.type_ == types::STATUS_COMPLETE;
        if !shown.conditions.iter().any(is_said) {
            shown.conditions.extend(withheld(&shown.artifacts));
        }
        shown.digest = shown.made_of();
        shown
    }
}

impl MirroredStatus<'_> {
    /// The phase to show.
    pub(super) fn phase(&self) -> &str {
        let lost = || self.lost.as_ref()?.get("phase")?.as_str();
        match &*self.report.phase {
            phase if workflow::is_final(phase) => phase,
            "" => lost().unwrap_or(PENDING),
            phase => lost().unwrap_or(phase),
        }
    }

    /// Sets the status, unless it is already stored, or the stored status is what the API server
    /// made of it before.
    pub(super) fn add_to(&self, patch: JsonPatch, view: &WorkflowView) -> JsonPatch {
        if self.is_settled(view) {
            return patch;
        }
        let added = add_status(patch.clone(), view, self.status());
        if added == patch {
            view.settled.set(self.agreement(view));
        }
        added
    }

    /// True if it is known to be stored already.
    pub(super) fn is_settled(&self, view: &WorkflowView) -> bool {
        let agreement = self.agreement(view);
        agreement.is_some() && view.settled.get() == agreement
    }

    fn agreement(&self, view: &WorkflowView) -> Option<(Fingerprint, Fingerprint)> {
        view.status.digest.map(|there| (self.digest, there))
    }

    /// Digest of everything that the status is made of.
    fn made_of(&self) -> Fingerprint {
        let mut made_of = json!([self.report.digest.to_string(), self.lost, self.conditions]);
        if let Some(made_of) = made_of.as_array_mut() {
            made_of.extend(self.own_repository.cloned());
            let places = self
                .report
                .elsewhere
                .iter()
                .flat_map(|elsewhere| elsewhere.places());
            made_of.extend(places.map(|place| json!(self.artifacts.named.has(place))));
        }
        Fingerprint::of(&made_of)
    }

    fn status(&self) -> Value {
        let mut status = self
            .report
            .status
            .borrow()
            .as_ref()
            .map(CompactJson::value)
            .unwrap_or_default();
        if let Some(elsewhere) = &self.report.elsewhere {
            restrict(&mut status, elsewhere, &self.artifacts.named);
        }
        let Some(fields) = status.as_object_mut() else {
            return json!({ "phase": self.phase(), "conditions": self.conditions });
        };
        fields.remove("synchronization");
        self.show_repository(fields);
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

    /// argo-server opens a bare key in the repository that is referenced here, with the Secrets
    /// that the repository names.
    fn show_repository(&self, fields: &mut Map<String, Value>) {
        let Some(reported) = fields
            .get_mut("artifactRepositoryRef")
            .filter(|known| !known.is_null())
        else {
            return;
        };
        let mut named = self.artifacts.named.clone();
        if let Some(repository) = self.own_repository {
            named.on_location(repository);
        }
        *reported = repository(reported, self.namespaces, &named, self.own_repository);
    }
}

/// Sets the status, unless it is already stored, or the stored status is what the API server made
/// of it before.
pub(super) fn add_status(patch: JsonPatch, view: &WorkflowView, status: Value) -> JsonPatch {
    let wanted = Fingerprint::of(&status);
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
