//! Withdrawal of Workflows that have not started, and of no others.

use super::*;

/// A Workflow that is claimed for cluster1 and then relabeled for another place.
fn relabeled(place: &str) -> Value {
    with(
        claimed("cluster1", 1),
        json!({ "metadata": { "labels": { "kubestellar.io/cluster": place } } }),
    )
}

#[track_caller]
fn asks(fleet: &Fleet, cluster: &str) {
    match fleet.decide() {
        Some(HubAction::WithdrawWork {
            cluster: asked,
            patch,
            ..
        }) => {
            assert_eq!(asked.as_str(), cluster);
            assert_eq!(
                patch.value_at("/metadata/annotations/argosy.dev~1withdraw"),
                Some(&json!("1"))
            );
        }
        other => panic!("expected a withdrawal, not {other:#?}"),
    }
}

#[track_caller]
fn deletes(fleet: &Fleet, cluster: &str) {
    match fleet.decide() {
        Some(HubAction::DeleteWork {
            cluster: deleted,
            uid,
            ..
        }) => {
            assert_eq!((deleted.as_str(), uid), (cluster, format!("work-{cluster}")));
        }
        other => panic!("expected a deletion, not {other:#?}"),
    }
}

#[test]
fn the_old_cluster_is_asked_before_anything_else() {
    let mut fleet = Fleet::of(relabeled("cluster2"));
    fleet.work(work("cluster1", 1));
    asks(&fleet, "cluster1");
}

#[test]
fn while_the_old_cluster_has_not_answered_the_workflow_waits_and_says_so() {
    let mut fleet = Fleet::of(relabeled("cluster2"));
    fleet.work(asked("cluster1", 1, &[]));
    assert_eq!(fleet.conditions(Purpose::Mirror), ["Dispatched=False Moving"]);
    let told = fleet.patch(Purpose::Mirror).value_at("/status").unwrap().clone();
    assert!(
        told["message"]
            .as_str()
            .unwrap()
            .contains("then it is sent to cluster2"),
        "{told}"
    );
    fleet.workflow(with(relabeled("cluster2"), json!({ "status": told })));
    fleet.rests();
}

#[test]
fn the_promise_of_the_old_cluster_moves_the_claim_with_the_next_attempt() {
    let mut fleet = Fleet::of(relabeled("cluster2"));
    fleet.work(promised("cluster1", 1));
    let patch = fleet.patch(Purpose::Claim);
    assert_eq!(
        patch.value_at("/metadata/labels").unwrap()["argosy.dev/cluster"],
        "cluster2"
    );
    assert_eq!(
        patch.value_at("/status").unwrap()["conditions"],
        json!([dispatched("cluster2", 2)])
    );
}

#[test]
fn after_a_move_the_old_manifest_work_is_deleted() {
    let mut fleet = Fleet::of(claimed("cluster2", 2));
    fleet.work(promised("cluster1", 1));
    fleet.work(started("cluster2", 2));
    deletes(&fleet, "cluster1");
}

#[test]
fn a_manifest_work_of_an_earlier_attempt_is_deleted_whatever_has_become_of_it() {
    for earlier in [
        work("cluster1", 1),
        asked("cluster1", 1, &[]),
        started("cluster1", 1),
    ] {
        let mut fleet = Fleet::of(claimed("cluster2", 2));
        fleet.work(work("cluster2", 2));
        fleet.work(earlier);
        deletes(&fleet, "cluster1");
    }
}

#[test]
fn a_manifest_work_of_a_later_attempt_is_asked_back_before_anything_is_sent() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(work("cluster2", 2));
    let Some(HubAction::WithdrawWork { cluster, .. }) = fleet.decide() else {
        panic!("expected a withdrawal, not {:#?}", fleet.decide())
    };
    assert_eq!(cluster.as_str(), "cluster2");
    fleet.work(asked("cluster2", 2, &[]));
    fleet.rests();
}

#[test]
fn a_later_attempt_that_has_started_is_the_claim() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(started("cluster2", 2));
    let patch = fleet.patch(Purpose::Claim);
    let claim = &patch.value_at("/metadata/annotations").unwrap()["argosy.dev/claim"];
    let claim: Value = serde_json::from_str(claim.as_str().unwrap()).unwrap();
    assert_eq!(
        (&claim["cluster"], &claim["attempt"]),
        (&json!("cluster2"), &json!(2))
    );
}

#[test]
fn a_workflow_that_was_not_sent_is_sent_as_a_question() {
    let fleet = Fleet::of(relabeled("cluster2"));
    let (cluster, work) = fleet.created();
    assert_eq!(cluster.as_str(), "cluster1");
    assert_eq!(work.metadata.annotations.unwrap()["argosy.dev/withdraw"], "1");
}

#[test]
fn without_a_mailbox_there_is_nobody_to_ask() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.fail(&Failure::NotFound {
        namespace: true,
        message: "no".to_owned(),
    });
    fleet.workflow(relabeled("cluster2"));
    fleet.patch(Purpose::Claim);
}

#[test]
fn what_has_started_stays_where_it_is() {
    for evidence in [
        started("cluster1", 1),
        asked(
            "cluster1",
            1,
            &[condition("Withdrawn", "False", "AlreadyCreated")],
        ),
    ] {
        let mut fleet = Fleet::of(relabeled("cluster2"));
        fleet.work(evidence);
        fleet.rests();
    }
    let mut fleet = Fleet::of(relabeled("cluster2"));
    fleet.work(work("cluster1", 1));
    fleet.report(report("cluster1", 1, json!({ "phase": "Pending" })));
    fleet.patch(Purpose::Mirror);
}

