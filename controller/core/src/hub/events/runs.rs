//! How the index learns which Workflow is a run of which, and whom a change of one concerns.

use std::sync::Arc;

use argosy_api::conditions::reason;

use super::Dirty;
use crate::{
    ClusterName, Failure, WorkflowKey,
    hub::{
        Hub, HubKey, WorkflowView,
        workflow_view::{RunFailure, SendFailure},
    },
};

impl Hub {
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

    /// Whom else it concerns that a Workflow is `after` and was `before`: the Workflow that it is a run of; and those of its own runs
    /// for which the record has changed, all of them where it is deleted or gone. Of a run, most reports change nothing that is
    /// summed up, and the sum costs as much as there are runs.
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

    /// A Workflow is gone, whatever the answers tell that are still to come: to requests about it, or about the one that it is a run of.
    pub(super) fn bury_workflow(&mut self, key: &WorkflowKey, uid: Option<&str>) {
        let view = self.workflows.get(key);
        let parent = view.and_then(|view| view.run_of.as_ref()?.key.clone());
        for key in [Some(key.clone()), parent].into_iter().flatten() {
            self.under_way.bury(&HubKey::Workflow(key), uid);
        }
    }

    pub(super) fn has_buried_workflow(&self, key: &WorkflowKey, view: &WorkflowView) -> bool {
        let parent = view.run_of.as_ref().and_then(|parent| parent.key.clone());
        [Some(key.clone()), parent].into_iter().flatten().any(|key| {
            self.under_way
                .has_buried(&HubKey::Workflow(key), Some(view.uid.as_str()))
        })
    }
}

/// What a Workflow sees of its run.
fn told(run: Option<&WorkflowView>) -> Option<impl PartialEq> {
    let run = run?;
    let claim = run.claim.as_ref();
    Some((
        (&run.status.phase, &run.status.started_at, &run.status.finished_at),
        (&run.passed_on, &run.run_of, run.is_deleting),
        claim.map(|claim| (&claim.cluster, claim.has_started)),
    ))
}

/// That a run could not be created.
pub(super) fn learn_run_failure(view: &mut WorkflowView, cluster: &ClusterName, failure: &Failure) {
    view.run_failures
        .entry(cluster.clone())
        .or_default()
        .count(failure);
    view.has_failed_to_create = true;
}

impl RunFailure {
    /// One time more, and why, where trying again at once is of no use.
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
