//! The Workflows that are read, because the watch has not told their pods, or because it does not
//! contain them any more.
//!
//! A Workflow is read only if its pods are to be shown, or if it has shadow pods. A cluster decides how
//! often a status changes, so a Workflow is read from time to time, and not for each change.

use std::{cmp::Ordering, collections::BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{
    Dispatched, ObservedWatched, ShadowPodAction, ShadowPodIndex, ShadowPodKey, Shown, of_pods, seen::End,
};
use crate::{
    Decision, WorkflowKey,
    index::store::{Incoming, Versioned, compared},
};

/// Time after which a Workflow is read again.
const AGAIN: SignedDuration = SignedDuration::from_secs(10);

impl Dispatched {
    /// Time before which it is not read again; `None` if it was not read yet.
    pub(super) fn reads_at(&self) -> Option<Timestamp> {
        self.read_at?.saturating_add(AGAIN).ok()
    }
}

impl ShadowPodIndex {
    /// The step for a Workflow.
    pub(super) fn next_read(&self, key: &WorkflowKey, now: Timestamp) -> Decision<ShadowPodAction> {
        let Some(known) = self.workflows.get(key) else {
            return self.read_last(key);
        };
        if !known.is_unread || !self.is_asked(key, known, now) {
            return Decision::rest();
        }
        if let Some(due) = known.reads_at().filter(|due| *due > now) {
            return Decision::requeue_at(due);
        }
        let of_wanted = known.pods.iter().filter_map(|pod| self.wanted.get(pod));
        let ids = of_wanted.map(|wanted| wanted.running.id.clone());
        ShadowPodAction::Read {
            workflow: key.clone(),
            node: known.node.clone(),
            ids: ids.chain(self.ids_of_shadows(key)).collect(),
        }
        .into()
    }

    /// The step for a Workflow that the watch has lost: it has ended, or is gone.
    fn read_last(&self, key: &WorkflowKey) -> Decision<ShadowPodAction> {
        let pods = self.shadows_of.get(key).into_iter().flatten();
        let mut shadows = pods.filter_map(|pod| self.shadows.get(pod));
        // The shadow pods of a Node that is gone are deleted anyway.
        let unread = shadows.find(|shadow| shadow.end.is_none() && self.nodes.contains(&shadow.node));
        let Some(unread) = unread else {
            return Decision::rest();
        };
        ShadowPodAction::Read {
            workflow: key.clone(),
            node: unread.node.clone(),
            ids: self.ids_of_shadows(key).collect(),
        }
        .into()
    }

    fn ids_of_shadows(&self, key: &WorkflowKey) -> impl Iterator<Item = String> {
        let pods = self.shadows_of.get(key).into_iter().flatten();
        pods.filter_map(|pod| Some(self.shadows.get(pod)?.id.clone()))
    }

    /// True if pods of the Workflow are shown or may be.
    fn is_asked(&self, key: &WorkflowKey, known: &Dispatched, now: Timestamp) -> bool {
        if self.shadows_of.contains_key(key) {
            return true;
        }
        if !self.nodes.contains(&known.node) {
            return false;
        }
        match self.asked_of(key, known, now) {
            (Shown::Off, _) => false,
            (Shown::Asked, is_watched) => is_watched,
            (Shown::Long | Shown::All, _) => true,
        }
    }

    /// Stores a Workflow that was read.
    pub(super) fn on_read(
        &mut self,
        key: &WorkflowKey,
        seen: Option<ObservedWatched>,
        now: Timestamp,
    ) -> BTreeSet<ShadowPodKey> {
        let Some(known) = self.workflows.get_mut(key) else {
            return self.on_last(key, seen.as_ref(), now);
        };
        known.read_at = Some(now);
        let this = ShadowPodKey::Workflow(key.clone());
        let Some(mut seen) = seen.filter(|seen| seen.uid == known.uid) else {
            return [this].into();
        };
        // The watch may have told a newer version meanwhile, whose pods are not known.
        let is_outdated = compared(seen.version(), known.version()) == Some(Ordering::Less);
        if is_outdated {
            seen.resource_version.clone_from(&known.resource_version);
            seen.labels.clone_from(&known.labels);
            seen.watched_until = known.watched_until;
        }
        let mut dirty = self.on_workflow(key.clone(), seen, now);
        if let Some(known) = self.workflows.get_mut(key) {
            known.is_unread |= is_outdated;
        }
        dirty.insert(this);
        dirty
    }

    /// Stores the last status of a Workflow that the watch has lost.
    fn on_last(
        &mut self,
        key: &WorkflowKey,
        seen: Option<&ObservedWatched>,
        now: Timestamp,
    ) -> BTreeSet<ShadowPodKey> {
        let pods = self.shadows_of.get(key).cloned().unwrap_or_default();
        for pod in &pods {
            let Some(shadow) = self.shadows.get_mut(pod) else {
                continue;
            };
            let own = seen.filter(|seen| seen.uid == shadow.origin);
            shadow.end = Some(match own {
                None => End::GONE,
                Some(seen) => {
                    let ended = seen.pods.as_ref().and_then(|pods| pods.ended.get(&shadow.id));
                    ended.map_or(End { at: now, ..End::GONE }, |end| end.seen_by(now))
                }
            });
        }
        of_pods(pods)
    }
}
