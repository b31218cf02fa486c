//! What a key is about, in the fields by which an operator finds it: in logs, in traces.
//!
//! Told by the index, which knows more of a key than its name. Not here: how it is written down.

use std::{borrow::Cow, sync::Arc};

use crate::{ClusterName, OriginUid};

/// What a key is about, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// Kind of the object, empty where it is not known.
    pub kind: Cow<'static, str>,
    /// The cluster that it is on, or is to be on.
    pub cluster: Option<ClusterName>,
    /// Its namespace, if it has one.
    pub namespace: Option<Arc<str>>,
    /// Its name.
    pub name: Option<Arc<str>>,
    /// UID of the object in the WDS, the same on every cluster.
    pub uid: Option<OriginUid>,
    /// The attempt of a run; 0 where there is none.
    pub attempt: u64,
}

impl Subject {
    /// Something of `kind` of which nothing else is known.
    pub fn of(kind: &'static str) -> Self {
        Self {
            kind: kind.into(),
            ..Self::default()
        }
    }
}
