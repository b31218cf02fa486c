//! The controller's second index: it sends objects of every kind to all clusters that their
//! policies match.
//!
//! Unlike a Workflow, which one cluster runs once (`hub::workflows`), such an object is kept on
//! each of its clusters as it is in the WDS. Owned here: the objects that each policy selects, one
//! ManifestWork for each object and cluster, the status that comes back, the statuses of
//! BindingPolicies, and the Bindings. Workflows are counted here and not sent. Not here: the effect
//! of a ManifestWork on a WEC.

mod action;
mod arrival;
mod binding;
pub mod collect;
mod collectors;
mod destinations;
mod dispatch;
mod executor_binding;
pub mod kind;
mod learn;
mod manifest_work;
mod needs;
mod object;
mod object_ref;
mod observed;
mod pace;
mod policy_view;
mod status;
pub mod status_aggregate;
mod subject;
mod sync_summary;
mod watched_kinds;
mod work;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use argosy_api::{
    Binding, BindingPolicy, CombinedStatus, CustomTransform, ManagedCluster, ManifestWork, StatusCollector,
    WorkStatus,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::core::DynamicObject;

use crate::{
    Change, ClusterName, Decision, Failure, LogFields, OriginUid,
    hub::{
        inventory::{Cluster, Namespaces},
        properties::Properties,
        transforms::Transforms,
    },
    index::{
        budget::Kept,
        fingerprint::Fingerprint,
        interner::Interner,
        synced::{Synced, kinds},
        tracked::{InFlight, Index},
    },
    policy,
};

pub use action::{DownsyncAction, ObjectEvent, Place};
pub use collectors::{Combining, There, says};
use kind::{Catalog, Kind, KindName};
pub use needs::LINGER;
use object::{ObjectView, Selection};
pub use observed::{ObservedObject, ObservedReport, ObservedWork};
use policy_view::PolicyView;
pub use status::status_in;
pub use subject::DownsyncKey;
pub use watched_kinds::{WantedKind, WantedKinds};
use work::{ManifestWorkView, WorkStatusView};

/// Inputs of the index.
#[derive(Debug)]
pub enum DownsyncInput {
    /// All kinds that the WDS serves.
    Kinds(Vec<Kind>),
    /// Objects of a kind of the WDS.
    Object(Arc<Kind>, Change<ObservedObject>),
    /// A kind is no longer watched, because no policy can select it or the WDS does not serve it.
    Unwatched(KindName),
    /// The API server refuses the watch of a kind, with this message.
    Unreadable(KindName, String),
    /// An object of the WDS that was to be read or changed does not exist.
    ObjectGone(OriginUid),
    /// An object of the WDS after the controller's own write of a status with this digest.
    WroteStatus(Arc<Kind>, Fingerprint, Box<ObservedObject>),
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
    /// Secrets of the ITS with properties of clusters, for the templates in Secrets.
    SecretProperties(Change<Secret>),
    /// ManifestWorks of this WDS in the ITS.
    Work(Change<ObservedWork>),
    /// A ManifestWork after the controller's own write of content with this digest.
    WroteWork(Fingerprint, Box<ObservedWork>),
    /// A ManifestWork that was to be changed or deleted does not exist.
    WorkGone(ClusterName, OriginUid),
    /// WorkStatuses in the ITS.
    Report(Change<ObservedReport>),
    /// A WorkStatus that was to be read does not exist.
    ReportGone {
        /// The cluster of the mailbox.
        cluster: ClusterName,
        /// UID of the object.
        origin: OriginUid,
        /// The resource version that the index had when it asked.
        version: String,
    },
    /// WorkStatuses of Workflows in the ITS, watched while any policy has StatusCollectors for
    /// them.
    RunReport(Change<ObservedReport>),
    /// The watch of WorkStatuses of Workflows has ended, because no policy has StatusCollectors for
    /// Workflows any more.
    RunReportsUnwatched,
    /// StatusCollectors of the WDS.
    Collector(Change<StatusCollector>),
    /// CombinedStatuses of the WDS.
    Combined(Change<CombinedStatus>),
    /// A CombinedStatus after the controller's own write, made of inputs with this digest.
    WroteCombined(Fingerprint, Box<CombinedStatus>),
    /// The stored CombinedStatus of this name and resource version already has the content that
    /// inputs with this digest yield.
    CombinedStands(String, String, Fingerprint),
    /// A CombinedStatus that was to be changed or deleted does not exist.
    CombinedGone(String),
}

impl DownsyncInput {
    /// Objects of a kind of the WDS.
    pub fn object(kind: Arc<Kind>, change: Change<DynamicObject>) -> Self {
        Self::Object(kind, change.map(ObservedObject::from))
    }

