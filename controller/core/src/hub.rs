//! The controller's index of Workflows: what is known of the WDS and the ITS on their account, and the decisions about it.
//!
//! One owner, changed only by [`Reconcile::apply`] and [`Reconcile::failed`]. A decision joins a Workflow with the
//! policies that select it, the clusters they match, its ManifestWorks and its WorkStatuses; each is a lookup by
//! key. Not here: objects of other kinds and what policies say (`downsync`), and what a WEC does with a ManifestWork (`agent`).

mod action;
mod census;
mod claimed;
mod claiming;
mod cluster;
mod control;
mod decide;
mod events;
mod lost;
mod manifest;
mod mirror;
mod moving;
mod notice;
mod placement;
mod policy;
mod removed;
mod runs;
mod seen;
mod shown;
mod subject;
mod taints;
mod unclaimed;
mod validity;
mod work;
mod workflow_view;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use argosy_api::{BindingPolicy, CustomTransform, ManagedCluster, ManifestWork, WorkStatus, Workflow};
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Namespace},
};
use kube::core::Selector;
use litemap::LiteMap;

use crate::{
    Change, ClusterName, Decision, Failure, OriginUid, Reconcile, Subject, WorkflowKey,
    admission::Admission,
    patch::JsonPatch,
    placement::{Labels, Placement},
    properties::Properties,
    reconcile::UnderWay,
    shared::Shared,
    transforms::Transforms,
};

pub use action::{HubAction, Purpose};
use census::Census;
pub use census::{CensusChange, ClusterState};
pub(crate) use cluster::is_cordon;
use cluster::{Cluster, Pulse};
pub use notice::Notice;
use policy::Policy;
pub use seen::{SeenReport, SeenWork, SeenWorkflow};
pub(crate) use unclaimed::why_not_dispatchable;
pub use work::Ignored;
use work::{Report, Work};
use workflow_view::WorkflowView;

/// What a decision of the controller is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HubKey {
    /// A Workflow of the WDS and everything it caused.
    Workflow(WorkflowKey),
    /// A CustomTransform's status.
    Transform(String),
    /// A ManagedCluster's availability.
    Cluster(ClusterName),
}

impl std::fmt::Display for HubKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Workflow(key) => write!(f, "workflow {key}"),
            Self::Transform(name) => write!(f, "customtransform {name}"),
            Self::Cluster(name) => write!(f, "managedcluster {name}"),
        }
    }
}

/// What the controller can learn.
#[derive(Debug)]
pub enum HubInput {
    /// Workflows of the WDS.
    Workflow(Change<SeenWorkflow>),
    /// BindingPolicies of the WDS.
    Policy(Change<BindingPolicy>),
    /// CustomTransforms of the WDS.
    Transform(Change<CustomTransform>),
    /// Namespaces of the WDS.
    Namespace(Change<Namespace>),
    /// ManagedClusters of the ITS.
    Cluster(Change<ManagedCluster>),
    /// The clusters' Leases in the ITS.
    Lease(Change<Lease>),
    /// ManifestWorks of this WDS in the ITS.
    Work(Change<SeenWork>),
    /// WorkStatuses in the ITS.
    Report(Change<SeenReport>),
    /// ConfigMaps of the ITS with properties of clusters. Not waited for, but by Workflows with templates.
    Properties(Change<ConfigMap>),
    /// How the WDS's own workflow-controller is configured. Not waited for: until it is told, nothing is.
    LocalArgo(LocalArgo),
    /// A Workflow of the WDS as it is after our own patch.
    Wrote {
        /// The patch.
        patch: JsonPatch,
        /// The answer.
        object: Box<Workflow>,
    },
    /// A ManifestWork that was to be deleted is not there.
    WorkGone(ClusterName, OriginUid),
    /// A Workflow that was to be deleted is not there.
    RunGone(WorkflowKey, OriginUid),
    /// The Lease of the cluster of a Workflow, read on its account.
    LeaseRead(WorkflowKey, Box<Lease>),
}

impl HubInput {
    /// Workflows of the WDS.
    pub fn workflow(change: Change<Workflow>) -> Self {
        Self::Workflow(change.map(SeenWorkflow::from))
    }

    /// ManifestWorks of this WDS in the ITS.
    pub fn work(change: Change<ManifestWork>) -> Self {
        Self::Work(change.map(SeenWork::from))
    }

    /// WorkStatuses in the ITS.
    pub fn report(change: Change<WorkStatus>) -> Self {
        Self::Report(change.map(SeenReport::from))
    }
}

/// What of the configuration of the WDS's own workflow-controller matters here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalArgo {
    /// It limits how many Workflows it runs at a time, and counts them by their phase label.
    pub limits_parallelism: bool,
    /// It has an archive, which takes the Workflows that are labelled for it: those that it labels itself, by their labels
    /// (`archiveLabelSelector`).
    pub archives: Option<Selector>,
}

/// What the controller is told at start.
#[derive(Clone, Debug)]
pub struct HubConfig {
    /// Name of the WDS, written on every ManifestWork.
    pub wds_name: String,
    /// The admission webhook and the admission policies guard the hold, so that `spec.suspend` is not needed for it.
    pub is_guarded: bool,
}

/// The first listing of each kind has arrived. Before all have, nothing is decided: an object that is not listed
/// yet looks like one that is gone.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one per kind")]
struct Synced {
    workflows: bool,
    policies: bool,
    transforms: bool,
    namespaces: bool,
    clusters: bool,
    leases: bool,
    works: bool,
    reports: bool,
}

