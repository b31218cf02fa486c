//! The objects that unfinished Workflows need on their clusters: the second reason to send an
//! object, beside a policy that selects it.
//!
//! A policy asks for it ([`names::DEPENDENCIES_ANNOTATION`]). Runs that name the same objects on the
//! same cluster are one group, so an event of a run costs the same however many others need an
//! object. The objects of a group become more while it has runs, never fewer: a run keeps the
//! templates that it has begun with. Not here: the search in a specification
//! (`model::dependencies`), and the ManifestWorks (`dispatch`).

mod closure;
mod concerned;
mod group;
mod obstacles;
mod run;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use argosy_api::{names, workflow};
use jiff::{SignedDuration, Timestamp};

use super::{Dirty, DownsyncKey, ObjectIndex, ObjectView, kind::KindName, object_ref::ObjectRef};
use crate::{
    ClusterName, OriginUid,
    model::dependencies::{Asked, DependencyKind},
};

use closure::{Named, Need, names_others};
use group::Group;
use run::Run;
pub(super) use run::RunFacts;

/// The usual time that objects stay on a cluster after the last run that needs them has ended, so that
/// a stream of short Workflows does not send and delete them again and again.
pub const LINGER: SignedDuration = SignedDuration::from_mins(10);

/// The needs of all runs.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// The kinds that any policy asks for.
    asked: Asked,
    /// The runs of policies that ask.
    runs: HashMap<OriginUid, Run>,
    groups: BTreeMap<Arc<Need>, Group>,
    /// The groups that need an object, by cluster.
    uses: BTreeMap<Arc<ObjectRef>, BTreeMap<ClusterName, BTreeSet<Arc<Need>>>>,
    /// The objects of the kinds that are asked for.
    there: BTreeMap<ObjectRef, OriginUid>,
    /// Groups without runs, by the time at which they are forgotten.
    ending: BTreeSet<(Timestamp, Arc<Need>)>,
    /// All runs and all that they need have been known once. Until then, no object is deleted that
    /// an earlier controller has sent for a run.
    is_settled: bool,
}

impl Needs {
    /// True if nothing of a former run is kept in memory.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.uses.is_empty() && self.ending.is_empty()
    }
}

impl ObjectIndex {
    /// True if a run needs the object on the cluster, or has needed it a moment ago.
    pub(super) fn is_needed(&self, object: &ObjectView, cluster: &ClusterName) -> bool {
        self.used(object).is_some_and(|uses| uses.contains_key(cluster))
    }

    /// The clusters on which a run needs the object.
    pub(super) fn needing(&self, object: &ObjectView) -> impl Iterator<Item = &ClusterName> {
        self.used(object).into_iter().flat_map(BTreeMap::keys)
    }

    /// True if a run needs the object anywhere.
    pub(super) fn is_used(&self, object: &ObjectView) -> bool {
        self.used(object).is_some()
    }

    /// The time until which the object stays on the cluster for the sake of runs; `None` if no run
    /// needs it.
    pub(super) fn needed_until(&self, object: &ObjectView, cluster: &ClusterName) -> Option<Timestamp> {
        let needs = self.used(object)?.get(cluster)?;
        let groups = needs.iter().filter_map(|need| self.needs.groups.get(need));
        groups.map(|group| group.ends_at.unwrap_or(Timestamp::MAX)).max()
    }

    fn used(&self, object: &ObjectView) -> Option<&BTreeMap<ClusterName, BTreeSet<Arc<Need>>>> {
        if self.needs.uses.is_empty() || !may_travel(object) {
            return None;
        }
        self.needs.uses.get(&reference(object))
    }

    /// True if an object that was sent for a run may be needed although no run is known to need it.
    pub(super) fn may_be_needed(&self) -> bool {
        !self.needs.is_settled
    }

