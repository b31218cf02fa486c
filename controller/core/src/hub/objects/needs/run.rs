//! The runs of policies that ask for dependencies.
//!
//! The watch of Workflows here brings only their metadata, which tells if a run is claimed and
//! unfinished. Its specification, which does not matter any more once it is claimed, is read once.

use std::sync::Arc;

use argosy_api::{names, workflow};
use kube::core::DynamicObject;
use serde_json::Value;

use super::{ObjectIndex, closure::Need};
use crate::{
    ClusterName, OriginUid,
    hub::objects::{Dirty, DownsyncKey},
    model::{
        claim::Claim,
        dependencies::{Asked, Dependencies},
    },
};

/// A run of a policy that asks for dependencies.
#[derive(Debug)]
pub(super) enum Run {
    /// It is not claimed, or has ended.
    Idle,
    /// It has to be read.
    Unread,
    /// It needs objects.
    Known(Arc<Need>),
}

/// The parts of a Workflow that tell what it needs.
#[derive(Debug)]
pub(in crate::hub::objects) struct RunFacts {
    /// The cluster that it is claimed for, while it is unfinished.
    cluster: Option<ClusterName>,
    /// The claim has the UID of the object, so only Argosy has written it.
    is_proven: bool,
    /// Its specification, if the object was read as a whole.
    spec: Option<Value>,
}

impl RunFacts {
    /// Takes the parts out of a Workflow.
    pub(in crate::hub::objects) fn take(object: &mut DynamicObject) -> Self {
        let labels = object.metadata.labels.as_ref();
        let phase = labels.and_then(|labels| labels.get(names::ARGO_PHASE_LABEL));
        let is_over = phase.is_some_and(|phase| workflow::is_final(phase));
        let claim =
            Claim::of(&object.metadata).filter(|claim| !claim.is_for_every_cluster() && !claim.is_given_up);
        let is_proven = claim.as_ref().is_some_and(|claim| claim.born_as.is_none());
        let fields = object.data.as_object_mut();
        Self {
            is_proven,
            cluster: claim.filter(|_| !is_over).map(|claim| claim.cluster),
            spec: fields.and_then(|fields| fields.remove("spec")),
        }
    }
}

impl ObjectIndex {
    /// Learns a Workflow that a policy selects or has selected.
    pub(in crate::hub::objects) fn learn_run(&mut self, origin: &OriginUid, facts: RunFacts) -> Dirty {
        let asked = self.asked_for(origin);
        if asked.is_empty() {
            return self.forget_run(origin);
        }
        // A claim that a user may have written draws nothing to a cluster that no policy allows.
        let believed = |cluster: &ClusterName| facts.is_proven || self.allows(origin, cluster);
        let Some(cluster) = facts.cluster.filter(believed) else {
            return self.set_run(origin, Run::Idle);
        };
        let Some(object) = self.objects.get(origin) else {
            return Dirty::new();
        };
        let named = match (self.needs.runs.get(origin), facts.spec) {
            (Some(Run::Known(need)), _) => Arc::clone(&need.named),
            (_, None) if object.flaw.is_some() => return self.set_run(origin, Run::Idle),
            (_, None) => return self.set_run(origin, Run::Unread),
            (_, Some(spec)) => {
                let found = Dependencies::of_workflow(&spec, &object.namespace);
                found.named.into_keys().collect()
            }
        };
        let need = Need {
            cluster,
            namespace: Arc::clone(&object.namespace),
            asked,
            named,
        };
        self.set_run(origin, Run::Known(Arc::new(need)))
    }

    /// Learns that a policy asks for other kinds.
    pub(in crate::hub::objects) fn renew_runs(&mut self, policy: &str) -> Dirty {
        let policy = self.policies.get(policy);
        let origins: Vec<OriginUid> = policy
            .into_iter()
            .flat_map(|policy| policy.selected.iter().cloned())
            .collect();
        origins.iter().flat_map(|origin| self.renew_run(origin)).collect()
    }

    /// Learns that the policies of a run may ask for other kinds.
    pub(in crate::hub::objects) fn renew_run(&mut self, origin: &OriginUid) -> Dirty {
        let asked = self.asked_for(origin);
        match self.needs.runs.get(origin) {
            _ if asked.is_empty() => self.forget_run(origin),
            None => self.set_run(origin, Run::Unread),
            Some(Run::Known(need)) if need.asked != asked => {
                let need = Need {
                    asked,
                    ..Need::clone(need)
                };
                self.set_run(origin, Run::Known(Arc::new(need)))
            }
            Some(_) => Dirty::new(),
        }
    }

    /// True if the specification of a run has to be read.
    pub(in crate::hub::objects) fn is_unread_run(&self, origin: &OriginUid) -> bool {
        matches!(self.needs.runs.get(origin), Some(Run::Unread))
    }

    pub(super) fn forget_run(&mut self, origin: &OriginUid) -> Dirty {
        match self.needs.runs.remove(origin) {
            Some(Run::Known(need)) => self.leave_group(&need),
            _ => Dirty::new(),
        }
    }

    /// The kinds that the policies of a Workflow ask for.
    fn asked_for(&self, origin: &OriginUid) -> Asked {
        if self.needs.asked.is_empty() {
            return Asked::default();
        }
        let object = self.objects.get(origin).filter(|object| object.kind.is_run());
        let selection = object.into_iter().flat_map(|object| object.selection.keys());
        let policies = selection.filter_map(|name| self.policies.get(name));
        policies.fold(Asked::default(), |asked, policy| asked.with(policy.rules.asked))
    }

    /// True if a policy of a Workflow that asks for dependencies matches the cluster.
    fn allows(&self, origin: &OriginUid, cluster: &ClusterName) -> bool {
        let object = self.objects.get(origin);
        let selection = object.into_iter().flat_map(|object| object.selection.keys());
        let mut policies = selection.filter_map(|name| self.policies.get(name));
        policies.any(|policy| !policy.rules.asked.is_empty() && policy.clusters.contains(cluster))
    }

    fn set_run(&mut self, origin: &OriginUid, run: Run) -> Dirty {
        let mut dirty = Dirty::new();
        match (self.needs.runs.get(origin), &run) {
            (Some(Run::Known(known)), Run::Known(need)) if known == need => return dirty,
            (_, Run::Known(need)) => {
                let need = Arc::clone(need);
                dirty.extend(self.join_group(&need));
            }
            (_, Run::Unread) => {
                dirty.insert(DownsyncKey::Object(origin.clone()));
            }
            (_, Run::Idle) => {}
        }
        // Joined before the former group is left, so that a common object stays without a pause.
        if let Some(Run::Known(former)) = self.needs.runs.insert(origin.clone(), run) {
            dirty.extend(self.leave_group(&former));
        }
        dirty
    }
}
