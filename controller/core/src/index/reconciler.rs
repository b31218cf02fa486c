//! The contract between an index and the loop that drives it.
//!
//! The loop feeds inputs, asks for one decision per dirty key, executes it, and reports the result.
//! At most one action per key is in flight, so a decision never has to consider an unfinished
//! earlier action of its key. Not here: the part of the contract that all indexes fulfill in the
//! same way (`tracked`).

use std::{collections::BTreeSet, fmt, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::LogFields;

/// The time for which the API server may still execute a request after its sender has given up,
/// because the request waits in admission or for a slow etcd. kube-apiserver ends a write after 34
/// s (`requestTimeoutUpperBound`) and any request after 60 s (`--request-timeout`).
pub const REQUEST_LIFETIME: SignedDuration = SignedDuration::from_secs(70);

/// An index that decides the next action per key.
pub trait Reconcile {
    /// An input: a watch event, or an object that a write has returned.
    type Input;
    /// The unit of a decision.
    type Key: Clone + Ord + fmt::Debug + fmt::Display;
    /// One request to one API server, as data.
    type Action: Action;

    /// Applies `input` at `now` and returns the keys whose decision may have changed.
    fn apply(&mut self, input: Self::Input, now: Timestamp) -> BTreeSet<Self::Key>;

    /// Further keys to decide again after an input or a result, in this order. The decision about one
    /// takes into account the requests for those before it.
    fn due(&mut self) -> Vec<Self::Key> {
        Vec::new()
    }

    /// True if [`Self::due`] has further keys, without any input or result.
    fn has_due(&self) -> bool {
        false
    }

    /// Applies the response to the request in flight for `key`, which ends the request. The
    /// response may be older than events that a watch has delivered in the meantime.
    fn succeeded(&mut self, key: &Self::Key, input: Self::Input, now: Timestamp) -> BTreeSet<Self::Key>;

    /// Records at `now` that `action`, which was in flight for `key`, has failed, so that the next
    /// decision can report it to the user.
    fn failed(
        &mut self,
        key: &Self::Key,
        action: &Self::Action,
        failure: &Failure,
        now: Timestamp,
    ) -> BTreeSet<Self::Key>;

    /// Records that a request for `key` is in flight from now on.
    fn started(&mut self, key: &Self::Key);

    /// Like [`Reconcile::started`], with the request, which decisions about other keys may take into
    /// account, and the time.
    fn requested(&mut self, key: &Self::Key, _: &Self::Action, _: Timestamp) {
        self.started(key);
    }

    /// The next step for `key`.
    fn decide(&self, key: &Self::Key, now: Timestamp) -> Decision<Self::Action>;

    /// The object that `key` refers to, as far as it is known.
    fn subject(&self, key: &Self::Key) -> LogFields;
}

/// One request to one API server, as data. Its `Display` names the object of the request.
pub trait Action: fmt::Debug + fmt::Display {
    /// The kind of the request, one of a few words: a label of metrics.
    fn stage(&self) -> &'static str;

    /// The object of the request, if a key has many. Many actions in a row for different objects
    /// are not a loop.
    fn about(&self) -> Option<String> {
        None
    }

    /// The phase of a run that the action reports, if it reports one.
    fn phase(&self) -> Option<&str> {
        None
    }

    /// Memory of the action's content in bytes, as far as users or clusters determine its size. The
    /// sum over all actions in flight is limited.
    fn weight(&self) -> usize {
        0
    }

    /// The lane of the action. At most one action per lane is in flight.
    fn lane(&self) -> Option<&str> {
        None
    }

    /// True if an action in a lane takes so much time and memory that at most one such action is in
    /// flight, in whichever lane.
    fn is_heavy(&self) -> bool {
        false
    }
}

/// The next step for one key.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<A> {
    /// The next request, or nothing.
    pub action: Option<A>,
    /// The time at which the decision may change without any input.
    pub requeue_at: Option<Timestamp>,
    /// The name of the rule that has decided, for the log.
    pub rule: Option<&'static str>,
    /// The urgency of the action.
    pub priority: Priority,
}

/// The urgency of an action among those of one loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// As soon as possible.
    #[default]
    Normal,
    /// When the loop has nothing else to do, at the latest after this time. Nobody waits for the
    /// action, and it is decided again before it starts.
    Low(Duration),
}

impl<A> Decision<A> {
    /// No action until an input changes the decision.
    pub fn rest() -> Self {
        Self {
            action: None,
            requeue_at: None,
            rule: None,
            priority: Priority::Normal,
        }
    }

    /// No action before `at`.
    pub fn requeue_at(at: Timestamp) -> Self {
        Self {
            requeue_at: Some(at),
            ..Self::rest()
        }
    }

    /// The same decision, with that priority.
    #[must_use]
    pub fn with_priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }
}

impl<A> From<A> for Decision<A> {
    fn from(action: A) -> Self {
        Some(action).into()
    }
}

impl<A> From<Option<A>> for Decision<A> {
    fn from(action: Option<A>) -> Self {
        Self {
            action,
            ..Self::rest()
        }
    }
}

/// The result of a failed request, as far as decisions depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The object has changed since it was read. A watch will deliver its newer version.
    Conflict,
    /// The name belongs to an object that is not ours.
    Foreign(String),
    /// The object or its namespace does not exist.
    NotFound {
        /// True if the namespace is missing.
        namespace: bool,
        /// The message of the API server.
        message: String,
    },
    /// The API server does not serve the kind. This proves nothing about the object: an API server
    /// that has just started, or whose definition of the kind is changing, does not serve the kind
    /// for a moment.
    Unserved(String),
    /// The object was not sent, because something that it refers to does not exist on its cluster.
    Missing(String),
    /// The object was not sent, because the fence of the attempt does not allow it.
    Fenced(String),
    /// The API server has rejected the request.
    Refused(String),
    /// There was no response, or none in time.
    Unreachable(String),
}

impl Failure {
    /// The kind of the failure in one word: a label of metrics.
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

/// A change of objects of one kind, as a watch reports it.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// The object exists with this content.
    Apply(Box<K>),
    /// The object is deleted; this is its last known content.
    Delete(Box<K>),
    /// The complete list of objects; any other is deleted.
    Reset(Vec<K>),
}

impl<K> Change<K> {
    /// True if the change is a list.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self, Self::Reset(_))
    }

    /// The same change, with `f` applied to each object.
    pub fn map<V>(self, f: impl Fn(K) -> V) -> Change<V> {
        match self {
            Self::Apply(object) => Change::Apply(Box::new(f(*object))),
            Self::Delete(object) => Change::Delete(Box::new(f(*object))),
            Self::Reset(live) => Change::Reset(live.into_iter().map(f).collect()),
        }
    }
}

/// Returns true if this is the last version of an object: the write that removed the last finalizer
/// of a deleted object removes the object, and its response may arrive after the deletion event.
pub(crate) fn is_gone(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some() && metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
}

/// Returns true if `incoming` is at least as new as `known`. Resource versions of one resource are
/// comparable numbers (KEP-5504); anything else is treated as new.
pub(crate) fn is_newer(incoming: Option<&str>, known: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    match (incoming.and_then(number), number(known)) {
        (Some(incoming), Some(known)) => incoming >= known,
        _ => true,
    }
}
