//! Pauses between the reports of one object that only show progress.
//!
//! A workflow-controller writes a status at every step of a pod. A report of a thousand nodes takes
//! an API server a quarter of a second, so a run whose reports follow each other at once would take
//! a processor for itself. After a report, the next one therefore waits in proportion to the time
//! that its write took, and the newest takes the place of those that waited. Not here: the reports
//! that may wait.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

use jiff::{SignedDuration, Timestamp};

/// A pause is so many times as long as the write before it, unless it would be longer than the bounds
/// below. A run then takes at most a fortieth of an API server's time.
const TIMES: i32 = 40;

/// The shortest pause.
const SHORTEST: SignedDuration = SignedDuration::from_millis(100);

/// The longest time at the agent from the start of one write to the start of the next, if the write takes
/// at most half of it. After a longer write, the pause is as long as the write, up to the longest pause,
/// so that a run leaves an API server that is overloaded some of its time.
pub(crate) const AT_AGENT: SignedDuration = SignedDuration::from_secs(3);

/// The same at the controller. What an agent has not reported costs the control cluster nothing, so most of
/// the pause is the agent's. The control cluster shows no state that is older than both times and what
/// two writes take: five seconds, if these take no more than one.
pub(crate) const AT_HUB: SignedDuration = SignedDuration::from_secs(1);

/// The longest pause.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(5);

/// The pauses that have not ended, and the writes under way.
#[derive(Debug)]
pub(crate) struct Rests<K> {
    longest: SignedDuration,
    began: HashMap<K, Timestamp>,
    until: HashMap<K, Timestamp>,
    by_end: BTreeSet<(Timestamp, K)>,
}

impl<K: Clone + Ord + Hash> Rests<K> {
    /// Returns no pauses. Unless writes take longer, they start at most `longest` after each other.
    pub(crate) fn new(longest: SignedDuration) -> Self {
        Self {
            longest,
            began: HashMap::new(),
            until: HashMap::new(),
            by_end: BTreeSet::new(),
        }
    }

    /// Records that the write of a report has begun.
    pub(crate) fn begin(&mut self, key: &K, now: Timestamp) {
        self.began.insert(key.clone(), now);
    }

    /// Records that the request in flight for the key has succeeded. If it was a report, the pause
    /// begins. Forgets the pauses that have ended.
    pub(crate) fn end(&mut self, key: &K, now: Timestamp) {
        while let Some((end, _)) = self.by_end.first().filter(|(end, _)| *end <= now).cloned() {
            let ended = self.by_end.pop_first();
            // A later pause of the key has its own entry.
            if let Some((_, key)) = ended.filter(|(_, key)| self.until.get(key) == Some(&end)) {
                self.until.remove(&key);
            }
        }
        let Some(began) = self.began.remove(key) else {
            return;
        };
        let took = now.duration_since(began);
        let pause = (took * TIMES).min(took.max(self.longest - took));
        let pause = pause.clamp(SHORTEST, LONGEST_PAUSE);
        let end = now.saturating_add(pause).unwrap_or(Timestamp::MAX);
        self.until.insert(key.clone(), end);
        self.by_end.insert((end, key.clone()));
    }

    /// Records that the request in flight for the key has failed.
    pub(crate) fn cancel(&mut self, key: &K) {
        self.began.remove(key);
    }

    /// The end of the pause, if the key has one.
    pub(crate) fn until(&self, key: &K, now: Timestamp) -> Option<Timestamp> {
        self.until.get(key).copied().filter(|end| *end > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    #[test]
    fn a_pause_is_in_proportion_to_the_write_within_bounds() {
        for (longest, took, pause) in [
            (AT_AGENT, 0, 100),
            (AT_AGENT, 2, 100),
            (AT_AGENT, 5, 200),
            (AT_AGENT, 10, 400),
            (AT_AGENT, 100, 2900),
            (AT_AGENT, 900, 2100),
            (AT_AGENT, 4000, 4000),
            (AT_AGENT, 8000, 5000),
            (AT_HUB, 10, 400),
            (AT_HUB, 100, 900),
            (AT_HUB, 3000, 3000),
        ] {
            let mut rests = Rests::new(longest);
            rests.begin(&"a", at(0));
            rests.end(&"a", at(took));
            let end = took + pause;
            assert_eq!(rests.until(&"a", at(end - 1)), Some(at(end)), "{took}");
            assert_eq!(rests.until(&"a", at(end)), None, "{took}");
        }
    }

    #[test]
    fn only_a_report_that_was_written_is_followed_by_a_pause() {
        let mut rests = Rests::new(AT_AGENT);
        rests.end(&"other", at(0));
        rests.begin(&"failed", at(0));
        rests.cancel(&"failed");
        rests.end(&"failed", at(1));
        assert_eq!(
            (rests.until(&"other", at(0)), rests.until(&"failed", at(1))),
            (None, None)
        );
    }

    #[test]
    fn pauses_that_have_ended_are_forgotten_and_a_later_one_of_the_same_key_is_not() {
        let mut rests = Rests::new(AT_AGENT);
        for number in 0..100 {
            rests.begin(&number, at(number));
            rests.end(&number, at(number));
        }
        rests.begin(&99, at(100));
        rests.end(&99, at(125));
        rests.end(&7, at(300));
        assert_eq!((rests.until.len(), rests.by_end.len()), (1, 1));
        assert_eq!(rests.until(&99, at(300)), Some(at(1125)));
    }
}
