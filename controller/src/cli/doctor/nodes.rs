//! The check of a cluster's virtual Node: the API server must reach the kubelet endpoint, the controller
//! the cluster's agent, and no DaemonSet must have a pod there. Not here: the condition that tells if
//! the agent renews its Lease (`cluster`).

use argosy_api::{ManagedCluster, names};
use argosy_core::Failure;
use axum::http::Request;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::{
    deployments,
    finding::{Judgment, Outcome},
};
use crate::runtime::{
    lenient::Lenient,
    requests::{call, each, found, read},
};

/// Maximum number of pods that are named in a message.
const NAMED: usize = 10;

/// Checks the Node of a cluster.
pub(super) async fn check(wds: &Client, namespace: &str, cluster: &ManagedCluster) -> Vec<Judgment> {
    let is_wanted = match deployments::controller(wds, namespace).await {
        Ok(deployment) => deployment.as_ref().is_some_and(deployments::wants_nodes),
        Err(failure) => return vec![Judgment::unasked("read the controller's Deployment", &failure)],
    };
    if !is_wanted {
        return vec![Judgment::skipped(
            "virtual Nodes are turned off (nodes.enabled), so logs of running steps are only on the cluster",
        )];
    }
    let turned = cluster.annotations().get(names::NODE_ANNOTATION);
    if turned.is_some_and(|turned| turned == names::NODE_OFF) {
        return vec![Judgment::skipped(
            "the annotation argosy.dev/node of the ManagedCluster turns its virtual Node off",
        )];
    }
    let name = names::virtual_node(&cluster.name_any());
    let api: Api<Lenient<Node>> = Api::all(wds.clone());
    let node = match found(read(api.get(&name)).await) {
        Ok(Some(node)) => node,
        Ok(None) => return vec![missing(&name)],
        Err(failure) => return vec![Judgment::unasked("read the virtual Node", &failure)],
    };
    let mut judgments = vec![standing(&node), reached(wds, &name, &address(&node)).await];
    // Without the endpoint, nobody can say if the agent is reached.
    if judgments.iter().all(|judgment| judgment.outcome == Outcome::Ok) {
        judgments.push(answers(wds, &name, &cluster.name_any()).await);
    }
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

/// Asks the cluster's agent, through the API server and the kubelet endpoint.
async fn answers(wds: &Client, node: &str, cluster: &str) -> Judgment {
    let path = format!("/api/v1/nodes/{node}/proxy/tunnel/{cluster}");
    let Ok(request) = Request::get(path).body(Vec::new()) else {
        return Judgment::skipped("the name of the Node is not part of a path");
    };
    match call(wds.request_text(request)).await {
        Ok(_) => Judgment::ok("the controller reaches the agent for logs and Events"),
        Err(failure) => Judgment::failed(
            format!("the controller does not reach the agent for logs and Events: {failure}"),
            "see the agent's log for the tunnel that it opens; a proxy before the control cluster's API server \
             must pass on WebSockets, and the agent's chart value serve must not be none",
        ),
    }
}

/// Warns of pods for the Node that show no pod of the cluster: of DaemonSets that tolerate its taint.
/// The scheduler binds them nowhere, because the Node has no room.
async fn strangers(wds: &Client, name: &str) -> Option<Judgment> {
    let api: Api<Lenient<Pod>> = Api::all(wds.clone());
    let waiting = ListParams::default()
        .fields("status.phase=Pending")
        .labels(&format!("!{}", names::SHADOW_OF_LABEL))
        .limit(500);
    let (mut pods, mut count) = (Vec::new(), 0_usize);
    let listed = each(&api, waiting, |pod| {
        if !is_for(&pod, name) {
            return;
        }
        count += 1;
        if pods.len() < NAMED {
            pods.push(format!(
                "{}/{}",
                pod.namespace().unwrap_or_default(),
                pod.name_any()
            ));
        }
    });
    if let Err(failure) = listed.await {
        return Some(Judgment::unasked("list the pods that wait", &failure));
    }
    let more = match count - pods.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (count > 0).then(|| {
        Judgment::warning(
            format!(
                "pods wait for the Node {name}, where nothing runs: {}{more}",
                pods.join(", ")
            ),
            "add nodeSelector kubernetes.io/os: linux to their DaemonSet",
        )
    })
}

/// True if a pod is bound to the Node, or may run only there, as its affinity says in every pod of a
/// DaemonSet.
fn is_for(pod: &Pod, node: &str) -> bool {
    let Some(spec) = &pod.spec else { return false };
    if let Some(bound) = &spec.node_name {
        return bound == node;
    }
    let affinity = spec.affinity.as_ref();
    let required = affinity
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|nodes| nodes.required_during_scheduling_ignored_during_execution.as_ref());
    let terms = required
        .into_iter()
        .flat_map(|required| &required.node_selector_terms);
    let mut fields = terms.flat_map(|term| term.match_fields.iter().flatten());
    fields.any(|field| {
        let is_named = || field.values.iter().flatten().any(|value| value == node);
        field.key == "metadata.name" && field.operator == "In" && is_named()
    })
}

#[cfg(test)]
mod tests {
    use axum::{
        Router,
        http::{StatusCode, Uri},
        response::IntoResponse,
    };
    use kube::core::Status;
    use serde_json::{Value, json};

    use super::*;

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

    /// A client of an API server that gives every request this answer, or, with another path than
    /// this, a failure.
    fn api(path: &'static str, status: StatusCode, body: Value) -> Client {
        let answer = move |uri: Uri| async move {
            if uri.path() == path {
                (status, body.to_string()).into_response()
            } else {
                StatusCode::NOT_IMPLEMENTED.into_response()
            }
        };
        Client::new(Router::new().fallback(answer), "default")
    }

