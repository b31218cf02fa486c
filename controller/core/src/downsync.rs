//! The controller's second index: objects of every kind, on their way to all clusters that their policies match.
//!
//! Other than a Workflow, which one cluster runs once (`hub`), such an object is kept on each of its clusters as it is in the WDS. Owned
//! here: which objects which policies select, one ManifestWork for each object and cluster, the status that comes back, and what
//! BindingPolicies and Bindings say. Workflows are counted here and left alone. Not here: what a WEC does with a ManifestWork.

mod action;
mod binding;
mod collectors;
mod copy;
mod events;
pub mod kind;
mod manifest;
mod object;
mod policy;
mod subject;
mod tally;
mod upsync;
mod wanted;
mod work;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use argosy_api::{
    Binding, BindingPolicy, CombinedStatus, CustomTransform, ManagedCluster, ManifestWork, StatusCollector,
    WorkStatus,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::core::DynamicObject;

use crate::{
    Change, ClusterName, Decision, Failure, OriginUid, Reconcile, Subject, digest::Digest, placement::Labels,
    properties::Properties, reconcile::UnderWay, shared::Shared, transforms::Transforms,
};

pub use action::{DownsyncAction, Place};
pub use collectors::{Combining, There, says};
use kind::{Catalogue, Kind, KindName};
use object::{Object, Selection};
use policy::Policy;
pub use upsync::status_in;
pub use wanted::{WantedKind, WantedKinds};
use work::{Report, Work};

/// What a decision is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DownsyncKey {
    /// The ManifestWork of an object for a cluster.
    Copy(OriginUid, ClusterName),
    /// What is read of an object of the WDS, and what comes back to it.
    Object(OriginUid),
    /// A BindingPolicy's status.
    Policy(String),
    /// A BindingPolicy's Binding.
    Binding(String),
    /// A StatusCollector's status.
    Collector(String),
    /// The CombinedStatus of an object and of the policy with this UID.
    Combined(OriginUid, String),
}

impl DownsyncKey {
    /// What a policy says.
    fn of_policy(name: &str) -> [Self; 2] {
        [Self::Policy(name.to_owned()), Self::Binding(name.to_owned())]
    }
}

impl fmt::Display for DownsyncKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copy(origin, cluster) => write!(f, "object {origin} for {cluster}"),
            Self::Object(origin) => write!(f, "object {origin}"),
            Self::Policy(name) => write!(f, "bindingpolicy {name}"),
            Self::Binding(name) => write!(f, "binding {name}"),
            Self::Collector(name) => write!(f, "statuscollector {name}"),
            Self::Combined(origin, policy) => write!(f, "combinedstatus {origin}.{policy}"),
        }
    }
}

/// What can be learnt.
#[derive(Debug)]
pub enum DownsyncInput {
    /// All kinds that the WDS serves.
    Kinds(Vec<Kind>),
    /// Objects of a kind of the WDS.
    Object(Arc<Kind>, Change<DynamicObject>),
    /// A kind is no longer watched, because no policy can select it or the WDS does not serve it.
    Unwatched(KindName),
    /// The objects of a kind may not be watched: what the API server said.
    Unreadable(KindName, String),
    /// An object of the WDS that was to be read or changed is not there.
    ObjectGone(OriginUid),
    /// An object of the WDS as it is after our own patch of its status.
    WroteStatus(Arc<Kind>, Digest, Box<DynamicObject>),
    /// BindingPolicies of the WDS.
    Policy(Change<BindingPolicy>),
    /// CustomTransforms of the WDS.
    Transform(Change<CustomTransform>),
    /// Namespaces of the WDS.
    Namespace(Change<Namespace>),
    /// Bindings of the WDS.
    Binding(Change<Binding>),
    /// ManagedClusters of the ITS.
    Cluster(Change<ManagedCluster>),
    /// ConfigMaps of the ITS with properties of clusters.
    Properties(Change<ConfigMap>),
    /// ManifestWorks of this WDS in the ITS.
    Work(Change<ManifestWork>),
    /// A ManifestWork as it is after our own write of what has this digest.
    WroteWork(Digest, Box<ManifestWork>),
    /// A ManifestWork that was to be changed or deleted is not there.
    WorkGone(ClusterName, OriginUid),
    /// WorkStatuses in the ITS.
    Report(Change<WorkStatus>),
    /// WorkStatuses of Workflows in the ITS, where any policy has StatusCollectors for them.
    RunReport(Change<WorkStatus>),
    /// The watch of those has ended, because no policy has StatusCollectors for Workflows any more.
    RunReportsUnwatched,
    /// StatusCollectors of the WDS.
    Collector(Change<StatusCollector>),
    /// CombinedStatuses of the WDS.
    Combined(Change<CombinedStatus>),
    /// A CombinedStatus as it is now that it is made of what has this digest.
    WroteCombined(Digest, Box<CombinedStatus>),
    /// A CombinedStatus says already, in this version, what it would say if it were made of what has this digest.
    CombinedStands(String, String, Digest),
    /// A CombinedStatus that was to be changed or deleted is not there.
    CombinedGone(String),
}

