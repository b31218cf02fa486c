//! A Workflow that the webhook has held since its creation.

use super::*;
use crate::hub::admission::{Request, tests::patched};

/// A guarded fleet in which the Workflow was created through the webhook.
fn born(new: Value) -> (Fleet, Value) {
    let mut fleet = Fleet::with_guard(true);
    let object = fleet.create(new);
    fleet.workflow(object.clone());
    (fleet, object)
}

impl Fleet {
    /// The object in the WDS after its creation.
    pub(super) fn create(&self, new: Value) -> Value {
        let request = Request {
            namespace: "argo".to_owned(),
            name: "w".to_owned(),
            old: None,
            new: read(new.clone()),
            is_edited: false,
        };
        let answer = self.hub.admission().review(&request);
        with(
            json!(patched(new, &answer)),
            json!({ "metadata": { "uid": "u1" } }),
        )
    }
}

/// A Workflow from a user who does not set `spec.suspend`.
fn plain(cluster: &str) -> Value {
    with(held(cluster), json!({ "spec": { "suspend": null } }))
}

#[test]
fn a_workflow_that_was_born_claimed_is_sent_and_not_written_before_its_first_report() {
    let (mut fleet, object) = born(plain("cluster1"));
    let (cluster, work) = fleet.created();
    assert_eq!(cluster.as_str(), "cluster1");
    assert_eq!(work.metadata.annotations.unwrap()["argosy.dev/attempt"], "1");
    fleet.work(super::work("cluster1", 1));
    fleet.rests();
    fleet.report(report("cluster1", 1, json!({ "phase": "Running" })));
    let patch = fleet.patch(Purpose::Mirror);
    let claim = patch.value_at("/metadata/annotations").unwrap()["argosy.dev/claim"]
        .as_str()
        .unwrap();
    assert!(
        claim.contains("\"started\":true") && claim.contains("\"uid\":\"u1\""),
        "{claim}"
    );
    assert_eq!(object["status"]["phase"], "Pending");
}

#[test]
fn a_workflow_that_was_held_for_want_of_a_cluster_is_claimed_when_one_matches() {
    let (mut fleet, _) = born(plain("none"));
    assert_eq!(fleet.conditions(Purpose::Explain), ["Dispatched=False NoCluster"]);
    let joined = fleet.change(cluster("cluster9"));
    fleet.learn(HubInput::Cluster(joined));
    let patch = fleet.patch(Purpose::Claim);
    assert_eq!(
        patch.value_at("/metadata/labels").unwrap()["argosy.dev/cluster"],
        "cluster9"
    );
}

#[test]
fn a_workflow_that_several_clusters_match_is_held_and_says_so() {
    let (fleet, _) = born(plain("both"));
    assert_eq!(
        fleet.conditions(Purpose::Explain),
        ["Ambiguous=True SeveralClusters"]
    );
}

#[test]
fn a_held_workflow_that_names_a_cluster_waits_when_its_policy_goes_and_is_claimed_when_one_comes() {
    let (mut fleet, _) = born(plain("none"));
    let gone = fleet.next(policy("none", json!({ "name": "cluster9" })));
    fleet.learn(HubInput::Policy(Change::Delete(Box::new(read(gone)))));
    assert_eq!(fleet.conditions(Purpose::Explain), ["Dispatched=False NoPolicy"]);
    let later = fleet.change(policy("none", json!({ "name": "cluster1" })));
    let dirty = fleet.learn(HubInput::Policy(later));
    assert!(dirty.contains(&HubKey::Workflow(key())));
    fleet.patch(Purpose::Claim);
}

#[test]
fn a_held_workflow_that_names_no_cluster_any_more_is_released_suspended() {
    for label in [None, Some(json!("local"))] {
        let (mut fleet, mut object) = born(plain("cluster7"));
        assert_eq!(fleet.conditions(Purpose::Explain), ["Dispatched=False NoPolicy"]);
        let labels = object["metadata"]["labels"].as_object_mut().unwrap();
        labels.remove("kubestellar.io/cluster");
        labels.extend(
            label
                .clone()
                .map(|label| ("kubestellar.io/cluster".to_owned(), label)),
        );
        fleet.workflow(object.clone());
        let patch = fleet.patch(Purpose::Release);
        assert_eq!(patch.value_at("/spec/suspend"), Some(&json!(true)));
        assert_eq!(patch.value_at("/status"), Some(&json!({})), "it has no phase");
        let labels = patch.value_at("/metadata/labels").unwrap();
        assert_eq!(labels.get("kubestellar.io/cluster"), label.as_ref());
        for hold in ["workflows.argoproj.io/completed", "workflows.argoproj.io/phase"] {
            assert_eq!(labels.get(hold), None);
        }
        fleet.written(object, &patch);
        // After the release, nothing needs the finalizer any more.
        let patch = fleet.patch(Purpose::RemoveFinalizer);
        assert_eq!(patch.value_at("/metadata/finalizers"), Some(&json!([])));
    }
}

#[test]
fn the_nodes_of_a_memoized_resubmit_go_down_and_stay_until_the_first_report() {
    let nodes = json!({ "w-1": { "type": "Pod", "phase": "Pending" }, "w-2": { "type": "Skipped", "phase": "Skipped" } });
    let (mut fleet, _) = born(with(plain("cluster1"), json!({ "status": { "nodes": nodes } })));
    let (_, work) = fleet.created();
    assert_eq!(
        work.spec.workload.manifests[0]["status"],
        json!({ "nodes": nodes })
    );
    fleet.work(super::work("cluster1", 1));
    fleet.rests();
}

