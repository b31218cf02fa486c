//! The inputs of the index: the parts of it that each one changes, and the pods that it concerns.
//!
//! Clusters decide about the names of pods, so each pod of the WDS belongs to one Workflow: the first
//! that has it.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{ResourceExt, core::PartialObjectMeta};

use super::{
    Awaited, Dispatched, MOST_KEPT_OF_CLUSTER, ObservedShadow, ObservedWatched, PodKey, ShadowPodIndex,
    ShadowPodKey, Wanted, of_pods,
    seen::{Running, SeenPods},
};
use crate::{Change, WorkflowKey, index::store::Delta};

impl ShadowPodIndex {
    pub(super) fn on_workflows(
        &mut self,
        change: Change<ObservedWatched>,
        now: Timestamp,
    ) -> BTreeSet<ShadowPodKey> {
        self.synced.mark(Awaited::Workflows, change.is_list());
        let delta = Delta::of(
            change,
            |seen: &ObservedWatched| Some(seen.key.clone()),
            &self.workflows,
            &mut self.in_flight,
            |_, _| None::<ShadowPodKey>,
        );
        let mut dirty = BTreeSet::new();
        for key in delta.gone {
            dirty.extend(self.forget(&key));
            dirty.insert(ShadowPodKey::Workflow(key));
        }
        for (key, seen) in delta.live {
            dirty.insert(ShadowPodKey::Workflow(key.clone()));
            dirty.extend(self.on_workflow(key, seen, now));
        }
        dirty
    }

    /// Forgets a Workflow. Its shadow pods remain until it was read.
    fn forget(&mut self, key: &WorkflowKey) -> BTreeSet<ShadowPodKey> {
        self.left_out.remove(key);
        let Some(known) = self.leave(key) else {
            return BTreeSet::new();
        };
        for pod in &known.pods {
            self.wanted.remove(pod);
            self.refused.remove(pod);
        }
        of_pods(known.pods.into_iter().chain(known.others))
    }

    /// Takes a Workflow out.
    fn leave(&mut self, key: &WorkflowKey) -> Option<Dispatched> {
        let known = self.workflows.remove(key)?;
        for pod in &known.others {
            if let Some(claims) = self.contested.get_mut(pod) {
                claims.remove(key);
                if claims.is_empty() {
                    self.contested.remove(pod);
                }
            }
        }
        less(&mut self.kept_on, &known.node, known.kept());
        Some(known)
    }

    pub(super) fn on_workflow(
        &mut self,
        key: WorkflowKey,
        mut seen: ObservedWatched,
        now: Timestamp,
    ) -> BTreeSet<ShadowPodKey> {
        let Some(pods) = seen.pods.take() else {
            return self.on_unread(key, seen);
        };
        let former = self.leave(&key);
        let read_at = former.as_ref().and_then(|known| known.read_at);
        let (mut own, mut dirty) = former.map_or_else(Default::default, |known| (known.pods, known.others));
        let (mut others, mut left_out) = (BTreeSet::new(), pods.left_out);
        let room = MOST_KEPT_OF_CLUSTER.saturating_sub(self.kept_on(&seen.node));
        for running in &pods.running {
            let pod = running.key(&key);
            if room <= own.len() + others.len() && !own.contains(&pod) {
                left_out += 1;
            } else if self.want(&key, &pod, running, now) {
                own.insert(pod);
            } else {
                let claims = self.contested.entry(pod.clone()).or_default();
                claims.insert(key.clone());
                others.insert(pod);
            }
        }
        dirty.extend(own.iter().chain(&others).cloned());
        own.retain(|pod| self.stays(pod, &pods, now));
        if left_out == 0 {
            self.left_out.remove(&key);
        } else {
            self.left_out.insert(key.clone(), left_out);
        }
        let known = Dispatched {
            is_unread: pods.is_cut && own.iter().any(|pod| self.has_left(pod, &pods)),
            read_at,
            pods: own,
            others,
            ..Dispatched::unread(seen)
        };
        self.insert(key, known);
        of_pods(dirty)
    }

    /// Stores a Workflow whose pods have to be read. Those that are known remain until then.
    fn on_unread(&mut self, key: WorkflowKey, seen: ObservedWatched) -> BTreeSet<ShadowPodKey> {
        match self.workflows.get_mut(&key) {
            Some(known) if known.uid == seen.uid && known.node == seen.node => {
                // The version that was read last may be told late.
                known.is_unread |= known.resource_version != seen.resource_version;
                known.resource_version = seen.resource_version;
                known.labels = seen.labels;
                known.watched_until = seen.watched_until;
                of_pods(known.pods.iter().cloned())
            }
            _ => {
                let dirty = self.forget(&key);
                self.insert(key, Dispatched::unread(seen));
                dirty
            }
        }
    }

    fn insert(&mut self, key: WorkflowKey, known: Dispatched) {
        if known.kept() > 0 {
            *self.kept_on.entry(known.node.clone()).or_default() += known.kept();
        }
        self.workflows.insert(key, known);
    }

    fn kept_on(&self, node: &str) -> usize {
        self.kept_on.get(node).copied().unwrap_or_default()
    }

