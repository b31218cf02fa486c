//! The deletion of a Workflow removes its ManifestWorks first, and the Workflow last.

use super::*;

fn deleted() -> Value {
    deleting(claimed("cluster1", 1))
}

fn is_let_go(fleet: &Fleet) -> bool {
    matches!(
        fleet.decide(),
        Some(HubAction::PatchWorkflow {
            purpose: Purpose::RemoveFinalizer,
            ..
        })
    )
}

#[test]
fn the_manifest_work_of_a_deleted_workflow_is_deleted_and_waited_for() {
    let mut fleet = Fleet::of(deleted());
    fleet.work(started("cluster1", 1));
    assert!(matches!(fleet.decide(), Some(HubAction::DeleteWork { uid, .. }) if uid == "work-cluster1"));
    fleet.work(deleting(started("cluster1", 1)));
    fleet.rests();
    fleet.work_gone(deleting(started("cluster1", 1)));
    assert!(is_let_go(&fleet));
}

#[test]
fn what_ocms_own_agent_has_cleaned_up_after_is_released_and_nothing_else() {
    let carried_out = |finalizers: &[&str]| {
        let complete = condition("Applied", "True", "AppliedManifestWorkComplete");
        with(
            deleting(work_with("cluster1", 1, &[complete])),
            json!({ "metadata": { "finalizers": finalizers } }),
        )
    };
    let mut fleet = Fleet::of(deleted());
    let ocms = "cluster.open-cluster-management.io/manifest-work-cleanup";
    fleet.work(carried_out(&["argosy.dev/agent", ocms]));
    fleet.rests();
    fleet.work(carried_out(&["argosy.dev/agent"]));
    match fleet.decide() {
        Some(HubAction::ReleaseWork { patch, .. }) => {
            assert_eq!(patch.value_at("/metadata/finalizers"), Some(&json!([])));
        }
        other => panic!("expected a release, not {other:#?}"),
    }
    fleet.work(deleting(started("cluster1", 1)));
    fleet.rests();
}

#[test]
fn every_mailbox_is_cleared() {
    let mut fleet = Fleet::of(deleting(claimed("cluster2", 2)));
    fleet.work(started("cluster2", 2));
    fleet.work(deleting(promised("cluster1", 1)));
    assert!(
        matches!(fleet.decide(), Some(HubAction::DeleteWork { cluster, .. }) if cluster.as_str() == "cluster2")
    );
}

#[test]
fn a_manifest_work_that_is_found_gone_counts_as_gone() {
    let mut fleet = Fleet::of(deleted());
    fleet.work(started("cluster1", 1));
    fleet.learn(HubInput::WorkGone("cluster1".into(), "u1".into()));
    assert!(is_let_go(&fleet));
}

#[test]
fn a_manifest_work_whose_creation_was_not_answered_is_looked_for_before_the_workflow_goes() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.fail(&Failure::Unreachable("no answer".to_owned()));
    fleet.workflow(deleted());
    let (cluster, question) = fleet.created();
    assert_eq!(cluster.as_str(), "cluster1");
    assert_eq!(question.metadata.annotations.unwrap()["argosy.dev/withdraw"], "1");
    // The name was taken by this ManifestWork.
    fleet.work(work("cluster1", 1));
    let later = fleet.hub.decide(&HubKey::Workflow(key()), after(70)).action;
    assert!(matches!(later, Some(HubAction::DeleteWork { .. })));
}

#[test]
fn a_manifest_work_that_a_re_list_lacks_is_looked_for_before_the_workflow_goes() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.work(work("cluster1", 1));
    fleet.learn(HubInput::work(Change::Reset(Vec::new())));
    fleet.workflow(deleted());
    assert_eq!(fleet.created().0.as_str(), "cluster1");
}

#[test]
fn a_refused_search_means_that_nothing_is_there() {
    let mut fleet = Fleet::of(claimed("cluster1", 1));
    fleet.fail(&Failure::Unreachable("no answer".to_owned()));
    fleet.workflow(deleted());
    fleet.fail(&Failure::NotFound {
        namespace: true,
        message: "no mailbox".to_owned(),
    });
    assert!(is_let_go(&fleet));
}

#[test]
fn an_unclaimed_workflow_is_deleted_without_us() {
    Fleet::of(deleting(with(
        held("cluster1"),
        json!({ "metadata": { "finalizers": ["other/one"] } }),
    )))
    .rests();
}

#[test]
fn a_manifest_work_without_its_workflow_is_an_orphan_and_left_alone() {
    let mut fleet = Fleet::new();
    assert_eq!(fleet.work(started("cluster1", 1)), BTreeSet::new());
    assert_eq!(fleet.hub.orphans().count(), 1);
    fleet.workflow(claimed("cluster1", 1));
    assert_eq!(fleet.hub.orphans().count(), 0);
}
