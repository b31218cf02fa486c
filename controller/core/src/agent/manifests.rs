//! The applier's index: ManifestWorks with objects of any kind, and the state of those objects on
//! the cluster.
//!
//! There is one key per ManifestWork, with any number of manifests. Owned here: server-side apply,
//! correction of drift, adoption of objects that already exist, deletion of objects that are no
//! longer in the mailbox, and a status for each manifest. Not here: Workflows, which run once
//! (`workflows`), and the way in which each kind is watched (the shell, which calls
//! [`ManifestIndex::kinds`]).

mod action;
mod aggregate_conditions;
mod applied_record;
mod backoff;
mod condition_rules;
mod config;
mod contents;
mod decide;
mod deletion;
mod desired;
mod drift;
mod facts;
mod feedback;
mod ids;
mod ignored;
mod jsonpath;
mod learn;
mod manifest;
mod named_objects;
mod object_view;
mod ownership;
mod report;
mod resource_status;
mod responses;
mod rest_mapper;
mod rest_mapping;
mod status;
mod subject;
mod views;
mod watch_by_name;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use argosy_api::{AppliedManifestWork, ManifestWork, WorkStatus};
use jiff::Timestamp;

use crate::{
    Change, ClusterName, Decision, Failure, LogFields, WorkName,
    index::{
        fingerprint::Fingerprint,
        synced::{Synced, kinds},
        tracked::{InFlight, Index},
    },
};

pub use action::{Application, ApplyAction};
pub use applied_record::taking_over;
pub use condition_rules::{Evaluated, Evaluation};
pub use contents::{Contents, Version};
pub use ids::{GroupVersion, ObjectKey, Resource};
pub use named_objects::{NamedObjects, Naming};
pub use object_view::ObjectView;
use rest_mapper::Catalog;
pub use rest_mapper::Served;
use rest_mapping::Named;
use views::{AppliedRecord, ManifestWorkView, ReportedStatus};

/// Inputs of the applier: watch events and answers to requests.
#[derive(Debug)]
pub enum ApplyInput {
    /// ManifestWorks of the mailbox, except those of Workflows.
    Work(Change<ManifestWork>),
    /// WorkStatuses of such ManifestWorks. Their metadata is enough.
    WorkStatus(Change<WorkStatus>),
    /// The cluster's AppliedManifestWorks (records) of such ManifestWorks.
    Record(Change<AppliedManifestWork>),
    /// The kinds that a group version serves.
    Served(GroupVersion, Vec<Served>),
    /// The discovery of a group version failed, with the reason.
    Undiscovered(GroupVersion, String),
    /// Objects of one kind that have the cluster's label and that a ManifestWork names.
    Objects(Resource, Change<ObjectView>),
    /// A kind cannot be listed.
    Unlisted(Resource, Obstacle),
    /// The watch of a kind has ended; no more events of it follow.
    Unwatched(Resource),
    /// An object that is watched by its name.
    Single(ObjectKey, Change<ObjectView>),
    /// The watch of a single object has ended or could not be started.
    SingleUnwatched(ObjectKey),
    /// The object under a name, or `None`: the answer to a read or a write.
    Seen(ObjectKey, Option<Box<ObjectView>>),
    /// The same, and the executor of the ManifestWork is allowed to read it.
    Reviewed(ObjectKey, Option<Box<ObjectView>>),
    /// The object that the API server returned for an apply.
    Applied(Box<Application>, Box<ObjectView>),
    /// The result of the condition rules of an object.
    Evaluated(ObjectKey, Box<Evaluated>),
    /// A request about an object failed.
    Failed(ObjectKey, Failure),
    /// The namespace that an object needs exists now.
    NamespaceMade(ObjectKey),
    /// A WorkStatus to delete does not exist.
    ReportedGone(WorkName),
    /// A record to write or delete does not exist.
    RecordGone(WorkName),
}

/// The reason why a kind cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The API server does not serve the kind.
    Missing,
    /// The agent is not allowed to list it; the API server's message.
    Refused(String),
}

/// Configuration of the applier at start.
#[derive(Clone, Debug)]
pub struct ApplierConfig {
    /// Name of the agent's ManagedCluster.
    pub cluster: ClusterName,
    /// Hexadecimal SHA-256 of the hub's address. OCM uses it in the names of records.
    pub hub_hash: String,
    /// The `instanceID` of the cluster's Argo, which runs only those CronWorkflows that have the
    /// label with this ID.
    pub argo_instance: Option<String>,
}

/// Result of listing the objects of a kind.
#[derive(Debug)]
enum Listing {
    Listed,
    Obstructed(Obstacle),
}

/// The object that was read under a name, the time of the last read, and the number of reads in a
/// row that returned the same version.
#[derive(Debug)]
struct CachedRead {
    object: Option<ObjectView>,
    at: Timestamp,
    times: u32,
}

/// A request about an object that failed, with the number of failures in a row.
#[derive(Debug)]
struct RetryState {
    failure: Failure,
    at: Timestamp,
    tries: u32,
}

/// The last apply of an object by this process. If that apply changed nothing, it is not repeated
/// until the object or the manifest changes.
#[derive(Debug)]
struct Applied {
    resource_version: String,
    sent: Fingerprint,
    /// The number of corrections in a row; `at` is the time of the last apply.
    corrections: u32,
    at: Timestamp,
}

