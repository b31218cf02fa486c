//! The pace of the writes that nobody waits for: the status and the Binding of each policy, whose
//! numbers change with every object.
//!
//! Each policy pauses between its own checks, and all policies share a limit: a thousand of them that
//! pause each by itself would take an API server much of its time while many Workflows are sent. Not
//! here: the content of the writes (`policy_view`, `binding`).

use std::cell::Cell;

use jiff::{SignedDuration, Timestamp};

/// Mean time between two writes of all policies.
const INTERVAL: SignedDuration = SignedDuration::from_millis(100);

/// The time that the limit saves up while it is not used. The writes of this time may then follow each
/// other without a wait.
const BURST: SignedDuration = SignedDuration::from_secs(2);

/// A rate limit that reserves turns, first come, first served.
#[derive(Debug, Default)]
pub(super) struct RateLimiter {
    /// The earliest time of the next turn.
    next: Cell<Option<Timestamp>>,
}

impl RateLimiter {
    /// Reserves the next turn, which may be now.
    fn reserve(&self, now: Timestamp) -> Timestamp {
        let earliest = now.checked_sub(BURST).unwrap_or(Timestamp::MIN);
        let turn = self.next.get().map_or(earliest, |next| next.max(earliest));
        self.next.set(Some(later(turn, INTERVAL)));
        turn.max(now)
    }
}

/// The next write of a policy, if there is one.
#[derive(Clone, Copy, Debug)]
enum Pending {
    /// Until this time, more changes may join it.
    Settling(Timestamp),
    /// Its turn.
    Turn(Timestamp),
}

impl Pending {
    /// The time of the next check.
    fn at(self) -> Timestamp {
        match self {
            Self::Settling(until) | Self::Turn(until) => until,
        }
    }
}

/// The checks of the status or the Binding of one policy.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The time of the last write, or of the last check that found nothing to write. A check visits all
    /// selected objects.
    checked_at: Cell<Option<Timestamp>>,
    pending: Cell<Option<Pending>>,
}

impl Pace {
    /// The time of the next check: that of the pending write, or `pause` after the last check; `None` if
    /// it is due.
    pub(super) fn wait(&self, pause: SignedDuration, now: Timestamp) -> Option<Timestamp> {
        let rested = self.checked_at.get().map(|last| later(last, pause));
        let pending = self.pending.get().map(Pending::at);
        pending.or(rested).filter(|next| *next > now)
    }

    /// Gives up the turn: the next write is urgent.
    pub(super) fn hurry(&self) {
        self.pending.set(None);
    }

    /// Records a check that needs no turn: there is nothing to write, or the write is urgent.
    pub(super) fn checked(&self, now: Timestamp) {
        self.pending.set(None);
        self.checked_at.set(Some(now));
    }

    /// Records that the write has failed: the next one does not pause. The engine waits before it.
    pub(super) fn failed(&self) {
        self.pending.set(None);
        self.checked_at.set(None);
    }

    /// Takes the turn of a write that is due, and records the check. If it has to wait, returns the time
    /// of the next check: a write waits for `settling` first, and then for its turn.
    pub(super) fn take_turn(
        &self,
        limiter: &RateLimiter,
        settling: SignedDuration,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let pending = match self.pending.get() {
            None if settling.is_positive() => Pending::Settling(later(now, settling)),
            None | Some(Pending::Settling(_)) => Pending::Turn(limiter.reserve(now)),
            Some(turn) => turn,
        };
        if pending.at() > now {
            self.pending.set(Some(pending));
            return Some(pending.at());
        }
        self.checked(now);
        None
    }
}

