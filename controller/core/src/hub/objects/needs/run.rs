//! The runs of policies that ask for dependencies.
//!
//! The watch of Workflows here brings only their metadata, which tells if a run is claimed and
//! unfinished. Its specification, which does not matter any more once it is claimed, is read once.
//! A run whose artifacts Argo deletes with it (`artifactGC`) needs its objects until it is gone. If
//! the metadata of a run that has ended does not tell, it is read once more when it is deleted.

use std::{collections::BTreeSet, sync::Arc};

use argosy_api::{names, workflow};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::{
    ObjectIndex,
    closure::{MOST_NAMED, Need},
};
use crate::{
    ClusterName, OriginUid,
    hub::objects::{Dirty, DownsyncKey, ObjectView},
    model::{
        claim::Claim,
        dependencies::{Asked, Dependencies, Dependency, DependencyKind},
        hold::PENDING,
    },
};

/// A run of a policy that asks for dependencies.
#[derive(Debug)]
pub(super) enum Run {
    /// It is not claimed, or has ended.
    Idle,
    /// It has ended, and needs nothing for its deletion.
    Done,
    /// It has to be read.
    Unread,
    /// It needs objects.
    Known(KnownRun),
}

/// A run that has been read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KnownRun {
    pub(super) need: Arc<Need>,
    /// The attempt that was read.
    attempt: u64,
    /// Argo deletes artifacts with it; `None` if only its templates tell.
    collects: Option<bool>,
    /// Its names may have changed, so it has to be read again. It keeps those that it may have begun
    /// with.
    is_stale: bool,
}

impl Run {
    /// True if it has to be read.
    pub(super) fn is_unread(&self) -> bool {
        match self {
            Self::Unread => true,
            Self::Known(known) => known.is_stale,
            Self::Idle | Self::Done => false,
        }
    }
}

/// The parts of a Workflow that tell what it needs.
#[derive(Debug)]
pub(in crate::hub::objects) struct RunFacts {
    /// The cluster that it is claimed for, and the attempt.
    claimed: Option<(ClusterName, u64)>,
    is_over: bool,
    is_deleting: bool,
    /// Its metadata and its specification, if the object was read as a whole.
    manifest: Option<Value>,
    /// Argo deletes artifacts with it, according to its status.
    collects: Option<bool>,
}

impl RunFacts {
    /// Takes the parts out of a Workflow.
    pub(in crate::hub::objects) fn take(object: &mut DynamicObject) -> Self {
        let labels = object.metadata.labels.as_ref();
        let phase = labels.and_then(|labels| labels.get(names::ARGO_PHASE_LABEL));
        let is_over = phase.is_some_and(|phase| workflow::is_final(phase));
        let claim =
            Claim::of(&object.metadata).filter(|claim| !claim.is_for_every_cluster() && !claim.is_given_up);
        let collecting = object.data.pointer("/status/artifactGCStatus");
        let collects = collecting.map(|status| status.get("notSpecified").is_none_or(|field| *field != true));
        let spec = object
            .data
            .as_object_mut()
            .and_then(|fields| fields.remove("spec"));
        Self {
            claimed: claim.map(|claim| (claim.cluster, claim.attempt)),
            is_over,
            is_deleting: object.metadata.deletion_timestamp.is_some(),
            manifest: spec.map(|spec| json!({ "metadata": object.metadata, "spec": spec })),
            collects,
        }
    }

    /// The state of a run that has ended; `None` if it still needs objects, or has to be read.
    fn ended(&self, run: Option<&Run>) -> Option<Run> {
        match run {
            Some(Run::Known(known)) if known.collects == Some(true) => None,
            Some(Run::Known(known)) if known.collects == Some(false) => Some(Run::Done),
            Some(Run::Done) => Some(Run::Done),
            _ if !self.is_deleting => Some(Run::Idle),
            _ => (self.manifest.is_some() && self.collects == Some(false)).then_some(Run::Done),
        }
    }
}

