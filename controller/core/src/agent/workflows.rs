//! The agent's index of Workflows: the state of one mailbox and one WEC, and the decisions about
//! it.
//!
//! There is one key per WDS object, with its ManifestWork, its object on the cluster, the record
//! that it ran, and the WorkStatus that the hub has. Owned here: creating a run exactly once,
//! reporting it, recording its end, and releasing it. Not here: other ManifestWorks
//! (`agent/manifests`), and the choice of the cluster for a Workflow (`hub`).

mod action;
mod decide;
mod facts;
mod failing;
mod finalize;
mod identity;
mod learn;
mod observed;
mod obstacle;
mod reaction;
mod report;
mod subject;
mod unconfirmed;
mod verbs;
mod views;

use std::collections::{BTreeSet, HashMap};

use argosy_api::{AppliedManifestWork, ManifestWork, WorkStatus, Workflow};
use jiff::{SignedDuration, Timestamp};

use crate::{
    Change, ClusterName, Decision, Failure, LogFields, OriginUid,
    index::{
        rests::{AT_AGENT, Rests},
        synced::{Kinds, Synced, kinds},
        tracked::{InFlight, Index},
    },
};

pub use action::AgentAction;
use failing::{Failing, is_of_cluster};
pub use identity::Sought;
pub use observed::{ObservedObject, ObservedRecord, ObservedReported, ObservedWork};
use obstacle::Obstacle;
use reaction::Unnoticed;
use unconfirmed::Unconfirmed;
use verbs::Refusal;
pub(crate) use views::DIGEST_ANNOTATION;
pub(super) use views::is_born_here;
use views::{ManifestWorkView, ObjectView, ReportedStatus, RunRecord};

/// Inputs of the agent: watch events and answers to requests.
#[derive(Debug)]
pub enum AgentInput {
    /// ManifestWorks of the mailbox.
    Work(Change<ObservedWork>),
    /// WorkStatuses of the mailbox. Their metadata is enough.
    WorkStatus(Change<ObservedReported>),
    /// Workflows of the WEC that were created for this cluster's mailbox.
    Object(Change<ObservedObject>),
    /// Records of the WEC.
    Record(Change<ObservedRecord>),
    /// Availability of Argo's Workflow API in the WEC.
    Argo(ArgoApi),
    /// An object to write or delete does not exist.
    ObjectGone(OriginUid),
    /// A ManifestWork to write does not exist.
    WorkGone(OriginUid),
    /// A WorkStatus to delete does not exist.
    ReportedGone(OriginUid),
    /// A record to delete does not exist.
    RecordGone(OriginUid),
}

impl AgentInput {
    /// ManifestWorks of the mailbox.
    pub fn work(change: Change<ManifestWork>) -> Self {
        Self::Work(change.map(ObservedWork::from))
    }

    /// WorkStatuses of the mailbox.
    pub fn work_status(change: Change<WorkStatus>) -> Self {
        Self::WorkStatus(change.map(ObservedReported::from))
    }

    /// Workflows of the WEC that were created for this cluster's mailbox.
    pub fn object(change: Change<Workflow>) -> Self {
        Self::Object(change.map(ObservedObject::from))
    }

    /// Records of the WEC.
    pub fn record(change: Change<AppliedManifestWork>) -> Self {
        Self::Record(change.map(ObservedRecord::from))
    }
}

/// Availability of Argo's Workflow API in the WEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgoApi {
    /// The API is served, and its Workflows have been listed.
    Served,
    /// The API server does not serve the kind.
    Missing,
}

/// Configuration of the agent at start.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Name of the agent's ManagedCluster.
    pub cluster: ClusterName,
    /// ID that distinguishes the cluster from another one of the same name
    /// ([`argosy_api::names::CLUSTER_ID_CLAIM`]), if the agent may read it.
    pub cluster_id: Option<String>,
    /// Time for which a request may still be carried out after its sender gave up, see
    /// [`crate::index::reconciler::REQUEST_LIFETIME`].
    pub request_lifetime: SignedDuration,
    /// The `instanceID` of the cluster's Argo, which ignores all Workflows without the label with
    /// this ID.
    pub argo_instance: Option<String>,
    /// The conditions of a ManifestWork are left out once the hub has a report of its run, unless
    /// somebody waits for them.
    pub conditions_on_demand: bool,
}

kinds! {
    /// The kinds that are listed before anything is decided.
    enum Awaited {
        Works = "manifestworks",
        WorkStatus = "workstatuses",
        Objects = "workflows",
        Records = "appliedmanifestworks",
    }
}

type Dirty = BTreeSet<OriginUid>;

/// The objects of one kind. They are boxed because up to half of the slots of a hash table are
/// empty.
type Table<V> = HashMap<OriginUid, Box<V>>;

