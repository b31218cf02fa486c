//! The subject of a key, and the kinds that the index still waits for.

use super::{DownsyncKey, ObjectIndex, Synced};
use crate::{ClusterName, LogFields, OriginUid};

impl ObjectIndex {
    pub(super) fn subject_of(&self, key: &DownsyncKey) -> LogFields {
        let named = |kind, name: &str| LogFields {
            name: Some(name.into()),
            ..LogFields::of(kind)
        };
        match key {
            DownsyncKey::Copy(origin, cluster) => self.of_object(origin, Some(cluster)),
            DownsyncKey::Object(origin) | DownsyncKey::Combined(origin, _) => self.of_object(origin, None),
            DownsyncKey::Policy(name) => named("BindingPolicy", name),
            DownsyncKey::Binding(name) => named("Binding", name),
            DownsyncKey::Collector(name) => named("StatusCollector", name),
        }
    }

    fn of_object(&self, origin: &OriginUid, cluster: Option<&ClusterName>) -> LogFields {
        let known = self.objects.get(origin);
        LogFields {
            kind: known
                .map(|object| object.kind.kind.clone().into())
                .unwrap_or_default(),
            cluster: cluster.cloned(),
            namespace: known
                .map(|object| object.namespace.clone())
                .filter(|namespace| !namespace.is_empty()),
            name: known.map(|object| object.name.clone()),
            uid: Some(origin.clone()),
            attempt: 0,
        }
    }

    /// The kinds that are always watched and have not been listed yet. Until all of them have been
    /// listed, nothing is decided.
    pub fn unlisted(&self) -> Vec<&'static str> {
        let Synced {
            policies,
            transforms,
            namespaces,
            bindings,
            clusters,
            properties,
            works,
            reports,
            collectors,
            combined,
        } = self.synced;
        let kinds = [
            (policies, "bindingpolicies"),
            (transforms, "customtransforms"),
            (namespaces, "namespaces"),
            (bindings, "bindings"),
            (clusters, "managedclusters"),
            (properties, "configmaps"),
            (works, "manifestworks"),
            (reports, "workstatuses"),
            (collectors, "statuscollectors"),
            (combined, "combinedstatuses"),
        ];
        let missing = kinds.into_iter().filter(|(is_listed, _)| !is_listed);
        missing.map(|(_, kind)| kind).collect()
    }
}