#[test]
fn what_has_started_stays_when_its_policy_is_gone() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(started("cluster1", 1));
    fleet.learn(HubInput::Policy(Change::Reset(Vec::new())));
    fleet.rests();
}

#[test]
fn a_label_put_back_after_the_question_leads_to_a_new_attempt_on_the_same_cluster() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(asked("cluster1", 1, &[]));
    assert_eq!(fleet.conditions(Purpose::Mirror), ["Dispatched=False Moving"]);
    fleet.work(promised("cluster1", 1));
    assert_eq!(
        fleet.patch(Purpose::Claim).value_at("/status").unwrap()["conditions"],
        json!([dispatched("cluster1", 2)])
    );
    fleet.workflow(claimed("cluster1", 2));
    deletes(&fleet, "cluster1");
    fleet.work(deleting(promised("cluster1", 1)));
    fleet.rests();
    fleet.work_gone(deleting(promised("cluster1", 1)));
    assert_eq!(
        fleet.created().1.metadata.annotations.unwrap()["argosy.dev/attempt"],
        "2"
    );
}

#[test]
fn with_nowhere_to_go_the_claim_is_given_up_and_the_workflow_stays_suspended() {
    for (suspend, written) in [(true, None), (false, Some(json!(true)))] {
        let mut fleet = Fleet::of(with(
            relabeled("local"),
            json!({ "spec": { "suspend": suspend } }),
        ));
        fleet.work(promised("cluster1", 1));
        let patch = fleet.patch(Purpose::Release);
        assert_eq!(
            patch.value_at("/metadata/labels"),
            Some(&json!({ "kubestellar.io/cluster": "local" }))
        );
        assert_eq!(patch.value_at("/spec/suspend"), written.as_ref());
        let claim = patch.value_at("/metadata/annotations").unwrap()["argosy.dev/claim"]
            .as_str()
            .unwrap();
        assert!(claim.contains(r#""attempt":1"#), "{claim}");
    }
}

#[test]
fn what_was_asked_of_a_run_that_is_taken_back_is_said_to_have_come_too_early() {
    let verb = json!({ "id": 1, "type": "Nodes", "status": { "nodes": {} } });
    let verbs = json!({ "last": 1, "pending": [verb] }).to_string();
    let asked = json!({ "metadata": { "annotations": { "argosy.dev/verbs": verbs } } });
    let mut fleet = Fleet::of(with(relabeled("local"), asked));
    fleet.work(promised("cluster1", 1));
    let patch = fleet.patch(Purpose::Release);
    let annotations = patch.value_at("/metadata/annotations").unwrap();
    let kept: Value = serde_json::from_str(annotations["argosy.dev/verbs"].as_str().unwrap()).unwrap();
    assert_eq!(kept["pending"], Value::Null);
    assert_eq!(kept["last"], 1);
    let released = json!({ "metadata": { "annotations": annotations } });
    let fleet = Fleet::of(with(held("local"), released.clone()));
    assert_eq!(
        fleet.conditions(Purpose::Explain),
        ["ControlApplied=False Overtaken"]
    );

    let resumed = json!({ "spec": { "suspend": null }, "status": { "phase": "Running" } });
    Fleet::of(with(with(held("local"), released.clone()), resumed)).rests();

    let claimed = Fleet::of(with(held("cluster2"), released)).patch(Purpose::Claim);
    let annotations = "/metadata/annotations/argosy.dev~1verbs";
    assert_eq!(claimed.value_at(annotations), None);
    assert!(
        claimed.to_value().to_string().contains(annotations),
        "{claimed:?}"
    );
}

#[test]
fn a_claim_that_was_given_up_leaves_nothing_behind() {
    let released = json!({ "cluster": "", "attempt": 1, "uid": "u1" }).to_string();
    let mut fleet = Fleet::of(with(
        held("local"),
        json!({
            "metadata": { "annotations": { "argosy.dev/claim": released }, "finalizers": ["argosy.dev/controller"] },
        }),
    ));
    fleet.work(promised("cluster1", 1));
    deletes(&fleet, "cluster1");
    fleet.work_gone(promised("cluster1", 1));
    assert_eq!(
        fleet
            .patch(Purpose::RemoveFinalizer)
            .value_at("/metadata/finalizers"),
        Some(&json!([]))
    );
}

#[test]
fn a_second_cluster_for_a_claimed_workflow_changes_nothing() {
    let mut fleet = Fleet::of(relabeled("both"));
    fleet.work(work("cluster1", 1));
    fleet.rests();
}

#[test]
fn a_phase_that_the_control_cluster_s_own_controller_wrote_does_not_pin() {
    let own = json!({ "status": { "phase": "Running" } });
    let mut fleet = Fleet::of(with(relabeled("cluster2"), own));
    fleet.work(asked("cluster1", 1, &[]));
    assert_eq!(fleet.conditions(Purpose::Mirror), ["Dispatched=False Moving"]);
}

#[test]
fn a_start_that_is_noted_in_the_claim_pins_even_when_the_its_has_lost_everything() {
    let claim = json!({ "cluster": "cluster1", "attempt": 1, "uid": "u1", "status": true, "started": true });
    let noted = json!({ "metadata": { "annotations": { "argosy.dev/claim": claim.to_string() } } });
    let fleet = Fleet::of(with(relabeled("cluster2"), noted));
    let (cluster, work) = fleet.created();
    assert_eq!(cluster.as_str(), "cluster1");
    assert!(
        !work
            .metadata
            .annotations
            .unwrap()
            .contains_key("argosy.dev/withdraw")
    );
}
