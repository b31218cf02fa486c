//! Reads what the hub is told about the cluster itself, and finds out whether OCM's registration agent tells it already.
//!
//! What the facts amount to is decided in `argosy_core::facts`.

use argosy_core::{
    Failure,
    facts::{Facts, NodeResources},
};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, VersionMatch},
};
use serde_json::json;

use argosy_api::names;

use crate::{
    outcome::{self, call},
    tolerant::Tolerant,
};

/// Nodes of one answer.
const PAGE: u32 = 500;
/// The namespace that every cluster has and nobody makes anew.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// Who tells the hub about a cluster.
pub(super) enum Teller {
    /// OCM's registration agent: it brings the kind ClusterClaim, whose objects it shows on the ManagedCluster.
    Ocm,
    /// This agent, and what it tells.
    Us(Facts),
}

/// Finds out who tells the hub about the cluster, and what there is to tell.
pub(super) async fn read(wec: &Client) -> Result<Teller, Failure> {
    if serves_claims(wec).await? {
        return Ok(Teller::Ocm);
    }
    let version = call(wec.apiserver_version()).await?.git_version;
    let id = cluster_id(wec).await?;
    let nodes = allowed(nodes(wec).await)?;
    Ok(Teller::Us(Facts { version, id, nodes }))
}

/// What tells the cluster from every other one, if it may be read.
pub(super) async fn cluster_id(wec: &Client) -> Result<Option<String>, Failure> {
    let namespaces: Api<Tolerant<Namespace>> = Api::all(wec.clone());
    let system = allowed(outcome::read(namespaces.get(SYSTEM_NAMESPACE)).await)?;
    Ok(system.and_then(|namespace| namespace.metadata.uid))
}

/// `None` where the agent lacks the right, as with the chart of an earlier release: the rest is told.
fn allowed<T>(read: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(Failure::Refused(why)) => {
            tracing::warn!(
                error = why,
                "a part of what the hub is told about this cluster may not be read"
            );
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

pub(super) async fn serves_claims(wec: &Client) -> Result<bool, Failure> {
    let kind = claims_kind();
    match call(wec.list_api_group_resources(&kind.api_version)).await {
        Ok(list) => Ok(list.resources.iter().any(|resource| resource.name == kind.plural)),
        Err(Failure::NotFound { .. } | Failure::Unserved(_)) => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// From the API server's cache, as this is asked again and again.
async fn nodes(wec: &Client) -> Result<NodeResources, Failure> {
    let api: Api<Tolerant<Node>> = Api::all(wec.clone());
    let mut total = NodeResources::default();
    let mut params = ListParams::default()
        .limit(PAGE)
        .matching(VersionMatch::NotOlderThan)
        .at("0");
    loop {
        let page = call(api.list(&params)).await?;
        page.items
            .into_iter()
            .for_each(|node| total.add(&node.into_object()));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = ListParams::default().limit(PAGE).continue_token(&token),
            None => return Ok(total),
        }
    }
}

/// Makes OCM's registration agent show the claim on the ManagedCluster, or take it off where the value is empty.
pub(super) async fn claim_by_ocm(wec: &Client, name: &str, value: &str) -> Result<(), Failure> {
    let kind = claims_kind();
    let api: Api<DynamicObject> = Api::all_with(wec.clone(), &kind);
    if value.is_empty() {
        return match call(api.delete(name, &DeleteParams::default())).await {
            Ok(_) | Err(Failure::NotFound { .. } | Failure::Unserved(_)) => Ok(()),
            Err(failure) => Err(failure),
        };
    }
    let claim = json!({
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": { "name": name },
        "spec": { "value": value },
    });
    let params = PatchParams::apply(names::AGENT).force();
    call(api.patch(name, &params, &Patch::Apply(&claim))).await?;
    Ok(())
}

fn claims_kind() -> ApiResource {
    ApiResource {
        group: "cluster.open-cluster-management.io".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "cluster.open-cluster-management.io/v1alpha1".to_owned(),
        kind: "ClusterClaim".to_owned(),
        plural: "clusterclaims".to_owned(),
    }
}
