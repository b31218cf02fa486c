//! What is told of a choice: its reason, its Event, and the metrics.

use super::*;

/// The choices since the last call, as `outcome cluster count`, and the number of Workflows that wait.
fn told(fleet: &mut Fleet) -> (Vec<String>, Option<u64>) {
    let (mut choices, mut waiting) = (Vec::new(), None);
    for change in fleet.hub.count() {
        match change {
            CensusChange::Choices {
                cluster,
                outcome,
                count,
            } => {
                let cluster = cluster.as_ref().map_or("-", ClusterName::as_str);
                choices.push(format!("{outcome} {cluster} {count}"));
            }
            CensusChange::Waiting(count) => waiting = Some(count),
            _ => {}
        }
    }
    (choices, waiting)
}

/// The resources of which the room of a cluster is told, with the room and the reserved amount.
fn rooms(fleet: &mut Fleet, name: &str) -> Vec<String> {
    let changes = fleet.hub.count().into_iter();
    let rooms = changes.filter_map(|change| match change {
        CensusChange::Room(cluster, rooms) if cluster.as_str() == name => Some(rooms),
        _ => None,
    });
    let text = |one: ResourceRoom| {
        let room = one.room.map(|room| room / one.unit);
        format!("{} {room:?} {}", one.resource, one.reserved / one.unit)
    };
    rooms.flatten().map(text).collect()
}

fn runs(most: u32) -> Value {
    json!({ "metadata": { "annotations": { names::ROOM_ANNOTATION: format!("runs={most}") } } })
}

/// Writes the next decision for a Workflow, and returns the Workflow.
#[track_caller]
fn decided(fleet: &mut Fleet, object: Value) -> Value {
    let Some(HubAction::PatchWorkflow { patch, .. }) = fleet.decide() else {
        panic!("nothing is written")
    };
    fleet.written(object, &patch)
}

#[test]
fn the_event_of_a_choice_has_its_reason() {
    let mut fleet = Fleet::best();
    let cpu = |cpu: &str| json!({ "status": { "allocatable": { "cpu": cpu } } });
    fleet.cluster_is("cluster1", cpu("4"));
    fleet.cluster_is("cluster2", cpu("8"));
    fleet.workflow(held("both"));
    assert_eq!(fleet.hub.take_events(), []);
    decided(&mut fleet, held("both"));
    let events = fleet.hub.take_events();
    let events: Vec<_> = events
        .iter()
        .map(|event| (event.is_warning, &*event.reason, &*event.message))
        .collect();
    let message =
        "sent to cluster2, attempt 1; the best of 2: 0 runs, cpu 0 of 8; next cluster1: 0 runs, cpu 0 of 4";
    assert_eq!(events, [(false, "Dispatched", message)]);
}

#[test]
fn a_choice_counts_once_by_its_outcome_and_so_do_the_workflows_that_wait() {
    let mut fleet = Fleet::new();
    fleet.policy(best(&json!({ names::WHEN_FULL_ANNOTATION: "wait" })));
    fleet.cluster_is("cluster1", runs(0));
    fleet.cluster_is("cluster2", unreachable());
    fleet.workflow(held("both"));
    assert_eq!(told(&mut fleet), (Vec::new(), Some(0)));
    let waiting = decided(&mut fleet, held("both"));
    assert_eq!(told(&mut fleet), (vec!["waiting - 1".to_owned()], Some(1)));
    fleet.workflow(waiting.clone());
    assert_eq!(told(&mut fleet), (Vec::new(), None), "nothing has changed");
    fleet.cluster_is("cluster1", unreachable());
    let alone = decided(&mut fleet, waiting);
    assert_eq!(told(&mut fleet), (vec!["no_cluster - 1".to_owned()], Some(0)));
    fleet.cluster_is("cluster1", runs(1));
    let claimed = decided(&mut fleet, alone);
    assert_eq!(told(&mut fleet).0, ["chosen cluster1 1"]);
    fleet.workflow(claimed);
    assert_eq!(told(&mut fleet).0, Vec::<String>::new());
}

