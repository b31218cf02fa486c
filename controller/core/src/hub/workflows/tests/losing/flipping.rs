//! A cluster that is lost or comes back concerns the Workflows for which that changes anything, and not
//! all that its policies select.

use jiff::SignedDuration;
use proptest::prelude::*;

use super::*;

/// The number of clusters. Each has one Workflow, which needs a GPU on the last but one, and the last one
/// has a GPU.
const CLUSTERS: usize = 6;

fn name(number: usize) -> String {
    format!("cluster{number}")
}

fn member(number: usize) -> Value {
    let gpus = if number == CLUSTERS { "1" } else { "0" };
    with(
        cluster(&name(number)),
        json!({ "status": { "allocatable": { "cpu": "64", "nvidia.com/gpu": gpus } } }),
    )
}

fn of(number: usize) -> WorkflowKey {
    WorkflowKey::new("argo", &format!("w{number}"))
}

/// One policy matches all clusters, and a Workflow is claimed for each of them. `w0` waits for a GPU.
/// Returns the Workflows, too.
fn large() -> (Fleet, Vec<Value>) {
    let mut fleet = Fleet::new();
    let change = fleet.change(rerunning(json!({})));
    fleet.learn(HubInput::Policy(change));
    let own =
        |number: usize| json!({ "metadata": { "name": format!("w{number}"), "uid": format!("u{number}") } });
    let gpu = json!({ "metadata": { "annotations": { "argosy.dev/requests": "nvidia.com/gpu=1" } } });
    let mut workflows = vec![with(with(held("spare"), gpu), own(0))];
    for number in 1..=CLUSTERS {
        let change = fleet.change(member(number));
        fleet.learn(HubInput::Cluster(change));
        let change = fleet.change(lease(&name(number), "10:00:00"));
        fleet.learn(HubInput::Lease(change));
        let mut claim = json!({ "cluster": name(number), "uid": format!("u{number}"), "started": true });
        if number == CLUSTERS - 1 {
            claim["needs"] = json!("nvidia.com/gpu=1");
        }
        let labels = json!({ "metadata": { "labels": { "argosy.dev/cluster": name(number) } } });
        workflows.push(with(with(claimed_with(claim), own(number)), labels));
        let work = with(
            started(&name(number), 1),
            json!({ "metadata": {
                "name": format!("argosy-u{number}"), "labels": { "argosy.dev/origin-uid": format!("u{number}") },
            } }),
        );
        fleet.work(work);
    }
    for object in &workflows {
        fleet.workflow(object.clone());
    }
    (fleet, workflows)
}

/// The Workflows that the loss or the return of a cluster concerns.
fn flip(fleet: &mut Fleet, number: usize, is_lost: bool) -> BTreeSet<WorkflowKey> {
    let mut object = member(number);
    if is_lost {
        object["status"]["conditions"][0] =
            condition("ManagedClusterConditionAvailable", "Unknown", "LeaseExpired");
    }
    let change = fleet.change(object);
    let dirty = fleet.learn(HubInput::Cluster(change));
    let keys = dirty.into_iter().filter_map(|key| match key {
        HubKey::Workflow(key) => Some(key),
        _ => None,
    });
    keys.collect()
}

/// Writes statuses of a Workflow until nothing is left to write. Returns false if another action is next,
/// or it is decided again within a minute, whatever happens to the clusters.
fn settles(fleet: &mut Fleet, object: &mut Value, number: usize, at: Timestamp) -> bool {
    loop {
        let decision = fleet.hub.decide(&HubKey::Workflow(of(number)), at);
        match decision.action {
            None => {
                return decision
                    .requeue_at
                    .is_none_or(|due| due > at + SignedDuration::from_mins(1));
            }
            Some(HubAction::PatchWorkflow {
                patch,
                purpose: Purpose::Mirror | Purpose::Explain,
                ..
            }) => *object = fleet.written(object.clone(), &patch),
            Some(_) => return false,
        }
    }
}

#[test]
fn beside_several_reachable_clusters_a_lost_one_concerns_its_own_workflows() {
    let (mut fleet, _) = large();
    let waiting = of(0);
    for number in 1..=4 {
        assert_eq!(
            flip(&mut fleet, number, true),
            [waiting.clone(), of(number)].into(),
            "{number}"
        );
    }
    let all: BTreeSet<WorkflowKey> = (0..=CLUSTERS).map(of).collect();
    assert_eq!(flip(&mut fleet, 5, true), all);
    assert_eq!(flip(&mut fleet, 5, false), all);
    assert_eq!(flip(&mut fleet, 4, false), [waiting, of(4)].into());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_workflow_that_rests_is_decided_again_whenever_a_flip_leaves_something_to_do(
        flips in prop::collection::vec(1..=CLUSTERS, 1..20),
        is_overdue in any::<bool>(),
    ) {
        // The grace period of a lost cluster is over, or is not.
        let at = after(if is_overdue { 11 * MINUTE } else { 0 });
        let (mut fleet, mut workflows) = large();
        let mut lost = BTreeSet::new();
        let mut rests = vec![false; workflows.len()];
        let mut dirty: BTreeSet<WorkflowKey> = (0..=CLUSTERS).map(of).collect();
        for flipped in flips.into_iter().map(Some).chain([None]) {
            for (number, object) in workflows.iter_mut().enumerate() {
                if dirty.contains(&of(number)) {
                    rests[number] = settles(&mut fleet, object, number, at);
                } else if rests[number] {
                    let decision = fleet.hub.decide(&HubKey::Workflow(of(number)), at);
                    prop_assert_eq!(decision.action, None, "{}", of(number));
                }
            }
            if let Some(flipped) = flipped {
                let is_lost = lost.insert(flipped) || !lost.remove(&flipped);
                dirty = flip(&mut fleet, flipped, is_lost);
            }
        }
    }
}
