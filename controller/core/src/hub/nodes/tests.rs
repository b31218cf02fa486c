use serde_json::{Value, json};

use super::*;
use crate::{Reconcile, testing::read};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

fn name() -> ClusterName {
    "cluster1".into()
}

struct World {
    index: NodeIndex,
    cluster: Value,
    node: Option<Value>,
    version: u64,
    now: Timestamp,
}

impl World {
    fn new() -> Self {
        let settings = NodeSettings {
            address: "10.0.0.7".to_owned(),
            address_type: "Hostname".to_owned(),
            port: 10250,
            tunnel: "argosy/argosy-controller:webhook".to_owned(),
        };
        let cluster = json!({
            "metadata": { "name": "cluster1", "uid": "c", "labels": {
                "region": "eu", "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "a", "argosy.dev/x": "y",
            } },
            "spec": { "hubAcceptsClient": true },
            "status": {
                "conditions": [condition("True")], "version": { "kubernetes": "v1.34.4" },
                "capacity": { "cpu": "8", "memory": "32Gi", "bad name": "1", "nvidia.com/gpu": "-1", "a.b/c": "nothing" },
            },
        });
        let mut world = Self {
            index: NodeIndex::new(settings),
            cluster,
            node: None,
            version: 0,
            now: at(0),
        };
        world
            .index
            .apply(NodeInput::Lease(Change::Reset(Vec::new())), world.now);
        world
            .index
            .apply(NodeInput::Node(Change::Reset(Vec::new())), world.now);
        world
            .index
            .apply(NodeInput::Cluster(Change::Reset(Vec::new())), world.now);
        world.member();
        world
    }

    fn next(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn member(&mut self) {
        let version = self.next();
        self.cluster["metadata"]["resourceVersion"] = json!(version);
        self.index
            .apply(NodeInput::cluster(read(self.cluster.clone())), self.now);
    }

    fn lease(&mut self, annotations: &Value) {
        let lease = read(json!({ "metadata": { "namespace": "cluster1", "annotations": annotations } }));
        self.index
            .apply(NodeInput::Lease(Change::Apply(Box::new(lease))), self.now);
    }

    fn dials(&mut self) {
        self.lease(&json!({ "argosy.dev/tunnel": "digest" }));
        self.cluster["metadata"]["annotations"] =
            json!({ "argosy.dev/tunnel": "argosy/argosy-controller:webhook" });
        self.member();
    }

    fn action(&self) -> Option<NodeAction> {
        self.index.decide(&name(), self.now).action
    }

    /// Carries out writes of the Node until none is left. Returns their stages.
    fn settle(&mut self) -> Vec<&'static str> {
        let mut stages = Vec::new();
        while let Some(action) = self.action() {
            assert!(stages.len() < 8, "it does not settle: {stages:?}");
            stages.push(crate::Action::stage(&action));
            let mut node = match action {
                NodeAction::Create(node) => {
                    let mut node = serde_json::to_value(node).unwrap();
                    node["metadata"]["uid"] = json!("n");
                    node
                }
                NodeAction::Update(patch) | NodeAction::Status(patch) => {
                    let mut node = self.node.clone().unwrap();
                    json_patch::merge(&mut node, &patch);
                    node
                }
                NodeAction::Renew(_) => {
                    self.index.apply(NodeInput::Renewed(name()), self.now);
                    continue;
                }
                NodeAction::Delete(_) | NodeAction::Offer(..) => return stages,
            };
            let version = self.next();
            node["metadata"]["resourceVersion"] = json!(version);
            self.index.apply(NodeInput::node(read(node.clone())), self.now);
            self.node = Some(node);
        }
        stages
    }

    fn node(&self) -> Node {
        read(self.node.clone().unwrap())
    }
}

