//! An object is created once, and never again after any sign of its creation.

use super::{
    control::{after, noted},
    *,
};

#[test]
fn a_manifest_is_created_with_our_marks_and_the_finalizer() {
    let created = serde_json::to_value(Cluster::of(work(3)).created()).unwrap();
    let expected = with(
        manifest(3),
        json!({ "metadata": {
            "finalizers": ["argosy.dev/agent"], "annotations": { "argosy.dev/born-as": "argo/w" },
        } }),
    );
    assert_eq!(created, expected);
}

#[test]
fn our_marks_are_put_on_whatever_the_manifest_says() {
    let mut foreign = work(3);
    foreign["spec"]["workload"]["manifests"][0]["metadata"] = json!({ "namespace": "argo", "name": "w" });
    let created = serde_json::to_value(Cluster::of(foreign).created()).unwrap();
    let labels = json!({ "argosy.dev/cluster": "cluster1", "argosy.dev/origin-uid": "u1" });
    assert_eq!(created["metadata"]["labels"], labels);
    assert_eq!(
        created["metadata"]["annotations"],
        json!({ "argosy.dev/attempt": "3", "argosy.dev/born-as": "argo/w" })
    );
}

#[test]
fn an_object_is_marked_for_the_argo_of_its_cluster() {
    let mut cluster = Cluster::of(work(1));
    cluster.agent.config.argo_instance = Some("there".to_owned());
    let created = serde_json::to_value(cluster.created()).unwrap();
    assert_eq!(
        created["metadata"]["labels"]["workflows.argoproj.io/controller-instanceid"],
        "there"
    );
}

#[test]
fn nothing_is_created_before_everything_was_listed() {
    let mut agent = RunIndex::new(AgentConfig {
        cluster: "cluster1".into(),
        cluster_id: None,
        request_lifetime: crate::index::reconciler::REQUEST_LIFETIME,
        argo_instance: None,
        conditions_on_demand: false,
    });
    let work: ManifestWork = read(work(1));
    agent.apply(AgentInput::work(Change::Reset(vec![work])), now());
    agent.apply(AgentInput::work_status(Change::Reset(Vec::new())), now());
    agent.apply(AgentInput::object(Change::Reset(Vec::new())), now());
    assert_eq!(agent.decide(&origin(), now()), Decision::rest());
    let dirty = agent.apply(AgentInput::record(Change::Reset(Vec::new())), now());
    assert_eq!(dirty, [origin()].into());
    assert!(matches!(
        agent.decide(&origin(), now()).action,
        Some(AgentAction::Create { .. })
    ));
}

#[test]
fn an_object_that_exists_is_not_created_again() {
    let mut cluster = Cluster::of(work(1));
    cluster.object(object(1, ""));
    let conditions: HashSet<_> = cluster.conditions().into_iter().collect();
    assert_eq!(
        conditions,
        [
            "Applied=True Created".to_owned(),
            "Available=True Created".to_owned()
        ]
        .into()
    );
    cluster.work(applied(1));
    cluster.rests();
}

#[test]
fn an_attempt_with_a_record_is_never_created_again() {
    for (outcome, said) in [
        ("Finished", "Applied=True Finished"),
        ("Deleted", "Applied=True DeletedOnCluster"),
    ] {
        let mut cluster = Cluster::of(work(1));
        cluster.record(record(1, outcome));
        assert_eq!(cluster.conditions(), [said]);
    }
}

#[test]
fn an_attempt_that_the_hub_was_told_of_is_never_created_again() {
    let mut cluster = Cluster::of(work(1));
    cluster.work_status(written(1));
    assert_eq!(cluster.recorded(), "Deleted");
}

#[test]
fn an_attempt_that_was_applied_is_never_created_again() {
    assert_eq!(Cluster::of(applied(1)).recorded(), "Deleted");
}

#[test]
fn an_object_that_vanished_is_never_created_again() {
    for finalizers in [json!(["argosy.dev/agent"]), json!([])] {
        let mut cluster = Cluster::of(work(1));
        cluster.object(object(1, ""));
        let last = with(object(1, ""), json!({ "metadata": { "finalizers": finalizers } }));
        cluster.object(last.clone());
        cluster.object_gone(last);
        assert_eq!(cluster.recorded(), "Deleted");
    }
}

#[test]
fn an_earlier_attempt_does_not_stand_in_the_way_of_a_later_one() {
    let mut cluster = Cluster::of(work(2));
    cluster.record(record(1, "Finished"));
    cluster.work_status(written(1));
    cluster.created();
}

#[test]
fn a_foreign_object_is_left_alone_and_told_and_tried_again() {
    let mut cluster = Cluster::of(work(1));
    cluster.fail(&Failure::Foreign("argo/w exists".to_owned()));
    assert_eq!(cluster.conditions(), ["Applied=False ForeignObject"]);
    let written = match cluster.decide() {
        Some(AgentAction::Conditions { conditions, .. }) => json!(conditions),
        _ => panic!("conditions are written"),
    };
    cluster.work(with(work(1), json!({ "status": { "conditions": written } })));
    cluster.created();
}

#[test]
fn a_missing_namespace_and_a_refusal_are_told() {
    let missing = Failure::NotFound {
        namespace: true,
        message: "no".to_owned(),
    };
    for (failure, said) in [
        (missing, "Applied=False NamespaceMissing"),
        (Failure::Refused("invalid".to_owned()), "Applied=False Refused"),
    ] {
        let mut cluster = Cluster::of(work(1));
        cluster.fail(&failure);
        assert_eq!(cluster.conditions(), [said]);
        cluster.object(object(1, ""));
        assert!(cluster.conditions().contains(&"Applied=True Created".to_owned()));
    }
}