    /// An object of the WDS after the controller's own write of a status with the digest `wanted`.
    pub fn wrote_status(kind: Arc<Kind>, wanted: Fingerprint, object: DynamicObject) -> Self {
        Self::WroteStatus(kind, wanted, Box::new(object.into()))
    }

    /// A ManifestWork after the controller's own write of content with the digest `wanted`.
    pub fn wrote_work(wanted: Fingerprint, work: ManifestWork) -> Self {
        Self::WroteWork(wanted, Box::new(work.into()))
    }

    /// ManifestWorks of this WDS in the ITS.
    pub fn work(change: Change<ManifestWork>) -> Self {
        Self::Work(change.map(ObservedWork::from))
    }

    /// WorkStatuses in the ITS.
    pub fn report(change: Change<WorkStatus>) -> Self {
        Self::Report(change.map(ObservedReport::from))
    }

    /// WorkStatuses of Workflows in the ITS.
    pub fn run_report(change: Change<WorkStatus>) -> Self {
        Self::RunReport(change.map(ObservedReport::from))
    }
}

/// Configuration of the index.
#[derive(Clone, Debug)]
pub struct DownsyncConfig {
    /// Name of the WDS, written on every ManifestWork.
    pub wds_name: String,
    /// The admission webhook and the admission policies guard the hold.
    pub is_guarded: bool,
    /// Time that objects stay on a cluster after the last run that needs them has ended.
    pub linger: jiff::SignedDuration,
}

kinds! {
    /// The kinds that are always watched.
    enum Awaited {
        Policies = "bindingpolicies",
        Transforms = "customtransforms",
        Namespaces = "namespaces",
        Bindings = "bindings",
        Clusters = "managedclusters",
        Properties = "configmaps",
        SecretProperties = "secrets",
        Works = "manifestworks",
        Reports = "workstatuses",
        Collectors = "statuscollectors",
        Combined = "combinedstatuses",
    }
}

type Dirty = BTreeSet<DownsyncKey>;

/// The index.
#[derive(Debug)]
pub struct ObjectIndex {
    config: DownsyncConfig,
    synced: Synced<Awaited>,
    /// `None` until discovery has answered.
    catalog: Option<Catalog>,
    /// Kinds whose objects have been listed since their watch began.
    listed: BTreeSet<KindName>,
    unreadable: BTreeMap<KindName, String>,
    objects: HashMap<OriginUid, Box<ObjectView>>,
    selections: Interner<Selection>,
    by_kind: BTreeMap<KindName, BTreeSet<OriginUid>>,
    policies: BTreeMap<String, PolicyView>,
    /// The policies that may select an object, by kind and label, of the kinds that were needed since a
    /// policy changed.
    policies_by_label: HashMap<KindName, policy::Index>,
    /// Policies that the admission policy has no room for.
    unguarded: BTreeSet<String>,
    transforms: Transforms,
    namespaces: Namespaces,
    clusters: BTreeMap<ClusterName, Cluster>,
    /// Properties of clusters. Some may arrive before their ManagedCluster.
    properties: Properties,
    works: HashMap<OriginUid, BTreeMap<ClusterName, Box<ManifestWorkView>>>,
    works_by_kind: BTreeMap<KindName, BTreeSet<(OriginUid, ClusterName)>>,
    reports: HashMap<OriginUid, BTreeMap<ClusterName, Box<WorkStatusView>>>,
    /// Bytes and number of the WorkStatuses that are kept of each cluster.
    kept: BTreeMap<ClusterName, Kept>,
    bindings: BTreeMap<String, binding::Known>,
    collectors: BTreeMap<String, collectors::Entry>,
    combined: collectors::AllCombined,
    /// The reason why a ManifestWork could not be written.
    send_failures: BTreeMap<(OriginUid, ClusterName), String>,
    /// The reason why an object of the WDS could not be read or written.
    object_failures: BTreeMap<OriginUid, String>,
    /// The transforms and templates that cannot be applied to an object for a cluster, a sentence
    /// each.
    content_errors: BTreeMap<(OriginUid, ClusterName), Vec<String>>,
    in_flight: InFlight<DownsyncKey>,
    /// The time at which all kinds that are always watched had been listed.
    synced_at: Option<Timestamp>,
    wanted_kinds: Arc<WantedKinds>,
    needs: needs::Needs,
    /// Limits the writes of all policies' statuses and Bindings together.
    rate_limiter: pace::RateLimiter,
    /// The time of the last input.
    now: Timestamp,
}

impl ObjectIndex {
    /// An empty index.
    pub fn new(config: DownsyncConfig) -> Self {
        Self {
            config,
            synced: Synced::new(),
            catalog: None,
            listed: BTreeSet::new(),
            unreadable: BTreeMap::new(),
            objects: HashMap::new(),
            selections: Interner::new(),
            by_kind: BTreeMap::new(),
            policies: BTreeMap::new(),
            policies_by_label: HashMap::new(),
            unguarded: BTreeSet::new(),
            transforms: Transforms::default(),
            namespaces: Namespaces::default(),
            clusters: BTreeMap::new(),
            properties: Properties::default(),
            works: HashMap::new(),
            works_by_kind: BTreeMap::new(),
            reports: HashMap::new(),
            kept: BTreeMap::new(),
            bindings: BTreeMap::new(),
            collectors: BTreeMap::new(),
            combined: BTreeMap::new(),
            send_failures: BTreeMap::new(),
            object_failures: BTreeMap::new(),
            content_errors: BTreeMap::new(),
            in_flight: InFlight::default(),
            synced_at: None,
            wanted_kinds: Arc::default(),
            needs: needs::Needs::default(),
            rate_limiter: pace::RateLimiter::default(),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    /// True if all kinds that are always watched have been listed once. The lists of other kinds
    /// are tracked one by one (`listed`).
    pub fn is_synced(&self) -> bool {
        self.synced.is_complete()
    }

    /// The kinds that are always watched and have not been listed yet. Until all of them have been
    /// listed, nothing is decided.
    pub fn unlisted(&self) -> Vec<&'static str> {
        self.synced.unlisted()
    }

    /// The objects of ManifestWorks of another WDS of this name, or of a former one that was
    /// created anew. These ManifestWorks are left alone.
    pub fn orphans(&self) -> impl Iterator<Item = &OriginUid> {
        let works = self
            .works
            .iter()
            .filter(|(origin, _)| !self.objects.contains_key(*origin));
        let space = self.namespaces.space();
        works
            .filter(move |(_, works)| works.values().any(|work| work.space.as_deref() != space))
            .map(|(origin, _)| origin)
    }

    /// The kinds to be watched. The `Arc` is replaced whenever they change.
    pub fn wanted_kinds(&self) -> &Arc<WantedKinds> {
        &self.wanted_kinds
    }

    fn every_key(&self) -> Dirty {
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

impl Index for ObjectIndex {
    type Input = DownsyncInput;
    type Key = DownsyncKey;
    type Action = DownsyncAction;

    fn in_flight(&mut self) -> &mut InFlight<DownsyncKey> {
        &mut self.in_flight
    }

    fn may_decide(&self) -> bool {
        self.is_synced()
    }

    fn on_synced(&mut self, now: Timestamp) -> Dirty {
        self.synced_at = Some(now);
        self.renew_wanted_kinds();
        self.settle_needs();
        self.rediscover_all();
        let dirty = self.every_key();
        self.with_content_checked(dirty)
    }

    fn store(&mut self, input: DownsyncInput, answered: Option<&DownsyncKey>, now: Timestamp) -> Dirty {
        self.now = now;
        let mut dirty = self.learn(input);
        let forgotten = self.forget_groups(now);
        if !forgotten.is_empty() {
            self.renew_asked();
            self.renew_wanted_kinds();
        }
        dirty.extend(forgotten);
        dirty.extend(self.settle_needs());
        if self.synced_at.is_some() {
            dirty = self.with_content_checked(dirty);
        }
        let policies = self.forget_failures_without_action(dirty.iter().chain(answered), now);
        dirty.extend(policies);
        dirty
    }

    fn store_failure(
        &mut self,
        key: &DownsyncKey,
        action: &DownsyncAction,
        failure: &Failure,
        now: Timestamp,
    ) -> Dirty {
        let mut dirty = self.on_failure(key, action, failure);
        // It may not be wanted any more.
        let policies = self.forget_failures_without_action(dirty.iter(), now);
        dirty.extend(policies);
        dirty
    }

    fn next_step(&self, key: &DownsyncKey, now: Timestamp) -> Decision<DownsyncAction> {
        match key {
            DownsyncKey::Copy(origin, cluster) => self.decide_copy(origin, cluster, now),
            DownsyncKey::Object(origin) => self.decide_object(origin).into(),
            DownsyncKey::Policy(name) => self.decide_policy(name, now),
            DownsyncKey::Binding(name) => self.decide_binding(name, now),
            DownsyncKey::Collector(name) => self.decide_collector(name).into(),
            DownsyncKey::Combined(origin, policy) => self.decide_combined(origin, policy).into(),
        }
    }

    fn log_fields(&self, key: &DownsyncKey) -> LogFields {
        self.subject_of(key)
    }
}

#[cfg(test)]
mod tests;
