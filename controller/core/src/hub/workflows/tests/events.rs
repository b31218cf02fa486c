//! Changes that deserve an Event.

use super::*;

/// The notices as `Reason: message`; warnings have a prefix.
fn events(fleet: &mut Fleet) -> Vec<String> {
    let events = fleet.hub.take_events().into_iter();
    let mark = |is_warning| if is_warning { "! " } else { "" };
    events
        .map(|record_event| {
            format!(
                "{}{}: {}",
                mark(record_event.is_warning),
                record_event.reason,
                record_event.message
            )
        })
        .collect()
}

fn started_claim(phase: &str) -> Value {
    let claim = json!({ "cluster": "cluster1", "attempt": 1, "uid": "u1", "status": true, "started": true })
        .to_string();
    with(
        claimed("cluster1", 1),
        json!({ "metadata": { "annotations": { "argosy.dev/claim": claim } }, "status": { "phase": phase } }),
    )
}

#[test]
fn a_run_is_told_of_when_it_is_dispatched_starts_and_ends() {
    let mut fleet = Fleet::of(held("cluster1"));
    assert_eq!(events(&mut fleet), Vec::<String>::new());
    fleet.workflow(claimed("cluster1", 1));
    assert_eq!(events(&mut fleet), ["Dispatched: sent to cluster1, attempt 1"]);
    fleet.workflow(started_claim("Running"));
    assert_eq!(events(&mut fleet), ["Started: started on cluster1, attempt 1"]);
    fleet.workflow(started_claim("Running"));
    assert_eq!(events(&mut fleet), Vec::<String>::new());
    fleet.workflow(started_claim("Failed"));
    assert_eq!(events(&mut fleet), ["! Finished: Failed on cluster1"]);
}

#[test]
fn what_stands_in_the_way_is_told_of_once() {
    let mut fleet = Fleet::of(held("cluster1"));
    let refused =
        json!([{ "type": "Ambiguous", "status": "True", "message": "SeveralClusters: cluster1, cluster2" }]);
    let object = with(held("cluster1"), json!({ "status": { "conditions": refused } }));
    fleet.workflow(object.clone());
    assert_eq!(events(&mut fleet), ["! SeveralClusters: cluster1, cluster2"]);
    fleet.workflow(object);
    assert_eq!(events(&mut fleet), Vec::<String>::new());
}

#[test]
fn a_run_that_is_relabeled_is_told_to_stay_once_and_only_while_it_runs() {
    let relabeled = |phase: &str, place: &str| {
        let labels = json!({ "metadata": { "labels": { "kubestellar.io/cluster": place } } });
        with(started_claim(phase), labels)
    };
    let stays = |wanted: &str| {
        format!(
            "! Stays: it stays on cluster1, because it has started there; its new labels select {wanted} and apply only to a new Workflow"
        )
    };
    let known = |phase: &str| {
        let mut fleet = Fleet::of(started_claim(phase));
        fleet.hub.take_events();
        fleet
    };
    for (place, wanted) in [("cluster2", "cluster2"), ("nowhere", "no cluster")] {
        let mut fleet = known("Running");
        fleet.workflow(relabeled("Running", place));
        assert_eq!(events(&mut fleet), [stays(wanted)]);
        fleet.workflow(relabeled("Running", place));
        assert_eq!(events(&mut fleet), Vec::<String>::new());
    }
    let mut fleet = known("Running");
    let team = json!({ "metadata": { "labels": { "team": "blue" } } });
    fleet.workflow(with(started_claim("Running"), team));
    assert_eq!(
        events(&mut fleet),
        Vec::<String>::new(),
        "it is for the same cluster"
    );
    let mut fleet = known("Succeeded");
    fleet.workflow(relabeled("Succeeded", "cluster2"));
    assert_eq!(events(&mut fleet), Vec::<String>::new(), "it has ended");
}

#[test]
fn what_names_a_cluster_and_runs_here_is_told_of_once() {
    let free = |label: &str| with(held(label), json!({ "spec": { "suspend": null } }));
    let told = "! NoPolicy: no BindingPolicy selects this Workflow (kubestellar.io/cluster=cluster7), and it is not held, so it runs on \
                the control cluster";
    let mut fleet = Fleet::of(free("cluster7"));
    assert_eq!(events(&mut fleet), [told]);
    fleet.rests();
    fleet.workflow(with(
        free("cluster7"),
        json!({ "status": { "phase": "Running" } }),
    ));
    assert_eq!(events(&mut fleet), Vec::<String>::new());

    for (object, why) in [
        (free("local"), "it names no other cluster"),
        (free("cluster1"), "a policy selects it"),
        (held("cluster7"), "it is suspended"),
        (
            with(free("cluster7"), json!({ "status": { "phase": "Failed" } })),
            "it has ended",
        ),
    ] {
        let mut fleet = Fleet::of(object);
        assert_eq!(events(&mut fleet), Vec::<String>::new(), "{why}");
    }
    let mut resumed = Fleet::of(held("cluster7"));
    resumed.workflow(free("cluster7"));
    assert_eq!(events(&mut resumed), [told]);
}

#[test]
fn what_was_there_at_the_first_listing_is_no_news() {
    let mut hub = WorkflowIndex::new(HubConfig {
        wds_name: "wds1".to_owned(),
        is_guarded: false,
        request_lifetime: crate::index::reconciler::REQUEST_LIFETIME,
        report_budget: crate::REPORT_BUDGET,
        workflow_budget: crate::WORKFLOW_BUDGET,
    });
    let object = with(
        started_claim("Succeeded"),
        json!({ "metadata": { "resourceVersion": "1" } }),
    );
    hub.apply(HubInput::workflow(Change::Reset(vec![read(object)])), now());
    assert_eq!(hub.take_events(), Vec::new());
}

#[test]
fn a_warning_finds_a_place_behind_thousands_of_other_events() {
    let mut fleet = Fleet::of(held("cluster1"));
    for n in 0..1000 {
        let uid = format!("n{n}");
        let claim = json!({ "cluster": "cluster1", "attempt": 1, "uid": uid, "status": true }).to_string();
        let annotations = json!({ "argosy.dev/claim": claim });
        let named = json!({ "metadata": { "name": uid, "uid": uid, "annotations": annotations } });
        fleet.workflow(with(claimed("cluster1", 1), named));
    }
    let refused =
        json!([{ "type": "Ambiguous", "status": "True", "message": "SeveralClusters: cluster1, cluster2" }]);
    fleet.workflow(with(
        held("cluster1"),
        json!({ "status": { "conditions": refused } }),
    ));
    let told = events(&mut fleet);
    assert_eq!(
        told.last().map(String::as_str),
        Some("! SeveralClusters: cluster1, cluster2")
    );
    assert_eq!(told.len(), 257);
}
