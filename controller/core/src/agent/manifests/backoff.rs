//! Delays between retries of the applier. Not here: the state that counts the tries.

use jiff::{SignedDuration, Timestamp};

/// A back-off that doubles with each try, from `first` up to `longest`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    first: SignedDuration,
    longest: SignedDuration,
}

/// Delay before discovery is repeated for a kind that is not served. A CRD from this cluster's
/// mailbox that becomes established ends the delay at once.
pub(super) const DISCOVERY: Backoff =
    Backoff::of(SignedDuration::from_millis(500), SignedDuration::from_secs(60));

/// Delay before a failed request about an object is retried.
pub(super) const RETRY: Backoff =
    Backoff::of(SignedDuration::from_millis(250), SignedDuration::from_secs(30));

/// Delay before an object without a watch is read again.
pub(super) const READING: Backoff = Backoff::of(SignedDuration::from_secs(1), SignedDuration::from_secs(60));

/// Interval at which the permission of an executor to read an object is checked again.
pub(super) const REVIEW: SignedDuration = SignedDuration::from_secs(60);

/// Delay between two corrections of an object that somebody keeps changing back.
pub(super) const CORRECTION: Backoff =
    Backoff::of(SignedDuration::from_millis(500), SignedDuration::from_secs(30));

impl Backoff {
    const fn of(first: SignedDuration, longest: SignedDuration) -> Self {
        Self { first, longest }
    }

    /// The delay after `tries` tries; zero before the first.
    pub(super) fn delay(self, tries: u32) -> SignedDuration {
        let Some(doublings) = tries.checked_sub(1) else {
            return SignedDuration::ZERO;
        };
        let factor = 1_i32.checked_shl(doublings.min(20)).unwrap_or(i32::MAX);
        self.first
            .checked_mul(factor)
            .unwrap_or(self.longest)
            .min(self.longest)
    }

    /// The time of the next try, if the last of `tries` tries was at `at`.
    pub(super) fn next(self, at: Timestamp, tries: u32) -> Timestamp {
        at.saturating_add(self.delay(tries)).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_doubles_until_it_is_the_longest() {
        let delays: Vec<_> = (0..10).map(|tries| RETRY.delay(tries).as_millis()).collect();
        assert_eq!(delays, [0, 250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
        assert_eq!(RETRY.delay(u32::MAX), RETRY.longest);
    }
}
