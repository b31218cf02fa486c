//! The object that a key of the controller refers to, for logs, and the kinds that are not listed
//! yet.

use argosy_api::workflow;

use super::{HubKey, Synced, WorkflowIndex};
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

    /// The kinds whose first list has not arrived. No decision is made before all have arrived.
    pub fn unlisted(&self) -> Vec<&'static str> {
        let Synced {
            workflows,
            policies,
            transforms,
            namespaces,
            clusters,
            leases,
            works,
            reports,
        } = self.synced;
        let kinds = [
            (workflows, "workflows"),
            (policies, "bindingpolicies"),
            (transforms, "customtransforms"),
            (namespaces, "namespaces"),
            (clusters, "managedclusters"),
            (leases, "leases"),
            (works, "manifestworks"),
            (reports, "workstatuses"),
        ];
        let missing = kinds.into_iter().filter(|(is_listed, _)| !is_listed);
        missing.map(|(_, kind)| kind).collect()
    }
}