/// What there is of one Workflow. It hardly ever has more than one cluster, and a tree makes room for eleven at once.
type ByCluster<V> = LiteMap<ClusterName, Box<V>>;

/// The index.
#[derive(Debug)]
pub struct Hub {
    config: HubConfig,
    synced: Synced,
    workflows: HashMap<WorkflowKey, Box<WorkflowView>>,
    by_uid: HashMap<OriginUid, WorkflowKey>,
    policies: BTreeMap<String, Policy>,
    /// What placement depends on, as the webhook has it too.
    admission: Arc<Admission>,
    transforms: Transforms,
    /// Labels of the WDS's namespaces.
    namespaces: BTreeMap<String, Arc<Labels>>,
    local_argo: LocalArgo,
    /// Properties of clusters; `None` until they are listed.
    properties: Option<Properties>,
    clusters: BTreeMap<ClusterName, Cluster>,
    /// Leases by cluster; one may be seen before its ManagedCluster.
    pulses: BTreeMap<ClusterName, Pulse>,
    /// ManifestWorks by origin, then cluster.
    works: HashMap<OriginUid, ByCluster<Work>>,
    /// WorkStatuses by origin, then cluster.
    reports: HashMap<OriginUid, ByCluster<Report>>,
    under_way: UnderWay<HubKey>,
    /// What is worth an Event and was not taken yet.
    notices: Vec<Notice>,
    census: Census,
    /// Reports that do not count, since they were taken last.
    ignored: BTreeMap<(ClusterName, Ignored), u64>,
    /// The runs of Workflows that run on every cluster, by the UID of the Workflow and their namespace: nothing is owned across
    /// namespaces, so what claims to be a run in another one is a copy.
    runs: HashMap<(OriginUid, Arc<str>), BTreeMap<ClusterName, WorkflowKey>>,
    /// Claimed and unfinished Workflows by cluster: whom a change of the cluster concerns.
    claimed: BTreeMap<ClusterName, BTreeSet<WorkflowKey>>,
    placements: Shared<Placement>,
}

impl Hub {
    /// An index that knows nothing yet.
    pub fn new(config: HubConfig) -> Self {
        Self {
            config,
            synced: Synced::default(),
            workflows: HashMap::new(),
            by_uid: HashMap::new(),
            policies: BTreeMap::new(),
            admission: Arc::default(),
            transforms: Transforms::default(),
            namespaces: BTreeMap::new(),
            local_argo: LocalArgo::default(),
            properties: None,
            clusters: BTreeMap::new(),
            pulses: BTreeMap::new(),
            works: HashMap::new(),
            reports: HashMap::new(),
            under_way: UnderWay::new(),
            notices: Vec::new(),
            census: Census::default(),
            ignored: BTreeMap::new(),
            runs: HashMap::new(),
            claimed: BTreeMap::new(),
            placements: Shared::new(),
        }
    }

    /// Whether every kind has been listed once.
    pub fn is_synced(&self) -> bool {
        self.unlisted().is_empty()
    }

    /// ManifestWorks whose WDS object is unknown: it was deleted past its finalizer, or the WDS was restored.
    /// Nothing is deleted on their account; they are counted and reported.
    pub fn orphans(&self) -> impl Iterator<Item = (&OriginUid, &ClusterName)> {
        self.works
            .iter()
            .filter(|(uid, _)| !self.by_uid.contains_key(*uid))
            .flat_map(|(uid, works)| works.keys().map(move |cluster| (uid, cluster)))
    }

    /// How many reports did not count since the last call, by the cluster that has written them.
    pub fn take_ignored(&mut self) -> BTreeMap<(ClusterName, Ignored), u64> {
        std::mem::take(&mut self.ignored)
    }

    /// What the admission webhook needs to know: another one whenever it has changed.
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    fn every_key(&self) -> BTreeSet<HubKey> {
        let workflows = self.workflows.keys().cloned().map(HubKey::Workflow);
        let transforms = self.transforms.names().cloned().map(HubKey::Transform);
        let clusters = self.clusters.keys().cloned().map(HubKey::Cluster);
        workflows.chain(transforms).chain(clusters).collect()
    }
}

impl Reconcile for Hub {
    type Input = HubInput;
    type Key = HubKey;
    type Action = HubAction;

    fn apply(&mut self, input: HubInput, now: Timestamp) -> BTreeSet<HubKey> {
        let was_synced = self.is_synced();
        let dirty = self.learn(input, now);
        match (was_synced, self.is_synced()) {
            (true, _) => dirty,
            (false, true) => self.every_key(),
            (false, false) => BTreeSet::new(),
        }
    }

    fn answered(&mut self, key: &HubKey, input: HubInput, now: Timestamp) -> BTreeSet<HubKey> {
        self.under_way.answer();
        let dirty = self.apply(input, now);
        self.under_way.end(key);
        dirty
    }

    fn failed(&mut self, key: &HubKey, action: &HubAction, failure: &Failure) -> BTreeSet<HubKey> {
        self.under_way.end(key);
        self.learn_failure(key, action, failure)
    }

    fn began(&mut self, key: &HubKey) {
        self.under_way.begin(key);
    }

    fn decide(&self, key: &HubKey, now: Timestamp) -> Decision<HubAction> {
        if !self.is_synced() {
            return Decision::rest();
        }
        match key {
            HubKey::Workflow(key) => self.decide_workflow(key, now),
            HubKey::Transform(name) => self.decide_transform(name).into(),
            HubKey::Cluster(name) => self.decide_cluster(name, now),
        }
    }

    fn subject(&self, key: &HubKey) -> Subject {
        self.subject_of(key)
    }
}

#[cfg(test)]
mod tests;