/// A time so much later, if there is one.
pub(super) fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    const NONE: SignedDuration = SignedDuration::ZERO;

    /// A limit whose next turn is 300 ms after the beginning.
    fn exhausted() -> RateLimiter {
        let limiter = RateLimiter::default();
        while limiter.reserve(at(0)) == at(0) {}
        assert_eq!(limiter.reserve(at(0)), at(200));
        limiter
    }

    #[test]
    fn writes_of_few_policies_do_not_wait() {
        let limiter = RateLimiter::default();
        let paces: Vec<Pace> = (0..20).map(|_| Pace::default()).collect();
        let mut turns = paces.iter().map(|pace| pace.take_turn(&limiter, NONE, at(0)));
        assert!(turns.all(|turn| turn.is_none()));
    }

    #[test]
    fn a_turn_stays_reserved_until_it_comes_and_is_taken_once() {
        let (limiter, pace) = (exhausted(), Pace::default());
        assert_eq!(pace.take_turn(&limiter, NONE, at(0)), Some(at(300)));
        assert_eq!(pace.wait(NONE, at(250)), Some(at(300)));
        assert_eq!(pace.take_turn(&limiter, NONE, at(250)), Some(at(300)));
        assert_eq!(pace.wait(NONE, at(300)), None);
        assert_eq!(pace.take_turn(&limiter, NONE, at(300)), None);
        assert_eq!(pace.take_turn(&limiter, NONE, at(300)), Some(at(400)));
    }

    #[test]
    fn the_pause_begins_with_the_write_and_not_while_it_waits() {
        let (limiter, pace) = (exhausted(), Pace::default());
        let pause = SignedDuration::from_secs(1);
        assert_eq!(pace.take_turn(&limiter, NONE, at(0)), Some(at(300)));
        assert_eq!(pace.wait(pause, at(300)), None);
        assert_eq!(pace.take_turn(&limiter, NONE, at(300)), None);
        assert_eq!(pace.wait(pause, at(300)), Some(at(1300)));
    }

    #[test]
    fn a_write_that_settles_waits_for_its_turn_afterwards() {
        let (limiter, pace) = (RateLimiter::default(), Pace::default());
        let settling = SignedDuration::from_secs(4);
        assert_eq!(pace.take_turn(&limiter, settling, at(0)), Some(at(4000)));
        assert_eq!(pace.wait(NONE, at(3999)), Some(at(4000)));
        while limiter.reserve(at(4000)) == at(4000) {}
        assert_eq!(pace.take_turn(&limiter, settling, at(4000)), Some(at(4200)));
        assert_eq!(pace.take_turn(&limiter, settling, at(4200)), None);
        assert_eq!(pace.take_turn(&limiter, settling, at(4200)), Some(at(8200)));
    }

    #[test]
    fn an_urgent_check_does_not_wait_for_its_turn_but_pauses() {
        let (limiter, pace) = (exhausted(), Pace::default());
        pace.checked(at(0));
        assert!(pace.take_turn(&limiter, NONE, at(0)).is_some());
        pace.hurry();
        assert_eq!(pace.wait(SignedDuration::from_millis(50), at(0)), Some(at(50)));
        assert_eq!(pace.wait(SignedDuration::from_millis(50), at(50)), None);
    }

    proptest! {
        #[test]
        fn policies_that_change_all_the_time_write_ten_times_a_second_and_none_waits_for_more_than_one_write_of_each_other(
            policies in 1..200usize, step in 1..500i64,
        ) {
            let limiter = RateLimiter::default();
            let paces: Vec<Pace> = (0..policies).map(|_| Pace::default()).collect();
            let longest = INTERVAL * i32::try_from(policies).unwrap();
            let mut writes = 0;
            for now in (0..60_000).step_by(usize::try_from(step).unwrap()).map(at) {
                for pace in &paces {
                    if pace.wait(SignedDuration::from_secs(1), now).is_some() {
                        continue;
                    }
                    match pace.take_turn(&limiter, NONE, now) {
                        None => writes += 1,
                        Some(turn) => prop_assert!(turn.duration_since(now) <= longest, "{turn}"),
                    }
                }
            }
            prop_assert!(writes <= 600 + 20 + 1, "{writes} writes in a minute");
        }
    }
}
