//! The address of an object.

use super::kind::KindName;

/// The address of an object, as another object names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectRef {
    pub(super) kind: KindName,
    pub(super) namespace: String,
    pub(super) name: String,
}
