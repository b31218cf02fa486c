//! Objects that no policy sends and that Workflows need.

use argosy_api::ManifestWork;

use super::*;

/// The ManifestWork of the ClusterRole `reader`, and its `Applied` with this status and reason.
fn work(cluster: &str, is_dependency: bool, applied: Option<(&str, &str)>) -> ManifestWork {
    let condition = |reason: &str| {
        json!({
            "type": "Applied", "status": applied.map(|(status, _)| status), "reason": reason,
            "message": "said by the agent", "lastTransitionTime": "2026-11-21T09:00:00Z",
        })
    };
    let annotations = if is_dependency {
        json!({ "argosy.dev/dependency": "true" })
    } else {
        json!({})
    };
    let status = applied.map(|(_, reason)| {
        json!({
            "conditions": [condition("AppliedManifestWork")],
            "resourceStatus": { "manifests": [{ "resourceMeta": {}, "conditions": [condition(reason)] }] },
        })
    });
    read(json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": { "namespace": cluster, "name": "argosy-u1", "annotations": annotations },
        "spec": {}, "status": status,
    }))
}

fn verdict(works: &[ManifestWork]) -> Verdict {
    let own = Labels::new();
    let course = History::of_object(&read(json!({ "name": "reader", "uid": "u1" })), works, &[]);
    let clusters = [cluster("c1", "True"), cluster("c2", "True")];
    explain(
        role_subject(&own),
        None,
        &Referred::default(),
        &[for_clusters("runs", &["c1"])],
        &clusters,
        None,
        course,
    )
    .verdict
}

#[test]
fn an_object_that_workflows_need_is_on_their_clusters_or_says_what_stands_in_the_way() {
    let applied = Some(("True", "AppliedManifestComplete"));
    let foreign = Some(("False", "ForeignObject"));
    let failed = Some(("False", "AppliedManifestFailed"));
    let as_it_is = "an object of this name was on c1 before and is used as it is";
    let obstacle = "c1 cannot apply it: AppliedManifestWork: said by the agent";
    let is_sent = VerdictKind::Sent;
    let is_on = "reader is on c1, c2, because Workflows need it";
    let is_sent_to = "reader is sent to c1, c2, because Workflows need it";
    let fails = "reader, which Workflows need, cannot be applied on c1";
    for (of_first, words, standing, remarks) in [
        (applied, is_on, is_sent, vec![]),
        (foreign, is_on, is_sent, vec![as_it_is]),
        (None, is_sent_to, is_sent, vec![]),
        (failed, fails, VerdictKind::NotSent, vec![obstacle]),
    ] {
        let verdict = verdict(&[work("c1", true, of_first), work("c2", true, applied)]);
        let sentence = format!("clusterroles.rbac.authorization.k8s.io {words}");
        assert_eq!(verdict.sentence, sentence);
        assert_eq!(
            (verdict.standing, verdict.remarks),
            (standing, remarks.into_iter().map(str::to_owned).collect())
        );
    }
}

#[test]
fn an_object_that_no_workflow_needs_and_no_policy_selects_is_not_sent() {
    let verdict = verdict(&[work("c1", false, None)]);
    assert_eq!(verdict.standing, VerdictKind::NotSent);
    assert!(verdict.sentence.ends_with("no policy selects it"), "{verdict:?}");
}
