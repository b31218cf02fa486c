//! The entry of a manifest in the status of its ManifestWork.

use argosy_api::manifest_status::ResourceMeta;

use super::{
    ObjectKey,
    views::{Item, ManifestWorkView, says_complete},
};

/// True if a manifest has the condition `Complete`.
pub(super) fn is_finished(work: &ManifestWorkView, item: &Item, key: &ObjectKey) -> bool {
    let wanted = resource_meta(item, Some(key));
    let known = work.status.resource_status.iter();
    let mut known = known.flat_map(|status| &status.manifests);
    known.any(|known| is_of_same(&known.resource_meta, &wanted) && says_complete(&known.conditions))
}

pub(super) fn resource_meta(item: &Item, key: Option<&ObjectKey>) -> ResourceMeta {
    ResourceMeta {
        ordinal: item.ordinal,
        group: item.api.group.to_string(),
        version: item.api.version.to_string(),
        kind: item.kind.clone(),
        resource: key.map(|key| key.resource.plural.to_string()).unwrap_or_default(),
        name: item.name.clone(),
        namespace: key.map_or_else(|| item.namespace.clone(), |key| key.namespace.to_string()),
    }
}

/// True if both are for the same object. The plural may be missing while the kind is not served,
/// and the ordinal may have changed, so neither is compared.
pub(super) fn is_of_same(one: &ResourceMeta, other: &ResourceMeta) -> bool {
    let identity = |meta: &ResourceMeta| {
        let ResourceMeta {
            group,
            version,
            kind,
            name,
            namespace,
            ..
        } = meta.clone();
        (group, version, kind, name, namespace)
    };
    identity(one) == identity(other)
}
