//! Workflows that may be started elsewhere after this cluster is lost.

use jiff::SignedDuration;

use super::*;
use crate::model::rerun::Fence;

fn fenced(work: Value) -> Value {
    with(
        work,
        json!({ "metadata": { "annotations": { "argosy.dev/lost-after": "600" } } }),
    )
}

fn fence(cluster: &Cluster) -> Option<Fence> {
    match cluster.decide() {
        Some(AgentAction::Create { fence, .. }) => fence,
        other => panic!("expected a creation, not {other:#?}"),
    }
}

#[test]
fn it_is_created_behind_a_fence_and_nothing_else_is() {
    assert_eq!(fence(&Cluster::of(work(1))), None);
    let cluster = Cluster::of(fenced(work(1)));
    assert_eq!(
        fence(&cluster),
        Some(Fence {
            resource_version: "101".to_owned(),
            lost_after: SignedDuration::from_secs(600)
        })
    );
}

#[test]
fn a_fence_that_is_not_up_says_nothing_about_the_object() {
    let mut cluster = Cluster::of(fenced(work(1)));
    cluster.fail(&Failure::Fenced("the lease is old".to_owned()));
    cluster.work(fenced(asked_back(1)));
    assert_eq!(cluster.conditions(), ["Withdrawn=True NeverCreated"]);
}

#[test]
fn after_an_unanswered_creation_it_is_looked_for_and_not_created_for_a_proof() {
    let mut cluster = Cluster::of(fenced(work(1)));
    cluster.fail(&Failure::Unreachable("no answer".to_owned()));
    cluster.work(fenced(asked_back(1)));
    cluster.waits(70);
    assert_eq!(cluster.decide(), Some(AgentAction::Look(sought())));
    cluster.learn(AgentInput::ObjectGone(origin()));
    assert_eq!(cluster.conditions(), ["Withdrawn=True NeverCreated"]);
}
