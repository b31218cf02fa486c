//! The ManifestWork of a claimed Workflow.

use argosy_api::names;

use super::*;

#[test]
fn a_claimed_workflow_is_sent_to_its_mailbox() {
    let (cluster, work) = Fleet::of(claimed("cluster1", 1)).created();
    assert_eq!(cluster.as_str(), "cluster1");
    let sent = serde_json::to_value(&work).unwrap();
    assert_eq!(sent["metadata"]["name"], "argosy-u1");
    assert_eq!(sent["metadata"]["namespace"], "cluster1");
    assert_eq!(sent["metadata"]["finalizers"], json!(["argosy.dev/agent"]));
    let labels = json!({ "argosy.dev/origin-uid": "u1", "transport.kubestellar.io/originWdsName": "wds1" });
    assert_eq!(sent["metadata"]["labels"], labels);
    let annotations = json!({ "argosy.dev/attempt": "1", "argosy.dev/origin-name": "w", "argosy.dev/origin-namespace": "argo" });
    assert_eq!(sent["metadata"]["annotations"], annotations);
    assert_eq!(
        sent["spec"]["manifestConfigs"][0]["updateStrategy"]["type"],
        "CreateOnly"
    );
}

#[test]
fn the_manifest_carries_the_workflow_without_the_hold() {
    let (_, work) = Fleet::of(claimed("cluster1", 2)).created();
    let expected = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {
            "namespace": "argo", "name": "w",
            "labels": {
                "kubestellar.io/cluster": "cluster1", "argosy.dev/cluster": "cluster1", "argosy.dev/origin-uid": "u1",
            },
            "annotations": { "argosy.dev/attempt": "2" },
        },
        "spec": { "entrypoint": "main" },
    });
    assert_eq!(work.spec.workload.manifests, [expected]);
}

#[test]
fn transforms_are_applied_to_the_manifest() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    let transform = fleet.change(json!({
        "metadata": { "name": "t" },
        "spec": { "apiGroup": "argoproj.io", "resource": "workflows", "remove": ["$.metadata.labels[\"kubestellar.io/cluster\"]"] },
    }));
    fleet.learn(HubInput::Transform(transform));
    let (_, work) = fleet.created();
    let labels = json!({ "argosy.dev/cluster": "cluster1", "argosy.dev/origin-uid": "u1" });
    assert_eq!(work.spec.workload.manifests[0]["metadata"]["labels"], labels);
}

#[test]
fn what_is_sent_is_not_sent_again() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(work("cluster1", 1));
    fleet.rests();
}

#[test]
fn a_missing_mailbox_is_told_before_the_next_try() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.fail(&Failure::NotFound {
        namespace: true,
        message: "no".to_owned(),
    });
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["Dispatched=False MailboxMissing"]
    );
    let told = fleet.patch(Purpose::Mirror).value_at("/status").unwrap().clone();
    fleet.workflow(with(claimed("cluster1", 1), json!({ "status": told })));
    assert_eq!(fleet.created().0.as_str(), "cluster1");
}

#[test]
fn a_refusal_of_the_its_is_told_and_forgotten_once_it_is_over() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.fail(&Failure::Refused("too large".to_owned()));
    assert_eq!(fleet.conditions(Purpose::Mirror), ["Dispatched=False Refused"]);
    fleet.work(work("cluster1", 1));
    fleet.rests();
}

#[test]
fn an_unanswered_creation_is_tried_again_and_not_told() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.fail(&Failure::Unreachable("no answer".to_owned()));
    assert_eq!(fleet.created().0.as_str(), "cluster1");
}

#[test]
fn what_the_agent_says_stands_in_the_way_is_told() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(work_with(
        "cluster1",
        1,
        &[condition("Applied", "False", "ForeignObject")],
    ));
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["Dispatched=False ForeignObject"]
    );
}

#[test]
fn a_manifest_work_that_was_deleted_by_hand_comes_back_until_the_run_has_ended() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(work("cluster1", 1));
    fleet.work_gone(work("cluster1", 1));
    assert_eq!(fleet.created().0.as_str(), "cluster1");
    fleet.report(with(
        report("cluster1", 1, json!({ "phase": "Succeeded" })),
        json!({ "reported": { "outcome": "Finished" } }),
    ));
    fleet.patch(Purpose::Mirror);
}

#[test]
fn a_manifest_work_says_which_kinds_the_policy_sends_along_also_after_only_the_policys_annotation_changes() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    for (asked, needs) in [
        (None, None),
        (Some("secrets, templates"), Some("templates,secrets")),
        (None, None),
    ] {
        let mut policy = policy("cluster1", json!({ "name": "cluster1" }));
        if let Some(asked) = asked {
            policy["metadata"]["annotations"] = json!({ names::DEPENDENCIES_ANNOTATION: asked });
        }
        let change = fleet.change(policy);
        fleet.learn(HubInput::Policy(change));
        let (_, work) = fleet.created();
        let annotations = work.metadata.annotations.unwrap();
        assert_eq!(
            annotations.get(names::NEEDS_ANNOTATION).map(String::as_str),
            needs
        );
    }
}
