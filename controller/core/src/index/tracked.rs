//! The bookkeeping that all indexes have in common: requests in flight, and the gate that stays
//! shut until every kind has been listed.
//!
//! Owned here: the only implementation of [`Reconcile`], around the part in which indexes differ
//! ([`Index`]). Not here: the kinds that an index waits for (`synced`), and the rule by which an
//! object is news (`store`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use jiff::Timestamp;

use super::reconciler::{Action, Decision, Failure, Reconcile};
use crate::LogFields;

/// The part in which indexes differ. Other crates drive an index by [`Reconcile`].
pub trait Index {
    /// A watch event, or the answer to a request.
    type Input;
    /// The unit of a decision.
    type Key: Clone + Ord + fmt::Debug + fmt::Display;
    /// One request to one API server, as data.
    type Action: Action;

    /// The keys with a request in flight.
    fn in_flight(&mut self) -> &mut InFlight<Self::Key>;

    /// True if every kind on which decisions depend has been listed.
    fn may_decide(&self) -> bool;

    /// Called at `now`, when the last of these kinds has been listed. Returns all keys.
    fn on_synced(&mut self, now: Timestamp) -> BTreeSet<Self::Key>;

    /// Stores a request that is in flight for `key` from now on.
    fn note_request(&mut self, _: &Self::Key, _: &Self::Action, _: Timestamp) {}

    /// Stores `input` and returns the keys whose decision may have changed. `answered` is the key
    /// whose request the input answers; `None` for an event.
    fn store(
        &mut self,
        input: Self::Input,
        answered: Option<&Self::Key>,
        now: Timestamp,
    ) -> BTreeSet<Self::Key>;

    /// Further keys to decide again, in this order (see [`Reconcile::due`]).
    fn take_turns(&mut self) -> Vec<Self::Key> {
        Vec::new()
    }

    /// True if further keys wait for their turn (see [`Reconcile::has_due`]).
    fn has_turns(&self) -> bool {
        false
    }

    /// Stores the failure of the action that was in flight for a key, and returns the keys whose
    /// decision may have changed. The engine retries the key in any case.
    fn store_failure(
        &mut self,
        _: &Self::Key,
        _: &Self::Action,
        _: &Failure,
        _: Timestamp,
    ) -> BTreeSet<Self::Key> {
        BTreeSet::new()
    }

    /// The next step for `key`. Every kind has been listed.
    fn next_step(&self, key: &Self::Key, now: Timestamp) -> Decision<Self::Action>;

    /// The object that `key` refers to, as far as it is known.
    fn log_fields(&self, key: &Self::Key) -> LogFields;
}

impl<I: Index> Reconcile for I {
    type Input = I::Input;
    type Key = I::Key;
    type Action = I::Action;

    fn apply(&mut self, input: I::Input, now: Timestamp) -> BTreeSet<I::Key> {
        pass_gate(self, input, None, now)
    }

    fn due(&mut self) -> Vec<I::Key> {
        if self.may_decide() {
            self.take_turns()
        } else {
            Vec::new()
        }
    }

    fn has_due(&self) -> bool {
        self.may_decide() && self.has_turns()
    }

    fn succeeded(&mut self, key: &I::Key, input: I::Input, now: Timestamp) -> BTreeSet<I::Key> {
        self.in_flight().answer();
        let dirty = pass_gate(self, input, Some(key), now);
        self.in_flight().end(key);
        dirty
    }

    fn failed(
        &mut self,
        key: &I::Key,
        action: &I::Action,
        failure: &Failure,
        now: Timestamp,
    ) -> BTreeSet<I::Key> {
        self.in_flight().end(key);
        self.store_failure(key, action, failure, now)
    }

    fn started(&mut self, key: &I::Key) {
        self.in_flight().begin(key);
    }

    fn requested(&mut self, key: &I::Key, action: &I::Action, now: Timestamp) {
        self.note_request(key, action, now);
        self.in_flight().begin(key);
    }

