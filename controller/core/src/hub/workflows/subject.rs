//! The subjects of decisions: the keys of the index, and the object that each refers to, for logs.

use std::fmt;

use argosy_api::workflow;

use super::WorkflowIndex;
use crate::{ClusterName, LogFields, WorkflowKey};

/// The subject of a decision of the controller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HubKey {
    /// A Workflow of the WDS, with the objects that were created for it.
    Workflow(WorkflowKey),
    /// A CustomTransform's status.
    Transform(String),
    /// A ManagedCluster's availability.
    Cluster(ClusterName),
}

impl fmt::Display for HubKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workflow(key) => write!(f, "workflow {key}"),
            Self::Transform(name) => write!(f, "customtransform {name}"),
            Self::Cluster(name) => write!(f, "managedcluster {name}"),
        }
    }
}

impl WorkflowIndex {
    pub(super) fn subject_of(&self, key: &HubKey) -> LogFields {
        match key {
            HubKey::Workflow(key) => {
                let view = self.workflows.get(key);
                let claim = view.and_then(|view| view.claim.as_ref());
                LogFields {
                    cluster: claim.map(|claim| claim.cluster.clone()),
                    namespace: Some(key.namespace.clone()),
                    name: Some(key.name.clone()),
                    uid: view.map(|view| view.uid.clone()),
                    attempt: view.map(|view| view.last_attempt).unwrap_or_default(),
                    ..LogFields::of(workflow::KIND)
                }
            }
            HubKey::Transform(name) => LogFields {
                name: Some(name.as_str().into()),
                ..LogFields::of("CustomTransform")
            },
            HubKey::Cluster(name) => LogFields {
                cluster: Some(name.clone()),
                name: Some(name.as_str().into()),
                ..LogFields::of("ManagedCluster")
            },
        }
    }
}
