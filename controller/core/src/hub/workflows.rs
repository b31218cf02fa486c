//! The controller's index of Workflows: the state of the WDS and the ITS that concerns Workflows,
//! and the decisions about them.
//!
//! The index has one owner and changes only through the methods of [`crate::Reconcile`]. A decision
//! joins a Workflow with the policies that select it, the clusters that they match, its
//! ManifestWorks and its WorkStatuses. Each of these is a lookup by key.
//!
//! Not here: objects of other kinds and the status of policies (`hub/objects`), and the work that
//! the agent does for a ManifestWork on its WEC (`agent`).

mod action;
mod artifacts;
mod blocked;
mod case;
mod claim;
mod cluster;
mod cluster_removal;
mod conditions;
mod counts;
mod decide;
mod dispatch;
mod event_records;
mod facts;
mod fan_out;
mod finalize;
mod hand_back;
mod keeping;
mod learn;
mod leftovers;
mod load;
pub(crate) mod locations;
mod manifest_work;
mod mirror;
mod mirror_patch;
mod mirrored_status;
mod next_attempt;
mod observed;
mod pending_claim;
mod place;
mod placement;
mod queue;
mod removal;
mod report_validation;
mod rerun;
mod reschedule;
mod restore_claim;
mod subject;
mod taints;
mod templates;
mod turns;
mod unanswered;
mod unconfirmed;
mod verb_outcomes;
mod verbs;
mod view;
mod withdrawal;
mod work;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use argosy_api::{BindingPolicy, CustomTransform, ManagedCluster, ManifestWork, WorkStatus, Workflow};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Namespace},
};
use kube::core::Selector;
use litemap::LiteMap;
use serde_json::Value;

use crate::{
    Change, ClusterName, Decision, Failure, LogFields, OriginUid, WorkflowKey,
    hub::{
        admission::Admission,
        inventory::{Cluster, Namespaces, Policy},
        properties::Properties,
        template_demand::ObservedTemplate,
        transforms::Transforms,
    },
    index::{
        budget::Kept,
        fingerprint::Fingerprint,
        interner::Interner,
        rests::{AT_HUB, Rests},
        synced::{Synced, kinds},
        tracked::{InFlight, Index},
    },
    model::{json_patch::JsonPatch, template_refs::TemplateKey},
    policy::{Loads, Placement},
};

pub use action::{HubAction, Purpose};
pub(crate) use blocked::{Blocked, will_be_claimed};
use cluster::LeaseObservation;
use counts::WorkflowCounts;
pub use counts::{CensusChange, ClusterState, ResourceRoom};
pub use decide::{RuleList, rules};
pub use event_records::EventRecord;
pub use observed::{ObservedReport, ObservedWork, ObservedWorkflow};
use pending_claim::PendingClaim;
use queue::Queue;
pub use queue::QueuePlace;
pub(crate) use report_validation::is_node;
pub use subject::HubKey;
use turns::is_sent;
use view::WorkflowView;
pub use work::{Ignored, is_packed_by_argo, taken};
use work::{ManifestWorkView, WorkStatusView};