/// What the index is told at start.
#[derive(Clone, Debug)]
pub struct DownsyncConfig {
    /// Name of the WDS, written on every ManifestWork.
    pub wds_name: String,
}

/// The first listing of each kind that is always watched.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one per kind")]
struct Synced {
    policies: bool,
    transforms: bool,
    namespaces: bool,
    bindings: bool,
    clusters: bool,
    properties: bool,
    works: bool,
    reports: bool,
    collectors: bool,
    combined: bool,
}

/// A ManagedCluster, as far as objects are concerned.
#[derive(Debug, Default, PartialEq)]
struct Cluster {
    labels: Arc<Labels>,
    annotations: Labels,
    /// It was taken out of the fleet: nothing is sent there any more.
    is_removed: bool,
    /// So it was, and its agent has stopped renewing its lease.
    is_cut_off: bool,
}

/// The index.
#[derive(Debug)]
pub struct Downsync {
    config: DownsyncConfig,
    synced: Synced,
    /// `None` until discovery has answered.
    catalogue: Option<Catalogue>,
    /// Kinds whose objects have been listed since they are watched.
    listed: BTreeSet<KindName>,
    unreadable: BTreeMap<KindName, String>,
    objects: HashMap<OriginUid, Object>,
    selections: Shared<Selection>,
    by_kind: BTreeMap<KindName, BTreeSet<OriginUid>>,
    policies: BTreeMap<String, Policy>,
    transforms: Transforms,
    namespaces: BTreeMap<String, Arc<Labels>>,
    clusters: BTreeMap<ClusterName, Cluster>,
    /// Properties of clusters; some may be seen before their ManagedCluster.
    properties: Properties,
    works: HashMap<OriginUid, BTreeMap<ClusterName, Box<Work>>>,
    works_by_kind: BTreeMap<KindName, BTreeSet<(OriginUid, ClusterName)>>,
    /// UID of the WDS's namespace `kube-system`, which says which API server this is.
    space: Option<String>,
    reports: HashMap<OriginUid, BTreeMap<ClusterName, Box<Report>>>,
    bindings: BTreeMap<String, binding::Known>,
    collectors: BTreeMap<String, collectors::Entry>,
    combined: collectors::AllCombined,
    /// Why a ManifestWork could not be written.
    send_failures: BTreeMap<(OriginUid, ClusterName), String>,
    /// Why an object of the WDS could not be read or written.
    object_failures: BTreeMap<OriginUid, String>,
    /// What in the templates of an object cannot be expanded for a cluster.
    template_errors: BTreeMap<(OriginUid, ClusterName), Vec<String>>,
    under_way: UnderWay<DownsyncKey>,
    /// When everything that is always watched had been listed.
    synced_at: Option<Timestamp>,
    wanted_kinds: Arc<WantedKinds>,
}

impl Downsync {
    /// An index that knows nothing yet.
    pub fn new(config: DownsyncConfig) -> Self {
        Self {
            config,
            synced: Synced::default(),
            catalogue: None,
            listed: BTreeSet::new(),
            unreadable: BTreeMap::new(),
            objects: HashMap::new(),
            selections: Shared::new(),
            by_kind: BTreeMap::new(),
            policies: BTreeMap::new(),
            transforms: Transforms::default(),
            namespaces: BTreeMap::new(),
            clusters: BTreeMap::new(),
            properties: Properties::default(),
            works: HashMap::new(),
            works_by_kind: BTreeMap::new(),
            space: None,
            reports: HashMap::new(),
            bindings: BTreeMap::new(),
            collectors: BTreeMap::new(),
            combined: BTreeMap::new(),
            send_failures: BTreeMap::new(),
            object_failures: BTreeMap::new(),
            template_errors: BTreeMap::new(),
            under_way: UnderWay::new(),
            synced_at: None,
            wanted_kinds: Arc::default(),
        }
    }