impl ObjectIndex {
    /// Learns a Workflow that a policy selects or has selected.
    pub(in crate::hub::objects) fn learn_run(&mut self, origin: &OriginUid, facts: RunFacts) -> Dirty {
        let cluster = facts.claimed.as_ref().map(|(cluster, _)| cluster);
        let known = match self.needs.runs.get(origin) {
            Some(Run::Known(known)) if Some(&known.need.cluster) == cluster => Some(known.need.asked.kept()),
            _ => None,
        };
        if known.is_none_or(Asked::is_empty) && self.asked_for(origin, None).is_empty() {
            return self.forget_run(origin);
        }
        if facts.is_over
            && let Some(ended) = facts.ended(self.needs.runs.get(origin))
        {
            return self.set_run(origin, ended);
        }
        // A policy draws nothing to a cluster that it does not match, whoever has written the claim.
        // A run keeps what it has begun with, but no Secret without the consent of a policy.
        let asked = |cluster: &ClusterName| {
            let kept = known.unwrap_or_default();
            kept.with(self.asked_for(origin, Some(cluster)))
        };
        let asking = facts.claimed.clone().map(|claimed| (asked(&claimed.0), claimed));
        // A policy may consent again, and a run that is known is not read again.
        let is_asking = |(asked, _): &(Asked, _)| known.is_some() || !asked.is_empty();
        let Some((asked, (cluster, attempt))) = asking.filter(is_asking) else {
            return self.set_run(origin, Run::Idle);
        };
        let Some(object) = self.objects.get(origin) else {
            return Dirty::new();
        };
        let Some((named, collects, is_stale)) = self.names_of_run(origin, object, facts, &cluster, attempt)
        else {
            let is_readable = object.decode_error.is_none();
            return self.set_run(origin, if is_readable { Run::Unread } else { Run::Idle });
        };
        let need = Need {
            cluster,
            namespace: Arc::clone(&object.namespace),
            asked,
            named,
        };
        let known = KnownRun {
            need: Arc::new(need),
            attempt,
            collects,
            is_stale,
        };
        self.set_run(origin, Run::Known(known))
    }

    /// The names in a Workflow that was read or is known, if Argo deletes artifacts with it, and true if
    /// it has to be read again; `None` if it was never read for this cluster.
    fn names_of_run(
        &self,
        origin: &OriginUid,
        object: &ObjectView,
        facts: RunFacts,
        cluster: &ClusterName,
        attempt: u64,
    ) -> Option<(Arc<[Dependency]>, Option<bool>, bool)> {
        let former = match self.needs.runs.get(origin) {
            Some(Run::Known(former)) if former.need.cluster == *cluster => Some(former),
            _ => None,
        };
        let is_stale = former.is_none_or(|former| former.is_stale || former.attempt != attempt);
        if let Some(manifest) = facts.manifest.filter(|_| is_stale) {
            let found = self.names_on(object, manifest, cluster);
            let told = facts.collects.filter(|_| facts.is_over);
            let collects = told.or_else(|| collects(&found));
            let former = former.map(|former| &*former.need.named);
            return Some((named(found, former.unwrap_or_default()), collects, false));
        }
        let former = former?;
        let named = Arc::clone(&former.need.named);
        Some((named, former.collects, is_stale && object.decode_error.is_none()))
    }

    /// The objects that a Workflow names on its cluster, or if it cannot be sent there, as it is.
    fn names_on(&self, object: &ObjectView, manifest: Value, cluster: &ClusterName) -> Dependencies {
        let sent = self.transformed(object, manifest.clone(), cluster);
        let sent = sent.unwrap_or(manifest);
        let spec = sent.get("spec").unwrap_or(&Value::Null);
        Dependencies::of_workflow(spec, &object.namespace)
    }

