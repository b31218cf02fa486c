//! Where it is not certain that an object is absent, nothing follows from its absence.

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
    cluster.work(asked_back(1));
    // Only a name that is taken proves that the first request cannot land after the promise.
    cluster.created();
    cluster.fail(&Failure::Foreign("argo/w is another's".to_owned()));
    assert_eq!(cluster.conditions(), ["Withdrawn=True NeverCreated"]);
}

#[test]
fn an_unanswered_creation_is_looked_for_before_the_manifest_work_is_released() {
    let mut cluster = Cluster::of(work(1));
    cluster.fail(&unanswered());
    cluster.work(deleting(work(1)));
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
    // It was only the API server's start.
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
    cluster.tell();
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
