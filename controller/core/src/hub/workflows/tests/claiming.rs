//! The Workflows that are claimed, and the content of the claim's patch.

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
    let mut hub = WorkflowIndex::new(HubConfig {
        wds_name: "wds1".to_owned(),
        is_guarded: false,
        request_lifetime: crate::index::reconciler::REQUEST_LIFETIME,
        report_budget: crate::REPORT_BUDGET,
        workflow_budget: crate::WORKFLOW_BUDGET,
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
    fleet.hub.synced.unmark(Awaited::Reports);
    let dirty = fleet.learn(HubInput::report(Change::Reset(Vec::new())));
    assert!(dirty.contains(&HubKey::Workflow(key())));
    assert!(dirty.contains(&HubKey::Cluster("cluster1".into())));
}

/// The cluster in the claim that the next decision writes, if it writes one.
fn claimed_again(fleet: &Fleet) -> Option<String> {
    match fleet.decide()? {
        HubAction::PatchWorkflow {
            patch,
            purpose: Purpose::Claim,
            ..
        } => Some(
            patch.value_at("/metadata/labels")?["argosy.dev/cluster"]
                .as_str()?
                .to_owned(),
        ),
        _ => None,
    }
}

#[test]
fn a_member_s_word_that_a_later_attempt_has_begun_replaces_no_claim_whose_own_manifest_work_lives() {
    let cases = [
        // The claim is from a restored WDS, and its attempt has left nothing behind.
        (None, Some("cluster2")),
        (Some(deleting(work("cluster1", 1))), Some("cluster2")),
        (Some(promised("cluster1", 1)), Some("cluster2")),
        (Some(work("cluster1", 1)), None),
        (Some(started("cluster1", 1)), None),
        (
            Some(work_with(
                "cluster1",
                1,
                &[condition("Applied", "True", "Finished")],
            )),
            None,
        ),
    ];
    for (own, expected) in cases {
        let mut fleet = Fleet::of(claimed("cluster1", 1));
        if let Some(own) = own.clone() {
            fleet.work(own);
        }
        fleet.work(started("cluster2", 999));
        assert_eq!(claimed_again(&fleet).as_deref(), expected, "{own:?}");
    }
}

#[test]
fn of_several_that_say_they_have_begun_the_one_that_the_workflow_names_is_believed() {
    for (named, expected) in [(Some("cluster1"), Some("cluster1")), (None, None)] {
        let mut workflow = held("cluster1");
        if let Some(named) = named {
            workflow["metadata"]["labels"]["argosy.dev/cluster"] = json!(named);
        }
        let mut fleet = Fleet::of(workflow);
        fleet.work(started("cluster1", 2));
        fleet.work(started("cluster2", 999));
        assert_eq!(claimed_again(&fleet).as_deref(), expected);
    }
}

#[test]
fn a_manifest_work_of_another_name_counts_for_nothing_whatever_its_label_says() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(work("cluster1", 1));
    let name = json!({ "metadata": { "name": "another", "uid": "another" } });
    fleet.work(with(started("cluster2", 999), name.clone()));
    fleet.rests();
    // The same holds in the mailbox of the claim.
    fleet.work(with(started("cluster1", 999), name.clone()));
    fleet.report(with(report("cluster1", 1, json!({ "phase": "Succeeded" })), name));
    fleet.rests();
}

#[test]
fn a_manifest_work_whose_label_was_taken_off_is_told_and_holds_the_end_of_its_workflow() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    let (_, wanted) = fleet.created();
    let unlabeled = read(with(json!(wanted), json!({ "metadata": { "labels": null } })));
    let failure = taken(&wanted, &unlabeled).unwrap_err();
    assert_eq!(taken(&wanted, &wanted), Ok(()));
    fleet.fail(&failure);
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["Dispatched=False ForeignObject"]
    );
    let patch = fleet.patch(Purpose::Mirror);
    let status = patch.value_at("/status").unwrap().clone();
    let says_so = |part: &str| status[part].to_string().contains("argosy.dev/origin-uid=u1");
    assert!(says_so("conditions") && says_so("message"), "{status}");
    let told = with(claimed("cluster1", 1), json!({ "status": status }));
    fleet.workflow(told.clone());
    assert!(matches!(fleet.decide(), Some(HubAction::CreateWork { .. })));
    // The run may exist, so the deletion waits for it.
    fleet.workflow(deleting(told));
    let (_, question) = fleet.created();
    assert!(
        question
            .metadata
            .annotations
            .unwrap()
            .contains_key("argosy.dev/withdraw")
    );
    fleet.work(work("cluster1", 1));
    assert!(matches!(fleet.decide(), Some(HubAction::DeleteWork { .. })));
}
