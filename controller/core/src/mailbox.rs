//! Where an object of a mailbox belongs, for both indexes of the controller.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{ClusterName, OriginUid};

/// Whose state an object of the ITS is: the UID of the WDS object, which stands in `label`, and the cluster of the mailbox.
pub(crate) fn address(metadata: &ObjectMeta, label: &str) -> Option<(OriginUid, ClusterName)> {
    let origin = metadata.labels.as_ref()?.get(label)?;
    Some((origin.as_str().into(), metadata.namespace.as_deref()?.into()))
}

/// The addresses that are known and not among the live ones.
pub(crate) fn missing<'a, V: 'a, C: IntoIterator<Item = (&'a ClusterName, &'a V)>>(
    known: impl Iterator<Item = (&'a OriginUid, C)>,
    live: &BTreeSet<(OriginUid, ClusterName)>,
) -> Vec<(OriginUid, ClusterName)> {
    known
        .flat_map(|(origin, by_cluster)| {
            by_cluster
                .into_iter()
                .map(move |(cluster, _)| (origin.clone(), cluster.clone()))
        })
        .filter(|address| !live.contains(address))
        .collect()
}
