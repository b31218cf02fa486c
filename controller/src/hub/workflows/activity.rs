//! The requests of the controller that are under way, for writers that give way to them. Not here:
//! the order of the requests themselves (`runtime::engine`).

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// The controller is idle when it has had no request under way for so long. It has all requests of a
/// burst, so that its pauses are shorter than those of an agent; and a user waits for Events.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// The requests under way. Clones share it.
#[derive(Clone)]
pub(super) struct Activity(Arc<Mutex<State>>);

struct State {
    running: usize,
    /// The last end of a request.
    ended: Instant,
}

/// A request under way.
pub(super) struct Request(Activity);

impl Activity {
    /// Returns an activity without requests.
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            running: 0,
            ended: Instant::now(),
        })))
    }

    /// Begins a request, which ends when the result is dropped.
    pub(super) fn begin(&self) -> Request {
        self.state().running += 1;
        Request(self.clone())
    }

    /// Waits until the controller is idle, at the latest until `deadline`.
    pub(super) async fn until_idle(&self, deadline: Instant) {
        loop {
            let now = Instant::now();
            let idle = self.idle_at(now);
            if idle.min(deadline) <= now {
                return;
            }
            sleep_until(idle.min(deadline)).await;
        }
    }

    /// The time at which the controller is idle, if no other request begins.
    fn idle_at(&self, now: Instant) -> Instant {
        let state = self.state();
        let ended = if state.running > 0 { now } else { state.ended };
        ended + IDLE_AFTER
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.running -= 1;
        state.ended = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_gives_way_waits_for_requests_and_for_a_second_after_them_but_not_for_ever() {
        let activity = Activity::new();
        let begun = Instant::now();
        let request = activity.begin();
        let deadline = begun + 2 * IDLE_AFTER;
        activity.until_idle(deadline).await;
        assert!(Instant::now() >= deadline);
        let ended = Instant::now();
        drop(request);
        activity.until_idle(ended + Duration::from_mins(1)).await;
        assert!(ended.elapsed() >= IDLE_AFTER);
        assert!(ended.elapsed() < Duration::from_mins(1), "it waits for nothing");
    }
}
