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

/// Maximum number of objects that a run names.
const MOST_NAMED: usize = 64;

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
        let fields = object.data.as_object_mut();
        Self {
            cluster: claim.filter(|_| !is_over).map(|claim| claim.cluster),
            spec: fields.and_then(|fields| fields.remove("spec")),
        }
    }
}

impl ObjectIndex {
    /// Learns a Workflow that a policy selects or has selected.
    pub(in crate::hub::objects) fn learn_run(&mut self, origin: &OriginUid, facts: RunFacts) -> Dirty {
        let known = match self.needs.runs.get(origin) {
            Some(Run::Known(need)) if Some(&need.cluster) == facts.cluster.as_ref() => {
                Some(need.asked.kept())
            }
            _ => None,
        };
        if known.is_none_or(Asked::is_empty) && self.asked_for(origin, None).is_empty() {
            return self.forget_run(origin);
        }
        // A policy draws nothing to a cluster that it does not match, whoever has written the claim.
        // A run keeps what it has begun with, but no Secret without the consent of a policy.
        let asked = |cluster: &ClusterName| {
            let kept = known.unwrap_or_default();
            kept.with(self.asked_for(origin, Some(cluster)))
        };
        let asking = facts.cluster.map(|cluster| (asked(&cluster), cluster));
        // A policy may consent again, and a run that is known is not read again.
        let is_asking = |(asked, _): &(Asked, ClusterName)| known.is_some() || !asked.is_empty();
        let Some((asked, cluster)) = asking.filter(is_asking) else {
            return self.set_run(origin, Run::Idle);
        };
        let Some(object) = self.objects.get(origin) else {
            return Dirty::new();
        };
        let named = match (self.needs.runs.get(origin), facts.spec) {
            (Some(Run::Known(need)), _) => Arc::clone(&need.named),
            (_, None) if object.decode_error.is_some() => return self.set_run(origin, Run::Idle),
            (_, None) => return self.set_run(origin, Run::Unread),
            (_, Some(spec)) => {
                let found = Dependencies::of_workflow(&spec, &object.namespace);
                found.named.into_keys().take(MOST_NAMED).collect()
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
        match self.needs.runs.get(origin) {
            // A run keeps what it has begun with, but no Secret without the consent of a policy.
            Some(Run::Known(need)) => {
                let asked = need
                    .asked
                    .kept()
                    .with(self.asked_for(origin, Some(&need.cluster)));
                let need = Need {
                    asked,
                    ..Need::clone(need)
                };
                self.set_run(origin, Run::Known(Arc::new(need)))
            }
            _ if self.asked_for(origin, None).is_empty() => self.forget_run(origin),
            None => self.set_run(origin, Run::Unread),
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

    /// The kinds that the policies of a Workflow ask for, or those among them that match `cluster`.
    fn asked_for(&self, origin: &OriginUid, cluster: Option<&ClusterName>) -> Asked {
        if self.needs.asked.is_empty() {
            return Asked::default();
        }
        let object = self.objects.get(origin).filter(|object| object.kind.is_run());
        let selection = object.into_iter().flat_map(|object| object.selection.keys());
        let policies = selection.filter_map(|name| self.policies.get(name));
        let matching =
            policies.filter(|policy| cluster.is_none_or(|cluster| policy.clusters.contains(cluster)));
        matching.fold(Asked::default(), |asked, policy| asked.with(policy.rules().asked))
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
