//! The applier's index: ManifestWorks of objects of any kind, and what of them is on the cluster.
//!
//! One key per ManifestWork, with however many manifests. Owned here: apply server-side, correct what somebody changes, adopt what
//! was there, delete what is gone from the mailbox, and say of each manifest what became of it. Not here: Workflows that run once
//! (`agent`), and which kinds are watched how (the shell, which asks [`Applier::kinds`]).

mod action;
mod answers;
mod catalogue;
mod configs;
mod decide;
mod desired;
mod drift;
mod ending;
mod events;
mod feedback;
mod foreign;
mod ids;
mod item;
mod jsonpath;
mod naming;
mod pace;
mod record;
mod report;
mod rules;
mod singles;
mod status;
mod subject;
mod sums;
mod views;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use argosy_api::{AppliedManifestWork, ManifestWork, WorkStatus};
use jiff::Timestamp;
use kube::core::DynamicObject;

use crate::{
    Change, ClusterName, Decision, Failure, Reconcile, Subject, WorkName, digest::Digest, reconcile::UnderWay,
};

pub use action::{Application, ApplyAction};
use catalogue::Catalogue;
pub use catalogue::Served;
pub use ids::{GroupVersion, ObjectKey, Resource};
use naming::Named;
pub use record::taking_over;
pub use rules::{Evaluated, Evaluation};
use views::{Object, Record, Told, Work};

/// What the applier can learn.
#[derive(Debug)]
pub enum ApplyInput {
    /// ManifestWorks of the mailbox, except those of Workflows.
    Work(Change<ManifestWork>),
    /// WorkStatuses of such ManifestWorks; their metadata suffices.
    Told(Change<WorkStatus>),
    /// The cluster's records of such ManifestWorks.
    Record(Change<AppliedManifestWork>),
    /// What a version of a group serves.
    Served(GroupVersion, Vec<Served>),
    /// Why that could not be learnt.
    Undiscovered(GroupVersion, String),
    /// Objects of one kind with the cluster's label.
    Objects(Resource, Change<DynamicObject>),
    /// A kind cannot be listed.
    Unlisted(Resource, Obstacle),
    /// The watch of a kind has ended, and has told all that it will.
    Unwatched(Resource),
    /// An object that is watched by its name.
    Single(ObjectKey, Change<DynamicObject>),
    /// The watch of an object by its name has ended, or cannot begin.
    SingleUnwatched(ObjectKey),
    /// What there is under a name: the answer to a read or to a write.
    Seen(ObjectKey, Option<Box<DynamicObject>>),
    /// The same, where the executor of the ManifestWork may read it.
    Reviewed(ObjectKey, Option<Box<DynamicObject>>),
    /// What an object was answered with when it was applied.
    Applied(Box<Application>, Box<DynamicObject>),
    /// What condition rules make of an object.
    Evaluated(ObjectKey, Box<Evaluated>),
    /// A request about an object failed.
    Failed(ObjectKey, Failure),
    /// The namespace that an object needs is there.
    NamespaceMade(ObjectKey),
    /// A WorkStatus that was to be deleted is not there.
    ToldGone(WorkName),
    /// A record that was to be written or deleted is not there.
    RecordGone(WorkName),
}

/// Why a kind cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The API server does not know it.
    Missing,
    /// The API server does not let the agent, in its own words.
    Refused(String),
}

/// What the applier is told at start.
#[derive(Clone, Debug)]
pub struct ApplierConfig {
    /// Name of its ManagedCluster.
    pub cluster: ClusterName,
    /// Hexadecimal SHA-256 of the hub's address, by which OCM names records.
    pub hub_hash: String,
}

/// Whether the objects of a kind are known.
#[derive(Debug)]
enum Listing {
    Listed,
    Obstructed(Obstacle),
}

/// What was read under a name, when, and how often without a change.
#[derive(Debug)]
struct Look {
    object: Option<Object>,
    at: Timestamp,
    times: u32,
}

/// A request about an object that failed.
#[derive(Debug)]
struct Trouble {
    failure: Failure,
    at: Timestamp,
    tries: u32,
}

/// What an object was applied as last, by this process: an apply that changed nothing is not repeated until something does.
#[derive(Debug)]
struct Applied {
    resource_version: String,
    sent: Digest,
    /// How often it was corrected in a row, and when last.
    corrections: u32,
    at: Timestamp,
}

#[derive(Debug, Default)]
struct Synced {
    works: bool,
    told: bool,
    records: bool,
}

