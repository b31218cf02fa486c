//! Memory limits for the reports of one cluster, and for all Workflows, whatever they contain. The
//! same limit applies separately to an index and to the intake on the way to it.
//!
//! Content beyond the limit is dropped: address and version are kept, and the content is read again
//! when it is needed. The number of such reports is limited, too. Not here: the parts of a report
//! that are kept, and the times at which it is read again (the indexes).

use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::ClusterName;

/// Maximum size of the reports of one cluster, in bytes.
pub const BUDGET: usize = 16 << 20;

/// Maximum size in bytes of the content that tenants have written into Workflows: specifications
/// and initial statuses.
pub const WORKFLOW_BUDGET: usize = 64 << 20;

/// Maximum number of reports of one cluster about unknown Workflows of which the addresses are
/// kept. A control cluster has no more Workflows.
pub(crate) const STRANGERS: usize = 100_000;

/// Reports between a watch and an index, by cluster. Those of a list are held until the list is
/// complete, others wait in a queue.
#[derive(Clone, Debug)]
pub struct Intake {
    budget: usize,
    ways: Arc<Mutex<BTreeMap<ClusterName, Way>>>,
}

/// The pending reports of one cluster.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    bytes: usize,
    reports: usize,
}

/// A pending report's share of the intake. Dropping it releases the share.
#[derive(Debug)]
pub(crate) struct Ticket {
    intake: Intake,
    cluster: ClusterName,
    bytes: usize,
    /// True if there is room for the content of the report, too.
    pub(crate) has_room: bool,
}

/// An intake for reports, with the limit [`BUDGET`] per cluster.
impl Default for Intake {
    fn default() -> Self {
        Self::new(BUDGET)
    }
}

impl Intake {
    /// An intake with a limit of `budget` bytes per cluster.
    pub fn new(budget: usize) -> Self {
        Self {
            budget,
            ways: Arc::default(),
        }
    }

    /// Reserves a place for a report of a cluster, and `bytes` for its content if they fit. `None`
    /// if the cluster has too many reports pending.
    pub(crate) fn admit(&self, cluster: &ClusterName, bytes: usize) -> Option<Arc<Ticket>> {
        let mut on_the_way = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        let way = on_the_way.entry(cluster.clone()).or_default();
        if way.reports >= STRANGERS {
            return None;
        }
        let sum = way.bytes.saturating_add(bytes);
        let has_room = sum <= self.budget;
        if has_room {
            way.bytes = sum;
        }
        way.reports += 1;
        Some(Arc::new(Ticket {
            intake: self.clone(),
            cluster: cluster.clone(),
            bytes: if has_room { bytes } else { 0 },
            has_room,
        }))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut on_the_way = self.intake.ways.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(way) = on_the_way.get_mut(&self.cluster) {
            way.bytes = way.bytes.saturating_sub(self.bytes);
            way.reports = way.reports.saturating_sub(1);
            if way.reports == 0 {
                on_the_way.remove(&self.cluster);
            }
        }
    }
}

/// The size of the stored reports of one cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    bytes: Cell<usize>,
    /// Number of reports about unknown Workflows.
    pub(crate) strangers: usize,
}

impl Kept {
    /// The size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Counts bytes that are stored.
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
    }

    /// Counts only these bytes from now on.
    pub(crate) fn only(&self, bytes: usize) {
        self.bytes.set(bytes);
    }

    /// Counts bytes that are freed.
    pub(crate) fn free(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_arrived_makes_room_for_more_and_each_cluster_has_its_own() {
        let (intake, one, other) = (
            Intake::default(),
            ClusterName::from("one"),
            ClusterName::from("other"),
        );
        let fits = |ticket: &Option<Arc<Ticket>>| ticket.as_ref().map(|ticket| ticket.has_room);
        let half = intake.admit(&one, BUDGET / 2);
        let whole = intake.admit(&one, BUDGET / 2);
        assert_eq!((fits(&half), fits(&whole)), (Some(true), Some(true)));
        assert_eq!(fits(&intake.admit(&one, 1)), Some(false));
        assert_eq!(fits(&intake.admit(&other, BUDGET)), Some(true));
        drop(half);
        assert_eq!(fits(&intake.admit(&one, 1)), Some(true));
    }

    #[test]
    fn however_small_they_are_so_many_of_a_cluster_are_on_their_way() {
        let (intake, one, other) = (
            Intake::default(),
            ClusterName::from("one"),
            ClusterName::from("other"),
        );
        let mut tickets: Vec<_> = (0..STRANGERS).map(|_| intake.admit(&one, 0)).collect();
        assert!(tickets.iter().all(Option::is_some));
        assert!(intake.admit(&one, 0).is_none());
        assert!(intake.admit(&other, 0).is_some());
        tickets.pop();
        assert!(intake.admit(&one, 0).is_some());
        drop(tickets);
        assert!(intake.ways.lock().unwrap().is_empty());
    }
}
