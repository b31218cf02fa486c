//! The inputs of the index: the parts of it that each one changes, and the pods that it concerns.
//!
//! Clusters decide about the names of pods, so each pod of the WDS belongs to one Workflow: the first
//! that has it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{ResourceExt, core::PartialObjectMeta};

use super::{
    Awaited, Dispatched, ObservedShadow, ObservedWatched, PodKey, ShadowPodIndex, Wanted,
    seen::{End, Running},
};
use crate::{Change, WorkflowKey, index::store::Delta};

impl ShadowPodIndex {
    pub(super) fn on_workflows(
        &mut self,
        change: Change<ObservedWatched>,
        now: Timestamp,
    ) -> BTreeSet<PodKey> {
        self.synced.mark(Awaited::Workflows, change.is_list());
        let delta = Delta::of(
            change,
            |seen: &ObservedWatched| Some(seen.key.clone()),
            &self.workflows,
            &mut self.in_flight,
            |_, _| None::<PodKey>,
        );
        let mut dirty = BTreeSet::new();
        for key in delta.gone {
            dirty.extend(self.forget(&key));
        }
        for (key, seen) in delta.live {
            dirty.extend(self.on_workflow(key, seen, now));
        }
        dirty
    }

    /// Forgets a Workflow. Its shadow pods remain until it was read.
    fn forget(&mut self, key: &WorkflowKey) -> BTreeSet<PodKey> {
        self.left_out.remove(key);
        let (pods, mut dirty) = self.leave(key);
        for pod in pods {
            self.wanted.remove(&pod);
            self.refused.remove(&pod);
            dirty.insert(pod);
        }
        dirty
    }

    /// Takes a Workflow out. Returns the pods that it has, and those that another has.
    fn leave(&mut self, key: &WorkflowKey) -> (BTreeSet<PodKey>, BTreeSet<PodKey>) {
        let Some(known) = self.workflows.remove(key) else {
            return (BTreeSet::new(), BTreeSet::new());
        };
        for pod in &known.others {
            if let Some(claims) = self.contested.get_mut(pod) {
                claims.remove(key);
                if claims.is_empty() {
                    self.contested.remove(pod);
                }
            }
        }
        (known.pods, known.others)
    }

    fn on_workflow(&mut self, key: WorkflowKey, seen: ObservedWatched, now: Timestamp) -> BTreeSet<PodKey> {
        let (mut own, mut dirty) = self.leave(&key);
        let mut others = BTreeSet::new();
        for running in &seen.running {
            let pod = running.key(&key);
            if self.want(&key, &pod, running, now) {
                own.insert(pod);
            } else {
                let claims = self.contested.entry(pod.clone()).or_default();
                claims.insert(key.clone());
                others.insert(pod);
            }
        }
        dirty.extend(own.iter().chain(&others).cloned());
        own.retain(|pod| self.stays(pod, &seen, now));
        if seen.left_out == 0 {
            self.left_out.remove(&key);
        } else {
            self.left_out.insert(key.clone(), seen.left_out);
        }
        let known = Dispatched {
            uid: seen.uid,
            resource_version: seen.resource_version,
            node: seen.node,
            labels: seen.labels,
            watched_until: seen.watched_until,
            pods: own,
            others,
        };
        self.workflows.insert(key, known);
        dirty
    }

    /// Stores a running pod of a Workflow. False if another live Workflow has a pod of the name:
    /// clusters decide about the names, and one could answer for the pod of another.
    fn want(&mut self, workflow: &WorkflowKey, pod: &PodKey, running: &Running, now: Timestamp) -> bool {
        let known = self.wanted.get_mut(pod);
        match known {
            Some(known) if known.workflow == *workflow => {
                (known.running, known.end) = (running.clone(), None);
                return true;
            }
            Some(known) if self.workflows.contains_key(&known.workflow) => return false,
            _ => {}
        }
        let wanted = Wanted {
            workflow: workflow.clone(),
            running: running.clone(),
            seen_at: now,
            end: None,
        };
        self.wanted.insert(pod.clone(), wanted);
        true
    }

