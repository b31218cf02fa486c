//! Requests that the cluster's API server keeps failing are reported, with its own message.

use super::*;

fn broken() -> Failure {
    Failure::Unreachable("failed calling webhook \"policy.example.com\"".to_owned())
}

/// The condition `Answered` that is written, as `Status Reason: message`.
#[track_caller]
fn succeeded(cluster: &Cluster) -> String {
    let Some(AgentAction::Conditions { conditions, .. }) = cluster.decide() else {
        panic!("expected conditions, not {:#?}", cluster.decide())
    };
    let mut succeeded = conditions.iter().filter(|one| one.type_ == "Answered");
    let one = succeeded.next().expect("says whether the cluster answers");
    format!("{} {}: {}", one.status, one.reason, one.message)
}

/// Writes the decided conditions to the ManifestWork.
fn write(cluster: &mut Cluster, work: Value) {
    let Some(AgentAction::Conditions { conditions, .. }) = cluster.decide() else {
        panic!("expected conditions, not {:#?}", cluster.decide())
    };
    cluster.work(with(work, json!({ "status": { "conditions": conditions } })));
}

#[test]
fn a_creation_that_fails_for_ten_seconds_is_told_of_and_tried_again() {
    let mut cluster = Cluster::of(work(1));
    cluster.fail(&broken());
    cluster.created();
    cluster.wait(9);
    cluster.fail(&broken());
    cluster.created();
    cluster.wait(1);
    cluster.fail(&broken());
    assert_eq!(
        succeeded(&cluster),
        "False Unanswered: cannot create the object: failed calling webhook \"policy.example.com\""
    );
    write(&mut cluster, work(1));
    cluster.created();
}

#[test]
fn that_the_cluster_answers_again_is_told() {
    let mut cluster = Cluster::running("Running");
    let asked = json!({ "metadata": { "annotations": { "argosy.dev/control": "{\"suspend\":true}" } } });
    let asked = with(applied(1), asked);
    cluster.work(asked.clone());
    for _ in 0..2 {
        cluster.fail(&broken());
        cluster.wait(10);
    }
    assert!(succeeded(&cluster).starts_with("False Unanswered: cannot carry out the request for the run: "));
    write(&mut cluster, asked);
    let Some(AgentAction::Control { patch, .. }) = cluster.decide() else {
        panic!("it is tried again")
    };
    let applied = patch.value_at("/metadata/annotations/argosy.dev~1control");
    let applied = applied.expect("what was done is noted").clone();
    let done = json!({ "metadata": { "annotations": { "argosy.dev/control": applied } }, "spec": { "suspend": true } });
    let object = Box::new(cluster.next(with(object(1, "Running"), done)));
    cluster
        .agent
        .succeeded(&origin(), AgentInput::object(Change::Apply(object)), cluster.now);
    assert_eq!(
        succeeded(&cluster),
        "True Ready: the cluster's API server answers"
    );
}

#[test]
fn what_is_not_asked_any_more_fails_no_longer() {
    let mut cluster = Cluster::running("Running");
    let asked = json!({ "metadata": { "annotations": { "argosy.dev/control": "{\"suspend\":true}" } } });
    cluster.work(with(applied(1), asked));
    for _ in 0..2 {
        cluster.fail(&broken());
        cluster.wait(10);
    }
    write(&mut cluster, applied(1));
    assert_eq!(
        succeeded(&cluster),
        "True Ready: the cluster's API server answers"
    );
}

#[test]
fn a_creation_that_landed_late_fails_no_longer() {
    let mut cluster = Cluster::of(work(1));
    for _ in 0..2 {
        cluster.fail(&broken());
        cluster.wait(10);
    }
    write(&mut cluster, work(1));
    cluster.object(object(1, "Running"));
    assert_eq!(
        succeeded(&cluster),
        "True Ready: the cluster's API server answers"
    );
}

#[test]
fn a_refused_deletion_is_told_of() {
    let mut cluster = Cluster::running("Running");
    cluster.work(deleting(applied(1)));
    for _ in 0..2 {
        cluster.fail(&Failure::Refused("denied by policy".to_owned()));
        cluster.wait(10);
    }
    assert_eq!(
        succeeded(&cluster),
        "False Refused: cannot delete the object: denied by policy"
    );
}

#[test]
fn what_others_say_is_told_as_far_as_it_fits() {
    let mut cluster = Cluster::of(work(1));
    for _ in 0..2 {
        cluster.fail(&Failure::Unreachable("é".repeat(100_000)));
        cluster.wait(10);
    }
    assert!(succeeded(&cluster).chars().count() < 700);
}

#[test]
fn a_definite_answer_takes_the_place_of_the_news_that_there_was_none() {
    let mut cluster = Cluster::of(work(1));
    for _ in 0..2 {
        cluster.fail(&broken());
        cluster.wait(10);
    }
    write(&mut cluster, work(1));
    cluster.fail(&Failure::Foreign("argo/w is another's".to_owned()));
    assert_eq!(
        succeeded(&cluster),
        "True Ready: the cluster's API server answers"
    );
}
