//! The index of runs and their parents, and the keys that a change of either concerns.

use std::sync::Arc;

use argosy_api::conditions::reason;
use jiff::{SignedDuration, Timestamp};

use super::Dirty;
use crate::{
    ClusterName, Failure, WorkflowKey,
    hub::workflows::{
        HubKey, WorkflowIndex, WorkflowView,
        view::{RunFailure, SendFailure},
    },
};

impl WorkflowIndex {
    pub(super) fn list_run(&mut self, key: &WorkflowKey, view: &WorkflowView) {
        if let (Some(parent), Some(claim)) = (&view.run_of, &view.claim) {
            let of = (parent.uid.clone(), Arc::clone(&key.namespace));
            let runs = self.runs.entry(of).or_default();
            runs.insert(claim.cluster.clone(), key.clone());
        }
    }

    pub(super) fn unlist_run(&mut self, key: &WorkflowKey, view: &WorkflowView) {
        let (Some(parent), Some(claim)) = (&view.run_of, &view.claim) else {
            return;
        };
        let of = (parent.uid.clone(), Arc::clone(&key.namespace));
        if let Some(runs) = self.runs.get_mut(&of) {
            if runs.get(&claim.cluster) == Some(key) {
                runs.remove(&claim.cluster);
            }
            if runs.is_empty() {
                self.runs.remove(&of);
            }
        }
    }

    /// The other Workflows that a change from `before` to `after` concerns. For a run, this is its
    /// parent. For a parent, these are the runs whose record has changed, or all of them if the
    /// parent is deleted or gone. Most reports of a run do not change the summary on its parent,
    /// and a summary costs time proportional to the number of runs.
    pub(super) fn concerned(
        &self,
        key: &WorkflowKey,
        before: Option<&WorkflowView>,
        after: Option<&WorkflowView>,
    ) -> Dirty {
        if let (Some(one), Some(other)) = (before, after)
            && one.uid != other.uid
        {
            let mut dirty = self.concerned(key, before, None);
            dirty.extend(self.concerned(key, None, after));
            return dirty;
        }
        let mut dirty = Dirty::new();
        let has_news = told(before) != told(after);
        for view in [before, after].into_iter().flatten().filter(|_| has_news) {
            let parent = view
                .run_of
                .as_ref()
                .and_then(|parent| self.by_uid.get(&parent.uid));
            dirty.extend(parent.cloned().map(HubKey::Workflow));
        }
        let Some(runs) = before.or(after).and_then(|view| self.runs_by_cluster(key, view)) else {
            return dirty;
        };
        let is_deleting = |view: Option<&WorkflowView>| view.is_some_and(|view| view.is_deleting);
        let concerns_all = after.is_none() || is_deleting(before) != is_deleting(after);
        let noted = |view: Option<&WorkflowView>, cluster: &ClusterName| {
            view.and_then(|view| view.record.runs.get(cluster)).cloned()
        };
        for (cluster, key) in runs {
            if concerns_all || noted(before, cluster) != noted(after, cluster) {
                dirty.insert(HubKey::Workflow(key.clone()));
            }
        }
        dirty
    }
}

/// The fields of a run that its parent Workflow depends on.
fn told(run: Option<&WorkflowView>) -> Option<impl PartialEq> {
    let run = run?;
    let claim = run.claim.as_ref();
    Some((
        (&run.status.phase, &run.status.started_at, &run.status.finished_at),
        (&run.passed_on, &run.run_of, run.is_deleting),
        claim.map(|claim| (&claim.cluster, claim.has_started)),
    ))
}

/// Records that a run could not be created.
pub(super) fn on_run_failure(
    view: &mut WorkflowView,
    cluster: &ClusterName,
    failure: &Failure,
    lifetime: SignedDuration,
    now: Timestamp,
) {
    if let Failure::Unreachable(_) = failure {
        view.note_unanswered(cluster, lifetime, now);
    }
    view.run_failures
        .entry(cluster.clone())
        .or_default()
        .count(failure);
    view.has_failed_to_create = true;
}

impl RunFailure {
    /// Counts a failed attempt, and stores the reason if an immediate retry is useless.
    pub(super) fn count(&mut self, failure: &Failure) {
        self.times += 1;
        let (reason, message) = match failure {
            Failure::Foreign(message) => (reason::NAME_TAKEN, message.clone()),
            Failure::Refused(message) | Failure::NotFound { message, .. } | Failure::Unserved(message) => (
                reason::REFUSED,
                format!("the control cluster refused it: {message}"),
            ),
            Failure::Conflict | Failure::Missing(_) | Failure::Fenced(_) | Failure::Unreachable(_) => return,
        };
        self.failure = Some(SendFailure { reason, message });
    }
}