    /// Learns that transforms or properties of clusters, of one if given, may have changed the names in
    /// Workflows: in all of them, or in those with templates. A run that has begun is not changed.
    pub(in crate::hub::objects) fn read_runs_anew(
        &mut self,
        cluster: Option<&ClusterName>,
        are_all: bool,
    ) -> Dirty {
        let objects = &self.objects;
        let is_concerned = |object: &ObjectView| {
            (are_all || object.is_templated) && object.decode_error.is_none() && !has_begun(object)
        };
        let mut dirty = Dirty::new();
        for (origin, run) in &mut self.needs.runs {
            if let Run::Known(known) = run
                && cluster.is_none_or(|cluster| known.need.cluster == *cluster)
                && objects.get(origin).is_some_and(|object| is_concerned(object))
            {
                known.is_stale = true;
                dirty.insert(DownsyncKey::Object(origin.clone()));
            }
        }
        dirty
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
            Some(Run::Known(known)) => {
                let kept = known.need.asked.kept();
                let need = Need {
                    asked: kept.with(self.asked_for(origin, Some(&known.need.cluster))),
                    ..Need::clone(&known.need)
                };
                let renewed = KnownRun {
                    need: Arc::new(need),
                    ..known.clone()
                };
                self.set_run(origin, Run::Known(renewed))
            }
            _ if self.asked_for(origin, None).is_empty() => self.forget_run(origin),
            None => self.set_run(origin, Run::Unread),
            Some(_) => Dirty::new(),
        }
    }

    /// True if the specification of a run has to be read.
    pub(in crate::hub::objects) fn is_unread_run(&self, origin: &OriginUid) -> bool {
        self.needs.runs.get(origin).is_some_and(Run::is_unread)
    }

    pub(super) fn forget_run(&mut self, origin: &OriginUid) -> Dirty {
        match self.needs.runs.remove(origin) {
            Some(Run::Known(known)) => {
                let mut dirty = self.leave_group(&known.need);
                dirty.extend(self.policies_asking_for(origin));
                dirty
            }
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

    fn set_run(&mut self, origin: &OriginUid, mut run: Run) -> Dirty {
        let mut dirty = Dirty::new();
        // The runs of a group share its needs.
        if let Run::Known(known) = &mut run
            && let Some((shared, _)) = self.needs.groups.get_key_value(&known.need)
        {
            known.need = Arc::clone(shared);
        }
        match (self.needs.runs.get(origin), &run) {
            (Some(Run::Known(known)), Run::Known(new)) if known == new => return dirty,
            (former, Run::Known(known)) => {
                let need = Arc::clone(&known.need);
                // Templates may name others by now than those that it has begun with.
                let kept = match former {
                    Some(Run::Known(former)) if former.need.cluster == need.cluster => {
                        let group = self.needs.groups.get(&former.need);
                        group.map(|group| group.targets.clone()).unwrap_or_default()
                    }
                    _ => BTreeSet::new(),
                };
                dirty.extend(self.join_group(&need));
                dirty.extend(self.keep_targets(&need, &kept));
            }
            (_, Run::Idle | Run::Done | Run::Unread) => {}
        }
        if run.is_unread() {
            dirty.insert(DownsyncKey::Object(origin.clone()));
        }
        dirty.extend(self.policies_asking_for(origin));
        // Joined before the former group is left, so that a common object stays without a pause.
        if let Some(Run::Known(former)) = self.needs.runs.insert(origin.clone(), run) {
            dirty.extend(self.leave_group(&former.need));
        }
        dirty
    }
}

/// True if the run has reported a phase. One that waits has the phase of its hold.
fn has_begun(object: &ObjectView) -> bool {
    let phase = object.labels.get(names::ARGO_PHASE_LABEL);
    phase.is_some_and(|phase| phase != PENDING)
}

/// The objects that a run names, and as far as there is room those that it has named. ServiceAccounts
/// come first: a run without rights fails. One more than are sent shows that there are more.
fn named(found: Dependencies, former: &[Dependency]) -> Arc<[Dependency]> {
    let is_account = |named: &Dependency| named.kind == DependencyKind::ServiceAccount;
    let (accounts, others): (Vec<_>, Vec<_>) = found.named.into_keys().partition(is_account);
    let mut named: Vec<_> = accounts.into_iter().chain(others).take(MOST_NAMED + 1).collect();
    for former in former {
        if named.len() < MOST_NAMED && !named.contains(former) {
            named.push(former.clone());
        }
    }
    named.into()
}

/// True if Argo deletes artifacts with a run that names these objects; `None` if only templates tell.
fn collects(found: &Dependencies) -> Option<bool> {
    let mut named = found.named.keys();
    let has_templates = named.any(|named| {
        matches!(
            named.kind,
            DependencyKind::WorkflowTemplate | DependencyKind::ClusterWorkflowTemplate
        )
    });
    (found.collects_artifacts || !has_templates).then_some(found.collects_artifacts)
}