    #[tokio::test]
    async fn an_agent_that_the_controller_does_not_reach_is_reported_with_the_reason() {
        let path = "/api/v1/nodes/argosy-cluster1/proxy/tunnel/cluster1";
        let reason = "the agent of cluster cluster1 has no tunnel to the control cluster";
        let failed = Status::failure(reason, "InternalError").with_code(500);
        for (status, body, outcome) in [
            (StatusCode::OK, json!("ok"), Outcome::Ok),
            (StatusCode::INTERNAL_SERVER_ERROR, json!(failed), Outcome::Failed),
        ] {
            let judgment = answers(&api(path, status, body), "argosy-cluster1", "cluster1").await;
            assert_eq!(judgment.outcome, outcome, "{judgment:?}");
            assert_eq!(
                judgment.message.contains(reason),
                outcome == Outcome::Failed,
                "{judgment:?}"
            );
        }
    }

    fn pod(name: &str, spec: &Value) -> Value {
        json!({ "metadata": { "namespace": "monitoring", "name": name }, "spec": spec })
    }

    /// The specification of an unbound pod of a DaemonSet, as its controller writes it.
    fn of_daemon_set(node: &str) -> Value {
        let term = json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] });
        let required = json!({ "nodeSelectorTerms": [term] });
        json!({ "containers": [], "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
        } } })
    }

    #[tokio::test]
    async fn pods_that_wait_for_the_node_are_found_though_they_are_bound_nowhere() {
        let bound = |node: &str| json!({ "containers": [], "nodeName": node });
        let mut pods = vec![
            pod("exporter", &of_daemon_set("argosy-cluster1")),
            pod("elsewhere", &of_daemon_set("argosy-cluster2")),
            pod("bound", &bound("argosy-cluster1")),
            pod("ordinary", &bound("node1")),
            pod("anywhere", &json!({ "containers": [] })),
        ];
        let list =
            |pods: &[Value]| json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods });
        let api = |pods: &[Value]| api("/api/v1/pods", StatusCode::OK, list(pods));
        let found = strangers(&api(&pods), "argosy-cluster1").await.unwrap();
        assert_eq!(found.outcome, Outcome::Warning);
        let named = found.message.ends_with(": monitoring/exporter, monitoring/bound");
        assert!(named, "{}", found.message);
        assert_eq!(strangers(&api(&pods), "argosy-cluster3").await, None);
        pods.extend((0..12).map(|number| pod(&format!("p{number}"), &bound("argosy-cluster1"))));
        let found = strangers(&api(&pods), "argosy-cluster1").await.unwrap();
        assert!(found.message.ends_with("p7 and 4 more"), "{}", found.message);
    }

    #[tokio::test]
    async fn pods_that_cannot_be_listed_are_said_to_be_unknown() {
        let refused = api("/api/v1/pods", StatusCode::FORBIDDEN, refusal(403));
        assert!(strangers(&refused, "argosy-cluster1").await.unwrap().is_unasked);
    }

    fn refusal(code: u16) -> Value {
        let mut status = Status::failure("no", "Refused");
        status.code = code;
        json!(status)
    }

    #[tokio::test]
    async fn an_endpoint_is_reached_if_it_answers_through_the_api_server() {
        const PATH: &str = "/api/v1/nodes/argosy-cluster1/proxy/healthz";
        for (code, outcome, is_unasked) in [
            (200, Outcome::Ok, false),
            (403, Outcome::Skipped, true),
            (503, Outcome::Failed, false),
        ] {
            let status = StatusCode::from_u16(code).unwrap();
            let judged = reached(
                &api(PATH, status, refusal(code)),
                "argosy-cluster1",
                "10.0.0.7:10250",
            )
            .await;
            assert_eq!(
                (judged.outcome, judged.is_unasked),
                (outcome, is_unasked),
                "{code}: {judged:?}"
            );
        }
        let bad = reached(&api(PATH, StatusCode::OK, json!({})), "a b", "10.0.0.7:10250").await;
        assert_eq!(bad.outcome, Outcome::Skipped);
    }

    /// The judgments about cluster1, of an API server that has the controller and no Node.
    async fn without_node(args: &[&str], annotations: &Value) -> Vec<Judgment> {
        let container = json!({ "name": "controller", "args": args });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "namespace": "argosy", "name": "argosy-controller" },
            "spec": { "selector": {}, "template": { "spec": { "containers": [container] } } },
        });
        let answer = move |uri: Uri| async move {
            if uri.path().ends_with("/deployments/argosy-controller") {
                deployment.to_string().into_response()
            } else {
                let status = json!({
                    "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "not found",
                    "details": { "kind": "nodes", "name": "argosy-cluster1" },
                });
                (StatusCode::NOT_FOUND, status.to_string()).into_response()
            }
        };
        let client = Client::new(Router::new().fallback(answer), "default");
        let cluster = json!({ "metadata": { "name": "cluster1", "annotations": annotations }, "spec": {} });
        check(&client, "argosy", &serde_json::from_value(cluster).unwrap()).await
    }

    #[tokio::test]
    async fn a_missing_node_is_a_warning_unless_it_was_turned_off() {
        let outcomes = |judgments: Vec<Judgment>| judgments.iter().map(|one| one.outcome).collect::<Vec<_>>();
        let off = json!({ "argosy.dev/node": "off" });
        let found = without_node(&["--nodes"], &json!({})).await;
        assert!(
            found[0].message.contains("there is no Node argosy-cluster1"),
            "{found:?}"
        );
        assert_eq!(outcomes(found), [Outcome::Warning]);
        assert_eq!(
            outcomes(without_node(&["--nodes"], &off).await),
            [Outcome::Skipped]
        );
        assert_eq!(outcomes(without_node(&[], &json!({})).await), [Outcome::Skipped]);
    }
}
