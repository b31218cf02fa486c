//! Reads the facts about the cluster itself, and finds out if OCM's registration agent reports them
//! already.
//!
//! Not here: the representation of the facts on the ManagedCluster
//! (`argosy_core::model::cluster_info`).

use argosy_core::{
    Failure,
    model::cluster_info::{Facts, NodeResources},
};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, VersionMatch},
};
use serde_json::json;

use argosy_api::names;

use crate::{
    agent::args::Capacity,
    runtime::{
        lenient::Lenient,
        requests::{self, call},
    },
};

/// Page size of a list of nodes.
const PAGE: u32 = 500;
/// The namespace that every cluster has and that is never created again.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// The agent that reports a cluster's facts to the hub.
pub(super) enum Teller {
    /// OCM's registration agent. Its installation brings the kind ClusterClaim, whose objects it
    /// shows on the ManagedCluster. It tells the sums of the nodes, but not the largest one.
    Ocm { nodes: Option<NodeResources> },
    /// This agent, with these facts.
    Us(Facts),
}

impl Teller {
    /// The resources of the cluster's nodes, if they are known.
    pub(super) fn nodes(&self) -> Option<&NodeResources> {
        match self {
            Self::Ocm { nodes } => nodes.as_ref(),
            Self::Us(facts) => facts.nodes.as_ref(),
        }
    }
}

/// Finds out which agent reports about the cluster, and reads the facts. Nodes are not read if the
/// agent reports no room.
pub(super) async fn read(wec: &Client, capacity: Capacity) -> Result<Teller, Failure> {
    let nodes = match capacity {
        Capacity::None => Some(NodeResources::default()),
        Capacity::Nodes | Capacity::Pods => allowed(nodes(wec).await)?,
    };
    if serves_claims(wec).await? {
        return Ok(Teller::Ocm { nodes });
    }
    let version = call(wec.apiserver_version()).await?.git_version;
    let id = cluster_id(wec).await?;
    Ok(Teller::Us(Facts { version, id, nodes }))
}

/// Returns the ID that distinguishes the cluster from all others, if the agent may read it.
pub(super) async fn cluster_id(wec: &Client) -> Result<Option<String>, Failure> {
    let namespaces: Api<Lenient<Namespace>> = Api::all(wec.clone());
    let system = allowed(requests::read(namespaces.get(SYSTEM_NAMESPACE)).await)?;
    Ok(system.and_then(|namespace| namespace.metadata.uid))
}

/// Returns `None` if the agent lacks the right, as with the chart of an earlier release; the other
/// facts are still reported.
fn allowed<T>(read: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(Failure::Refused(why)) => {
            tracing::warn!(
                error = why,
                "the agent is not allowed to read a part of the facts about this cluster"
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

/// Sums the resources of all nodes. Reads them from the API server's cache, because this is
/// repeated.
async fn nodes(wec: &Client) -> Result<NodeResources, Failure> {
    let api: Api<Lenient<Node>> = Api::all(wec.clone());
    let mut total = NodeResources::default();
    let params = ListParams::default()
        .limit(PAGE)
        .matching(VersionMatch::NotOlderThan)
        .at("0");
    requests::each(&api, params, |node: Node| total.add(&node)).await?;
    Ok(total.or_zero())
}

/// Makes OCM's registration agent show the claim on the ManagedCluster, or remove it if the value
/// is empty.
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
