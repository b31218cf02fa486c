//! The choice of one of several clusters for a Workflow: the one with the fewest unfinished runs for
//! its size.
//!
//! A run that was claimed counts at once, not only when its pods exist, so that many Workflows that
//! are created at the same time spread. A choice is made once: a claim is not moved because the
//! loads change. Not here: the clusters that may be chosen ([`super::Placement`]), and the loads
//! (`hub::workflows::load`).

use std::{cmp::Ordering, collections::BTreeMap, fmt};

use crate::{ClusterName, model::room::Room};

/// The load of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Number of unfinished runs that are claimed for it.
    pub(crate) runs: u64,
    /// Its room.
    pub(crate) room: Room,
}

/// The loads of all clusters.
pub(crate) trait Loads {
    /// The load of a cluster.
    fn load(&self, cluster: &ClusterName) -> Load;
}

impl Loads for BTreeMap<ClusterName, Load> {
    fn load(&self, cluster: &ClusterName) -> Load {
        self.get(cluster).copied().unwrap_or_default()
    }
}

impl Load {
    /// True if it has as many runs as the administrator allows.
    pub(crate) fn is_full(self) -> bool {
        self.room.runs.is_some_and(|most| self.runs >= most)
    }

    /// Compares two clusters: the better one is less. `unknown` is the size of a cluster of which
    /// nobody says it.
    fn compare(self, other: Self, unknown: u64) -> Ordering {
        let size = |load: Self| u128::from(load.room.cpu.unwrap_or(unknown));
        let runs = |load: Self| u128::from(load.runs) + 1;
        // The quotients of runs and size, without the division. Without any size, no runs fit.
        let is_without_room = |load: Self| load.is_full() || size(load) == 0;
        let (own, others) = (runs(self) * size(other), runs(other) * size(self));
        is_without_room(self)
            .cmp(&is_without_room(other))
            .then_with(|| own.cmp(&others))
            .then_with(|| self.runs.cmp(&other.runs))
    }
}

impl fmt::Display for Load {
    /// Such as `3 runs on 8 CPU`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.runs == 1 { "" } else { "s" };
        write!(f, "{} run{plural}", self.runs)?;
        if let Some(most) = self.room.runs {
            write!(f, " of {most}")?;
        }
        match self.room.cpu {
            None => write!(f, ", size unknown"),
            Some(cpu) if cpu % 1000 == 0 => write!(f, " on {} CPU", cpu / 1000),
            Some(cpu) => write!(f, " on {cpu}m CPU"),
        }
    }
}

/// The best of these clusters, the first by name among equals. The clusters are in the order of
/// their names. `None` if there is none.
pub(crate) fn best<'a, I>(clusters: impl Fn() -> I, loads: &impl Loads) -> Option<&'a ClusterName>
where
    I: Iterator<Item = &'a ClusterName>,
{
    let sizes = clusters().filter_map(|cluster| loads.load(cluster).room.cpu.filter(|cpu| *cpu > 0));
    let unknown = sizes.min().unwrap_or(1);
    clusters().min_by(|one, other| loads.load(one).compare(loads.load(other), unknown))
}

#[cfg(test)]
mod tests;
