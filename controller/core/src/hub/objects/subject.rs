//! The subjects of decisions: the keys of the index, and the object that each refers to, for logs.

use std::fmt;

use super::ObjectIndex;
use crate::{ClusterName, LogFields, OriginUid};

/// The subject of a decision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DownsyncKey {
    /// The ManifestWork of an object for a cluster.
    Copy(OriginUid, ClusterName),
    /// The content that is read of an object of the WDS, and the label and status that are written
    /// to it.
    Object(OriginUid),
    /// A BindingPolicy's status.
    Policy(String),
    /// A BindingPolicy's Binding.
    Binding(String),
    /// A StatusCollector's status.
    Collector(String),
    /// The CombinedStatus of an object and of the policy with this UID.
    Combined(OriginUid, String),
}

impl DownsyncKey {
    /// The keys of a policy's status and of its Binding.
    pub(super) fn of_policy(name: &str) -> [Self; 2] {
        [Self::Policy(name.to_owned()), Self::Binding(name.to_owned())]
    }
}

impl fmt::Display for DownsyncKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copy(origin, cluster) => write!(f, "object {origin} for {cluster}"),
            Self::Object(origin) => write!(f, "object {origin}"),
            Self::Policy(name) => write!(f, "bindingpolicy {name}"),
            Self::Binding(name) => write!(f, "binding {name}"),
            Self::Collector(name) => write!(f, "statuscollector {name}"),
            Self::Combined(origin, policy) => write!(f, "combinedstatus {origin}.{policy}"),
        }
    }
}

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