    /// Whether everything that is always watched has been listed once. The objects of each kind count for themselves.
    pub fn is_synced(&self) -> bool {
        self.unlisted().is_empty()
    }

    /// ManifestWorks of another WDS of this name, or of one that was made anew. They are left alone.
    pub fn orphans(&self) -> impl Iterator<Item = &OriginUid> {
        let works = self
            .works
            .iter()
            .filter(|(origin, _)| !self.objects.contains_key(*origin));
        works
            .filter(|(_, works)| works.values().any(|work| work.space != self.space))
            .map(|(origin, _)| origin)
    }

    /// The kinds that are to be watched: another one whenever that has changed.
    pub fn wanted_kinds(&self) -> &Arc<WantedKinds> {
        &self.wanted_kinds
    }

    fn every_key(&self) -> BTreeSet<DownsyncKey> {
        let names = || self.policies.keys().cloned();
        let copies = self
            .works
            .iter()
            .flat_map(|(origin, works)| works.keys().map(|cluster| (origin.clone(), cluster.clone())));
        let objects = self.objects.keys();
        names()
            .map(DownsyncKey::Policy)
            .chain(names().map(DownsyncKey::Binding))
            .chain(copies.map(|(origin, cluster)| DownsyncKey::Copy(origin, cluster)))
            .chain(objects.flat_map(|origin| self.keys_of(origin)))
            .chain(self.collectors.keys().cloned().map(DownsyncKey::Collector))
            .chain(
                self.combined
                    .keys()
                    .filter_map(|name| collectors::combined_key(name)),
            )
            .collect()
    }
}

impl Reconcile for Downsync {
    type Input = DownsyncInput;
    type Key = DownsyncKey;
    type Action = DownsyncAction;

    fn apply(&mut self, input: DownsyncInput, now: Timestamp) -> BTreeSet<DownsyncKey> {
        let was_synced = self.is_synced();
        let dirty = self.learn(input);
        match (was_synced, self.is_synced()) {
            (true, _) => self.with_templates_checked(dirty),
            (false, true) => {
                self.synced_at = Some(now);
                self.renew_wanted_kinds();
                self.seek_every();
                let dirty = self.every_key();
                self.with_templates_checked(dirty)
            }
            (false, false) => BTreeSet::new(),
        }
    }

    fn answered(&mut self, key: &DownsyncKey, input: DownsyncInput, now: Timestamp) -> BTreeSet<DownsyncKey> {
        self.under_way.answer();
        let mut dirty = self.apply(input, now);
        self.under_way.end(key);
        if let DownsyncKey::Object(origin) = key
            && self.object_failures.remove(origin).is_some()
        {
            let object = self.objects.get(origin);
            dirty.extend(object.into_iter().flat_map(Object::policy_keys));
        }
        dirty
    }

    fn failed(
        &mut self,
        key: &DownsyncKey,
        action: &DownsyncAction,
        failure: &Failure,
    ) -> BTreeSet<DownsyncKey> {
        self.under_way.end(key);
        self.learn_failure(key, action, failure)
    }

    fn began(&mut self, key: &DownsyncKey) {
        self.under_way.begin(key);
    }

    fn decide(&self, key: &DownsyncKey, now: Timestamp) -> Decision<DownsyncAction> {
        if !self.is_synced() {
            return Decision::rest();
        }
        match key {
            DownsyncKey::Copy(origin, cluster) => self.decide_copy(origin, cluster).into(),
            DownsyncKey::Object(origin) => self.decide_object(origin).into(),
            DownsyncKey::Policy(name) => self.decide_policy(name, now),
            DownsyncKey::Binding(name) => self.decide_binding(name, now),
            DownsyncKey::Collector(name) => self.decide_collector(name).into(),
            DownsyncKey::Combined(origin, policy) => self.decide_combined(origin, policy).into(),
        }
    }

    fn subject(&self, key: &DownsyncKey) -> Subject {
        self.subject_of(key)
    }
}

#[cfg(test)]
mod tests;
