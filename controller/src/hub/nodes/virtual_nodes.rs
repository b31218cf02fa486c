//! Carries out the decisions on virtual Nodes (`argosy_core::hub::nodes`): its watches of WDS and ITS,
//! and its loop.

use argosy_api::{ManagedCluster, names};
use argosy_core::{
    ClusterName, Failure,
    hub::nodes::{NodeAction, NodeIndex, NodeInput, NodeOwner, NodeSettings, ObservedMember, ObservedNode},
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::{Node, Pod},
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PostParams, Preconditions},
    core::PartialObjectMeta,
};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::Tunnels;
use crate::runtime::{
    engine::{self, Execute},
    lease,
    lenient::Lenient,
    metrics::Metrics,
    requests::{call, each, found, left, patching, read},
    supervise::supervise,
    watch::{Projected, follow, follow_projected, selecting},
};

/// Capacity of the queue of inputs. A full queue delays the watches and loses nothing.
const QUEUE: usize = 256;

/// Name of this loop.
const ENGINE: &str = "nodes";

/// Namespace of the Leases of all Nodes.
const LEASES: &str = "kube-node-lease";

/// Duration of the Lease of a Node in seconds, as kubelets write it.
const LEASE_SECONDS: i32 = 40;

/// Runs until `stop`. `tunnels` brings the clusters whose agents this process hosts, and is told the
/// clusters of the fleet.
pub(super) async fn run(
    (wds, its): (Client, Client),
    settings: NodeSettings,
    tunnels: Tunnels,
    metrics: Metrics,
    stop: CancellationToken,
) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let mut watches = JoinSet::new();
    let mut hosted = tunnels.hosted();
    watches.spawn(follow_projected(
        Api::<Projected<ManagedCluster, ObservedMember>>::all(its.clone()),
        selecting(""),
        sender.clone(),
        Projected::into_view,
        move |change| {
            tunnels.know(&change);
            NodeInput::Cluster(change)
        },
    ));
    let leases: Api<Lenient<Lease>> = Api::all(its.clone());
    let of_agents = selecting("").fields(&format!("metadata.name={}", names::CLUSTER_LEASE));
    watches.spawn(follow(
        leases,
        of_agents,
        sender.clone(),
        NodeInput::Lease,
        |_| None,
    ));
    watches.spawn(follow_projected(
        Api::<Projected<Node, ObservedNode>>::all(wds.clone()),
        selecting(&virtual_nodes()),
        sender.clone(),
        Projected::into_view,
        NodeInput::Node,
    ));
    watches.spawn(async move {
        loop {
            let newest = hosted.borrow_and_update().clone();
            if sender.send(NodeInput::Hosted(newest)).await.is_err() || hosted.changed().await.is_err() {
                return;
            }
        }
    });
    let index = NodeIndex::new(settings);
    let reactions = metrics.reactions(ENGINE);
    let driving = engine::drive(index, Executor { wds, its }, receiver, stop, reactions, |_| {});
    supervise(driving, watches).await;
}

fn virtual_nodes() -> String {
    format!("{}=true", names::VIRTUAL_NODE_LABEL)
}

#[derive(Clone)]
struct Executor {
    wds: Client,
    its: Client,
}

impl Executor {
    fn nodes(&self) -> Api<Lenient<Node>> {
        Api::all(self.wds.clone())
    }

    async fn offer(
        &self,
        cluster: &ClusterName,
        version: &str,
        offer: Option<&str>,
    ) -> Result<NodeInput, Failure> {
        let api: Api<Lenient<ManagedCluster>> = Api::all(self.its.clone());
        let patch = Patch::Merge(json!({ "metadata": {
            "resourceVersion": version, "annotations": { names::TUNNEL_ANNOTATION: offer },
        } }));
        let params = patching(names::CONTROLLER);
        let written = read(api.patch(cluster.as_str(), &params, &patch)).await;
        Ok(NodeInput::cluster(written?))
    }

    async fn create(&self, node: &Node) -> Result<NodeInput, Failure> {
        let params = PostParams {
            field_manager: Some(names::CONTROLLER.to_owned()),
            ..PostParams::default()
        };
        let node = Lenient::from(node.clone());
        let created = read(self.nodes().create(&params, &node)).await;
        if let Err(Failure::Foreign(error)) = &created {
            tracing::warn!(error, "a Node of somebody else has the name of a virtual Node");
        }
        Ok(NodeInput::node(created?))
    }

    async fn patch(
        &self,
        cluster: &ClusterName,
        patch: &Value,
        is_status: bool,
    ) -> Result<NodeInput, Failure> {
        let (name, params, patch) = (
            names::virtual_node(cluster.as_str()),
            patching(names::CONTROLLER),
            Patch::Merge(patch),
        );
        let nodes = self.nodes();
        let written = if is_status {
            read(nodes.patch_status(&name, &params, &patch)).await
        } else {
            read(nodes.patch(&name, &params, &patch)).await
        };
        Ok(found(written)?.map_or_else(|| NodeInput::Gone(cluster.clone()), NodeInput::node))
    }

    async fn renew(&self, cluster: &ClusterName, owner: &NodeOwner) -> Result<NodeInput, Failure> {
        let leases: Api<Lenient<Lease>> = Api::namespaced(self.wds.clone(), LEASES);
        let mut lease = Lease::default();
        lease.metadata.name = Some(owner.name.clone());
        lease.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            ..OwnerReference::default()
        }]);
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(owner.name.clone()),
            lease_duration_seconds: Some(LEASE_SECONDS),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..LeaseSpec::default()
        });
        lease::renew(&leases, names::CONTROLLER, &lease, &[]).await?;
        Ok(NodeInput::Renewed(cluster.clone()))
    }

    async fn delete(&self, cluster: &ClusterName, owner: &NodeOwner) -> Result<NodeInput, Failure> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(owner.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        left(&self.nodes(), &owner.name, &params).await?;
        Ok(NodeInput::Gone(cluster.clone()))
    }
}

