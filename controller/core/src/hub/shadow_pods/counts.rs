//! The numbers of pods, for metrics.

use super::ShadowPodIndex;

/// Numbers of pods on other clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Shadow pods.
    pub shown: usize,
    /// Running pods that are not shown because a Workflow, a cluster or all clusters have too many.
    pub left_out: usize,
    /// Running pods whose shadow pod the API server has refused.
    pub refused: usize,
}

impl ShadowPodIndex {
    /// The numbers of pods.
    pub fn counts(&self) -> Counts {
        let unknown: usize = self.left_out.values().sum();
        Counts {
            shown: self.shadows.len(),
            left_out: unknown + self.without_room.borrow().len(),
            refused: self.refused.len(),
        }
    }
}
