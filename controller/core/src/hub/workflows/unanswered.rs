//! A creation of a ManifestWork that was not answered.

use jiff::Timestamp;

use crate::ClusterName;

/// A creation that was not answered.
#[derive(Clone, Debug)]
pub(super) struct Unanswered {
    pub(super) cluster: ClusterName,
    /// Time of the first failure in a row.
    pub(super) since: Timestamp,
    /// The latest time at which the last request may still take effect.
    pub(super) until: Timestamp,
}
