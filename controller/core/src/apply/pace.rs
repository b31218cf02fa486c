//! How long to wait before something is tried again. Only durations: who waits for what is known where it is decided.

use jiff::{SignedDuration, Timestamp};

/// A delay that doubles with each try, from `first` to `longest`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    first: SignedDuration,
    longest: SignedDuration,
}

/// Before a kind that is not served is asked for again. A CRD of this cluster's mailbox that is established is a reason to ask at once.
pub(super) const DISCOVERY: Pace = Pace::of(SignedDuration::from_millis(500), SignedDuration::from_secs(60));

/// Before a request about an object that failed is repeated.
pub(super) const RETRY: Pace = Pace::of(SignedDuration::from_millis(250), SignedDuration::from_secs(30));

/// Before an object that cannot be watched is read again.
pub(super) const READING: Pace = Pace::of(SignedDuration::from_secs(1), SignedDuration::from_secs(60));

/// Before it is asked again whether an executor may still read what is told in its name.
pub(super) const REVIEW: SignedDuration = SignedDuration::from_secs(60);

/// Between two corrections of an object that somebody else keeps changing back.
pub(super) const CORRECTION: Pace = Pace::of(SignedDuration::from_millis(500), SignedDuration::from_secs(30));

impl Pace {
    const fn of(first: SignedDuration, longest: SignedDuration) -> Self {
        Self { first, longest }
    }

    /// The delay after `tries`; none before the first.
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

    /// When to go on after `tries`, of which the last was at `at`.
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
