//! Limits the memory of all reviews together, whoever sends them.
//!
//! Anyone who reaches the port may post. A review beyond the limits waits a moment and is then
//! refused as busy. The API server then lets the request pass without the webhook, and the
//! admission policies refuse forbidden changes.

use std::{sync::Arc, time::Duration};

use axum::body::{Body, Bytes, to_bytes};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use super::review::HEAVIEST;

/// Maximum size of a review. It contains the old and the new object, each up to etcd's limit (1.5
/// MiB), and JSON in JSON grows.
pub(super) const LARGEST_REVIEW: usize = 8 << 20;

/// Bytes of all bodies in progress. Each counts twice: it is received in chunks that are then
/// joined.
const BODIES: usize = 4 * LARGEST_REVIEW;

/// Minimum size that a body counts as, which limits the number of bodies.
const SMALL: usize = 64 << 10;

/// Time that a review waits for capacity and for its body. The API server waits longer, but whoever
/// floods the webhook would keep the capacity longer, too.
const PATIENCE: Duration = Duration::from_secs(2);

/// Capacity for reviews. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Intake {
    bodies: Arc<Semaphore>,
    trees: Arc<Semaphore>,
}

/// Capacity that a review has reserved, released on drop.
pub(super) type Room = Option<OwnedSemaphorePermit>;

/// Reason that a body was refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is longer than any review.
    TooLong,
    /// Its length differs from the announced one.
    Broken,
    /// No capacity, or the body did not arrive in time.
    Busy,
}

impl Default for Intake {
    fn default() -> Self {
        Self {
            bodies: Arc::new(Semaphore::new(BODIES)),
            trees: Arc::new(Semaphore::new(HEAVIEST)),
        }
    }
}

impl Intake {
    /// Time after which a review that still waits is refused.
    pub(super) fn deadline() -> Instant {
        Instant::now() + PATIENCE
    }

    /// Receives a body of `length` bytes, when there is capacity for it.
    pub(super) async fn body(
        &self,
        length: usize,
        body: Body,
        deadline: Instant,
    ) -> Result<(Bytes, Room), Refusal> {
        if length > LARGEST_REVIEW {
            return Err(Refusal::TooLong);
        }
        let room = room(&self.bodies, (2 * length).max(SMALL), deadline).await?;
        match timeout_at(deadline, to_bytes(body, length)).await {
            Ok(Ok(body)) => Ok((body, room)),
            Ok(Err(_)) => Err(Refusal::Broken),
            Err(_) => Err(Refusal::Busy),
        }
    }

    /// Reserves capacity for trees of this weight.
    pub(super) async fn trees(&self, weight: usize, deadline: Instant) -> Result<Room, Refusal> {
        room(&self.trees, weight, deadline).await
    }
}

async fn room(of: &Arc<Semaphore>, bytes: usize, deadline: Instant) -> Result<Room, Refusal> {
    let bytes = u32::try_from(bytes).map_err(|_| Refusal::TooLong)?;
    let room = timeout_at(deadline, of.clone().acquire_many_owned(bytes)).await;
    // The semaphore is never closed.
    room.map(Result::ok).map_err(|_| Refusal::Busy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_beyond_the_limits_waits_and_is_told_that_there_is_no_room() {
        let intake = Intake::default();
        let take = async |length: usize| {
            let body = Body::from(vec![b' '; length]);
            intake.body(length, body, Instant::now()).await
        };
        let mut taken = Vec::new();
        for _ in 0..2 {
            taken.push(take(LARGEST_REVIEW).await.unwrap());
        }
        assert_eq!(take(1).await.map(|_| ()), Err(Refusal::Busy));
        taken.pop();
        assert_eq!(take(1).await.map(|(body, _)| body.len()), Ok(1));
        assert_eq!(take(LARGEST_REVIEW + 1).await.map(|_| ()), Err(Refusal::TooLong));
    }

    #[tokio::test]
    async fn a_body_that_is_longer_than_announced_or_never_comes_is_not_taken() {
        let intake = Intake::default();
        let longer = intake.body(1, Body::from("two"), Instant::now()).await;
        assert_eq!(longer.map(|_| ()), Err(Refusal::Broken));
        let never = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
        let never = intake.body(1, never, Instant::now()).await;
        assert_eq!(never.map(|_| ()), Err(Refusal::Busy));
        assert_eq!(intake.bodies.available_permits(), BODIES);
    }

    #[tokio::test]
    async fn trees_wait_for_each_other() {
        let intake = Intake::default();
        let first = intake.trees(HEAVIEST, Instant::now()).await.unwrap();
        assert_eq!(
            intake.trees(1, Instant::now()).await.map(|_| ()),
            Err(Refusal::Busy)
        );
        drop(first);
        assert!(intake.trees(1, Instant::now()).await.is_ok());
    }
}
