//! Facts about the runs of a Workflow that runs on every cluster, read from the index.
//!
//! Also the deletion of a run, and the record as an annotation.
//!
//! Not here: when a run is created, asked or deleted (`fan_out`).

use std::{collections::BTreeMap, sync::Arc};

use argosy_api::names;

use crate::{
    ClusterName, WorkflowKey,
    hub::workflows::{HubAction, WorkflowIndex, view::WorkflowView},
    model::{
        claim::Claim,
        fan_out::{FanOutRecord, Noted},
    },
};

/// Limit on the runs of one Workflow. The record has about 100 bytes per run, more for long cluster
/// names, and all annotations of an object may have 256 KiB.
pub(super) const MOST_RUNS: usize = 2000;

impl WorkflowIndex {
    /// The runs of the Workflow at `key`. A copy of a run in another namespace does not count.
    pub(in crate::hub::workflows) fn runs_by_cluster(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
    ) -> Option<&BTreeMap<ClusterName, WorkflowKey>> {
        self.runs.get(&(view.uid.clone(), Arc::clone(&key.namespace)))
    }

    /// The runs of a Workflow that is in the index.
    pub(in crate::hub::workflows) fn known_runs(
        &self,
        view: &WorkflowView,
    ) -> Option<&BTreeMap<ClusterName, WorkflowKey>> {
        self.runs_by_cluster(self.by_uid.get(&view.uid)?, view)
    }

    /// The existing runs of a Workflow, by cluster.
    pub(in crate::hub::workflows) fn runs_of(
        &self,
        view: &WorkflowView,
    ) -> impl Iterator<Item = (&ClusterName, &WorkflowKey, &WorkflowView)> {
        let runs = self.known_runs(view).into_iter().flatten();
        runs.filter_map(|(cluster, key)| Some((cluster, key, self.workflows.get(key)?.as_ref())))
    }

