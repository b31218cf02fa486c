use serde_json::{Value, json};

use super::{super::finding::Outcome, *};

fn cluster(spec: &Value, status: &Value) -> ManagedCluster {
    serde_json::from_value(json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": { "name": "one" }, "spec": spec, "status": status,
    }))
    .unwrap()
}

fn with_condition(type_: &str, status: &str) -> ManagedCluster {
    let known = json!({ "type": type_, "status": status, "reason": "R", "message": "because", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    cluster(&json!({}), &json!({ "conditions": [known] }))
}

#[test]
fn a_cluster_is_accepted_by_its_specification() {
    let judge = |accepts: bool| accepted(&cluster(&json!({ "hubAcceptsClient": accepts }), &json!(null)));
    assert_eq!(judge(true).outcome, Outcome::Ok);
    let refused = judge(false);
    assert_eq!(refused.outcome, Outcome::Failed);
    assert_eq!(refused.fix, "argosy cluster accept one");
}

#[test]
fn a_cluster_that_is_taken_out_does_not_wait_to_be_accepted() {
    let mut going = cluster(&json!({ "hubAcceptsClient": false }), &json!(null));
    assert!(!is_removed(&going));
    let mark = (names::REMOVED_ANNOTATION.to_owned(), String::new());
    going.metadata.annotations = Some([mark].into());
    assert!(is_removed(&going));
    let judged = accepted(&going);
    assert_eq!(judged.outcome, Outcome::Failed);
    assert!(judged.message.ends_with("from the fleet"), "{judged:?}");
    assert!(judged.fix.contains("cluster remove one"), "{judged:?}");
}

#[test]
fn a_lease_is_judged_by_the_controller_and_its_age_only_doubts_that() {
    let lease = |renewed: &str| -> Lease {
        let spec = json!({ "renewTime": renewed, "leaseDurationSeconds": 30 });
        serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap()
    };
    let (available, lost) = (
        with_condition(types::AVAILABLE, "True"),
        with_condition(types::AVAILABLE, "Unknown"),
    );
    let unknown = cluster(&json!({}), &json!(null));
    let fresh = "2026-01-01T00:00:55.000000Z";
    for (cluster, renewed, outcome, words) in [
        (&available, Some(fresh), Outcome::Ok, "renewed its Lease 5s ago"),
        (
            &available,
            Some("2025-12-31T23:00:00.000000Z"),
            Outcome::Warning,
            "by the clock of this machine",
        ),
        (
            &available,
            Some("2026-01-01T00:05:00.000000Z"),
            Outcome::Warning,
            "by the clock of this machine",
        ),
        (&available, None, Outcome::Failed, "never renewed"),
        (&lost, Some(fresh), Outcome::Failed, "R: because"),
        (
            &unknown,
            Some(fresh),
            Outcome::Failed,
            "the controller has not reported",
        ),
    ] {
        let lease = renewed.map(lease);
        let judgment = judge_lease(cluster, lease.as_ref(), "2026-01-01T00:01:00Z".parse().unwrap());
        assert_eq!(judgment.outcome, outcome, "{judgment:?}");
        assert!(judgment.message.contains(words), "{judgment:?}");
    }
}

#[test]
fn an_agent_of_another_version_is_a_warning() {
    assert_eq!(judge_agent("0.1.0", "0.1.0").outcome, Outcome::Ok);
    assert_eq!(judge_agent("0.0.9", "0.1.0").outcome, Outcome::Warning);
    assert_eq!(judge_agent("", "0.1.0").outcome, Outcome::Warning);
}

#[test]
fn argo_and_capacity_are_what_the_agent_tells() {
    assert_eq!(
        argo(&with_condition(types::ARGO_READY, "True")).outcome,
        Outcome::Ok
    );
    let missing = argo(&with_condition(types::ARGO_READY, "False"));
    assert_eq!(
        (missing.outcome, missing.message.as_str()),
        (Outcome::Failed, "because")
    );
    assert_eq!(argo(&cluster(&json!({}), &json!(null))).outcome, Outcome::Failed);
    let nodes = json!({ "cpu": "4", "memory": "16Gi" });
    for (capacity, allocatable, outcome) in [
        (&nodes, json!({ "cpu": "3", "memory": "8Gi" }), Outcome::Ok),
        (&nodes, json!({}), Outcome::Failed),
        (&nodes, json!({ "cpu": "0", "memory": "8Gi" }), Outcome::Failed),
        (&json!({}), json!({}), Outcome::Warning),
    ] {
        let status = json!({ "conditions": [], "capacity": capacity, "allocatable": allocatable });
        let judgment = super::capacity(&cluster(&json!({}), &status));
        assert_eq!(judgment.outcome, outcome, "{status}");
    }
    let mut annotated = cluster(&json!({}), &json!({ "conditions": [] }));
    let room = (names::ROOM_ANNOTATION.to_owned(), "cpu=64".to_owned());
    annotated.metadata.annotations = Some([room].into());
    assert_eq!(capacity(&annotated).outcome, Outcome::Ok);
    for (counted, message) in [("True", "its agent reports no nodes"), ("False", "because")] {
        let judgment = capacity(&with_condition(types::PODS_COUNTED, counted));
        assert_eq!(
            (judgment.outcome, judgment.message.as_str()),
            (Outcome::Warning, message)
        );
    }
}

#[test]
fn a_mailbox_that_goes_is_as_bad_as_none() {
    assert_eq!(
        judge_mailbox("one", Some(&Namespace::default())).outcome,
        Outcome::Ok
    );
    assert_eq!(judge_mailbox("one", None).outcome, Outcome::Failed);
    let going: Namespace =
        serde_json::from_value(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }))
            .unwrap();
    assert!(
        judge_mailbox("one", Some(&going))
            .message
            .ends_with("is being deleted")
    );
}

