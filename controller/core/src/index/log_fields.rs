//! The object that a key refers to, in the fields that operators search for in logs and traces.
//!
//! The index provides them, because it knows more about a key than its name. Not here: formatting.

use std::{borrow::Cow, sync::Arc};

use crate::{ClusterName, OriginUid};

/// The object that a key refers to, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFields {
    /// Kind of the object, empty if it is unknown.
    pub kind: Cow<'static, str>,
    /// The cluster that the object is on, or is to be sent to.
    pub cluster: Option<ClusterName>,
    /// Its namespace, if it has one.
    pub namespace: Option<Arc<str>>,
    /// Its name.
    pub name: Option<Arc<str>>,
    /// UID of the object in the WDS, the same on every cluster.
    pub uid: Option<OriginUid>,
    /// The attempt of a run, or 0 if there is none.
    pub attempt: u64,
}

impl LogFields {
    /// A subject with the kind `kind` and no other fields.
    pub fn of(kind: &'static str) -> Self {
        Self {
            kind: kind.into(),
            ..Self::default()
        }
    }
}