/// An input of the index: a watch event, or the answer to a request.
#[derive(Debug)]
pub enum HubInput {
    /// Workflows of the WDS.
    Workflow(Change<ObservedWorkflow>),
    /// BindingPolicies of the WDS.
    Policy(Change<BindingPolicy>),
    /// CustomTransforms of the WDS.
    Transform(Change<CustomTransform>),
    /// Namespaces of the WDS.
    Namespace(Change<Namespace>),
    /// WorkflowTemplates of the WDS.
    Template(Change<ObservedTemplate>),
    /// ClusterWorkflowTemplates of the WDS.
    ClusterTemplate(Change<ObservedTemplate>),
    /// ManagedClusters of the ITS.
    Cluster(Change<ManagedCluster>),
    /// The clusters' Leases in the ITS.
    Lease(Change<Lease>),
    /// ManifestWorks of this WDS in the ITS.
    Work(Change<ObservedWork>),
    /// WorkStatuses in the ITS.
    Report(Change<ObservedReport>),
    /// ConfigMaps of the ITS with properties of clusters. Only Workflows with templates wait for
    /// them.
    Properties(Change<ConfigMap>),
    /// The configuration of the WDS's own workflow-controller. Nothing waits for it: until it
    /// arrives, the defaults apply.
    LocalArgo(LocalArgo),
    /// The answer to our own patch of a Workflow of the WDS.
    Wrote {
        /// The status that the patch sets, if it sets one.
        wanted: Option<Fingerprint>,
        /// The Workflow in the answer.
        object: Box<ObservedWorkflow>,
    },
    /// A ManifestWork that was to be deleted does not exist.
    WorkGone(ClusterName, OriginUid),
    /// A Workflow that was to be read or deleted does not exist.
    RunGone(WorkflowKey, OriginUid),
    /// The Lease of a Workflow's cluster, read for this Workflow.
    LeaseRead {
        /// The Workflow.
        key: WorkflowKey,
        /// The resource version of its withdrawn ManifestWork before the read.
        work: String,
        /// The Lease.
        lease: Box<Lease>,
    },
    /// A WorkStatus that was to be read does not exist.
    ReportGone {
        /// The cluster of the mailbox.
        cluster: ClusterName,
        /// UID of the Workflow.
        origin: OriginUid,
        /// The resource version that the index had when it asked.
        version: String,
    },
    /// The specification of a template that a Workflow refers to, read for this Workflow; `None` if
    /// there is no template that may be read.
    TemplateRead(WorkflowKey, TemplateKey, Option<Value>),
}

impl HubInput {
    /// The answer to our own patch of a Workflow of the WDS.
    pub fn wrote(patch: &JsonPatch, object: Workflow) -> Self {
        Self::Wrote {
            wanted: patch.value_at("/status").map(Fingerprint::of),
            object: Box::new(object.into()),
        }
    }

    /// Workflows of the WDS.
    pub fn workflow(change: Change<Workflow>) -> Self {
        Self::Workflow(change.map(ObservedWorkflow::from))
    }

    /// ManifestWorks of this WDS in the ITS.
    pub fn work(change: Change<ManifestWork>) -> Self {
        Self::Work(change.map(ObservedWork::from))
    }

    /// WorkStatuses in the ITS.
    pub fn report(change: Change<WorkStatus>) -> Self {
        Self::Report(change.map(ObservedReport::whole))
    }

    /// A WorkStatus in the ITS whose packed nodes are not unpacked, as the watch reports it.
    pub fn told(report: WorkStatus) -> Self {
        Self::Report(Change::Apply(Box::new(report.into())))
    }
}

/// The part of the configuration of the WDS's own workflow-controller that the controller uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalArgo {
    /// The namespace of its configuration. Argo also looks up artifact repositories there.
    pub namespace: String,
    /// The artifact repository of Workflows that name none.
    pub repository: Option<Value>,
    /// It limits the number of Workflows that run at a time, and counts them by their phase label.
    pub limits_parallelism: bool,
    /// Selector of the Workflows that go to its archive, if it has one: Argo labels them for
    /// archiving by their own labels (`archiveLabelSelector`).
    pub archives: Option<Selector>,
}

/// Settings that the controller gets at startup.
#[derive(Clone, Debug)]
pub struct HubConfig {
    /// Name of the WDS, written on every ManifestWork.
    pub wds_name: String,
    /// The admission webhook and the admission policies guard the hold, so `spec.suspend` is not
    /// needed for it.
    pub is_guarded: bool,
    /// The time after which a request that its sender gave up can no longer take effect; see
    /// [`crate::index::reconciler::REQUEST_LIFETIME`].
    pub request_lifetime: SignedDuration,
    /// Budget in bytes for the reports of one cluster.
    pub report_budget: usize,
    /// Budget in bytes for the content of all Workflows.
    pub workflow_budget: usize,
}

kinds! {
    /// The kinds that are listed before any decision is made.
    enum Awaited {
        Workflows = "workflows",
        Policies = "bindingpolicies",
        Transforms = "customtransforms",
        Namespaces = "namespaces",
        Templates = "workflowtemplates",
        ClusterTemplates = "clusterworkflowtemplates",
        Clusters = "managedclusters",
        Leases = "leases",
        Works = "manifestworks",
        Reports = "workstatuses",
    }
}

type Dirty = BTreeSet<HubKey>;

/// Values per cluster. Almost every Workflow has one cluster, so a sorted vector is used: a B-tree
/// node would reserve eleven slots.
type ByCluster<V> = LiteMap<ClusterName, Box<V>>;

