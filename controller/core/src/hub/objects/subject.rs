//! The object that a key refers to, for logs.

use super::{DownsyncKey, ObjectIndex};
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
}