    fn decide(&self, key: &I::Key, now: Timestamp) -> Decision<I::Action> {
        if self.may_decide() {
            self.next_step(key, now)
        } else {
            Decision::rest()
        }
    }

    fn subject(&self, key: &I::Key) -> LogFields {
        self.log_fields(key)
    }
}

/// Stores `input`. No key is dirty before every kind has been listed, and then all are.
fn pass_gate<I: Index>(
    index: &mut I,
    input: I::Input,
    answered: Option<&I::Key>,
    now: Timestamp,
) -> BTreeSet<I::Key> {
    let was_open = index.may_decide();
    let dirty = index.store(input, answered, now);
    match (was_open, index.may_decide()) {
        (true, _) => dirty,
        (false, true) => index.on_synced(now),
        (false, false) => BTreeSet::new(),
    }
}

/// Keys with a request in flight, and the UIDs of objects whose deletion a watch has reported in
/// the meantime. A response that arrives after such an event is older and must not restore the
/// object. Events of the watch itself are in order and may restore it, because a list may be older
/// than our own write.
#[derive(Debug)]
pub struct InFlight<K> {
    gone: BTreeMap<K, BTreeSet<String>>,
    /// True while the input is a response.
    is_answer: bool,
}

impl<K> Default for InFlight<K> {
    fn default() -> Self {
        Self {
            gone: BTreeMap::new(),
            is_answer: false,
        }
    }
}

impl<K: Ord + Clone> InFlight<K> {
    pub(crate) fn begin(&mut self, key: &K) {
        self.gone.insert(key.clone(), BTreeSet::new());
    }

    /// Treats inputs as responses from now on, until `end`.
    pub(crate) fn answer(&mut self) {
        self.is_answer = true;
    }

    /// Returns true if the current input is a response.
    pub(crate) fn is_answer(&self) -> bool {
        self.is_answer
    }

    pub(crate) fn end(&mut self, key: &K) {
        self.gone.remove(key);
        self.is_answer = false;
    }

    /// Records the deletion of an object of `key`.
    pub(crate) fn tombstone(&mut self, key: &K, uid: Option<&str>) {
        if let (Some(gone), Some(uid)) = (self.gone.get_mut(key), uid) {
            gone.insert(uid.to_owned());
        }
    }

    /// Returns true if a watch has reported the deletion of an object of `key` since the request was sent.
    /// An object that is known now may then be a later one than the one that the response is about.
    pub(crate) fn has_tombstones(&self, key: &K) -> bool {
        self.gone.get(key).is_some_and(|gone| !gone.is_empty())
    }