#[test]
fn a_kubeconfig_is_one_secret_with_a_kubeconfig() {
    let secret = |data: Value| -> Secret {
        serde_json::from_value(json!({ "metadata": { "name": "one" }, "data": data })).unwrap()
    };
    // Base64 of `clusters: [{name: a, cluster: {server: "https://h"}}]`, `clusters: []` and `-`.
    let good = secret(
        json!({ "kubeconfig": "Y2x1c3RlcnM6IFt7bmFtZTogYSwgY2x1c3Rlcjoge3NlcnZlcjogImh0dHBzOi8vaCJ9fV0=" }),
    );
    let empty = secret(json!({ "kubeconfig": "Y2x1c3RlcnM6IFtd" }));
    // Base64 of `users: [{name: a, user: {tokenFile: /t}}]`.
    let opening = secret(json!({ "kubeconfig": "dXNlcnM6IFt7bmFtZTogYSwgdXNlcjoge3Rva2VuRmlsZTogL3R9fV0=" }));
    for (secrets, outcome, words) in [
        (vec![], Outcome::Skipped, "pull"),
        (vec![good.clone()], Outcome::Ok, "contains a valid kubeconfig"),
        (vec![empty], Outcome::Failed, "names no cluster"),
        (
            vec![opening],
            Outcome::Failed,
            "users[a].user.tokenFile opens a file",
        ),
        (
            vec![secret(json!({ "other": "" }))],
            Outcome::Failed,
            "has no key kubeconfig",
        ),
        (
            vec![secret(json!({ "kubeconfig": "LQ==" }))],
            Outcome::Failed,
            "contains no valid kubeconfig",
        ),
        (vec![good.clone(), good], Outcome::Failed, "2 Secrets"),
    ] {
        let judgment = judge_kubeconfig(&secrets);
        assert_eq!(judgment.outcome, outcome, "{judgment:?}");
        assert!(judgment.message.contains(words), "{judgment:?}");
    }
}
