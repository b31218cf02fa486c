//! What a key of the controller is about, and which kinds it still waits for.

use argosy_api::workflow;

use super::{Hub, HubKey, Synced};
use crate::Subject;

impl Hub {
    pub(super) fn subject_of(&self, key: &HubKey) -> Subject {
        match key {
            HubKey::Workflow(key) => {
                let view = self.workflows.get(key);
                let claim = view.and_then(|view| view.claim.as_ref());
                Subject {
                    cluster: claim.map(|claim| claim.cluster.clone()),
                    namespace: Some(key.namespace.clone()),
                    name: Some(key.name.clone()),
                    uid: view.map(|view| view.uid.clone()),
                    attempt: view.map(|view| view.last_attempt).unwrap_or_default(),
                    ..Subject::of(workflow::KIND)
                }
            }
            HubKey::Transform(name) => Subject {
                name: Some(name.as_str().into()),
                ..Subject::of("CustomTransform")
            },
            HubKey::Cluster(name) => Subject {
                cluster: Some(name.clone()),
                name: Some(name.as_str().into()),
                ..Subject::of("ManagedCluster")
            },
        }
    }

    /// The kinds that have not been listed yet. Before all have, nothing is decided.
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
