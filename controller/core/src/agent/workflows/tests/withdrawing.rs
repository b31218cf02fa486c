//! Requests to withdraw an attempt, so that it may be started elsewhere, and their answers.

use super::*;

#[test]
fn an_attempt_that_was_never_created_is_promised_never_to_be() {
    let mut cluster = Cluster::of(asked_back(1));
    assert_eq!(cluster.conditions(), ["Withdrawn=True NeverCreated"]);
    let Some(AgentAction::Conditions {
        conditions, denied, ..
    }) = cluster.decide()
    else {
        panic!("conditions are written")
    };
    // Another process of this agent may have created the object after the list.
    assert_eq!(denied, Some(sought()));
    cluster.work(with(
        asked_back(1),
        json!({ "status": { "conditions": conditions } }),
    ));
    cluster.rests();
}

#[test]
fn a_running_attempt_is_refused() {
    let mut cluster = Cluster::of(asked_back(1));
    cluster.object(object(1, ""));
    assert!(
        cluster
            .conditions()
            .contains(&"Withdrawn=False AlreadyCreated".to_owned())
    );
}

#[test]
fn an_attempt_that_is_over_is_refused() {
    let mut cluster = Cluster::of(asked_back(1));
    cluster.record(record(1, "Finished"));
    assert_eq!(
        cluster.conditions(),
        ["Applied=True Finished", "Withdrawn=False AlreadyCreated"]
    );
}

#[test]
fn a_question_about_another_attempt_is_not_for_this_one() {
    let annotations = json!({ "metadata": { "annotations": { "argosy.dev/withdraw": "1" } } });
    Cluster::of(with(work(2), annotations)).created();
}

#[test]
fn a_cluster_without_argo_promises_too() {
    let mut cluster = Cluster::of(asked_back(1));
    cluster.learn(AgentInput::Argo(ArgoApi::Missing));
    assert_eq!(cluster.conditions(), ["Withdrawn=True NeverCreated"]);
}
