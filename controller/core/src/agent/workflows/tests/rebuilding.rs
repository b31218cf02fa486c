//! A cluster that was rebuilt under its name, or a mailbox that was created again, does not start
//! an attempt that has started before.

use super::*;

fn annotated(work: Value, name: &str, value: &str) -> Value {
    with(work, json!({ "metadata": { "annotations": { name: value } } }))
}

/// The cluster with ID `own`, whose mailbox holds this ManifestWork.
fn rebuilt(own: Option<&str>, work: Value) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.agent.config.cluster_id = own.map(str::to_owned);
    cluster.work(work);
    cluster
}

#[test]
fn what_had_started_before_its_manifest_work_was_made_is_answered_as_deleted() {
    let mut cluster = Cluster::of(annotated(work(1), "argosy.dev/started", "true"));
    assert_eq!(cluster.recorded(), "Deleted");
    cluster.keep_record();
    assert_eq!(cluster.conditions(), ["Applied=True DeletedOnCluster"]);
}

#[test]
fn what_had_started_and_is_there_or_recorded_goes_on() {
    let mut cluster = Cluster::of(annotated(work(1), "argosy.dev/started", "true"));
    cluster.object(object(1, ""));
    assert!(cluster.conditions().contains(&"Applied=True Created".to_owned()));
    let mut cluster = Cluster::of(annotated(work(1), "argosy.dev/started", "true"));
    cluster.record(record(1, "Finished"));
    assert_eq!(cluster.conditions(), ["Applied=True Finished"]);
}

#[test]
fn what_was_sent_to_another_cluster_of_the_name_is_not_started_and_says_so() {
    let mut cluster = rebuilt(Some("new"), annotated(work(1), "argosy.dev/cluster-id", "old"));
    assert_eq!(cluster.conditions(), ["Applied=False OtherCluster"]);
    let written = match cluster.decide() {
        Some(AgentAction::Conditions { conditions, .. }) => json!(conditions),
        _ => panic!("conditions are written"),
    };
    let written = json!({ "status": { "conditions": written } });
    // The other cluster may have started it, so this one promises nothing on its behalf.
    for sent in [work(1), asked_back(1)] {
        let sent = annotated(sent, "argosy.dev/cluster-id", "old");
        cluster.work(with(sent, written.clone()));
        assert!(!matches!(
            cluster.decide(),
            Some(AgentAction::Create { .. } | AgentAction::Conditions { denied: Some(_), .. })
        ));
    }
    cluster.work(deleting(annotated(work(1), "argosy.dev/cluster-id", "old")));
    cluster.release();
}

#[test]
fn what_was_sent_to_this_cluster_is_started() {
    for (own, sent_to) in [(Some("own"), "own"), (None, "own"), (None, "")] {
        rebuilt(own, annotated(work(1), "argosy.dev/cluster-id", sent_to)).created();
    }
    rebuilt(Some("own"), work(1)).created();
}

#[test]
fn what_was_sent_while_no_cluster_was_heard_of_waits_until_it_is_said_which_one_starts_it() {
    let mut cluster = rebuilt(Some("own"), annotated(work(1), "argosy.dev/cluster-id", ""));
    cluster.rests();
    cluster.work(annotated(work(1), "argosy.dev/cluster-id", "own"));
    cluster.created();
    cluster.work(annotated(asked_back(1), "argosy.dev/cluster-id", ""));
    assert_eq!(cluster.conditions(), ["Withdrawn=True NeverCreated"]);
}

#[test]
fn a_manifest_work_that_is_back_takes_the_note_of_its_release_off_the_record() {
    let stamp =
        json!({ "metadata": { "annotations": { "argosy.dev/released-at": "2026-11-21T09:00:00Z" } } });
    let released = with(record(1, "Finished"), stamp);
    for is_there in [true, false] {
        let mut cluster = Cluster::of(applied(1));
        if is_there {
            cluster.object(object(1, "Succeeded"));
            cluster.report();
        }
        cluster.record(released.clone());
        let Some(AgentAction::AmendRecord { patch, .. }) = cluster.decide() else {
            panic!("the note is taken off")
        };
        let removal = json!({ "op": "remove", "path": "/metadata/annotations/argosy.dev~1released-at" });
        let removes = |patch: &JsonPatch| patch.to_value().as_array().unwrap().contains(&removal);
        assert!(removes(&patch));
        cluster.record(record(1, "Finished"));
        let next = cluster.decide();
        assert!(!matches!(next, Some(AgentAction::AmendRecord { patch, .. }) if removes(&patch)));
    }
}