#[test]
fn a_manifest_that_is_no_workflow_is_told() {
    let mut pod = work(1);
    pod["spec"]["workload"]["manifests"][0] = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": {} });
    assert_eq!(
        Cluster::of(pod).conditions(),
        ["Applied=False UnsupportedManifest"]
    );
}

#[test]
fn a_cluster_without_argo_is_told_and_served_once_argo_is_there() {
    let mut cluster = Cluster::of(work(1));
    cluster.learn(AgentInput::Argo(ArgoApi::Missing));
    assert!(cluster.agent.is_synced());
    assert_eq!(cluster.conditions(), ["Applied=False ArgoMissing"]);
    let written = match cluster.decide() {
        Some(AgentAction::Conditions { conditions, .. }) => json!(conditions),
        _ => panic!("conditions are written"),
    };
    cluster.work(with(work(1), json!({ "status": { "conditions": written } })));
    cluster.rests();
    assert_eq!(
        cluster.learn(AgentInput::object(Change::Reset(Vec::new()))),
        [origin()].into()
    );
    cluster.created();
}

#[test]
fn of_a_manifest_work_that_cannot_be_read_whole_nothing_is_created() {
    let unreadable = |work| {
        with(
            work,
            json!({ "metadata": { "annotations": { "argosy.dev/flaw": "no" } } }),
        )
    };
    let mut cluster = Cluster::of(unreadable(work(1)));
    assert_eq!(cluster.conditions(), ["Applied=False Unreadable"]);
    let written = match cluster.decide() {
        Some(AgentAction::Conditions { conditions, .. }) => json!(conditions),
        _ => panic!("conditions are written"),
    };
    cluster.work(unreadable(with(
        work(1),
        json!({ "status": { "conditions": written } }),
    )));
    cluster.rests();
    // A request to withdraw it is still answered.
    cluster.work(unreadable(asked_back(1)));
    assert_eq!(cluster.conditions(), ["Withdrawn=True NeverCreated"]);
    cluster.work(work(1));
    cluster.created();
}

/// A new attempt on the cluster, reported and recorded as created.
fn created(attempt: u64, phase: &str) -> Cluster {
    let mut cluster = Cluster::of(applied(attempt));
    cluster.object(object(attempt, phase));
    cluster.report();
    cluster
}

#[test]
fn an_attempt_after_the_first_that_argo_does_not_begin_is_written_again_three_times() {
    for phase in ["", "Pending"] {
        let mut cluster = created(2, phase);
        let mut object = object(2, phase);
        for (times, pause) in [(1, 5), (2, 15), (3, 45)] {
            cluster.waits(pause);
            let (patch, pods) = cluster.control();
            assert_eq!(
                (noted(&patch), pods),
                (json!({ "again": times }), Vec::new()),
                "{phase}"
            );
            object = after(object, &patch);
            cluster.object(object.clone());
        }
        assert_eq!(
            cluster.agent.decide(&origin(), cluster.now),
            Decision::rest(),
            "{phase}"
        );
    }
}

#[test]
fn what_argo_writes_to_an_attempt_that_it_does_not_begin_is_no_reaction() {
    let mut cluster = created(2, "");
    cluster.wait(4);
    cluster.object(object(2, "Pending"));
    cluster.report();
    cluster.waits(1);
    assert_eq!(noted(&cluster.control().0), json!({ "again": 1 }));
}

#[test]
fn a_first_attempt_and_one_that_argo_has_begun_are_not_written_again() {
    for (attempt, phase) in [(1, ""), (1, "Pending"), (2, "Running")] {
        let cluster = created(attempt, phase);
        assert_eq!(
            cluster.agent.decide(&origin(), cluster.now),
            Decision::rest(),
            "{attempt} {phase}"
        );
    }
    let mut cluster = created(2, "");
    cluster.wait(4);
    cluster.object(object(2, "Running"));
    cluster.report();
    assert_eq!(cluster.agent.decide(&origin(), cluster.now), Decision::rest());
}

#[test]
fn an_object_that_is_on_its_way_is_told_of_only_if_it_does_not_arrive() {
    let missing = Failure::Missing("ConfigMap settings does not exist on cluster1".to_owned());
    let needing = |needs: &str| {
        with(
            work(1),
            json!({ "metadata": { "annotations": { "argosy.dev/needs": needs } } }),
        )
    };

    let mut cluster = Cluster::of(work(1));
    cluster.fail(&missing);
    assert_eq!(cluster.conditions(), ["Applied=False TemplateMissing"]);

    let mut cluster = Cluster::of(needing("configmaps,ConfigMap/artifact-repositories"));
    let Some(AgentAction::Create { needs, .. }) = cluster.decide() else {
        panic!("it is not created");
    };
    assert_eq!(needs.to_string(), "configmaps,ConfigMap/artifact-repositories");
    for _ in 0..4 {
        cluster.fail(&missing);
        cluster.created();
        cluster.wait(1);
    }
    cluster.fail(&missing);
    assert_eq!(cluster.conditions(), ["Applied=False DependencyMissing"]);

    // Nothing but the objects is on its way.
    let mut cluster = Cluster::of(needing("configmaps"));
    cluster.fail(&Failure::Refused("exceeded quota".to_owned()));
    assert_eq!(cluster.conditions(), ["Applied=False Refused"]);
}
