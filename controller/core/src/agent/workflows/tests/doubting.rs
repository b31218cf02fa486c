//! If the absence of an object is uncertain, nothing is decided because of it.

use super::*;

fn unanswered() -> Failure {
    Failure::Unreachable("no answer".to_owned())
}

#[track_caller]
fn looks(cluster: &Cluster) {
    let Some(AgentAction::Look(sought)) = cluster.decide() else {
        panic!("it is looked for")
    };
    assert_eq!((sought.key, sought.attempt), (key(), 1));
}

#[test]
fn an_unanswered_creation_is_tried_again() {
    let mut cluster = Cluster::of(work(1));
    cluster.fail(&unanswered());
    cluster.created();
}

#[test]
fn an_unanswered_creation_is_made_certain_before_a_withdrawal_is_promised() {
    let mut cluster = Cluster::of(work(1));
    cluster.fail(&unanswered());
    cluster.wait(30);
    cluster.work(asked_back(1));
    cluster.waits(40);
    looks(&cluster);
    cluster.learn(AgentInput::ObjectGone(origin()));
    assert_eq!(cluster.conditions(), ["Withdrawn=True NeverCreated"]);
}

#[test]
fn an_unanswered_creation_that_lands_late_is_the_run() {
    let mut cluster = Cluster::of(work(1));
    cluster.fail(&unanswered());
    cluster.work(asked_back(1));
    cluster.waits(70);
    looks(&cluster);
    cluster.object(object(1, ""));
    let conditions = cluster.conditions();
    assert!(
        conditions.contains(&"Withdrawn=False AlreadyCreated".to_owned()),
        "{conditions:?}"
    );
}

#[test]
fn a_refusal_does_not_take_back_a_creation_that_was_not_answered_before_it() {
    let mut cluster = Cluster::of(work(1));
    cluster.fail(&unanswered());
    cluster.fail(&Failure::Refused("exceeded quota".to_owned()));
    cluster.work(asked_back(1));
    cluster.waits(70);
    looks(&cluster);
}

#[test]
fn a_grace_period_for_a_lost_cluster_shortens_no_wait_for_an_unanswered_creation() {
    let annotations = json!({ "metadata": { "annotations": { "argosy.dev/lost-after": "300" } } });
    let mut cluster = Cluster::of(with(work(1), annotations.clone()));
    cluster.fail(&unanswered());
    cluster.work(with(asked_back(1), annotations));
    cluster.waits(70);
    looks(&cluster);
}

#[test]
fn the_name_of_a_run_stays_taken_while_another_creation_of_it_may_land() {
    let mut cluster = Cluster::of(applied(1));
    let mut again = Cluster::of(work(1));
    again.fail(&unanswered());
    for cluster in [&mut cluster, &mut again] {
        cluster.work(applied(1));
        cluster.object(deleting(object(1, "Succeeded")));
        cluster.report();
        cluster.keep_record();
    }
    assert!(matches!(
        cluster.decide(),
        Some(AgentAction::RemoveFinalizer { .. })
    ));
    again.waits(70);
    assert!(matches!(
        again.decide(),
        Some(AgentAction::RemoveFinalizer { .. })
    ));
}

/// An agent that finds this ManifestWork when it starts.
fn restarted(work: Value) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.agent = RunIndex::new(AgentConfig {
        cluster: "cluster1".into(),
        cluster_id: None,
        request_lifetime: crate::index::reconciler::REQUEST_LIFETIME,
        argo_instance: None,
        conditions_on_demand: false,
    });
    let work = cluster.next(work);
    cluster.learn(AgentInput::work(Change::Reset(vec![work])));
    cluster.learn(AgentInput::work_status(Change::Reset(Vec::new())));
    cluster.learn(AgentInput::record(Change::Reset(Vec::new())));
    cluster.learn(AgentInput::object(Change::Reset(Vec::new())));
    cluster
}

#[test]
fn an_agent_that_has_just_started_promises_nothing_that_one_before_it_may_break() {
    let mut cluster = restarted(asked_back(1));
    cluster.waits(70);
    looks(&cluster);
    cluster.learn(AgentInput::ObjectGone(origin()));
    assert_eq!(cluster.conditions(), ["Withdrawn=True NeverCreated"]);
}

#[test]
fn an_agent_that_has_just_started_releases_nothing_that_one_before_it_may_have_created() {
    let mut cluster = restarted(deleting(work(1)));
    cluster.waits(70);
    looks(&cluster);
    cluster.learn(AgentInput::ObjectGone(origin()));
    cluster.release();
}

