//! The contract between an index and the loop that drives it.
//!
//! The loop feeds inputs, asks for one decision per dirty key, carries it out, and reports how that went. At most
//! one action per key is under way, so a decision never has to think about its own earlier action being unfinished.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::Subject;

/// An index that knows what to do next.
pub trait Reconcile {
    /// What can be learnt: events of watches, objects returned by writes.
    type Input;
    /// What a decision is about.
    type Key: Clone + Ord + fmt::Debug + fmt::Display;
    /// One request to one API server, as data.
    type Action: Action;

    /// Learns `input` at `now` and returns the keys whose decision may have changed.
    fn apply(&mut self, input: Self::Input, now: Timestamp) -> BTreeSet<Self::Key>;

    /// Learns what the request under way for `key` was answered with, and that it is over. The answer may be older than what a
    /// watch has told meanwhile.
    fn answered(&mut self, key: &Self::Key, input: Self::Input, now: Timestamp) -> BTreeSet<Self::Key>;

    /// Learns that `action`, which was under way for `key`, failed, so that the next decision can tell the user.
    fn failed(&mut self, key: &Self::Key, action: &Self::Action, failure: &Failure) -> BTreeSet<Self::Key>;

    /// A request for `key` is under way from now on.
    fn began(&mut self, key: &Self::Key);

    /// The next step for `key`.
    fn decide(&self, key: &Self::Key, now: Timestamp) -> Decision<Self::Action>;

    /// What `key` is about, as far as it is known.
    fn subject(&self, key: &Self::Key) -> Subject;
}

/// One request to one API server, as data. Displayed, it names what it is about.
pub trait Action: fmt::Debug + fmt::Display {
    /// What it does, one of few words: a label of metrics.
    fn stage(&self) -> &'static str;

    /// The object that it is about, where a key has many: many actions in a row, each about another, undo nothing.
    fn about(&self) -> Option<String> {
        None
    }

    /// The phase of a run that it tells of, if it tells of one.
    fn phase(&self) -> Option<&str> {
        None
    }
}

/// What to do next about one key.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<A> {
    /// The next request, or nothing.
    pub action: Option<A>,
    /// When time alone may change the decision.
    pub recheck_at: Option<Timestamp>,
}

impl<A> Decision<A> {
    /// Nothing to do until an input says otherwise.
    pub fn rest() -> Self {
        Self {
            action: None,
            recheck_at: None,
        }
    }

    /// Nothing to do before `at`.
    pub fn wait_until(at: Timestamp) -> Self {
        Self {
            action: None,
            recheck_at: Some(at),
        }
    }
}

impl<A> From<A> for Decision<A> {
    fn from(action: A) -> Self {
        Self {
            action: Some(action),
            recheck_at: None,
        }
    }
}

impl<A> From<Option<A>> for Decision<A> {
    fn from(action: Option<A>) -> Self {
        Self {
            action,
            recheck_at: None,
        }
    }
}

/// How a request failed, as far as a decision cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The object has changed since it was read; its newer form is on the way.
    Conflict,
    /// An object that is not ours has the name.
    Foreign(String),
    /// The object or its namespace is not there.
    NotFound {
        /// The namespace is what is missing.
        namespace: bool,
        /// What the API server said.
        message: String,
    },
    /// The API server does not serve the kind, which says nothing about an object: one that has just started, or whose definition
    /// is being changed, does not for a moment.
    Unserved(String),
    /// Something that the object refers to is not on its cluster, so it was not sent.
    Missing(String),
    /// The fence around the attempt is not up, so it was not sent.
    Fenced(String),
    /// The API server understood and refused.
    Refused(String),
    /// Nobody answered, or not in time.
    Unreachable(String),
}

impl Failure {
    /// What kind of failure it is, in one word: a label of metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Foreign(_) => "foreign",
            Self::NotFound { .. } => "not_found",
            Self::Unserved(_) => "unserved",
            Self::Missing(_) => "missing",
            Self::Fenced(_) => "fenced",
            Self::Refused(_) => "refused",
            Self::Unreachable(_) => "unreachable",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict => f.write_str("the object changed meanwhile"),
            Self::Foreign(message)
            | Self::NotFound { message, .. }
            | Self::Unserved(message)
            | Self::Missing(message)
            | Self::Fenced(message)
            | Self::Refused(message)
            | Self::Unreachable(message) => f.write_str(message),
        }
    }
}

/// A change of one kind of object, as a watch tells it.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// The object is there and looks like this.
    Apply(Box<K>),
    /// The object is gone; this is how it looked last.
    Delete(Box<K>),
    /// These are all objects; any other is gone.
    Reset(Vec<K>),
}

impl<K> Change<K> {
    /// The same change, with what `f` makes of each object.
    pub fn map<V>(self, f: impl Fn(K) -> V) -> Change<V> {
        match self {
            Self::Apply(object) => Change::Apply(Box::new(f(*object))),
            Self::Delete(object) => Change::Delete(Box::new(f(*object))),
            Self::Reset(live) => Change::Reset(live.into_iter().map(f).collect()),
        }
    }
}

/// Keys with a request under way, and the UIDs of objects that a watch has told to be gone meanwhile: an answer that arrives
/// after that is older, and must not bring them back. A watch tells in order, and may: a list may be older than our own write.
#[derive(Debug)]
pub(crate) struct UnderWay<K> {
    gone: BTreeMap<K, BTreeSet<String>>,
    /// What is being learnt is an answer.
    is_answer: bool,
}

impl<K: Ord + Clone> UnderWay<K> {
    pub(crate) fn new() -> Self {
        Self {
            gone: BTreeMap::new(),
            is_answer: false,
        }
    }

    pub(crate) fn begin(&mut self, key: &K) {
        self.gone.insert(key.clone(), BTreeSet::new());
    }

    /// What is learnt from now on is an answer, until the end.
    pub(crate) fn answer(&mut self) {
        self.is_answer = true;
    }

    /// Whether what is being learnt is an answer.
    pub(crate) fn is_answer(&self) -> bool {
        self.is_answer
    }

    pub(crate) fn end(&mut self, key: &K) {
        self.gone.remove(key);
        self.is_answer = false;
    }

    /// An object that `key` is about is gone.
    pub(crate) fn bury(&mut self, key: &K, uid: Option<&str>) {
        if let (Some(gone), Some(uid)) = (self.gone.get_mut(key), uid) {
            gone.insert(uid.to_owned());
        }
    }

    /// Whether the object with `uid` is gone, although the answer that is being learnt tells of it.
    pub(crate) fn has_buried(&self, key: &K, uid: Option<&str>) -> bool {
        self.is_answer && uid.is_some_and(|uid| self.gone.get(key).is_some_and(|gone| gone.contains(uid)))
    }
}

/// Whether this is an object's last form: the write that took the last finalizer off a deleted object removes it, and its
/// answer may arrive after the event of the deletion.
pub(crate) fn is_gone(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some() && metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
}

/// Whether `incoming` is at least as new as `known`. Resource versions of one resource are comparable numbers
/// (KEP-5504); anything else is taken as new.
pub(crate) fn is_newer(incoming: Option<&str>, known: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    match (incoming.and_then(number), number(known)) {
        (Some(incoming), Some(known)) => incoming >= known,
        _ => true,
    }
}
