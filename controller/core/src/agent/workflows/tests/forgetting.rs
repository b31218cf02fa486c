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

#[test]
fn the_last_version_of_a_run_that_was_let_go_leaves_nothing_in_whichever_order_it_arrives() {
    for is_late in [false, true] {
        let mut cluster = Cluster::running("Succeeded");
        cluster.keep_record();
        let held = || deleting(object(1, "Succeeded"));
        cluster.object(held());
        let action = cluster.decide().expect("it is let go");
        assert!(
            matches!(action, AgentAction::RemoveFinalizer { .. }),
            "{action:?}"
        );
        cluster.agent.requested(&origin(), &action, cluster.now);
        let mut last: Workflow = cluster.next(held());
        last.metadata.finalizers = None;
        let answer = AgentInput::object(Change::Apply(Box::new(last)));
        let event: Workflow = cluster.next(held());
        let event = AgentInput::object(Change::Delete(Box::new(event)));
        if is_late {
            cluster.learn(event);
            cluster.agent.succeeded(&origin(), answer, cluster.now);
        } else {
            cluster.agent.succeeded(&origin(), answer, cluster.now);
            cluster.learn(event);
        }
        assert!(cluster.agent.objects.is_empty(), "{is_late}");
        cluster.work_gone(applied(1));
        cluster.learn(AgentInput::RecordGone(origin()));
        knows_nothing(&cluster);
    }
}

#[test]
fn a_manifest_work_that_was_created_again_is_not_forgotten_by_a_late_answer_about_the_former_one() {
    let again = || with(work(1), json!({ "metadata": { "uid": "again" } }));
    for (told, answer, is_listed) in [
        ("the last version of the former one", false, false),
        ("that there is none", true, false),
        ("that there is none, and a list has the new one", true, true),
    ] {
        let mut cluster = Cluster::new();
        let released = json!({ "argosy.dev/released-at": "2026-11-21T10:00:00Z" });
        let released = json!({ "metadata": { "annotations": released } });
        cluster.record(with(record(1, "Deleted"), released));
        let former: ManifestWork = cluster.next(deleting(work(1)));
        cluster.learn(AgentInput::work(Change::Apply(Box::new(former.clone()))));
        let action = cluster.decide().expect("it is released");
        assert!(matches!(action, AgentAction::Release { .. }), "{action:?}");
        cluster.agent.requested(&origin(), &action, cluster.now);
        let mut last: ManifestWork = cluster.next(deleting(work(1)));
        last.metadata.finalizers = None;
        if is_listed {
            let again = cluster.next(again());
            cluster.learn(AgentInput::work(Change::Reset(vec![again])));
        } else {
            cluster.learn(AgentInput::work(Change::Delete(Box::new(former))));
            cluster.work(again());
        }
        let answer = if answer {
            AgentInput::WorkGone(origin())
        } else {
            AgentInput::work(Change::Apply(Box::new(last)))
        };
        cluster.agent.succeeded(&origin(), answer, cluster.now);
        let known = cluster.agent.works.get(&origin()).map(|work| work.uid.as_str());
        assert_eq!(known, Some("again"), "{told}");
        assert!(cluster.decide().is_some(), "{told}");
    }
}