#[test]
fn what_no_policy_leaves_to_the_controller_is_no_choice() {
    let mut fleet = Fleet::of(held("cluster1"));
    decided(&mut fleet, held("cluster1"));
    assert_eq!(told(&mut fleet).0, Vec::<String>::new());
    let mut fleet = Fleet::of(held("none"));
    decided(&mut fleet, held("none"));
    assert_eq!(told(&mut fleet).0, Vec::<String>::new());
}

#[test]
fn the_room_of_a_cluster_is_told_with_few_of_the_extended_resources_that_it_invents() {
    let mut fleet = Fleet::best();
    let mut allocatable = json!({ "cpu": "8", "memory": "1Gi", "ephemeral-storage": "1Ti" });
    for number in 0..20 {
        allocatable[format!("example.com/r{number:02}")] = json!("2");
    }
    fleet.cluster_is("cluster1", json!({ "status": { "allocatable": allocatable } }));
    let all = rooms(&mut fleet, "cluster1");
    assert_eq!(all.len(), 2 + 8, "{all:?}");
    assert_eq!(
        all[..3],
        [
            "cpu Some(8) 0",
            "memory Some(1073741824) 0",
            "example.com/r00 Some(2) 0"
        ]
    );
    let allocatable = json!({ "cpu": "8", "memory": "1Gi", "nvidia.com/gpu": "4" });
    fleet.cluster_is("cluster1", json!({ "status": { "allocatable": allocatable } }));
    fleet.workflow(run(1, "Running", &json!({ "needs": "cpu=2,nvidia.com/gpu=1" })));
    assert_eq!(
        rooms(&mut fleet, "cluster1"),
        [
            "cpu Some(8) 2",
            "memory Some(1073741824) 0",
            "nvidia.com/gpu Some(4) 1"
        ]
    );
}

#[test]
fn the_reason_of_a_choice_counts_only_clusters_that_can_run_the_workflow() {
    let mut fleet = Fleet::best();
    let room = |gpus: &str| json!({ "status": { "allocatable": { "cpu": "8", "nvidia.com/gpu": gpus } } });
    fleet.cluster_is("cluster1", room("1"));
    fleet.cluster_is("cluster2", room("0"));
    fleet.cluster_is("cluster3", room("0"));
    fleet.workflow(asks(1, &json!({ "nvidia.com/gpu": 1 })));
    assert_eq!(
        fleet.chosen(&subject(1)).1,
        "Claimed: sent to cluster1, attempt 1; the only one that can run it: 0 runs, cpu 0 of 8"
    );
    fleet.cluster_is("cluster3", room("1"));
    assert_eq!(
        fleet.chosen(&subject(1)).1,
        "Claimed: sent to cluster1, attempt 1; the best of 2: 0 runs, cpu 0 of 8; next cluster3: 0 runs, cpu 0 of 8"
    );
}

#[test]
fn a_cluster_that_only_a_plain_policy_adds_is_a_candidate() {
    let mut fleet = Fleet::new();
    let labels =
        |cluster: &str| json!({ "spec": { "clusterSelectors": [{ "matchLabels": { "name": cluster } }] } });
    fleet.policy(with(best(&json!({})), labels("cluster1")));
    fleet.workflow(held("both"));
    assert_eq!(fleet.chosen(&HubKey::Workflow(key())).0, "cluster1");
    let plain = json!({ "metadata": { "name": "plain", "uid": "plain" } });
    fleet.policy(with(with(policy("both", json!({})), plain), labels("cluster2")));
    let cpu = |cpu: &str| json!({ "status": { "allocatable": { "cpu": cpu } } });
    fleet.cluster_is("cluster1", cpu("4"));
    fleet.cluster_is("cluster2", cpu("8"));
    let (cluster, message, _) = fleet.chosen(&HubKey::Workflow(key()));
    assert_eq!(cluster, "cluster2", "it has more room: {message}");
}