#[test]
fn an_agent_that_has_just_started_creates_and_deletes_without_waiting() {
    restarted(work(1)).created();
    let mut cluster = restarted(deleting(applied(1)));
    cluster.keep_record();
    assert!(matches!(cluster.decide(), Some(AgentAction::AmendRecord { .. })));
    // The ManifestWork is created again after the agent's start.
    let mut cluster = restarted(work(1));
    cluster.work_gone(work(1));
    cluster.learn(AgentInput::ObjectGone(origin()));
    cluster.work(asked_back(1));
    assert_eq!(cluster.conditions(), ["Withdrawn=True NeverCreated"]);
}

#[test]
fn an_agent_that_has_just_started_waits_on_a_cluster_without_argo_as_well() {
    let mut cluster = restarted(asked_back(1));
    cluster.learn(AgentInput::Argo(ArgoApi::Missing));
    cluster.waits(70);
    assert_eq!(cluster.conditions(), ["Withdrawn=True NeverCreated"]);
    let mut cluster = restarted(work(1));
    cluster.learn(AgentInput::Argo(ArgoApi::Missing));
    assert_eq!(cluster.conditions(), ["Applied=False ArgoMissing"]);
}

#[test]
fn an_unanswered_creation_is_looked_for_before_the_manifest_work_is_released() {
    let mut cluster = Cluster::of(work(1));
    cluster.fail(&unanswered());
    cluster.work(deleting(work(1)));
    cluster.waits(70);
    looks(&cluster);
    cluster.learn(AgentInput::ObjectGone(origin()));
    cluster.release();

    let mut cluster = Cluster::of(work(1));
    cluster.fail(&unanswered());
    cluster.work(deleting(work(1)));
    cluster.object(object(1, ""));
    assert!(matches!(cluster.decide(), Some(AgentAction::Delete { .. })));
}

#[test]
fn an_object_that_a_re_list_lacks_is_looked_for_before_it_is_called_deleted() {
    let mut cluster = Cluster::running("Running");
    cluster.learn(AgentInput::object(Change::Reset(Vec::new())));
    looks(&cluster);
    cluster.object(object(1, "Running"));
    cluster.rests();
    cluster.learn(AgentInput::object(Change::Reset(Vec::new())));
    cluster.learn(AgentInput::ObjectGone(origin()));
    assert_eq!(cluster.recorded(), "Deleted");
}

#[test]
fn an_object_with_a_record_may_be_missing_from_a_re_list() {
    let mut cluster = Cluster::running("Succeeded");
    cluster.record(record(1, "Finished"));
    cluster.learn(AgentInput::object(Change::Reset(Vec::new())));
    assert!(cluster.conditions().contains(&"Applied=True Finished".to_owned()));
}

#[test]
fn a_cluster_that_seems_to_have_lost_argo_deletes_and_records_nothing() {
    let mut cluster = Cluster::running("Running");
    cluster.learn(AgentInput::Argo(ArgoApi::Missing));
    cluster.rests();
    cluster.work(deleting(applied(1)));
    cluster.rests();
    // The API server had only just started.
    let object = cluster.next(object(1, "Running"));
    cluster.learn(AgentInput::object(Change::Reset(vec![object])));
    assert!(matches!(cluster.decide(), Some(AgentAction::Delete { .. })));
}

#[test]
fn a_cluster_without_argo_lets_go_of_what_it_never_created() {
    let mut cluster = Cluster::of(work(1));
    cluster.learn(AgentInput::Argo(ArgoApi::Missing));
    cluster.work(deleting(work(1)));
    cluster.release();
}

#[test]
fn a_deletion_that_is_told_late_does_not_take_away_what_was_created_since() {
    let mut cluster = Cluster::of(applied(1));
    let deleted = Box::new(cluster.next(object(1, "Running")));
    cluster.object(object(1, "Running"));
    cluster.report();
    cluster.learn(AgentInput::object(Change::Delete(deleted)));
    cluster.rests();
}

#[test]
fn the_answer_to_the_release_of_a_manifest_work_does_not_bring_it_back() {
    let mut cluster = Cluster::of(deleting(work(1)));
    let last = with(deleting(work(1)), json!({ "metadata": { "finalizers": null } }));
    cluster.work_gone(last.clone());
    cluster.work(last);
    assert!(cluster.agent.works.is_empty());
}