/// The index.
#[derive(Debug)]
pub struct Applier {
    config: ApplierConfig,
    synced: Synced,
    works: HashMap<WorkName, Work>,
    told: HashMap<WorkName, Told>,
    records: HashMap<WorkName, Record>,
    catalogue: Catalogue,
    listings: HashMap<Resource, Listing>,
    objects: HashMap<ObjectKey, Object>,
    looks: HashMap<ObjectKey, Look>,
    applied: HashMap<ObjectKey, Applied>,
    troubles: HashMap<(WorkName, ObjectKey), Trouble>,
    /// What condition rules made of an object as it was last, as long as a ManifestWork and its rules are the same.
    evaluated: HashMap<(WorkName, ObjectKey), Evaluated>,
    /// Whose executor was found to be allowed to read which object, and when last.
    readers: HashMap<(WorkName, ObjectKey), Timestamp>,
    /// What a ManifestWork or its record names.
    named: HashMap<WorkName, Named>,
    /// Who names an object, a kind, a version of a group.
    users: HashMap<ObjectKey, BTreeSet<WorkName>>,
    kinds: BTreeMap<Resource, BTreeSet<WorkName>>,
    apis: HashMap<GroupVersion, BTreeSet<WorkName>>,
    /// Who only looks at an object, and of which of those a watch tells.
    read_only: BTreeMap<ObjectKey, BTreeSet<WorkName>>,
    followed: HashSet<ObjectKey>,
    under_way: UnderWay<WorkName>,
}

impl Applier {
    /// An index that knows nothing yet.
    pub fn new(config: ApplierConfig) -> Self {
        Self {
            config,
            synced: Synced::default(),
            works: HashMap::new(),
            told: HashMap::new(),
            records: HashMap::new(),
            catalogue: Catalogue::default(),
            listings: HashMap::new(),
            objects: HashMap::new(),
            looks: HashMap::new(),
            applied: HashMap::new(),
            troubles: HashMap::new(),
            evaluated: HashMap::new(),
            readers: HashMap::new(),
            named: HashMap::new(),
            users: HashMap::new(),
            kinds: BTreeMap::new(),
            apis: HashMap::new(),
            read_only: BTreeMap::new(),
            followed: HashSet::new(),
            under_way: UnderWay::new(),
        }
    }

    /// Whether ManifestWorks, reports and records have been listed once. Kinds follow: each is listed before anything of it is
    /// decided, and one that cannot be listed holds nobody else up.
    pub fn is_synced(&self) -> bool {
        self.unlisted().is_empty()
    }

    /// The kinds whose objects are to be watched, with the label of the cluster.
    pub fn kinds(&self) -> impl Iterator<Item = &Resource> {
        self.kinds.keys()
    }

    /// Records whose ManifestWork is not in the mailbox: a restored or a wrong ITS. Their objects are left alone.
    pub fn orphans(&self) -> impl Iterator<Item = &WorkName> {
        self.records.keys().filter(|name| !self.works.contains_key(*name))
    }

    fn every_key(&self) -> BTreeSet<WorkName> {
        self.works.keys().cloned().collect()
    }
}

impl Reconcile for Applier {
    type Input = ApplyInput;
    type Key = WorkName;
    type Action = ApplyAction;

    fn apply(&mut self, input: ApplyInput, now: Timestamp) -> BTreeSet<WorkName> {
        let was_synced = self.is_synced();
        let dirty = self.learn(input, now);
        match (was_synced, self.is_synced()) {
            (true, _) => dirty,
            (false, true) => self.every_key(),
            (false, false) => BTreeSet::new(),
        }
    }

    fn answered(&mut self, key: &WorkName, input: ApplyInput, now: Timestamp) -> BTreeSet<WorkName> {
        self.under_way.answer();
        let dirty = self.learn_answer(key, input, now);
        self.under_way.end(key);
        dirty
    }

    /// What fails on the cluster is an answer of its own ([`ApplyInput::Failed`]), so that one manifest does not hold up the
    /// others. What fails at the hub concerns the whole key, and the engine tries again.
    fn failed(&mut self, key: &WorkName, _: &ApplyAction, _: &Failure) -> BTreeSet<WorkName> {
        self.under_way.end(key);
        BTreeSet::new()
    }

    fn began(&mut self, key: &WorkName) {
        self.under_way.begin(key);
    }

    fn decide(&self, key: &WorkName, now: Timestamp) -> Decision<ApplyAction> {
        if self.is_synced() {
            self.decide_key(key, now)
        } else {
            Decision::rest()
        }
    }

    fn subject(&self, key: &WorkName) -> Subject {
        self.subject_of(key)
    }
}

#[cfg(test)]
mod tests;
