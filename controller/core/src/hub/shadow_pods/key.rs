//! The keys of the index.

use std::{collections::BTreeSet, fmt, sync::Arc};

use crate::WorkflowKey;

/// Namespace and name of a pod, the same on both clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodKey {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {}/{}", self.namespace, self.name)
    }
}

/// The subject of a decision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShadowPodKey {
    /// A Workflow whose pods may have to be read.
    Workflow(WorkflowKey),
    /// A shadow pod.
    Pod(PodKey),
}

impl fmt::Display for ShadowPodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workflow(key) => write!(f, "workflow {key}"),
            Self::Pod(key) => key.fmt(f),
        }
    }
}

/// The keys of these pods.
pub(super) fn of_pods(pods: impl IntoIterator<Item = PodKey>) -> BTreeSet<ShadowPodKey> {
    pods.into_iter().map(ShadowPodKey::Pod).collect()
}
