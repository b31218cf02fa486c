//! The next step for a Workflow that runs on every cluster, and what its runs ask of it.
//!
//! It is held and claimed like any other, but never sent. For each cluster that its policies match it gets one run, a Workflow of its
//! own. The record on it says which were created; a run is sent only once it stands there, and is not let go before. So a
//! cluster that is not in the record has never run it, and one that is gets no other run, whoever deletes what. Not here: how
//! a run is sent and mirrored, which is as for any Workflow.

mod creating;
mod passing;
mod summary;

use std::{collections::BTreeMap, sync::Arc};

use argosy_api::names;

use super::{Hub, HubAction, workflow_view::WorkflowView};
use crate::{
    ClusterName, WorkflowKey,
    claim::Claim,
    runs::{Noted, Record},
};

/// Runs that are created before the record is written. Each write is as long as the record, and until then they wait.
const RECORDED_AT_ONCE: usize = 32;

/// Runs of one Workflow. The record has about 100 bytes for each, and more for long names of clusters; all annotations of an object
/// may have 256 KiB.
const MOST_RUNS: usize = 2000;

impl Hub {
    /// The next step for a Workflow that is claimed for every cluster.
    pub(super) fn decide_runs(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
    ) -> Option<HubAction> {
        if view.is_deleting {
            // Of those that are left, each was tried.
            let is_refused = self
                .next_to_delete(view)
                .is_some_and(|(_, run)| run.ask_failure.times > 0);
            let told = is_refused.then(|| self.summarise(key, view, claim)).flatten();
            return told
                .or_else(|| self.decide_deletion(key, view))
                .or_else(|| self.summarise(key, view, claim));
        }
        // Where the WDS was put back to a backup, it may be known as sent to one cluster.
        if let Some(lost) = self.lost_claim(view) {
            return Some(self.claim_again(key, view, &lost));
        }
        let finalizers = &view.finalizers;
        let is_kept = finalizers.iter().any(|name| name == names::CONTROLLER_FINALIZER);
        let first = if is_kept && view.has_hold_label() {
            None
        } else {
            self.summarise(key, view, claim)
        };
        first
            .or_else(|| self.clear_leftovers(view, Some(claim)))
            .or_else(|| self.delete_stray(view))
            .or_else(|| {
                let is_due = self.is_record_due(view);
                is_due.then(|| self.summarise(key, view, claim)).flatten()
            })
            .or_else(|| self.create_next(key, view, claim))
            .or_else(|| self.pass_on_next(view))
            .or_else(|| self.summarise(key, view, claim))
            .or_else(|| self.try_again(key, view, claim))
    }

    /// Tries again, in turn, what could not be done: to create a run, or to ask one.
    fn try_again(&self, key: &WorkflowKey, view: &WorkflowView, claim: &Claim) -> Option<HubAction> {
        let tried = [self.create_again(key, view, claim), self.pass_on_again(view)];
        let next = tried.into_iter().flatten().min_by_key(|(times, _)| *times);
        next.map(|(_, action)| action)
    }

    /// Where to find the runs of the Workflow at `key`; a copy of one in another namespace is none.
    pub(super) fn runs_by_cluster(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
    ) -> Option<&BTreeMap<ClusterName, WorkflowKey>> {
        self.runs.get(&(view.uid.clone(), Arc::clone(&key.namespace)))
    }

    /// The same for one that is in the index.
    pub(super) fn known_runs(&self, view: &WorkflowView) -> Option<&BTreeMap<ClusterName, WorkflowKey>> {
        self.runs_by_cluster(self.by_uid.get(&view.uid)?, view)
    }

    /// The runs of a Workflow that are there, by cluster.
    fn runs_of(
        &self,
        view: &WorkflowView,
    ) -> impl Iterator<Item = (&ClusterName, &WorkflowKey, &WorkflowView)> {
        let runs = self.known_runs(view).into_iter().flatten();
        runs.filter_map(|(cluster, key)| Some((cluster, key, self.workflows.get(key)?.as_ref())))
    }