kinds! {
    /// The kinds that are always watched.
    enum Awaited {
        Works = "manifestworks",
        WorkStatus = "workstatuses",
        Records = "appliedmanifestworks",
    }
}

type Dirty = BTreeSet<WorkName>;

/// The index of ManifestWorks on this cluster.
#[derive(Debug)]
pub struct ManifestIndex {
    config: ApplierConfig,
    synced: Synced<Awaited>,
    works: HashMap<WorkName, ManifestWorkView>,
    work_statuses: HashMap<WorkName, ReportedStatus>,
    records: HashMap<WorkName, AppliedRecord>,
    catalog: Catalog,
    listings: HashMap<Resource, Listing>,
    objects: HashMap<ObjectKey, ObjectView>,
    looks: HashMap<ObjectKey, CachedRead>,
    applied: HashMap<ObjectKey, Applied>,
    troubles: HashMap<(WorkName, ObjectKey), RetryState>,
    /// Results of condition rules for the last evaluated version of an object. Each is valid as
    /// long as the generation of its ManifestWork stays the same.
    evaluated: HashMap<(WorkName, ObjectKey), Evaluated>,
    /// The last time at which the executor of a ManifestWork was allowed to read an object.
    readers: HashMap<(WorkName, ObjectKey), Timestamp>,
    /// The objects, kinds and group versions that a ManifestWork or its record names.
    named: HashMap<WorkName, Named>,
    /// The ManifestWorks that name an object, a kind, or a group version.
    users: HashMap<ObjectKey, BTreeSet<WorkName>>,
    named_objects: NamedObjects,
    kinds: BTreeMap<Resource, BTreeSet<WorkName>>,
    apis: HashMap<GroupVersion, BTreeSet<WorkName>>,
    /// The ManifestWorks that only read an object, and the objects of these that have a watch of
    /// their own.
    read_only: BTreeMap<ObjectKey, BTreeSet<WorkName>>,
    followed: HashSet<ObjectKey>,
    /// Changes that [`ManifestIndex::take_contents`] has not returned yet.
    contents: Vec<(WorkName, Option<Contents>)>,
    in_flight: InFlight<WorkName>,
}

impl ManifestIndex {
    /// An empty index.
    pub fn new(config: ApplierConfig) -> Self {
        Self {
            config,
            synced: Synced::new(),
            works: HashMap::new(),
            work_statuses: HashMap::new(),
            records: HashMap::new(),
            catalog: Catalog::default(),
            listings: HashMap::new(),
            objects: HashMap::new(),
            looks: HashMap::new(),
            applied: HashMap::new(),
            troubles: HashMap::new(),
            evaluated: HashMap::new(),
            readers: HashMap::new(),
            named: HashMap::new(),
            users: HashMap::new(),
            named_objects: NamedObjects::default(),
            kinds: BTreeMap::new(),
            apis: HashMap::new(),
            read_only: BTreeMap::new(),
            followed: HashSet::new(),
            contents: Vec::new(),
            in_flight: InFlight::default(),
        }
    }

    /// True if ManifestWorks, WorkStatuses and records have been listed once. The kinds of the
    /// manifests are not part of this: each is listed before anything about its objects is decided,
    /// and a kind that cannot be listed does not block the others.
    pub fn is_synced(&self) -> bool {
        self.synced.is_complete()
    }

    /// The kinds of the permanent watches that have not been listed yet. Nothing is decided before
    /// all are listed.
    pub fn unlisted(&self) -> Vec<&'static str> {
        self.synced.unlisted()
    }

    /// The kinds to watch, restricted to objects with the cluster's label.
    pub fn kinds(&self) -> impl Iterator<Item = &Resource> {
        self.kinds.keys()
    }

    /// The objects that ManifestWorks name. The set is shared, and changes with the index.
    pub fn named_objects(&self) -> NamedObjects {
        self.named_objects.clone()
    }

    /// Records whose ManifestWork is not in the mailbox, because the ITS was restored or is the
    /// wrong one. Their objects are left alone.
    pub fn orphans(&self) -> impl Iterator<Item = &WorkName> {
        self.records.keys().filter(|name| !self.works.contains_key(*name))
    }

    fn every_key(&self) -> Dirty {
        self.works.keys().cloned().collect()
    }
}

/// A failure on the cluster arrives as an answer ([`ApplyInput::Failed`]), so that one manifest does
/// not block the others. A failure at the hub concerns the whole key, and the engine retries.
impl Index for ManifestIndex {
    type Input = ApplyInput;
    type Key = WorkName;
    type Action = ApplyAction;

    fn in_flight(&mut self) -> &mut InFlight<WorkName> {
        &mut self.in_flight
    }

    fn may_decide(&self) -> bool {
        self.is_synced()
    }

    fn on_synced(&mut self, _: Timestamp) -> Dirty {
        self.every_key()
    }

    fn store(&mut self, input: ApplyInput, answered: Option<&WorkName>, now: Timestamp) -> Dirty {
        match answered {
            Some(key) => self.on_answer(key, input, now),
            None => self.learn(input, now),
        }
    }

    fn next_step(&self, key: &WorkName, now: Timestamp) -> Decision<ApplyAction> {
        self.decide_key(key, now)
    }

    fn log_fields(&self, key: &WorkName) -> LogFields {
        self.subject_of(key)
    }
}

#[cfg(test)]
mod tests;
