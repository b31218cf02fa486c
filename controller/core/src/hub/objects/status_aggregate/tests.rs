//! Tables by kind, and the properties that hold for all kinds.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::aggregate;
use crate::ClusterName;

#[track_caller]
fn is_aggregated(group: &str, resource: &str, statuses: &[Value], expected: Value) {
    let names = (0..).map(|index| ClusterName::from(format!("cluster-{index}").as_str()));
    let statuses: BTreeMap<ClusterName, &Value> = names.zip(statuses).collect();
    assert_eq!(aggregate(group, resource, &statuses), Some(expected));
}

fn condition(type_: &str, status: &str, second: u8) -> Value {
    json!({ "type": type_, "status": status, "lastTransitionTime": format!("2026-11-21T10:00:0{second}Z") })
}

#[test]
fn nobody_has_a_status_and_one_has_its_own() {
    assert_eq!(aggregate("apps", "deployments", &BTreeMap::new()), None);
    let (one, two) = (ClusterName::from("one"), ClusterName::from("two"));
    let (nothing, own) = (
        Value::Null,
        json!({ "replicas": 3, "conditions": [condition("Available", "True", 0)] }),
    );
    let statuses = BTreeMap::from([(one.clone(), &nothing)]);
    assert_eq!(aggregate("apps", "deployments", &statuses), None);
    let statuses = BTreeMap::from([(one, &nothing), (two, &own)]);
    assert_eq!(aggregate("apps", "deployments", &statuses), Some(own.clone()));
}