    /// Stores a running pod of a Workflow. False if another live Workflow has a pod of the name:
    /// clusters decide about the names, and one could answer for the pod of another.
    fn want(&mut self, workflow: &WorkflowKey, pod: &PodKey, running: &Running, now: Timestamp) -> bool {
        let known = self.wanted.get_mut(pod);
        if known.as_ref().is_none_or(|known| known.workflow == *workflow)
            && self
                .refused
                .get(pod)
                .is_some_and(|start| *start != running.started_at)
        {
            // Its step has started again.
            self.refused.remove(pod);
        }
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
    fn stays(&mut self, pod: &PodKey, seen: &SeenPods, now: Timestamp) -> bool {
        let is_shown = self.shadows.contains_key(pod);
        let Some(wanted) = self.wanted.get_mut(pod) else {
            return false;
        };
        let is_running = seen.is_running(&wanted.running.id);
        let end = seen.ended.get(&wanted.running.id);
        if end.is_some() || !seen.is_cut {
            // An end in the future was seen before, if the pod has one.
            let former = wanted.end.map_or(now, |known| known.at);
            wanted.end = end.map(|end| end.seen_by(if end.at > now { former } else { now }));
        }
        // A pod that neither runs nor has ended was removed by a retry, or is one too many.
        let stays = is_running || (is_shown && (wanted.end.is_some() || seen.is_cut));
        if !stays {
            self.wanted.remove(pod);
            self.refused.remove(pod);
        }
        stays
    }

    /// True if a pod does not run any more, and its end is not known.
    fn has_left(&self, pod: &PodKey, seen: &SeenPods) -> bool {
        let wanted = self.wanted.get(pod);
        wanted.is_some_and(|wanted| wanted.end.is_none() && !seen.is_running(&wanted.running.id))
    }

    pub(super) fn on_pods(&mut self, change: Change<ObservedShadow>) -> BTreeSet<ShadowPodKey> {
        self.synced.mark(Awaited::Pods, change.is_list());
        let delta = Delta::of(
            change,
            |shadow: &ObservedShadow| Some(shadow.key.clone()),
            &self.shadows,
            &mut self.in_flight,
            |key, _| Some(ShadowPodKey::Pod(key.clone())),
        );
        let mut dirty = BTreeSet::new();
        for key in delta.gone {
            self.lose(&key);
            dirty.insert(ShadowPodKey::Pod(key));
        }
        for (key, mut shadow) in delta.live {
            let known = self.lose(&key).filter(|known| known.uid == shadow.uid);
            shadow.end = known.and_then(|known| known.end);
            *self.shown_on.entry(shadow.node.clone()).or_default() += 1;
            let of_workflow = self.shadows_of.entry(shadow.workflow.clone()).or_default();
            of_workflow.insert(key.clone());
            dirty.insert(ShadowPodKey::Workflow(shadow.workflow.clone()));
            self.refused.remove(&key);
            self.shadows.insert(key.clone(), shadow);
            dirty.insert(ShadowPodKey::Pod(key));
        }
        dirty
    }

    /// Takes a shadow pod out.
    pub(super) fn lose(&mut self, key: &PodKey) -> Option<ObservedShadow> {
        let known = self.shadows.remove(key)?;
        less(&mut self.shown_on, &known.node, 1);
        if let Some(pods) = self.shadows_of.get_mut(&known.workflow) {
            pods.remove(key);
            if pods.is_empty() {
                self.shadows_of.remove(&known.workflow);
            }
        }
        Some(known)
    }

    pub(super) fn on_nodes(&mut self, change: Change<PartialObjectMeta<Node>>) -> BTreeSet<ShadowPodKey> {
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
        let workflows = self.workflows.iter();
        let workflows = workflows.filter(|(_, known)| changed.contains(&known.node));
        let wanted = workflows.clone().flat_map(|(_, known)| known.pods.iter());
        let shown = self.shadows.iter();
        let shown = shown.filter(|(_, shadow)| changed.contains(&shadow.node));
        let ended = shown.clone().map(|(_, shadow)| &shadow.workflow);
        let workflows = workflows.map(|(key, _)| key).chain(ended).cloned();
        let pods = of_pods(wanted.chain(shown.map(|(key, _)| key)).cloned());
        workflows.map(ShadowPodKey::Workflow).chain(pods).collect()
    }
}

impl Dispatched {
    /// A Workflow whose pods are not known.
    fn unread(seen: ObservedWatched) -> Self {
        Self {
            uid: seen.uid,
            resource_version: seen.resource_version,
            node: seen.node,
            labels: seen.labels,
            watched_until: seen.watched_until,
            pods: BTreeSet::new(),
            others: BTreeSet::new(),
            is_unread: true,
            read_at: None,
        }
    }

    /// Number of pods that are kept of it.
    fn kept(&self) -> usize {
        self.pods.len() + self.others.len()
    }
}

/// Takes `less` from the count of `key`, which is removed when it is 0.
fn less(counts: &mut HashMap<String, usize>, key: &str, less: usize) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(less);
        if *count == 0 {
            counts.remove(key);
        }
    }
}
