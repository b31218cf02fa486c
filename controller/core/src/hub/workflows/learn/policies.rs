//! Updates of the index from BindingPolicies, CustomTransforms, Argo's templates and the
//! configuration of the WDS's own Argo.

use std::sync::Arc;

use argosy_api::{BindingPolicy, CustomTransform, workflow};
use kube::ResourceExt;

use super::Dirty;
use crate::{
    Change, ClusterName, WorkflowKey,
    hub::{
        inventory::Policy,
        template_demand::ObservedTemplate,
        transforms::Touched,
        workflows::{Awaited, HubKey, LocalArgo, WorkflowIndex},
    },
    index::store::Delta,
    policy::PolicyChanges,
};

impl WorkflowIndex {
    pub(super) fn on_policies(&mut self, change: Change<BindingPolicy>) -> Dirty {
        let delta = Delta::of(
            change,
            |policy: &BindingPolicy| Some(policy.name_any()),
            &self.policies,
            &mut self.in_flight,
            |_, _| None,
        );
        self.synced.mark(Awaited::Policies, delta.is_list);
        let mut changes = PolicyChanges::new();
        for name in &delta.gone {
            if self.policies.remove(name).is_some() {
                changes.insert(name.as_str().into(), None);
            }
        }
        for (name, object) in delta.live {
            let known = self.policies.get(&name);
            let policy = Policy::compile(&object);
            let differs = |known: &Policy| {
                !known.has_spec_of(&policy)
                    || known.rules.wants_logs != policy.rules.wants_logs
                    || known.rules.lost_after != policy.rules.lost_after
                    || known.rules.runs != policy.rules.runs
                    || known.rules.waits != policy.rules.waits
                    || known.rules.shown != policy.rules.shown
                    || known.rules.sends_crons != policy.rules.sends_crons
                    || known.rules.asked != policy.rules.asked
            };
            if known.is_none_or(differs) {
                changes.insert(name.as_str().into(), Some(Arc::clone(&policy.rules)));
            }
            self.policies.insert(name, policy);
        }
        if changes.is_empty() {
            return Dirty::new();
        }
        self.on_rules(&changes)
    }

    /// Stores templates. The Workflows that may have waited because of what they ask for are decided
    /// again. No claim changes.
    pub(super) fn on_templates(
        &mut self,
        is_cluster_scoped: bool,
        change: Change<ObservedTemplate>,
    ) -> Dirty {
        let kind = if is_cluster_scoped {
            Awaited::ClusterTemplates
        } else {
            Awaited::Templates
        };
        self.synced.mark(kind, change.is_list());
        let templates = Arc::make_mut(&mut self.admission).templates_mut();
        let touched = templates.learn(is_cluster_scoped, change, &mut self.in_flight);
        if touched.is_empty() {
            return Dirty::new();
        }
        self.queue.wake();
        let is_concerned = |key: &WorkflowKey| is_cluster_scoped || touched.contains(&key.namespace);
        for key in self.queue.keys().filter(is_concerned) {
            if let Some(view) = self.workflows.get_mut(&key) {
                view.known_demand = None;
            }
        }
        self.unplaced_by_load(|key, _| is_concerned(key))
    }

    pub(super) fn on_local_argo(&mut self, config: LocalArgo) -> Dirty {
        if self.local_argo == config {
            return Dirty::new();
        }
        self.local_argo = config;
        let claimed = self.claimed.values().flatten().cloned();
        claimed.map(HubKey::Workflow).collect()
    }

    pub(super) fn on_transforms(&mut self, change: Change<CustomTransform>) -> Dirty {
        let delta = Delta::of(
            change,
            |transform: &CustomTransform| Some(transform.name_any()),
            &self.transforms,
            &mut self.in_flight,
            |name: &String, _| Some(HubKey::Transform(name.clone())),
        );
        self.synced.mark(Awaited::Transforms, delta.is_list);
        let transforms = &mut self.transforms;
        let mut touched = Touched::default();
        for name in &delta.gone {
            touched.add(transforms.delete(name));
        }
        for (_, transform) in delta.live {
            touched.add(transforms.apply(transform));
        }
        let mut dirty: Dirty = touched.names.into_iter().map(HubKey::Transform).collect();
        let concerns_workflows = |(group, resource): &(String, String)| {
            (group.as_str(), resource.as_str()) == (workflow::GROUP, workflow::PLURAL)
        };
        if touched.resources.iter().any(concerns_workflows) {
            dirty.extend(self.unsent());
        }
        dirty
    }

    /// Claimed Workflows without a ManifestWork on their cluster. An error of a transform may have
    /// kept them from being sent.
    fn unsent(&self) -> Dirty {
        let claimed = self.claimed.iter();
        let claimed = claimed.flat_map(|(cluster, keys)| keys.iter().map(move |key| (cluster, key)));
        let is_unsent = |(cluster, key): &(&ClusterName, &WorkflowKey)| {
            let view = self.workflows.get(*key);
            view.is_some_and(|view| self.work(view, cluster).is_none())
        };
        let unsent = claimed.filter(is_unsent);
        unsent.map(|(_, key)| HubKey::Workflow(key.clone())).collect()
    }
}
