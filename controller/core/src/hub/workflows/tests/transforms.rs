//! CustomTransforms whose effect depends on the cluster: they are applied for the claimed cluster,
//! and an error keeps the Workflow from being sent until it is corrected.

use super::*;

fn transform(fleet: &mut Fleet, set: &Value) -> BTreeSet<HubKey> {
    let object = json!({
        "metadata": { "name": "t", "generation": 1 },
        "spec": {
            "apiGroup": "argoproj.io", "resource": "workflows", "set": set,
            "clusterSelectors": [{ "matchLabels": { "name": "cluster1" } }],
        },
    });
    let change = fleet.change(object);
    fleet.learn(HubInput::Transform(change))
}

fn properties(fleet: &mut Fleet, data: &Value) -> BTreeSet<HubKey> {
    let map = read(
        json!({ "metadata": { "name": "cluster1", "namespace": "customization-properties" }, "data": data }),
    );
    fleet.learn(HubInput::Properties(Change::Reset(vec![map])))
}

fn workflow_is_in(dirty: &BTreeSet<HubKey>) -> bool {
    dirty.contains(&HubKey::Workflow(key()))
}

#[test]
fn a_workflow_gets_the_values_of_the_cluster_that_it_is_claimed_for() {
    for (cluster, expected) in [("cluster1", json!(7)), ("cluster2", Value::Null)] {
        let mut fleet = Fleet::of(claimed(cluster, 1));
        transform(&mut fleet, &json!([{ "path": "$.spec.priority", "value": 7 }]));
        let (_, work) = fleet.created();
        assert_eq!(work.spec.workload.manifests[0]["spec"]["priority"], expected);
    }
}

#[test]
fn an_error_keeps_a_workflow_from_being_sent_until_the_property_comes_or_the_transform_changes() {
    let set = json!([{ "path": "$.spec.priority", "expression": "int(cluster.rank)" }]);
    let invalid = ["Dispatched=False TransformInvalid"];
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    assert!(workflow_is_in(&transform(&mut fleet, &set)));
    assert_eq!(fleet.conditions(Purpose::Mirror), invalid);
    properties(&mut fleet, &json!({}));
    assert_eq!(fleet.conditions(Purpose::Mirror), invalid);
    assert!(workflow_is_in(&properties(&mut fleet, &json!({ "rank": "5" }))));
    let (_, work) = fleet.created();
    assert_eq!(work.spec.workload.manifests[0]["spec"]["priority"], 5);
    assert!(workflow_is_in(&properties(
        &mut fleet,
        &json!({ "rank": "high" })
    )));
    assert_eq!(fleet.conditions(Purpose::Mirror), invalid);
    let fixed = json!([{ "path": "$.spec.priority", "value": 1 }]);
    assert!(workflow_is_in(&transform(&mut fleet, &fixed)));
    fleet.created();
}

#[test]
fn an_error_for_one_cluster_keeps_nothing_from_another() {
    let mut fleet = Fleet::of(claimed("cluster2", 1));
    transform(
        &mut fleet,
        &json!([{ "path": "$.spec.priority", "expression": "1 / 0" }]),
    );
    fleet.created();
}

#[test]
fn a_workflow_that_was_sent_is_not_concerned() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    let dirty = transform(&mut fleet, &json!([{ "path": "$.spec.priority", "value": 7 }]));
    assert_eq!(dirty, [HubKey::Transform("t".to_owned())].into());
    fleet.rests();
}

#[test]
fn a_corrected_transform_sends_an_attempt_beside_the_manifest_work_of_an_earlier_one_elsewhere() {
    let mut fleet = Fleet::of(claimed("cluster1", 2));
    fleet.work(started("cluster2", 1));
    let broken = json!([{ "path": "$.spec.priority", "expression": "1 / 0" }]);
    transform(&mut fleet, &broken);
    let fixed = json!([{ "path": "$.spec.priority", "value": 1 }]);
    assert!(workflow_is_in(&transform(&mut fleet, &fixed)));
}

#[test]
fn the_marks_of_an_attempt_cannot_be_set() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    transform(
        &mut fleet,
        &json!([
            { "path": "$.metadata.labels", "expression": "{'argosy.dev/cluster': 'cluster9'}" },
            { "path": "$.status", "value": { "phase": "Succeeded" } },
        ]),
    );
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["Dispatched=False TransformInvalid"]
    );
}