#[test]
fn where_the_hold_is_guarded_the_claim_takes_the_ticket() {
    let mut fleet = Fleet::with_guard(true);
    fleet.workflow(held("cluster1"));
    let operations = fleet.patch(Purpose::Claim).to_value();
    let removal = json!({ "op": "remove", "path": "/spec/suspend" });
    assert!(operations.as_array().unwrap().contains(&removal), "{operations}");
}

/// A copy of a run that `cluster` has reported, as `argo resubmit --memoized` makes it.
fn memoized(policy: &str, reporter: &str) -> Value {
    let status =
        json!({ "nodes": { "w-1": { "type": "Skipped" } }, "storedTemplates": { "namespaced/w/main": {} } });
    with(
        plain(policy),
        json!({
            "metadata": { "labels": {
                "argosy.dev/cluster": reporter, "workflows.argoproj.io/resubmitted-from-workflow": "v",
            } },
            "status": status,
        }),
    )
}

#[test]
fn what_another_cluster_has_reported_is_not_begun_with() {
    for (reporter, brings) in [("cluster1", true), ("cluster2", false), ("every-cluster", false)] {
        let (fleet, object) = born(memoized("cluster1", reporter));
        let (_, work) = fleet.created();
        let manifest = &work.spec.workload.manifests[0];
        assert_eq!(manifest.get("status").is_some(), brings, "{reporter}");
        assert_eq!(
            object["status"].get("storedTemplates").is_some(),
            brings,
            "{reporter}"
        );
    }
}

#[test]
fn what_a_cluster_has_reported_stays_behind_when_the_claim_goes_to_another_one() {
    let (mut fleet, object) = born(memoized("cluster1", "cluster1"));
    fleet.workflow(with(
        object,
        json!({ "metadata": { "labels": { "kubestellar.io/cluster": "cluster2" } } }),
    ));
    fleet.work(promised("cluster1", 1));
    let patch = fleet.patch(Purpose::Claim);
    let labels = patch.value_at("/metadata/labels").unwrap();
    assert_eq!(labels["argosy.dev/cluster"], "cluster2");
    let status = patch.value_at("/status").unwrap().as_object().unwrap();
    assert!(
        status
            .keys()
            .all(|field| ["conditions", "phase"].contains(&field.as_str())),
        "{status:?}"
    );
}

#[test]
fn what_a_copy_brings_along_waits_for_the_cluster_that_has_reported_it() {
    for (reporter, brings) in [("cluster9", true), ("cluster1", false)] {
        let (mut fleet, object) = born(memoized("none", reporter));
        assert!(object["status"]["nodes"].is_object());
        let joined = fleet.change(cluster("cluster9"));
        fleet.learn(HubInput::Cluster(joined));
        let patch = fleet.patch(Purpose::Claim);
        let status = patch.value_at("/status").unwrap();
        assert_eq!(status.get("nodes").is_some(), brings, "{reporter}");
        // A copy of the copy keeps the reporting cluster, too.
        let (copied, _) = born(with(
            object,
            json!({ "metadata": { "uid": null, "labels": { "kubestellar.io/cluster": "cluster1" } } }),
        ));
        let manifest = copied.created().1.spec.workload.manifests[0].clone();
        assert_eq!(
            manifest.get("status").is_some(),
            reporter == "cluster1",
            "{reporter}"
        );
    }
}

/// A Workflow that a user creates while no webhook answers. It looks as if the webhook had held and
/// claimed it, and is labeled for `policy`.
fn forged(policy: &str, cluster: &str) -> Value {
    let claim = json!({ "cluster": cluster, "attempt": 1, "status": true, "guarded": true, "uid": "" });
    with(
        claimed(policy, 1),
        json!({ "metadata": {
            "labels": { "argosy.dev/cluster": cluster }, "annotations": { "argosy.dev/claim": claim.to_string() },
        } }),
    )
}

#[test]
fn a_claim_at_birth_that_no_webhook_has_written_is_corrected_and_nobody_is_asked() {
    for cluster in ["kube-system", "cluster9", "every-cluster"] {
        for (policy, purpose) in [
            ("cluster1", Purpose::Claim),
            ("both", Purpose::Release),
            ("local", Purpose::Release),
        ] {
            let mut fleet = Fleet::with_guard(true);
            fleet.workflow(forged(policy, cluster));
            fleet.patch(purpose);
        }
    }
    // If the claim is for a cluster of the fleet, a ManifestWork may have been sent.
    let mut fleet = Fleet::with_guard(true);
    fleet.workflow(forged("cluster1", "cluster2"));
    let (cluster, work) = fleet.created();
    assert_eq!(cluster.as_str(), "cluster2");
    assert_eq!(work.metadata.annotations.unwrap()["argosy.dev/withdraw"], "1");
}

#[test]
fn a_controller_that_has_just_started_corrects_no_claim_for_which_one_before_it_may_have_sent_something() {
    for cluster in ["cluster9", "every-cluster"] {
        let mut fleet = Fleet::with_guard(true);
        fleet.hub.synced.unmark(Awaited::Workflows);
        let inherited = read(fleet.next(forged("cluster1", cluster)));
        fleet.learn(HubInput::workflow(Change::Reset(vec![inherited])));
        let decide_at = |seconds| fleet.hub.decide(&HubKey::Workflow(key()), after(seconds));
        assert_eq!(decide_at(69), Decision::requeue_at(after(70)), "{cluster}");
        assert!(decide_at(70).action.is_some(), "{cluster}");
    }
}
