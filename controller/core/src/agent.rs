//! The agent's index of Workflows: what is known of one mailbox and one WEC on their account, and the decisions about it.
//!
//! One key per WDS object: its ManifestWork, the object it stands for, the record that it was run, and what the hub
//! has been told. Owned here: create once, report, record, let go. Not here: other ManifestWorks (`apply`), and which
//! Workflow goes where (`hub`).

mod action;
mod control;
mod decide;
mod events;
mod identity;
mod report;
mod retire;
mod seen;
mod subject;
mod views;

use std::collections::{BTreeSet, HashMap};

use argosy_api::{AppliedManifestWork, ManifestWork, WorkStatus, Workflow};
use jiff::Timestamp;

use crate::{Change, ClusterName, Decision, Failure, OriginUid, Reconcile, Subject, reconcile::UnderWay};

pub use action::AgentAction;
use control::Refusal;
pub use identity::Sought;
pub use seen::{SeenObject, SeenRecord, SeenTold, SeenWork};
pub(crate) use views::DIGEST_ANNOTATION;
use views::{Known, Object, Record, Work};

/// What the agent can learn.
#[derive(Debug)]
pub enum AgentInput {
    /// ManifestWorks of the mailbox.
    Work(Change<SeenWork>),
    /// WorkStatuses of the mailbox; their metadata suffices.
    Told(Change<SeenTold>),
    /// Workflows of the WEC that were made for this cluster's mailbox.
    Object(Change<SeenObject>),
    /// The records in the WEC.
    Record(Change<SeenRecord>),
    /// Whether the WEC serves Argo's Workflow API.
    Argo(ArgoApi),
    /// An object that was to be written or deleted is not there.
    ObjectGone(OriginUid),
    /// A ManifestWork that was to be written is not there.
    WorkGone(OriginUid),
    /// A WorkStatus that was to be deleted is not there.
    ToldGone(OriginUid),
    /// A record that was to be deleted is not there.
    RecordGone(OriginUid),
}

impl AgentInput {
    /// ManifestWorks of the mailbox.
    pub fn work(change: Change<ManifestWork>) -> Self {
        Self::Work(change.map(SeenWork::from))
    }

    /// WorkStatuses of the mailbox.
    pub fn told(change: Change<WorkStatus>) -> Self {
        Self::Told(change.map(SeenTold::from))
    }

    /// Workflows of the WEC that were made for this cluster's mailbox.
    pub fn object(change: Change<Workflow>) -> Self {
        Self::Object(change.map(SeenObject::from))
    }

    /// The records in the WEC.
    pub fn record(change: Change<AppliedManifestWork>) -> Self {
        Self::Record(change.map(SeenRecord::from))
    }
}

/// Whether the WEC serves Argo's Workflow API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgoApi {
    /// Its Workflows have been listed.
    Served,
    /// The API server does not know the kind.
    Missing,
}

/// What the agent is told at start.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Name of its ManagedCluster.
    pub cluster: ClusterName,
    /// What tells its cluster from another one of that name ([`argosy_api::names::CLUSTER_ID_CLAIM`]), if that may be read.
    pub cluster_id: Option<String>,
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one per kind")]
struct Synced {
    works: bool,
    told: bool,
    objects: bool,
    records: bool,
}

/// Why an object may be there although none is known.
#[derive(Debug)]
enum Doubt {
    /// A creation was not answered.
    Creation(Sought),
    /// The object was known, and a re-list lacked it, which may be older than our own write; or the whole kind is gone.
    Unlisted(Sought),
}

/// What is known of one kind. Boxed, as half of a table's places may be empty.
type Table<V> = HashMap<OriginUid, Box<V>>;

/// The index.
#[derive(Debug)]
pub struct Agent {
    config: AgentConfig,
    synced: Synced,
    argo: Option<ArgoApi>,
    works: Table<Work>,
    told: Table<Known>,
    /// The runs.
    objects: Table<Object>,
    /// What bears the labels of a run, and is not the object that this agent created.
    copies: HashMap<OriginUid, Vec<Object>>,
    records: Table<Record>,
    /// Objects that were seen to go without a record: somebody took the finalizer off. Never made again.
    vanished: HashMap<OriginUid, Sought>,
    /// UIDs of objects that were seen to be gone before the watch told so: what it tells of them until then is past.
    gone: HashMap<OriginUid, String>,
    /// Objects that may be there although none is known.
    doubts: HashMap<OriginUid, Doubt>,
    under_way: UnderWay<OriginUid>,
    /// What was asked of a run and refused by its API server.
    refusals: HashMap<OriginUid, Refusal>,
    /// Why an object could not be created: reason and message.
    obstacles: HashMap<OriginUid, (&'static str, String)>,
}

impl Agent {
    /// An index that knows nothing yet.
    pub fn new(config: AgentConfig) -> Self {
        Self {
            config,
            synced: Synced::default(),
            argo: None,
            works: HashMap::new(),
            told: HashMap::new(),
            objects: HashMap::new(),
            copies: HashMap::new(),
            records: HashMap::new(),
            vanished: HashMap::new(),
            gone: HashMap::new(),
            doubts: HashMap::new(),
            under_way: UnderWay::new(),
            refusals: HashMap::new(),
            obstacles: HashMap::new(),
        }
    }

    /// Whether everything has been listed once, or the WEC is known to have no Workflows because it has no Argo.
    pub fn is_synced(&self) -> bool {
        self.unlisted().is_empty()
    }

    /// Whether the WEC serves Argo's Workflow API, once that is known.
    pub fn argo(&self) -> Option<ArgoApi> {
        self.argo
    }

    /// Objects in the WEC whose ManifestWork is not in the mailbox: a restored or a wrong ITS. They are left alone.
    pub fn orphans(&self) -> impl Iterator<Item = &OriginUid> {
        self.objects
            .keys()
            .filter(|origin| !self.works.contains_key(*origin))
    }

    fn every_key(&self) -> BTreeSet<OriginUid> {
        let Self {
            works,
            objects,
            copies,
            records,
            doubts,
            ..
        } = self;
        works
            .keys()
            .chain(objects.keys())
            .chain(copies.keys())
            .chain(records.keys())
            .chain(doubts.keys())
            .cloned()
            .collect()
    }
}

impl Reconcile for Agent {
    type Input = AgentInput;
    type Key = OriginUid;
    type Action = AgentAction;

    fn apply(&mut self, input: AgentInput, _now: Timestamp) -> BTreeSet<OriginUid> {
        let was_synced = self.is_synced();
        let dirty = self.learn(input);
        match (was_synced, self.is_synced()) {
            (true, _) => dirty,
            (false, true) => self.every_key(),
            (false, false) => BTreeSet::new(),
        }
    }

    fn answered(&mut self, key: &OriginUid, input: AgentInput, now: Timestamp) -> BTreeSet<OriginUid> {
        self.under_way.answer();
        let dirty = self.apply(input, now);
        self.under_way.end(key);
        dirty
    }

    fn failed(&mut self, key: &OriginUid, action: &AgentAction, failure: &Failure) -> BTreeSet<OriginUid> {
        self.under_way.end(key);
        self.learn_failure(key, action, failure)
    }

    fn began(&mut self, key: &OriginUid) {
        self.under_way.begin(key);
    }

    fn decide(&self, key: &OriginUid, now: Timestamp) -> Decision<AgentAction> {
        if self.is_synced() {
            self.decide_key(key, now)
        } else {
            Decision::rest()
        }
    }

    fn subject(&self, key: &OriginUid) -> Subject {
        self.subject_of(key)
    }
}

#[cfg(test)]
mod tests;
