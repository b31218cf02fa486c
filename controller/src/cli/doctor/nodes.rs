//! The check of a cluster's virtual Node: the API server must reach the kubelet endpoint, and no
//! DaemonSet must have a pod there. Not here: the tunnel, about which the controller's answers tell.

use argosy_api::names;
use argosy_core::Failure;
use axum::http::Request;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::{deployments, finding::Judgment};
use crate::runtime::{
    lenient::Lenient,
    requests::{call, each, found, read},
};

/// Checks the Node of a cluster.
pub(super) async fn check(wds: &Client, namespace: &str, cluster: &str) -> Vec<Judgment> {
    let is_wanted = match deployments::controller(wds, namespace).await {
        Ok(deployment) => deployment.as_ref().is_some_and(deployments::wants_nodes),
        Err(failure) => return vec![Judgment::unasked("read the controller's Deployment", &failure)],
    };
    if !is_wanted {
        return vec![Judgment::skipped(
            "virtual Nodes are turned off (nodes.enabled), so logs of running steps are only on the cluster",
        )];
    }
    let name = names::virtual_node(cluster);
    let api: Api<Lenient<Node>> = Api::all(wds.clone());
    let node = match found(read(api.get(&name)).await) {
        Ok(Some(node)) => node,
        Ok(None) => return vec![missing(&name)],
        Err(failure) => return vec![Judgment::unasked("read the virtual Node", &failure)],
    };
    let mut judgments = vec![standing(&node), reached(wds, &name, &address(&node)).await];
    judgments.extend(strangers(wds, &name).await);
    judgments
}

fn missing(name: &str) -> Judgment {
    Judgment::warning(
        format!("there is no Node {name}: the cluster's agent serves no logs"),
        "upgrade the chart argosy-agent there, and set its value serve to logs",
    )
}

fn standing(node: &Node) -> Judgment {
    let name = node.name_any();
    if node.labels().get(names::VIRTUAL_NODE_LABEL).is_none() {
        return Judgment::failed(
            format!("the Node {name} does not belong to Argosy"),
            "rename the cluster, or remove that Node",
        );
    }
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    if ready.any(|condition| condition.status == "True") {
        Judgment::ok(format!("the Node {name} is ready"))
    } else {
        Judgment::failed(
            format!("the Node {name} is not ready, so no controller renews its Lease"),
            "kubectl --namespace argosy logs deployment/argosy-controller",
        )
    }
}

/// The addresses of a Node, with the port of its endpoint.
fn address(node: &Node) -> String {
    let status = node.status.clone().unwrap_or_default();
    let addresses = status.addresses.unwrap_or_default();
    let first = addresses.first().map(|address| address.address.clone());
    let port = status
        .daemon_endpoints
        .and_then(|endpoints| endpoints.kubelet_endpoint)
        .map_or(0, |endpoint| endpoint.port);
    format!("{}:{port}", first.unwrap_or_default())
}

/// Asks the kubelet endpoint through the API server.
async fn reached(wds: &Client, name: &str, address: &str) -> Judgment {
    let request = Request::get(format!("/api/v1/nodes/{name}/proxy/healthz")).body(Vec::new());
    let Ok(request) = request else {
        return Judgment::skipped("the name of the Node is not part of a path");
    };
    match call(wds.request_text(request)).await {
        Ok(_) => Judgment::ok(format!("the API server reaches the kubelet endpoint {address}")),
        Err(failure @ Failure::Refused(_)) => Judgment::unasked("use nodes/proxy", &failure),
        Err(failure) => Judgment::failed(
            format!("the API server does not reach the kubelet endpoint {address}: {failure}"),
            "allow connections from the API server to port 10250 of the controller, or set nodes.port and \
             nodes.address; --kubelet-preferred-address-types of the API server must contain nodes.addressType",
        ),
    }
}

/// Warns of pods on the Node that show no pod of the cluster: of DaemonSets that tolerate its taint.
async fn strangers(wds: &Client, name: &str) -> Option<Judgment> {
    let api: Api<Lenient<Pod>> = Api::all(wds.clone());
    let there = ListParams::default()
        .fields(&format!("spec.nodeName={name}"))
        .labels(&format!("!{}", names::SHADOW_OF_LABEL))
        .limit(500);
    let mut pods = Vec::new();
    let listed = each(&api, there, |pod| {
        pods.push(format!(
            "{}/{}",
            pod.namespace().unwrap_or_default(),
            pod.name_any()
        ));
    });
    match listed.await {
        Ok(()) if pods.is_empty() => None,
        Ok(()) => Some(Judgment::warning(
            format!(
                "pods wait on the Node {name}, where nothing runs: {}",
                pods.join(", ")
            ),
            "add nodeSelector kubernetes.io/os: linux to their DaemonSet",
        )),
        Err(failure) => Some(Judgment::unasked("list the pods on the virtual Node", &failure)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::finding::Outcome, *};

    fn node(labels: &Value, ready: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": { "name": "argosy-cluster1", "labels": labels },
            "status": {
                "conditions": [{ "type": "Ready", "status": ready }],
                "addresses": [{ "type": "Hostname", "address": "10.0.0.7" }],
                "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_node_is_fine_if_it_is_ours_and_ready() {
        let ours = json!({ names::VIRTUAL_NODE_LABEL: "true" });
        for (node, outcome) in [
            (node(&ours, "True"), Outcome::Ok),
            (node(&ours, "Unknown"), Outcome::Failed),
            (node(&json!({}), "True"), Outcome::Failed),
        ] {
            assert_eq!(standing(&node).outcome, outcome, "{node:?}");
        }
        assert_eq!(address(&node(&ours, "True")), "10.0.0.7:10250");
    }
}