/// The index.
#[derive(Debug)]
pub struct WorkflowIndex {
    config: HubConfig,
    synced: Synced<Awaited>,
    workflows: HashMap<WorkflowKey, Box<WorkflowView>>,
    by_uid: HashMap<OriginUid, WorkflowKey>,
    policies: BTreeMap<String, Policy>,
    /// The input of placement, shared with the webhook.
    admission: Arc<Admission>,
    transforms: Transforms,
    local_argo: LocalArgo,
    /// Properties of clusters; `None` until they are listed.
    properties: Option<Properties>,
    clusters: BTreeMap<ClusterName, Cluster>,
    namespaces: Namespaces,
    /// Leases by cluster; a Lease may arrive before its ManagedCluster.
    leases: BTreeMap<ClusterName, LeaseObservation>,
    /// ManifestWorks by origin, then cluster.
    works: HashMap<OriginUid, ByCluster<ManifestWorkView>>,
    /// WorkStatuses by origin, then cluster.
    reports: HashMap<OriginUid, ByCluster<WorkStatusView>>,
    /// Memory use of the WorkStatuses of each cluster.
    kept: BTreeMap<ClusterName, Kept>,
    /// Bytes of the Workflows' content in memory.
    workflow_bytes: usize,
    in_flight: InFlight<HubKey>,
    /// Events that the shell has not taken yet.
    events: Vec<EventRecord>,
    counts: WorkflowCounts,
    /// The loads of clusters that are in the inventory or have unfinished runs.
    loads: Loads,
    /// Clusters are drawn, and not chosen by their loads.
    draws_clusters: bool,
    /// Workflows that wait for room.
    queue: Queue,
    /// Number of ignored reports since they were last taken.
    ignored: BTreeMap<(ClusterName, Ignored), u64>,
    /// The runs of Workflows that run on every cluster, by the UID of that Workflow and the
    /// namespace of the runs. Owner references do not cross namespaces, so an object in another
    /// namespace that claims to be a run is a copy.
    runs: HashMap<(OriginUid, Arc<str>), BTreeMap<ClusterName, WorkflowKey>>,
    /// Claimed Workflows by cluster, except ended ones that are not being deleted: the Workflows
    /// that a change of the cluster concerns.
    claimed: BTreeMap<ClusterName, BTreeSet<WorkflowKey>>,
    /// Held Workflows without a claim and without a place in the queue: those that may be sent once a
    /// cluster or a template changes.
    unplaced: BTreeSet<WorkflowKey>,
    placements: Interner<Placement>,
    /// Pauses between statuses that only show progress.
    rests: Rests<WorkflowKey>,
    /// Until this time, requests of the previous controller process may still take effect.
    inherited_until: Option<Timestamp>,
    /// The Workflows that each policy selects, by the policy's name: those that a change of the
    /// policy's clusters concerns.
    selected: BTreeMap<Arc<str>, BTreeSet<WorkflowKey>>,
}

impl WorkflowIndex {
    /// An empty index.
    pub fn new(config: HubConfig) -> Self {
        Self {
            config,
            synced: Synced::new(),
            workflows: HashMap::new(),
            rests: Rests::new(AT_HUB),
            by_uid: HashMap::new(),
            policies: BTreeMap::new(),
            admission: Arc::default(),
            transforms: Transforms::default(),
            local_argo: LocalArgo::default(),
            properties: None,
            clusters: BTreeMap::new(),
            namespaces: Namespaces::default(),
            leases: BTreeMap::new(),
            works: HashMap::new(),
            reports: HashMap::new(),
            kept: BTreeMap::new(),
            workflow_bytes: 0,
            in_flight: InFlight::default(),
            events: Vec::new(),
            counts: WorkflowCounts::default(),
            loads: Loads::new(),
            draws_clusters: false,
            queue: Queue::default(),
            ignored: BTreeMap::new(),
            runs: HashMap::new(),
            claimed: BTreeMap::new(),
            unplaced: BTreeSet::new(),
            placements: Interner::new(),
            inherited_until: None,
            selected: BTreeMap::new(),
        }
    }

    /// True if the first list of every kind has arrived.
    pub fn is_synced(&self) -> bool {
        self.synced.is_complete()
    }

