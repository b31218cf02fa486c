//! Discovery of the kinds that an API server serves.

use argosy_core::{Failure, hub::objects::kind::Kind};
use kube::{
    Client,
    core::ApiResource,
    discovery::{ApiCapabilities, ApiGroup, Discovery, Scope, verbs},
};

use crate::runtime::requests::call;

/// Returns every kind that can be listed and watched. Of the versions that have a kind, it takes
/// the one that the API server prefers.
pub async fn kinds(client: &Client) -> Result<Vec<Kind>, Failure> {
    let discovery = call(Discovery::new(client.clone()).run_aggregated()).await?;
    Ok(discovery.groups().flat_map(kinds_of).collect())
}

fn kinds_of(group: &ApiGroup) -> Vec<Kind> {
    let preferred = group.preferred_version_or_latest();
    let others = group.versions().filter(|version| *version != preferred);
    let mut kinds: Vec<Kind> = Vec::new();
    for version in std::iter::once(preferred).chain(others) {
        for (resource, capabilities) in group.versioned_resources(version) {
            let is_known = kinds.iter().any(|known| known.resource == resource.plural);
            let is_watchable = [verbs::LIST, verbs::WATCH]
                .iter()
                .all(|verb| capabilities.supports_operation(verb));
            if is_watchable && !is_known {
                kinds.push(kind(resource, &capabilities));
            }
        }
    }
    kinds
}

fn kind(resource: ApiResource, capabilities: &ApiCapabilities) -> Kind {
    let mut subresources = capabilities.subresources.iter();
    Kind {
        group: resource.group,
        version: resource.version,
        resource: resource.plural,
        kind: resource.kind,
        is_namespaced: capabilities.scope == Scope::Namespaced,
        has_status: subresources.any(|(subresource, _)| subresource.plural == "status"),
    }
}

/// Converts a kind to the form that a client uses.
pub fn resource(kind: &Kind) -> ApiResource {
    ApiResource {
        group: kind.group.clone(),
        version: kind.version.clone(),
        api_version: kind.api_version(),
        kind: kind.kind.clone(),
        plural: kind.resource.clone(),
    }
}