    /// The clusters on which a run is still to be created: those without a run, up to the number
    /// that the record has room for.
    pub(in crate::hub::workflows) fn missing<'a>(
        &'a self,
        view: &'a WorkflowView,
    ) -> impl Iterator<Item = &'a ClusterName> {
        let recorded = &view.record.runs;
        let known = self.known_runs(view).into_iter().flatten();
        let unrecorded = known.filter(|(cluster, _)| !recorded.contains_key(*cluster));
        let room = MOST_RUNS.saturating_sub(recorded.len() + unrecorded.count());
        self.without_run(view).take(room)
    }

    /// The clusters that should have a run and have none. Empty for a Workflow that has ended
    /// before or that its user has shut down.
    pub(in crate::hub::workflows) fn without_run<'a>(
        &'a self,
        view: &'a WorkflowView,
    ) -> impl Iterator<Item = &'a ClusterName> {
        let known = self.known_runs(view);
        let has_any = known.is_some() || !view.record.runs.is_empty();
        let has_ended = view.record.has_ended || view.is_final();
        let is_over = view.is_deleting || (has_any && (has_ended || view.control.shutdown.is_some()));
        let has = move |cluster: &ClusterName| {
            view.record.runs.contains_key(cluster) || known.is_some_and(|runs| runs.contains_key(cluster))
        };
        let clusters = view.placement.open(self.fleet());
        let without: Vec<_> = clusters.filter(|cluster| !is_over && !has(cluster)).collect();
        without.into_iter()
    }

    /// The up-to-date record: it includes every existing run, and the phases of those that have
    /// ended.
    pub(in crate::hub::workflows) fn record(&self, view: &WorkflowView) -> FanOutRecord {
        let mut record = view.record.clone();
        for (cluster, _, run) in self.runs_of(view) {
            let phase = run.is_final().then(|| run.status.phase.clone());
            let noted = record.runs.entry(cluster.clone()).or_insert_with(|| Noted {
                uid: run.uid.to_string(),
                phase: None,
            });
            if noted.uid == run.uid.as_str() {
                noted.phase = phase;
            }
        }
        record
    }

    /// True if a deleted Workflow deletes its runs, and owns runs that are left.
    pub(in crate::hub::workflows) fn takes_runs_along(&self, view: &WorkflowView) -> bool {
        let mut finalizers = view.finalizers.iter();
        let leaves_them = finalizers.any(|name| name == names::ORPHAN_FINALIZER);
        !leaves_them && self.owned_runs(view).next().is_some()
    }

    /// Its runs except orphaned ones. The garbage collector removes their owner references first,
    /// and then the finalizer that asks for orphaning.
    pub(in crate::hub::workflows) fn owned_runs(
        &self,
        view: &WorkflowView,
    ) -> impl Iterator<Item = (&WorkflowKey, &WorkflowView)> {
        let is_owned = |run: &WorkflowView| run.run_of.as_ref().is_some_and(|of| of.key.is_some());
        let runs = self.runs_of(view).map(|(_, key, run)| (key, run));
        runs.filter(move |(_, run)| is_owned(run))
    }

    pub(in crate::hub::workflows) fn next_to_delete(
        &self,
        view: &WorkflowView,
    ) -> Option<(&WorkflowKey, &WorkflowView)> {
        if !self.takes_runs_along(view) {
            return None;
        }
        let runs = self.owned_runs(view).filter(|(_, run)| !run.is_deleting);
        runs.min_by_key(|(_, run)| run.ask_failure.times)
    }

    /// True if a run may be sent: its parent has recorded it, or has orphaned it; also true for a
    /// Workflow that is not a run. If the claim has no UID, only its user vouches for the
    /// orphaning. It then counts only if policies match the run's cluster.
    pub(in crate::hub::workflows) fn is_cleared(&self, view: &WorkflowView, claim: &Claim) -> bool {
        let Some(of) = &view.run_of else { return true };
        match self.by_uid.get(&of.uid).and_then(|key| self.workflows.get(key)) {
            Some(parent) => !parent.is_deleting && is_noted(parent, &claim.cluster, view).is_some(),
            None if claim.born_as.is_some() => of.key.is_none() && view.placement.matches(&claim.cluster),
            None => of.key.is_none(),
        }
    }

    /// True if a deleted run may be removed: its parent has recorded it, or is being deleted or
    /// gone; also true for a Workflow that is not a run.
    pub(in crate::hub::workflows) fn may_be_forgotten(&self, view: &WorkflowView) -> bool {
        let (Some(of), Some(claim)) = (&view.run_of, &view.claim) else {
            return true;
        };
        let Some(parent) = self.by_uid.get(&of.uid).and_then(|key| self.workflows.get(key)) else {
            return true;
        };
        let is_of_another = parent.record.runs.contains_key(&claim.cluster);
        match is_noted(parent, &claim.cluster, view) {
            _ if parent.is_deleting => true,
            Some(noted) => noted.phase.is_some() == view.is_final(),
            None => is_of_another,
        }
    }

    /// Deletes the next run of a deleted Workflow; `None` while it waits for runs that are being
    /// deleted.
    pub(in crate::hub::workflows) fn delete_run(&self, view: &WorkflowView) -> Option<HubAction> {
        let (key, run) = self.next_to_delete(view)?;
        Some(deletion(key, run))
    }
}

/// The record's entry for a run on a cluster, if it is the entry of this very run.
fn is_noted<'a>(parent: &'a WorkflowView, cluster: &ClusterName, run: &WorkflowView) -> Option<&'a Noted> {
    let noted = parent.record.runs.get(cluster)?;
    (noted.uid == run.uid.as_str()).then_some(noted)
}

pub(super) fn deletion(key: &WorkflowKey, run: &WorkflowView) -> HubAction {
    HubAction::DeleteRun {
        key: key.clone(),
        uid: run.uid.clone(),
        resource_version: run.resource_version.clone(),
    }
}

/// Adds the record to the annotations unless it is empty.
pub(super) fn with_record(
    annotations: &mut BTreeMap<String, String>,
    record: &FanOutRecord,
    view: &WorkflowView,
) {
    if !record.runs.is_empty() {
        annotations.insert(
            names::RUNS_ON_ANNOTATION.to_owned(),
            record.to_annotation(&view.uid),
        );
    }
}