impl Execute<NodeIndex> for Executor {
    fn at_once(&self) -> usize {
        8
    }

    async fn execute(&self, key: &ClusterName, action: &NodeAction) -> Result<NodeInput, Failure> {
        match action {
            NodeAction::Offer(version, offer) => self.offer(key, version, offer.as_deref()).await,
            NodeAction::Create(node) => self.create(node).await,
            NodeAction::Update(patch) => self.patch(key, patch, false).await,
            NodeAction::Status(patch) => self.patch(key, patch, true).await,
            NodeAction::Renew(owner) => self.renew(key, owner).await,
            NodeAction::Delete(owner) => self.delete(key, owner).await,
        }
    }
}

/// Withdraws the offers of a tunnel to the controller in `namespace`, so that no agent dials in vain.
/// An offer with a URL does not say whose it is. If it is that of a controller that shares the ITS, that
/// one offers it again.
///
/// # Errors
///
/// The API server did not list or patch an object.
pub async fn withdraw_offers(its: &Client, namespace: &str) -> Result<(), Failure> {
    let clusters: Api<Lenient<PartialObjectMeta<ManagedCluster>>> = Api::all(its.clone());
    let is_ours = |offer: &String| {
        let service = offer.split_once('/').filter(|_| !offer.contains("://"));
        service.is_none_or(|(named, _)| named == namespace)
    };
    let mut offered = Vec::new();
    each(&clusters, ListParams::default(), |cluster| {
        if cluster
            .annotations()
            .get(names::TUNNEL_ANNOTATION)
            .is_some_and(is_ours)
        {
            offered.push(cluster.name_any());
        }
    })
    .await?;
    let withdrawal = json!({ "metadata": { "annotations": { names::TUNNEL_ANNOTATION: null } } });
    let (params, patch) = (patching(names::CONTROLLER), Patch::Merge(withdrawal));
    let mut last = Ok(());
    for name in offered {
        // One that is refused does not keep the others.
        if let Err(failure) = found(call(clusters.patch_metadata(&name, &params, &patch)).await) {
            last = Err(failure);
        }
    }
    last
}

/// Deletes all shadow pods, virtual Nodes and their Leases, and returns the number of Nodes. For an
/// uninstall, after the controller has ended.
///
/// # Errors
///
/// The API server did not list or delete an object.
pub async fn remove(wds: &Client) -> Result<usize, Failure> {
    let pods: Api<Lenient<PartialObjectMeta<Pod>>> = Api::all(wds.clone());
    let mut shadows = Vec::new();
    each(
        &pods,
        ListParams::default().labels(names::SHADOW_OF_LABEL),
        |pod| {
            shadows.push((pod.namespace().unwrap_or_default(), pod.name_any()));
        },
    )
    .await?;
    for (namespace, name) in shadows {
        let pods: Api<Lenient<Pod>> = Api::namespaced(wds.clone(), &namespace);
        left(&pods, &name, &DeleteParams::default().grace_period(0)).await?;
    }
    let all: Api<Lenient<PartialObjectMeta<Node>>> = Api::all(wds.clone());
    let mut nodes = Vec::new();
    each(&all, ListParams::default().labels(&virtual_nodes()), |node| {
        nodes.push(node.name_any());
    })
    .await?;
    let leases: Api<Lease> = Api::namespaced(wds.clone(), LEASES);
    for name in &nodes {
        found(call(leases.delete(name, &DeleteParams::default())).await)?;
        let nodes: Api<Lenient<Node>> = Api::all(wds.clone());
        left(&nodes, name, &DeleteParams::default()).await?;
    }
    Ok(nodes.len())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::{Router, body::to_bytes, extract::Request, http::Method};

    use super::*;

    #[tokio::test]
    async fn offers_are_withdrawn_but_not_those_of_another_controller() {
        let cluster = |name: &str, annotations: Value| {
            json!({
                "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
                "metadata": { "name": name, "annotations": annotations },
            })
        };
        let offer = |offer: &str| json!({ names::TUNNEL_ANNOTATION: offer });
        let clusters = [
            cluster("dials", offer("argosy/argosy-controller:webhook")),
            cluster("url", offer("https://argosy.example.org")),
            cluster("others", offer("other/argosy-controller:webhook")),
            cluster("hosted", json!({ "other": "1" })),
        ];
        let list = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedClusterList", "metadata": {},
            "items": clusters,
        });
        let patches: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let seen = patches.clone();
        let answer = move |request: Request| async move {
            if request.method() == Method::GET {
                return list.to_string();
            }
            let path = request.uri().path().to_owned();
            let body = to_bytes(request.into_body(), 1 << 10).await.unwrap();
            let withdrawal: Value = serde_json::from_slice(&body).unwrap();
            seen.lock().unwrap().push((path, withdrawal));
            cluster("patched", json!({})).to_string()
        };
        let client = Client::new(Router::new().fallback(answer), "default");
        withdraw_offers(&client, "argosy").await.unwrap();
        let patches = patches.lock().unwrap();
        let withdrawal = json!({ "metadata": { "annotations": { names::TUNNEL_ANNOTATION: null } } });
        let expected = ["dials", "url"].map(|name| {
            let path = format!("/apis/cluster.open-cluster-management.io/v1/managedclusters/{name}");
            (path, withdrawal.clone())
        });
        assert_eq!(*patches, expected);
    }
}