    /// Returns true if the object with `uid` is deleted, although the current response contains it.
    pub(crate) fn is_tombstoned(&self, key: &K, uid: Option<&str>) -> bool {
        self.is_answer && uid.is_some_and(|uid| self.gone.get(key).is_some_and(|gone| gone.contains(uid)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index of letters. Each letter that exists is to be written.
    #[derive(Default)]
    struct Letters {
        is_listed: bool,
        known: BTreeSet<char>,
        /// The keys of the requests that were answered.
        answered: Vec<char>,
        in_flight: InFlight<char>,
    }

    #[derive(Clone, Copy, Debug)]
    enum Input {
        List(&'static str),
        Apply(char),
        Delete(char),
        /// The letters have to be listed again.
        Unlisted,
    }

    #[derive(Debug, PartialEq)]
    struct Write;

    impl fmt::Display for Write {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("write")
        }
    }

    impl Action for Write {
        fn stage(&self) -> &'static str {
            "write"
        }
    }

    impl Index for Letters {
        type Input = Input;
        type Key = char;
        type Action = Write;

        fn in_flight(&mut self) -> &mut InFlight<char> {
            &mut self.in_flight
        }

        fn may_decide(&self) -> bool {
            self.is_listed
        }

        fn on_synced(&mut self, _: Timestamp) -> BTreeSet<char> {
            self.known.clone()
        }

        fn store(&mut self, input: Input, answered: Option<&char>, _: Timestamp) -> BTreeSet<char> {
            self.answered.extend(answered);
            match input {
                Input::List(letters) => {
                    self.is_listed = true;
                    self.known = letters.chars().collect();
                    self.known.clone()
                }
                Input::Unlisted => {
                    self.is_listed = false;
                    self.known.clone()
                }
                Input::Apply(letter) => {
                    if !self.in_flight.is_tombstoned(&letter, Some("uid")) {
                        self.known.insert(letter);
                    }
                    [letter].into()
                }
                Input::Delete(letter) => {
                    self.in_flight.tombstone(&letter, Some("uid"));
                    self.known.remove(&letter);
                    [letter].into()
                }
            }
        }

        fn next_step(&self, key: &char, _: Timestamp) -> Decision<Write> {
            self.known.contains(key).then_some(Write).into()
        }

        fn log_fields(&self, _: &char) -> LogFields {
            LogFields::of("Letter")
        }
    }

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn nothing_is_dirty_or_decided_before_the_list_and_then_everything_is() {
        let mut letters = Letters::default();
        for (input, dirty, is_open) in [
            (Input::Apply('a'), "", false),
            (Input::List("abc"), "abc", true),
            (Input::Apply('c'), "c", true),
            (Input::List("ab"), "ab", true),
            // The list is out of date: its keys are dirty once more, and rest until the next one.
            (Input::Unlisted, "ab", false),
            (Input::Apply('d'), "", false),
            (Input::List("ad"), "ad", true),
        ] {
            let found: String = letters.apply(input, NOW).into_iter().collect();
            assert_eq!(found, dirty, "{input:?}");
            let expected: Decision<Write> = if is_open { Write.into() } else { Decision::rest() };
            assert_eq!(letters.decide(&'a', NOW), expected, "{input:?}");
        }
        assert!(letters.answered.is_empty());
    }

    #[test]
    fn an_answer_passes_the_gate_like_an_event_and_names_its_key() {
        let mut letters = Letters::default();
        assert_eq!(letters.succeeded(&'a', Input::Apply('a'), NOW), BTreeSet::new());
        assert_eq!(letters.succeeded(&'b', Input::List("ab"), NOW), ['a', 'b'].into());
        assert_eq!(letters.succeeded(&'c', Input::Apply('c'), NOW), ['c'].into());
        assert_eq!(letters.answered, ['a', 'b', 'c']);
    }

    #[test]
    fn a_request_is_in_flight_from_its_start_to_its_answer_or_failure() {
        let deleted_in_flight = || {
            let mut letters = Letters::default();
            letters.apply(Input::List("ab"), NOW);
            letters.started(&'a');
            letters.apply(Input::Delete('a'), NOW);
            letters
        };
        let exists = |letters: &Letters| letters.known.contains(&'a');

        let mut letters = deleted_in_flight();
        letters.succeeded(&'a', Input::Apply('a'), NOW);
        assert!(!exists(&letters), "its own answer is older than the deletion");
        letters.apply(Input::Apply('a'), NOW);
        assert!(exists(&letters), "an event is not");

        let mut letters = deleted_in_flight();
        letters.succeeded(&'b', Input::Apply('a'), NOW);
        assert!(!exists(&letters), "the answer to another request is as old");

        let mut letters = deleted_in_flight();
        letters.failed(&'a', &Write, &Failure::Conflict, NOW);
        letters.succeeded(&'a', Input::Apply('a'), NOW);
        assert!(exists(&letters), "after a failure, the next answer is newer");

        let mut letters = deleted_in_flight();
        letters.started(&'a');
        letters.succeeded(&'a', Input::Apply('a'), NOW);
        assert!(exists(&letters), "so it is after another start");
    }
}