    /// Stores the end of a pod of a Workflow. False if the pod is not shown any more.
    fn stays(&mut self, pod: &PodKey, seen: &ObservedWatched, now: Timestamp) -> bool {
        let Some(wanted) = self.wanted.get_mut(pod) else {
            return false;
        };
        let end = seen.ended.get(&wanted.running.id);
        // An end in the future was seen before, if the pod has one.
        let former = wanted.end.map_or(now, |known| known.at);
        wanted.end = end.map(|end| end.seen_by(if end.at > now { former } else { now }));
        // A pod that neither runs nor has ended was removed by a retry, or is one too many.
        let stays =
            seen.ids.contains(&wanted.running.id) || (wanted.end.is_some() && self.shadows.contains_key(pod));
        if !stays {
            self.wanted.remove(pod);
            self.refused.remove(pod);
        }
        stays
    }

    /// Stores a Workflow that the watch has lost: it has ended, or is gone.
    pub(super) fn on_read(
        &mut self,
        key: &WorkflowKey,
        seen: Option<&ObservedWatched>,
        now: Timestamp,
    ) -> BTreeSet<PodKey> {
        if self.workflows.contains_key(key) {
            return BTreeSet::new();
        }
        let shadows = self
            .shadows
            .iter_mut()
            .filter(|(_, shadow)| shadow.workflow == *key);
        let mut dirty = BTreeSet::new();
        for (pod, shadow) in shadows {
            let own = seen.filter(|seen| seen.uid == shadow.origin);
            shadow.end = Some(match own {
                None => End::GONE,
                Some(seen) => seen
                    .ended
                    .get(&shadow.id)
                    .map_or(End { at: now, ..End::GONE }, |end| end.seen_by(now)),
            });
            dirty.insert(pod.clone());
        }
        dirty
    }

    pub(super) fn on_pods(&mut self, change: Change<ObservedShadow>) -> BTreeSet<PodKey> {
        self.synced.mark(Awaited::Pods, change.is_list());
        let delta = Delta::of(
            change,
            |shadow: &ObservedShadow| Some(shadow.key.clone()),
            &self.shadows,
            &mut self.in_flight,
            |key, _| Some(key.clone()),
        );
        let mut dirty: BTreeSet<PodKey> = delta.gone.into_iter().collect();
        for key in &dirty {
            self.lose(key);
        }
        for (key, mut shadow) in delta.live {
            let known = self.lose(&key).filter(|known| known.uid == shadow.uid);
            shadow.end = known.and_then(|known| known.end);
            *self.shown_on.entry(shadow.node.clone()).or_default() += 1;
            self.shadows.insert(key.clone(), shadow);
            dirty.insert(key);
        }
        dirty
    }

    /// Takes a shadow pod out.
    pub(super) fn lose(&mut self, key: &PodKey) -> Option<ObservedShadow> {
        let known = self.shadows.remove(key)?;
        if let Some(count) = self.shown_on.get_mut(&known.node) {
            *count -= 1;
            if *count == 0 {
                self.shown_on.remove(&known.node);
            }
        }
        Some(known)
    }

    pub(super) fn on_nodes(&mut self, change: Change<PartialObjectMeta<Node>>) -> BTreeSet<PodKey> {
        self.synced.mark(Awaited::Nodes, change.is_list());
        let changed: BTreeSet<String> = match change {
            Change::Apply(node) => Some(node.name_any())
                .filter(|name| self.nodes.insert(name.clone()))
                .into_iter()
                .collect(),
            Change::Delete(node) => self.nodes.take(&node.name_any()).into_iter().collect(),
            Change::Reset(nodes) => {
                let listed: BTreeSet<String> = nodes.iter().map(ResourceExt::name_any).collect();
                let former = std::mem::replace(&mut self.nodes, listed);
                self.nodes.symmetric_difference(&former).cloned().collect()
            }
        };
        if changed.is_empty() {
            return BTreeSet::new();
        }
        let workflows = self.workflows.values();
        let wanted = workflows.filter(|known| changed.contains(&known.node));
        let wanted = wanted.flat_map(|known| known.pods.iter());
        let shown = self.shadows.iter();
        let shown = shown.filter(|(_, shadow)| changed.contains(&shadow.node));
        wanted.chain(shown.map(|(key, _)| key)).cloned().collect()
    }
}