fn condition(status: &str) -> Value {
    json!({
        "type": "ManagedClusterConditionAvailable", "status": status, "reason": "Lease", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

#[test]
fn a_cluster_whose_agent_can_serve_gets_a_node_and_an_old_agent_gets_none() {
    let mut world = World::new();
    assert_eq!(world.action(), None);
    world.lease(&json!({}));
    assert_eq!(world.action(), None);
    world.dials();
    assert_eq!(
        world.settle(),
        ["create_node", "update_node_status", "renew_node_lease"]
    );
    let mut world = World::new();
    world.index.apply(NodeInput::Hosted([name()].into()), world.now);
    assert_eq!(
        world.settle(),
        ["create_node", "update_node_status", "renew_node_lease"]
    );
}

#[test]
fn a_tunnel_is_offered_to_an_agent_that_dials_and_withdrawn_from_one_that_is_hosted() {
    let mut world = World::new();
    world.lease(&json!({ "argosy.dev/tunnel": "digest" }));
    let offer = Some("argosy/argosy-controller:webhook".to_owned());
    assert_eq!(world.action(), Some(NodeAction::Offer("1".to_owned(), offer)));
    world.dials();
    world.index.apply(NodeInput::Hosted([name()].into()), world.now);
    assert_eq!(world.action(), Some(NodeAction::Offer("2".to_owned(), None)));
}

#[test]
fn nothing_is_scheduled_on_a_node_and_no_network_plugin_adds_routes_to_it() {
    let mut world = World::new();
    world.dials();
    world.settle();
    let node = world.node();
    let labels: Vec<&str> = node.labels().keys().map(String::as_str).collect();
    assert_eq!(
        labels,
        [
            "argosy.dev/cluster",
            "argosy.dev/reachable",
            "argosy.dev/virtual",
            "node.kubernetes.io/exclude-from-external-load-balancers",
            "region",
            "type",
        ]
    );
    let spec = node.spec.unwrap();
    assert_eq!((spec.provider_id, spec.unschedulable), (None, Some(false)));
    assert_eq!(spec.taints.unwrap()[0].key, "argosy.dev/cluster");
    let status = node.status.unwrap();
    let addresses = status.addresses.unwrap();
    assert_eq!((addresses.len(), addresses[0].type_.as_str()), (1, "Hostname"));
    let capacity = status.capacity.unwrap();
    let known: Vec<(&str, &str)> = capacity
        .iter()
        .map(|(name, amount)| (name.as_str(), amount.0.as_str()))
        .collect();
    assert_eq!(known, [("cpu", "8"), ("memory", "32Gi"), ("pods", "0")]);
    assert_eq!(status.node_info.unwrap().kubelet_version, "v1.34.4-argosy");
}

#[test]
fn a_lease_is_renewed_every_twenty_seconds_and_nothing_else_is_written_without_a_change() {
    let mut world = World::new();
    world.dials();
    world.settle();
    assert_eq!(
        world.index.decide(&name(), world.now),
        Decision::requeue_at(at(20))
    );
    world.now = at(20);
    assert_eq!(world.settle(), ["renew_node_lease"]);
    world.member();
    assert_eq!(world.settle(), [""; 0]);
}

#[test]
fn an_unreachable_cluster_is_cordoned_and_its_node_stays_ready() {
    let mut world = World::new();
    world.dials();
    world.settle();
    // Of the node lifecycle controller.
    let foreign = json!({ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" });
    world.node.as_mut().unwrap()["spec"]["taints"]
        .as_array_mut()
        .unwrap()
        .push(foreign);
    let version = world.next();
    world.node.as_mut().unwrap()["metadata"]["resourceVersion"] = json!(version);
    world
        .index
        .apply(NodeInput::node(read(world.node.clone().unwrap())), world.now);
    assert_eq!(world.settle(), [""; 0]);
    world.cluster["status"]["conditions"] = json!([condition("Unknown")]);
    world.member();
    assert_eq!(world.settle(), ["update_node", "update_node_status"]);
    let node = world.node();
    assert_eq!(node.labels()["argosy.dev/reachable"], "false");
    let spec = node.spec.unwrap();
    assert_eq!(spec.unschedulable, Some(true));
    let taints: Vec<String> = spec.taints.unwrap().into_iter().map(|taint| taint.key).collect();
    assert_eq!(
        taints,
        [
            "argosy.dev/cluster",
            "argosy.dev/unreachable",
            "node.kubernetes.io/unschedulable"
        ]
    );
    let conditions = node.status.unwrap().conditions.unwrap();
    let status = |type_: &str| {
        conditions
            .iter()
            .find(|known| known.type_ == type_)
            .map(|known| known.status.clone())
    };
    assert_eq!(status("Ready").as_deref(), Some("True"));
    assert_eq!(status("ClusterReachable").as_deref(), Some("Unknown"));
}

#[test]
fn labels_follow_those_of_the_cluster_and_labels_of_others_stay() {
    let mut world = World::new();
    world.dials();
    world.settle();
    world.node.as_mut().unwrap()["metadata"]["labels"]["mine"] = json!("1");
    let version = world.next();
    world.node.as_mut().unwrap()["metadata"]["resourceVersion"] = json!(version);
    world
        .index
        .apply(NodeInput::node(read(world.node.clone().unwrap())), world.now);
    world.cluster["metadata"]["labels"] = json!({ "zone": "b" });
    world.member();
    assert_eq!(world.settle(), ["update_node"]);
    let node = world.node();
    let has = |key: &str| node.labels().contains_key(key);
    assert_eq!((has("region"), has("zone"), has("mine")), (false, true, true));
}

#[test]
fn a_node_goes_with_its_cluster_and_stays_while_the_agent_is_away() {
    let mut world = World::new();
    world.dials();
    world.settle();
    world.lease(&json!({}));
    assert!(!matches!(world.action(), Some(NodeAction::Delete(_))));
    world.cluster["metadata"]["annotations"] = json!({ "argosy.dev/removed": "2026-01-01T00:00:00Z" });
    world.member();
    assert!(matches!(world.action(), Some(NodeAction::Delete(_))));
}

#[test]
fn a_cluster_whose_agent_says_that_it_serves_nothing_has_no_node() {
    let mut world = World::new();
    let nothing = json!({ "argosy.dev/tunnel": "none" });
    world.lease(&nothing);
    assert_eq!(world.action(), None);
    world.dials();
    world.settle();
    world.lease(&nothing);
    assert!(matches!(world.action(), Some(NodeAction::Offer(_, None))));
    world.cluster["metadata"]["annotations"] = json!({});
    world.member();
    assert!(matches!(world.action(), Some(NodeAction::Delete(_))));
    // The Lease of a former agent, before the hosted one has renewed it.
    world.index.apply(NodeInput::Hosted([name()].into()), world.now);
    assert!(!matches!(world.action(), Some(NodeAction::Delete(_))));
}

#[test]
fn an_agent_that_changes_its_mind_all_the_time_gets_a_node_once_a_minute() {
    let mut world = World::new();
    world.dials();
    world.settle();
    world.lease(&json!({ "argosy.dev/tunnel": "none" }));
    world.index.apply(NodeInput::Gone(name()), world.now);
    world.dials();
    assert!(matches!(world.action(), Some(NodeAction::Offer(_, None)) | None));
    world.cluster["metadata"]["annotations"] = json!({});
    world.member();
    while let Some(NodeAction::Offer(_, offer)) = world.action() {
        world.cluster["metadata"]["annotations"] = json!({ "argosy.dev/tunnel": offer });
        world.member();
    }
    let decision = world.index.decide(&name(), world.now);
    let again = decision.requeue_at.unwrap();
    assert_eq!(decision.action, None);
    assert!(matches!(
        world.index.decide(&name(), again).action,
        Some(NodeAction::Create(_))
    ));
}

#[test]
fn a_cluster_whose_node_is_turned_off_has_none_whether_its_agent_dials_or_is_hosted() {
    for is_hosted in [false, true] {
        let mut world = World::new();
        world.dials();
        if is_hosted {
            world.index.apply(NodeInput::Hosted([name()].into()), world.now);
            world.cluster["metadata"]["annotations"] = json!({});
            world.member();
        }
        world.settle();
        world.cluster["metadata"]["annotations"] = json!({ "argosy.dev/node": "off" });
        world.member();
        assert!(matches!(world.action(), Some(NodeAction::Delete(_))));
        world.index.apply(NodeInput::Gone(name()), world.now);
        assert_eq!(world.action(), None);
        world.cluster["metadata"]["annotations"] = json!({ "argosy.dev/node": "on" });
        world.member();
        assert!(world.action().is_some());
    }
}

#[test]
fn a_node_of_somebody_else_is_left_alone() {
    let mut world = World::new();
    world.dials();
    let action = world.action().unwrap();
    world.index.started(&name());
    let foreign = Failure::Foreign("already exists".to_owned());
    world.index.failed(&name(), &action, &foreign, world.now);
    assert_eq!(
        world.index.decide(&name(), world.now),
        Decision::requeue_at(at(600))
    );
}
