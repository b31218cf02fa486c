//! Which Workflows are claimed, and what the claim writes.

use super::*;

#[test]
fn a_suspended_workflow_with_one_cluster_is_claimed_and_held_in_one_write() {
    let patch = Fleet::of(held("cluster1")).patch(Purpose::Claim);
    let labels = patch.value_at("/metadata/labels").unwrap();
    assert_eq!(labels["argosy.dev/cluster"], "cluster1");
    assert_eq!(labels["workflows.argoproj.io/completed"], "true");
    assert_eq!(labels["workflows.argoproj.io/phase"], "Pending");
    assert_eq!(labels["kubestellar.io/cluster"], "cluster1");
    assert_eq!(
        patch.value_at("/metadata/finalizers"),
        Some(&json!(["argosy.dev/controller"]))
    );
    let status = json!({ "phase": "Pending", "conditions": [dispatched("cluster1", 1)] });
    assert_eq!(patch.value_at("/status"), Some(&status));
    let claim = patch.value_at("/metadata/annotations").unwrap()["argosy.dev/claim"]
        .as_str()
        .unwrap();
    let expected = json!({ "cluster": "cluster1", "attempt": 1, "uid": "u1", "status": true });
    assert_eq!(serde_json::from_str::<Value>(claim).unwrap(), expected);
}

#[test]
fn a_claim_is_guarded_by_uid_and_version() {
    let fleet = Fleet::of(held("cluster1"));
    let patch = fleet.patch(Purpose::Claim);
    assert_eq!(patch.value_at("/metadata/uid"), Some(&json!("u1")));
    assert_eq!(
        patch.value_at("/metadata/resourceVersion"),
        Some(&json!(fleet.version.to_string()))
    );
}

#[test]
fn a_claim_takes_off_what_would_make_the_local_controller_touch_the_copy() {
    let argo = json!({ "metadata": {
        "finalizers": ["workflows.argoproj.io/artifact-gc", "other/one"],
        "annotations": { "workflows.argoproj.io/last-seen-version": "7", "note": "kept" },
    } });
    let patch = Fleet::of(with(held("cluster1"), argo)).patch(Purpose::Claim);
    assert_eq!(
        patch.value_at("/metadata/finalizers"),
        Some(&json!(["other/one", "argosy.dev/controller"]))
    );
    let annotations = patch.value_at("/metadata/annotations").unwrap();
    assert_eq!(annotations.get("workflows.argoproj.io/last-seen-version"), None);
    assert_eq!(annotations["note"], "kept");
}

#[test]
fn a_workflow_without_label_and_without_suspend_is_none_of_our_business() {
    Fleet::of(with(
        held("cluster1"),
        json!({ "metadata": { "labels": null }, "spec": { "suspend": false } }),
    ))
    .rests();
}

#[test]
fn a_suspended_workflow_that_names_no_cluster_is_none_of_our_business() {
    Fleet::of(with(held("cluster1"), json!({ "metadata": { "labels": null } }))).rests();
    Fleet::of(held("local")).rests();
}

#[test]
fn a_claim_that_was_copied_from_another_object_counts_for_nothing() {
    let copy = with(
        claimed("cluster1", 4),
        json!({ "metadata": { "uid": "u2", "finalizers": null }, "status": null }),
    );
    let patch = Fleet::of(copy).patch(Purpose::Claim);
    let claim = patch.value_at("/metadata/annotations").unwrap()["argosy.dev/claim"]
        .as_str()
        .unwrap();
    assert!(
        claim.contains(r#""attempt":1"#) && claim.contains(r#""uid":"u2""#),
        "{claim}"
    );
}

#[test]
fn a_started_workflow_whose_claim_was_wiped_off_gets_the_same_claim_again() {
    let mut fleet = Fleet::of(held("cluster1"));
    fleet.work(started("cluster2", 3));
    let patch = fleet.patch(Purpose::Claim);
    assert_eq!(
        patch.value_at("/metadata/labels").unwrap()["argosy.dev/cluster"],
        "cluster2"
    );
    assert_eq!(
        patch.value_at("/status").unwrap()["conditions"],
        json!([dispatched("cluster2", 3)])
    );
}

#[test]
fn nothing_is_decided_before_every_kind_was_listed() {
    let mut hub = Hub::new(HubConfig {
        wds_name: "wds1".to_owned(),
        is_guarded: false,
    });
    let workflow = read(with(
        held("cluster1"),
        json!({ "metadata": { "resourceVersion": "1" } }),
    ));
    assert_eq!(
        hub.apply(HubInput::workflow(Change::Reset(vec![workflow])), now()),
        BTreeSet::new()
    );
    assert_eq!(hub.decide(&HubKey::Workflow(key()), now()), Decision::rest());
}

#[test]
fn the_last_first_listing_makes_every_key_dirty() {
    let mut fleet = Fleet::of(held("cluster1"));
    fleet.hub.synced.reports = false;
    let dirty = fleet.learn(HubInput::report(Change::Reset(Vec::new())));
    assert!(dirty.contains(&HubKey::Workflow(key())));
    assert!(dirty.contains(&HubKey::Cluster("cluster1".into())));
}
