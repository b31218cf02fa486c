//! The object that a key of the controller refers to, for logs.

use argosy_api::workflow;

use super::{HubKey, WorkflowIndex};
use crate::LogFields;

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