/// The index of the Workflows of one cluster.
#[derive(Debug)]
pub struct RunIndex {
    config: AgentConfig,
    synced: Synced<Awaited>,
    argo: Option<ArgoApi>,
    works: Table<ManifestWorkView>,
    work_statuses: Table<ReportedStatus>,
    /// The runs.
    objects: Table<ObjectView>,
    /// Other objects with the labels of a run, which this agent did not create.
    copies: HashMap<OriginUid, Vec<ObjectView>>,
    records: Table<RunRecord>,
    /// Objects that disappeared without a record because somebody removed the finalizer. They are
    /// never created again.
    vanished: HashMap<OriginUid, Sought>,
    /// UIDs of objects that were found to be deleted before the watch reported it. Events of these
    /// objects are out of date until then.
    gone: HashMap<OriginUid, String>,
    /// Objects that may exist although the index has none.
    unconfirmed: HashMap<OriginUid, Unconfirmed>,
    in_flight: InFlight<OriginUid>,
    /// Requests for a run that the cluster's API server refused.
    refusals: HashMap<OriginUid, Refusal>,
    /// The reasons why objects could not be created.
    obstacles: HashMap<OriginUid, Obstacle>,
    /// Requests that the cluster's API server keeps failing.
    failing: HashMap<OriginUid, Failing>,
    /// The last change of each run that nobody has reacted to.
    unnoticed: HashMap<OriginUid, Unnoticed>,
    /// Pauses between reports that only show progress.
    rests: Rests<OriginUid>,
}

impl RunIndex {
    /// An empty index.
    pub fn new(config: AgentConfig) -> Self {
        Self {
            config,
            synced: Synced::new(),
            argo: None,
            works: HashMap::new(),
            rests: Rests::new(AT_AGENT),
            work_statuses: HashMap::new(),
            objects: HashMap::new(),
            copies: HashMap::new(),
            records: HashMap::new(),
            vanished: HashMap::new(),
            gone: HashMap::new(),
            unconfirmed: HashMap::new(),
            in_flight: InFlight::default(),
            refusals: HashMap::new(),
            obstacles: HashMap::new(),
            failing: HashMap::new(),
            unnoticed: HashMap::new(),
        }
    }

    /// True if everything has been listed once. Workflows need no list if the WEC has no Argo.
    pub fn is_synced(&self) -> bool {
        self.awaited().next().is_none()
    }

    /// The kinds that have not been listed yet. Nothing is decided before all are listed. Workflows
    /// need no list if the WEC has no Argo.
    pub fn unlisted(&self) -> Vec<&'static str> {
        self.awaited().map(Kinds::plural).collect()
    }

    fn awaited(&self) -> impl Iterator<Item = Awaited> {
        let has_no_argo = self.argo == Some(ArgoApi::Missing);
        let missing = self.synced.missing();
        missing.filter(move |kind| *kind != Awaited::Objects || !has_no_argo)
    }

    /// Availability of Argo's Workflow API in the WEC, if it is known.
    pub fn argo(&self) -> Option<ArgoApi> {
        self.argo
    }

    /// Objects in the WEC whose ManifestWork is not in the mailbox, because the ITS was restored or
    /// is the wrong one. They are left alone.
    pub fn orphans(&self) -> impl Iterator<Item = &OriginUid> {
        self.objects
            .keys()
            .filter(|origin| !self.works.contains_key(*origin))
    }

    fn every_key(&self) -> Dirty {
        let Self {
            works,
            objects,
            copies,
            records,
            unconfirmed,
            ..
        } = self;
        works
            .keys()
            .chain(objects.keys())
            .chain(copies.keys())
            .chain(records.keys())
            .chain(unconfirmed.keys())
            .cloned()
            .collect()
    }
}

impl Index for RunIndex {
    type Input = AgentInput;
    type Key = OriginUid;
    type Action = AgentAction;

    fn in_flight(&mut self) -> &mut InFlight<OriginUid> {
        &mut self.in_flight
    }

    fn may_decide(&self) -> bool {
        self.is_synced()
    }

    fn on_synced(&mut self, _: Timestamp) -> Dirty {
        self.every_key()
    }

    fn note_request(&mut self, key: &OriginUid, action: &AgentAction, now: Timestamp) {
        if let AgentAction::WriteStatus { .. } = action {
            self.rests.begin(key, now);
        }
    }

    fn store(&mut self, input: AgentInput, answered: Option<&OriginUid>, now: Timestamp) -> Dirty {
        if let Some(key) = answered {
            self.rests.end(key, now);
        }
        if let Some(key) = answered.filter(|_| is_of_cluster(&input)) {
            self.failing.remove(key);
        }
        self.inherit(&input, now);
        let before = self.before(&input);
        let dirty = self.learn(input);
        self.on_reaction(before, now);
        dirty
    }

    fn store_failure(
        &mut self,
        key: &OriginUid,
        action: &AgentAction,
        failure: &Failure,
        now: Timestamp,
    ) -> Dirty {
        self.rests.cancel(key);
        self.on_failing(key, action, failure, now);
        self.on_failure(key, action, failure, now)
    }

    fn next_step(&self, key: &OriginUid, now: Timestamp) -> Decision<AgentAction> {
        self.report_failing(key, self.decide_key(key, now), now)
    }

    fn log_fields(&self, key: &OriginUid) -> LogFields {
        self.subject_of(key)
    }
}

#[cfg(test)]
mod tests;