#[test]
fn a_deployment_is_as_far_as_the_cluster_that_is_behind() {
    let late = json!({ "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "b" });
    let statuses = [
        json!({
            "replicas": 3, "updatedReplicas": 3, "availableReplicas": 2, "readyReplicas": 3, "unavailableReplicas": 1,
            "observedGeneration": 5, "conditions": [condition("Available", "True", 0)], "collisionCount": 1,
        }),
        json!({
            "replicas": 2, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1, "unavailableReplicas": 2,
            "observedGeneration": 4, "conditions": [condition("Progressing", "True", 0)],
        }),
    ];
    let expected = |conditions: Value| {
        json!({
            "replicas": 2, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1, "unavailableReplicas": 2,
            "observedGeneration": 4, "conditions": conditions,
        })
    };
    is_aggregated("apps", "deployments", &statuses, expected(json!([])));
    let mut failing = statuses;
    failing[1]["conditions"] = json!([
        condition("Available", "True", 0),
        late,
        condition("Progressing", "True", 0)
    ]);
    is_aggregated("apps", "deployments", &failing, expected(json!([late])));
}

#[test]
fn a_counter_that_is_left_out_is_zero() {
    let statuses = [
        json!({ "replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": 3, "observedGeneration": 1 }),
        json!({ "replicas": 3, "unavailableReplicas": 3, "updatedReplicas": 3, "observedGeneration": 1 }),
    ];
    let expected = json!({
        "replicas": 3, "updatedReplicas": 3, "availableReplicas": 0, "readyReplicas": 0, "unavailableReplicas": 3,
        "observedGeneration": 1, "conditions": [],
    });
    is_aggregated("apps", "deployments", &statuses, expected);
}

#[test]
fn a_replica_set_tells_the_first_failure() {
    let failure = condition("ReplicaFailure", "True", 0);
    let statuses = [
        json!({
            "replicas": 4, "fullyLabeledReplicas": 4, "readyReplicas": 3, "availableReplicas": 3, "observedGeneration": 2,
            "conditions": [failure],
        }),
        json!({
            "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 2, "availableReplicas": 2, "observedGeneration": 3,
            "conditions": [condition("ReplicaFailure", "True", 1)],
        }),
    ];
    let expected = json!({
        "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 2, "availableReplicas": 2, "observedGeneration": 2,
        "conditions": [failure],
    });
    is_aggregated("apps", "replicasets", &statuses, expected);
}

#[test]
fn a_daemon_set_has_the_least_of_all_but_the_misscheduled() {
    let statuses = [
        json!({
            "currentNumberScheduled": 3, "numberMisscheduled": 0, "desiredNumberScheduled": 3, "numberReady": 2,
            "observedGeneration": 2, "updatedNumberScheduled": 2, "numberAvailable": 2,
        }),
        json!({
            "currentNumberScheduled": 2, "numberMisscheduled": 1, "desiredNumberScheduled": 2, "numberReady": 1,
            "observedGeneration": 3, "updatedNumberScheduled": 1, "numberAvailable": 1, "collisionCount": 7,
        }),
    ];
    let expected = json!({
        "currentNumberScheduled": 2, "numberMisscheduled": 1, "desiredNumberScheduled": 2, "numberReady": 1,
        "observedGeneration": 2, "updatedNumberScheduled": 1, "numberAvailable": 1,
    });
    is_aggregated("apps", "daemonsets", &statuses, expected);
}

#[test]
fn a_stateful_set_has_a_revision_where_all_have_the_same() {
    let status = |replicas: i64, current: &str| {
        json!({
            "replicas": replicas, "readyReplicas": replicas, "currentReplicas": replicas, "updatedReplicas": replicas,
            "availableReplicas": replicas, "observedGeneration": replicas, "currentRevision": current, "updateRevision": "b",
        })
    };
    let expected = json!({
        "replicas": 1, "readyReplicas": 1, "currentReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
        "observedGeneration": 1, "updateRevision": "b", "conditions": [],
    });
    is_aggregated(
        "apps",
        "statefulsets",
        &[status(2, "a"), status(1, "b")],
        expected,
    );
}

#[test]
fn a_job_has_ended_when_all_have() {
    let running = json!({ "active": 2, "ready": 1, "startTime": "2026-11-21T10:00:01Z" });
    let complete = |second: u8| {
        json!({
            "succeeded": 1, "startTime": "2026-11-21T10:00:00Z", "completionTime": format!("2026-11-21T10:00:0{second}Z"),
            "conditions": [condition("SuccessCriteriaMet", "True", second), condition("Complete", "True", second)],
        })
    };
    let failed = json!({
        "failed": 3, "startTime": "2026-11-21T10:00:00Z",
        "conditions": [condition("FailureTarget", "True", 3), condition("Failed", "True", 4)],
    });
    let jobs = |statuses: &[Value], expected| is_aggregated("batch", "jobs", statuses, expected);
    jobs(
        &[running.clone(), complete(5)],
        json!({ "active": 2, "ready": 1, "succeeded": 1, "startTime": "2026-11-21T10:00:00Z" }),
    );
    jobs(
        &[complete(7), complete(5)],
        json!({
            "succeeded": 2, "startTime": "2026-11-21T10:00:00Z", "completionTime": "2026-11-21T10:00:07Z",
            "conditions": [condition("Complete", "True", 7), condition("SuccessCriteriaMet", "True", 7)],
        }),
    );
    // A failed cluster is reported at once. The Job has failed as a whole when the other clusters
    // have ended too.
    jobs(
        &[running, failed.clone()],
        json!({
            "active": 2, "ready": 1, "failed": 3, "startTime": "2026-11-21T10:00:00Z",
            "conditions": [condition("FailureTarget", "True", 3)],
        }),
    );
    jobs(
        &[complete(5), failed],
        json!({
            "succeeded": 1, "failed": 3, "startTime": "2026-11-21T10:00:00Z",
            "conditions": [condition("Failed", "True", 4), condition("FailureTarget", "True", 3)],
        }),
    );
}

#[test]
fn a_job_that_failed_on_an_older_cluster_has_the_target_that_the_server_asks_for() {
    let failed = json!({ "failed": 1, "conditions": [condition("Failed", "True", 4)] });
    let expected = json!({
        "failed": 2, "conditions": [condition("Failed", "True", 4), condition("FailureTarget", "True", 4)],
    });
    is_aggregated("batch", "jobs", &[failed.clone(), failed], expected);
}

#[test]
fn of_other_kinds_there_is_what_all_clusters_agree_on() {
    let statuses = [
        json!({
            "phase": "Bound", "capacity": { "storage": "1Gi" }, "node": "a", "observedGeneration": 3,
            "conditions": [condition("Ready", "True", 1), condition("Synced", "True", 5), condition("Extra", "True", 1)],
        }),
        json!({
            "phase": "Bound", "capacity": { "storage": "2Gi" }, "node": null, "observedGeneration": 2,
            "conditions": [condition("Synced", "True", 3), condition("Ready", "False", 0)],
        }),
        json!({
            "phase": "Bound", "capacity": { "storage": "2Gi" }, "observedGeneration": 2,
            "conditions": [condition("Ready", "Unknown", 9), condition("Synced", "True", 4), { "status": "False" }],
        }),
    ];
    let expected = json!({
        "phase": "Bound", "observedGeneration": 2,
        "conditions": [condition("Extra", "Unknown", 1), condition("Ready", "False", 0), condition("Synced", "True", 5)],
    });
    is_aggregated("example.org", "things", &statuses, expected);
    is_aggregated(
        "",
        "persistentvolumeclaims",
        &[json!({ "a": 1 }), json!({ "a": 2 })],
        json!({}),
    );
}

fn status() -> impl Strategy<Value = Value> {
    let condition = (
        prop::sample::select(vec![
            "Ready",
            "Complete",
            "Failed",
            "Progressing",
            "ReplicaFailure",
        ]),
        prop::sample::select(vec!["True", "False", "Unknown"]),
        0_u8..3,
    )
        .prop_map(|(type_, status, second)| condition(type_, status, second));
    let value = prop_oneof![
        any::<i64>().prop_map(Value::from),
        Just(Value::Null),
        "[a-b]".prop_map(Value::from),
        prop::collection::vec(condition, 0..4).prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
        "replicas",
        "readyReplicas",
        "observedGeneration",
        "conditions",
        "active",
        "succeeded",
        "startTime",
        "completionTime",
        "x",
    ]);
    prop::collection::btree_map(name.prop_map(str::to_owned), value, 0..9)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

proptest! {
    #[test]
    fn equal_statuses_agree_with_themselves(status in status(), count in 1_usize..4) {
        let names: Vec<ClusterName> = (0..count).map(|index| ClusterName::from(index.to_string().as_str())).collect();
        let statuses: BTreeMap<ClusterName, &Value> = names.into_iter().map(|name| (name, &status)).collect();
        let aggregated = aggregate("example.org", "things", &statuses).unwrap();
        for (name, value) in status.as_object().unwrap() {
            let is_special = name == "conditions" || name == "observedGeneration";
            prop_assert!(is_special || &aggregated[name] == value);
        }
    }

    #[test]
    fn no_statuses_make_any_kind_panic(statuses in prop::collection::vec(status(), 0..4)) {
        let names = (0..).map(|index: i32| ClusterName::from(index.to_string().as_str()));
        let by_cluster: BTreeMap<ClusterName, &Value> = names.zip(&statuses).collect();
        for (group, resource) in [
            ("apps", "deployments"), ("apps", "replicasets"), ("apps", "daemonsets"), ("apps", "statefulsets"), ("batch", "jobs"),
            ("", "pods"),
        ] {
            let aggregated = aggregate(group, resource, &by_cluster);
            prop_assert_eq!(aggregated.is_some(), !statuses.is_empty());
            let least = statuses.iter().map(|status| status["replicas"].as_i64().unwrap_or_default()).min();
            if group == "apps" && resource != "daemonsets" && statuses.len() > 1 {
                prop_assert_eq!(aggregated.unwrap()["replicas"].as_i64(), least);
            }
        }
    }
}
