//! The WDS object and the cluster that an object in a mailbox belongs to, for the indexes of both
//! halves.

use std::collections::{BTreeMap, HashMap};

use argosy_api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use litemap::LiteMap;

use crate::{
    ClusterName, OriginUid,
    index::store::{Known, Version, Versioned},
};

/// The status fields that the record on a cluster keeps. The hub shows them for a run whose last
/// report was lost.
pub(crate) const REMEMBERED: [&str; 5] = ["phase", "message", "startedAt", "finishedAt", "progress"];

/// UID of the WDS object that an object of the ITS was derived from. The UID is in `label`, which
/// lookups use, and in the name, which is immutable. An object with the label but another name is
/// not ours.
pub(crate) fn origin(metadata: &ObjectMeta, label: &str) -> Option<OriginUid> {
    let uid = metadata.labels.as_ref()?.get(label)?.as_str();
    let named = metadata.name.as_deref()?.strip_prefix(names::WORK_PREFIX);
    (named == Some(uid)).then(|| uid.into())
}

/// The key of an object of the ITS: the UID of the WDS object, and the cluster of the mailbox.
pub(crate) fn address(metadata: &ObjectMeta, label: &str) -> Option<(OriginUid, ClusterName)> {
    Some((origin(metadata, label)?, metadata.namespace.as_deref()?.into()))
}

/// The objects of one kind that an index keeps for a WDS object, by cluster.
pub(crate) trait ByCluster {
    /// The kept form of an object.
    type View: Versioned;

    /// The object in the mailbox of a cluster.
    fn of(&self, cluster: &ClusterName) -> Option<&Self::View>;

    /// The clusters with an object.
    fn clusters(&self) -> impl Iterator<Item = &ClusterName>;
}

impl<V: Versioned> ByCluster for LiteMap<ClusterName, V> {
    type View = V;

    fn of(&self, cluster: &ClusterName) -> Option<&V> {
        self.get(cluster)
    }

    fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        self.keys()
    }
}

impl<V: Versioned> ByCluster for BTreeMap<ClusterName, V> {
    type View = V;

    fn of(&self, cluster: &ClusterName) -> Option<&V> {
        self.get(cluster)
    }

    fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        self.keys()
    }
}

/// The objects of one kind in all mailboxes that an index keeps.
pub(crate) struct Mailboxes<'a, C>(pub(crate) &'a HashMap<OriginUid, C>);

impl<C: ByCluster> Known<(OriginUid, ClusterName)> for Mailboxes<'_, C> {
    fn version_of(&self, (origin, cluster): &(OriginUid, ClusterName)) -> Option<Version<'_>> {
        self.0.get(origin)?.of(cluster).map(Versioned::version)
    }

    fn known(&self) -> impl Iterator<Item = (OriginUid, ClusterName)> {
        self.0.iter().flat_map(|(origin, of)| {
            of.clusters()
                .map(move |cluster| (origin.clone(), cluster.clone()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_bears_the_derived_name_is_what_its_label_says() {
        let place = |name: &str, label: &str| {
            let metadata = ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some("cluster1".to_owned()),
                labels: Some([(label.to_owned(), "u1".to_owned())].into()),
                ..ObjectMeta::default()
            };
            address(&metadata, names::ORIGIN_UID_LABEL)
        };
        let own = Some(("u1".into(), "cluster1".into()));
        assert_eq!(place("argosy-u1", names::ORIGIN_UID_LABEL), own);
        for name in ["argosy-u2", "argosy-u11", "argosy-", "u1", "mine"] {
            assert_eq!(place(name, names::ORIGIN_UID_LABEL), None, "{name}");
        }
        assert_eq!(place("argosy-u1", names::OBJECT_UID_LABEL), None);
    }
}