    /// The kinds whose first list has not arrived. No decision is made before all have arrived.
    pub fn unlisted(&self) -> Vec<&'static str> {
        self.synced.unlisted()
    }

    /// ManifestWorks whose WDS object is unknown: it was deleted despite its finalizer, or the WDS
    /// was restored from a backup. The controller does not delete them; it counts and reports them.
    pub fn orphans(&self) -> impl Iterator<Item = (&OriginUid, &ClusterName)> {
        self.works
            .iter()
            .filter(|(uid, _)| !self.by_uid.contains_key(*uid))
            .flat_map(|(uid, works)| works.keys().map(move |cluster| (uid, cluster)))
    }

    /// The number of reports that were ignored since the last call, by the cluster that wrote them.
    pub fn take_ignored(&mut self) -> BTreeMap<(ClusterName, Ignored), u64> {
        std::mem::take(&mut self.ignored)
    }

    /// The snapshot that the admission webhook uses. A change of policies or clusters replaces it.
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    fn every_key(&self) -> Dirty {
        let workflows = self.workflows.keys().cloned().map(HubKey::Workflow);
        let transforms = self.transforms.names().cloned().map(HubKey::Transform);
        let clusters = self.clusters.keys().cloned().map(HubKey::Cluster);
        workflows.chain(transforms).chain(clusters).collect()
    }
}

impl Index for WorkflowIndex {
    type Input = HubInput;
    type Key = HubKey;
    type Action = HubAction;

    fn in_flight(&mut self) -> &mut InFlight<HubKey> {
        &mut self.in_flight
    }

    fn may_decide(&self) -> bool {
        self.is_synced()
    }

    fn on_synced(&mut self, _: Timestamp) -> Dirty {
        self.queue.wake();
        // Those in the queue take turns.
        let takes_turns = |key: &HubKey| match key {
            HubKey::Workflow(key) => {
                let view = self.workflows.get(key);
                view.is_some_and(|view| view.queued().is_some())
            }
            HubKey::Transform(_) | HubKey::Cluster(_) => false,
        };
        let mut keys = self.every_key();
        keys.retain(|key| !takes_turns(key));
        keys
    }

    fn note_request(&mut self, key: &HubKey, action: &HubAction, now: Timestamp) {
        if let HubKey::Workflow(key) = key {
            let prepared = self.prepared(key, action);
            self.note_claim(key, action, prepared);
            if let HubAction::PatchWorkflow {
                purpose: Purpose::Mirror,
                ..
            } = action
            {
                self.rests.begin(key, now);
            }
        }
    }

    fn store(&mut self, mut input: HubInput, answered: Option<&HubKey>, now: Timestamp) -> Dirty {
        self.inherit(&mut input, now);
        // The claim counts until the object that was answered takes its place.
        let dirty = self.learn(input, now);
        if let Some(HubKey::Workflow(key)) = answered {
            self.settle_claim(key, true);
            self.rests.end(key, now);
        }
        dirty
    }

    fn take_turns(&mut self) -> Vec<HubKey> {
        let workflows = &self.workflows;
        let due = self.queue.due(|key| is_sent(workflows, key));
        due.into_iter().map(HubKey::Workflow).collect()
    }

    fn has_turns(&self) -> bool {
        self.queue.has_turns()
    }

    fn store_failure(
        &mut self,
        key: &HubKey,
        action: &HubAction,
        failure: &Failure,
        now: Timestamp,
    ) -> Dirty {
        if let HubKey::Workflow(key) = key {
            // A read before a claim has written nothing.
            let may_be_claimed =
                matches!(failure, Failure::Unreachable(_)) && PendingClaim::of(action).is_some();
            self.settle_claim(key, !may_be_claimed);
            self.rests.cancel(key);
        }
        self.on_failure(key, action, failure, now)
    }

    fn next_step(&self, key: &HubKey, now: Timestamp) -> Decision<HubAction> {
        match key {
            HubKey::Workflow(key) => self.decide_workflow(key, now),
            HubKey::Transform(name) => self.decide_transform(name).into(),
            HubKey::Cluster(name) => self.decide_cluster(name, now),
        }
    }

    fn log_fields(&self, key: &HubKey) -> LogFields {
        self.subject_of(key)
    }
}

#[cfg(test)]
mod tests;
