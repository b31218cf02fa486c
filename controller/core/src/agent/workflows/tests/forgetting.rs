//! The agent keeps nothing forever about objects that no longer exist.

use super::*;

#[track_caller]
fn knows_nothing(cluster: &Cluster) {
    let RunIndex {
        vanished,
        gone,
        obstacles,
        refusals,
        ..
    } = &cluster.agent;
    assert_eq!(
        (vanished.len(), gone.len(), obstacles.len(), refusals.len()),
        (0, 0, 0, 0)
    );
}

#[test]
fn why_it_could_not_be_created_goes_with_the_manifest_work() {
    let refused = Failure::Refused("exceeded quota".to_owned());
    let mut cluster = Cluster::of(work(1));
    cluster.fail(&refused);
    assert_eq!(cluster.agent.obstacles.len(), 1);
    cluster.work_gone(work(1));
    knows_nothing(&cluster);

    let mut cluster = Cluster::of(work(1));
    let action = cluster.decide().unwrap();
    cluster.learn(AgentInput::work(Change::Reset(Vec::new())));
    cluster.agent.failed(&origin(), &action, &refused, cluster.now);
    knows_nothing(&cluster);
}

#[test]
fn what_a_cluster_has_refused_goes_with_the_manifest_work() {
    let asked = json!({ "metadata": { "annotations": { "argosy.dev/control": r#"{"suspend":true}"# } } });
    let mut cluster = Cluster::running("Running");
    cluster.work(with(applied(1), asked));
    cluster.fail(&Failure::Refused("no".to_owned()));
    assert_eq!(cluster.agent.refusals.len(), 1);
    cluster.work_gone(applied(1));
    knows_nothing(&cluster);
}

#[test]
fn what_went_while_nobody_wanted_it_is_remembered_by_the_cluster() {
    let mut cluster = Cluster::running("Running");
    cluster.work_gone(applied(1));
    cluster.rests();
    cluster.object_gone(object(1, "Running"));
    assert_eq!(cluster.recorded(), "Deleted");
    cluster.keep_record();
    assert_eq!(cluster.agent.vanished.len(), 0);
    // The ManifestWork is created again, but its object is not.
    cluster.work(work(1));
    let Some(AgentAction::WriteStatus { .. } | AgentAction::Conditions { .. }) = cluster.decide() else {
        panic!("it is over: {:?}", cluster.decide());
    };
    cluster.work_gone(work(1));
    cluster.learn(AgentInput::RecordGone(origin()));
    knows_nothing(&cluster);
}

#[test]
fn an_attempt_that_has_had_its_course_leaves_nothing() {
    let mut cluster = Cluster::running("Succeeded");
    cluster.keep_record();
    cluster.learn(AgentInput::ObjectGone(origin()));
    cluster.work_gone(applied(1));
    cluster.learn(AgentInput::RecordGone(origin()));
    knows_nothing(&cluster);
}