    /// The key of the label that objects of this kind must have to be needed, which is empty for
    /// most kinds. `None` if no policy asks for the kind.
    pub(super) fn needed_label(&self, kind: &KindName) -> Option<&'static str> {
        let is_secrets = dependency_kind(kind) == Some(DependencyKind::Secret);
        let label = if is_secrets { names::TRAVELS_LABEL } else { "" };
        sends(self.needs.asked, kind).then_some(label)
    }

    /// Determines anew the kinds that the policies ask for.
    pub(super) fn renew_asked(&mut self) {
        // The kinds of objects that are on a cluster are watched until they are gone from there.
        let groups = self.needs.groups.keys().map(|need| need.asked);
        let policies = self.policies.values().map(|policy| policy.rules().asked);
        let asked = policies.chain(groups).fold(Asked::default(), Asked::with);
        if asked == self.needs.asked {
            return;
        }
        self.needs.asked = asked;
        let objects = self.objects.iter();
        let there = objects.filter(|(_, object)| self.needed_label(&object.kind.name()).is_some());
        self.needs.there = there
            .map(|(origin, object)| (reference(object), origin.clone()))
            .collect();
    }

    /// Learns that an object is there, or has changed.
    pub(super) fn learn_needed(&mut self, origin: &OriginUid) -> Dirty {
        let Some(object) = self.objects.get(origin) else {
            return Dirty::new();
        };
        let kind = object.kind.name();
        if self.needed_label(&kind).is_none() {
            return Dirty::new();
        }
        let reference = reference(object);
        if !may_name_others(&kind) {
            self.needs.there.insert(reference, origin.clone());
            return Dirty::new();
        }
        let uses = self.needs.uses.get(&reference).into_iter();
        let groups = uses.flat_map(|uses| uses.values().flatten().cloned()).collect();
        self.needs.there.insert(reference, origin.clone());
        self.extend_groups(&groups)
    }

    /// Learns that transforms, or properties of clusters, may have changed the names in the objects of
    /// these copies.
    pub(super) fn search_anew(&mut self, copies: &Dirty) -> Dirty {
        if self.needs.groups.is_empty() {
            return Dirty::new();
        }
        let groups = copies.iter().filter_map(|key| match key {
            DownsyncKey::Copy(origin, cluster) => {
                let object = self.objects.get(origin);
                let object = object.filter(|object| may_name_others(&object.kind.name()))?;
                self.used(object)?.get(cluster)
            }
            _ => None,
        });
        let groups = groups.flatten().cloned().collect();
        self.extend_groups(&groups)
    }

    /// Adds to these groups what their objects name now.
    fn extend_groups(&mut self, groups: &BTreeSet<Arc<Need>>) -> Dirty {
        let mut named = Named::new();
        let extend = |need| self.extend_group(need, &mut named);
        groups.iter().flat_map(extend).collect()
    }

    /// Learns that an object is gone, or about to be forgotten.
    pub(super) fn lose_needed(&mut self, origin: &OriginUid) -> Dirty {
        if let Some(object) = self.objects.get(origin)
            && !self.needs.there.is_empty()
        {
            let reference = reference(object);
            // Another object of the same name may have taken its place.
            if self.needs.there.get(&reference) == Some(origin) {
                self.needs.there.remove(&reference);
            }
        }
        self.forget_run(origin)
    }

    /// Forgets the groups whose time is over.
    pub(super) fn forget_groups(&mut self, now: Timestamp) -> Dirty {
        let mut dirty = Dirty::new();
        while let Some((at, _)) = self.needs.ending.first()
            && *at <= now
        {
            if let Some((_, need)) = self.needs.ending.pop_first() {
                dirty.extend(self.forget_group(&need));
            }
        }
        dirty
    }

    /// Notes that all runs and their needs are known, and returns the copies that waited for that.
    pub(super) fn settle_needs(&mut self) -> Dirty {
        if self.needs.is_settled || self.synced_at.is_none() || !self.knows_all_needs() {
            return Dirty::new();
        }
        self.needs.is_settled = true;
        let works = self.works.iter().flat_map(|(origin, works)| {
            let sent = works.iter().filter(|(_, work)| work.is_dependency);
            sent.map(move |(cluster, _)| DownsyncKey::Copy(origin.clone(), cluster.clone()))
        });
        works.collect()
    }

    fn knows_all_needs(&self) -> bool {
        if self.needs.asked.is_empty() {
            return true;
        }
        let runs = KindName::new(workflow::GROUP, workflow::PLURAL);
        // A right that is missing now may be back in a moment, and what the objects of the kind name is
        // unknown until then.
        let is_known = |kind: &KindName| {
            self.listed.contains(kind) || (!may_name_others(kind) && self.unreadable.contains_key(kind))
        };
        let mut kinds = self.wanted_kinds.iter().map(|(kind, _)| kind);
        self.listed.contains(&runs)
            && kinds.all(|kind| is_known(kind) || self.needed_label(kind).is_none())
            && !self.needs.runs.values().any(Run::is_unread)
            && !self.needs.groups.values().any(|group| group.is_incomplete)
    }
}

/// The kinds that a run can need, with group and plural.
const KINDS: [(DependencyKind, &str, &str); 5] = [
    (
        DependencyKind::WorkflowTemplate,
        workflow::GROUP,
        "workflowtemplates",
    ),
    (
        DependencyKind::ClusterWorkflowTemplate,
        workflow::GROUP,
        "clusterworkflowtemplates",
    ),
    (DependencyKind::ConfigMap, "", "configmaps"),
    (DependencyKind::Secret, "", "secrets"),
    (DependencyKind::ServiceAccount, "", "serviceaccounts"),
];

fn is(kind: &KindName, group: &str, resource: &str) -> bool {
    (&*kind.group, &*kind.resource) == (group, resource)
}

/// True if a policy that asks for these kinds of dependencies sends objects of the kind.
pub(super) fn sends(asked: Asked, kind: &KindName) -> bool {
    let is_asked = |of| asked.has(of);
    !asked.is_empty() && (is_namespaces(kind) || dependency_kind(kind).is_some_and(is_asked))
}

fn dependency_kind(kind: &KindName) -> Option<DependencyKind> {
    let mut kinds = KINDS.iter();
    let known = kinds.find(|(_, group, resource)| is(kind, group, resource));
    known.map(|(of, ..)| *of)
}

/// True if objects of the kind can name others that a run then needs.
fn may_name_others(kind: &KindName) -> bool {
    dependency_kind(kind).is_some_and(names_others)
}

/// True for the kind Namespace.
pub(super) fn is_namespaces(kind: &KindName) -> bool {
    is(kind, "", "namespaces")
}

fn reference(object: &ObjectView) -> ObjectRef {
    ObjectRef {
        kind: object.kind.name(),
        namespace: object.namespace.to_string(),
        name: object.name.to_string(),
    }
}

/// True if the object itself allows that it is sent because a run needs it.
fn may_travel(object: &ObjectView) -> bool {
    !object.kind.is_secret() || (object.labels.get(names::TRAVELS_LABEL) == Some("true") && !object.is_token)
}
