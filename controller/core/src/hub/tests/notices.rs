//! What is worth an Event.

use super::*;

/// The notices as `Reason: message`, warnings with a mark of their own.
fn notices(fleet: &mut Fleet) -> Vec<String> {
    let notices = fleet.hub.take_notices().into_iter();
    let mark = |is_warning| if is_warning { "! " } else { "" };
    notices
        .map(|notice| format!("{}{}: {}", mark(notice.is_warning), notice.reason, notice.message))
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
    assert_eq!(notices(&mut fleet), Vec::<String>::new());
    fleet.workflow(claimed("cluster1", 1));
    assert_eq!(notices(&mut fleet), ["Dispatched: to cluster1, attempt 1"]);
    fleet.workflow(started_claim("Running"));
    assert_eq!(notices(&mut fleet), ["Started: on cluster1, attempt 1"]);
    fleet.workflow(started_claim("Running"));
    assert_eq!(notices(&mut fleet), Vec::<String>::new());
    fleet.workflow(started_claim("Failed"));
    assert_eq!(notices(&mut fleet), ["! Finished: Failed on cluster1"]);
}

#[test]
fn what_stands_in_the_way_is_told_of_once() {
    let mut fleet = Fleet::of(held("cluster1"));
    let refused =
        json!([{ "type": "Ambiguous", "status": "True", "message": "SeveralClusters: cluster1, cluster2" }]);
    let object = with(held("cluster1"), json!({ "status": { "conditions": refused } }));
    fleet.workflow(object.clone());
    assert_eq!(notices(&mut fleet), ["! SeveralClusters: cluster1, cluster2"]);
    fleet.workflow(object);
    assert_eq!(notices(&mut fleet), Vec::<String>::new());
}

#[test]
fn what_was_there_at_the_first_listing_is_no_news() {
    let mut hub = Hub::new(HubConfig {
        wds_name: "wds1".to_owned(),
        is_guarded: false,
    });
    let object = with(
        started_claim("Succeeded"),
        json!({ "metadata": { "resourceVersion": "1" } }),
    );
    hub.apply(HubInput::workflow(Change::Reset(vec![read(object)])), now());
    assert_eq!(hub.take_notices(), Vec::new());
}