    /// The clusters that a run is still to be created for: of those without one, as many as the record has room for.
    fn missing<'a>(&self, view: &'a WorkflowView) -> impl Iterator<Item = &'a ClusterName> {
        let recorded = &view.record.runs;
        let known = self.known_runs(view).into_iter().flatten();
        let unrecorded = known.filter(|(cluster, _)| !recorded.contains_key(*cluster));
        let room = MOST_RUNS.saturating_sub(recorded.len() + unrecorded.count());
        self.without_run(view).take(room)
    }

    /// The clusters without a run that are to have one. None for a Workflow that has ended once or was ended by its user.
    fn without_run<'a>(&self, view: &'a WorkflowView) -> impl Iterator<Item = &'a ClusterName> {
        let known = self.known_runs(view);
        let has_any = known.is_some() || !view.record.runs.is_empty();
        let has_ended = view.record.has_ended || view.is_final();
        let is_over = view.is_deleting || (has_any && (has_ended || view.control.shutdown.is_some()));
        let has = move |cluster: &ClusterName| {
            view.record.runs.contains_key(cluster) || known.is_some_and(|runs| runs.contains_key(cluster))
        };
        let clusters = view.placement.open();
        let without: Vec<_> = clusters.filter(|cluster| !is_over && !has(cluster)).collect();
        without.into_iter()
    }

    /// Whether runs that are there wait for the record, and should not wait for those that are still to be created.
    fn is_record_due(&self, view: &WorkflowView) -> bool {
        let runs = self.runs_of(view);
        let waiting = runs.filter(|(cluster, ..)| !view.record.runs.contains_key(*cluster));
        let most = if view.has_failed_to_create {
            1
        } else {
            RECORDED_AT_ONCE
        };
        waiting.take(most).count() == most
    }

    /// The record as it should be: with every run that is there, and the ends of those that have ended.
    pub(super) fn record(&self, view: &WorkflowView) -> Record {
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

    /// A run that was created by a request that was late: its cluster had had its run before.
    fn delete_stray(&self, view: &WorkflowView) -> Option<HubAction> {
        let is_stray = |cluster: &ClusterName, run: &WorkflowView| {
            let noted = view.record.runs.get(cluster);
            noted.is_some_and(|noted| noted.uid != run.uid.as_str())
        };
        let has_started = |run: &WorkflowView| {
            let claim = run.claim.as_ref();
            claim.is_none_or(|claim| self.has_started(run, claim))
        };
        let mut runs = self.runs_of(view);
        let (_, key, run) =
            runs.find(|(cluster, _, run)| is_stray(cluster, run) && !run.is_deleting && !has_started(run))?;
        Some(deletion(key, run))
    }

    /// Whether a deleted Workflow takes its runs along, and any is left that it owns.
    pub(super) fn takes_runs_along(&self, view: &WorkflowView) -> bool {
        let mut finalizers = view.finalizers.iter();
        let leaves_them = finalizers.any(|name| name == names::ORPHAN_FINALIZER);
        !leaves_them && self.owned_runs(view).next().is_some()
    }

    /// Its runs without those that were left behind: the garbage collector takes their references off, and only then the finalizer
    /// that says so.
    fn owned_runs(&self, view: &WorkflowView) -> impl Iterator<Item = (&WorkflowKey, &WorkflowView)> {
        let is_owned = |run: &WorkflowView| run.run_of.as_ref().is_some_and(|of| of.key.is_some());
        let runs = self.runs_of(view).map(|(_, key, run)| (key, run));
        runs.filter(move |(_, run)| is_owned(run))
    }

    /// Deletes the next run of a deleted Workflow; none while it waits for those that are deleted already.
    pub(super) fn delete_run(&self, view: &WorkflowView) -> Option<HubAction> {
        let (key, run) = self.next_to_delete(view)?;
        Some(deletion(key, run))
    }

    fn next_to_delete(&self, view: &WorkflowView) -> Option<(&WorkflowKey, &WorkflowView)> {
        if !self.takes_runs_along(view) {
            return None;
        }
        let runs = self.owned_runs(view).filter(|(_, run)| !run.is_deleting);
        runs.min_by_key(|(_, run)| run.ask_failure.times)
    }

    /// Whether a Workflow may be sent as far as it is the run of another one: that one has it in its record, or has left it behind. Without
    /// a UID in its claim, the latter is its user's word, and counts where policies select it for the cluster.
    pub(super) fn is_cleared(&self, view: &WorkflowView, claim: &Claim) -> bool {
        let Some(of) = &view.run_of else { return true };
        match self.by_uid.get(&of.uid).and_then(|key| self.workflows.get(key)) {
            Some(parent) => !parent.is_deleting && is_noted(parent, &claim.cluster, view).is_some(),
            None if claim.born_as.is_some() => {
                of.key.is_none() && view.placement.clusters.contains(&claim.cluster)
            }
            None => of.key.is_none(),
        }
    }

    /// Whether a deleted Workflow may go as far as it is the run of another one: that one remembers it, or goes too.
    pub(super) fn may_be_forgotten(&self, view: &WorkflowView) -> bool {
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
}

/// What the record of a Workflow says of its run on a cluster, if it says anything of this one.
fn is_noted<'a>(parent: &'a WorkflowView, cluster: &ClusterName, run: &WorkflowView) -> Option<&'a Noted> {
    let noted = parent.record.runs.get(cluster)?;
    (noted.uid == run.uid.as_str()).then_some(noted)
}

fn deletion(key: &WorkflowKey, run: &WorkflowView) -> HubAction {
    HubAction::DeleteRun {
        key: key.clone(),
        uid: run.uid.clone(),
        resource_version: run.resource_version.clone(),
    }
}

/// The annotations with that record, if there is anything in it.
fn with_record(annotations: &mut BTreeMap<String, String>, record: &Record, view: &WorkflowView) {
    if !record.runs.is_empty() {
        annotations.insert(
            names::RUNS_ON_ANNOTATION.to_owned(),
            record.to_annotation(&view.uid),
        );
    }
}
