//! The first line about a Workflow that runs on every cluster, and about its runs.

use super::*;

fn everywhere() -> BindingPolicy {
    let mut policy = for_clusters("all", &["c1", "c2"]);
    policy.metadata.annotations = Some(labels(&[("argosy.dev/runs", "every-cluster")]));
    policy
}

fn run(more: &Value) -> Workflow {
    let mut object = json!({
        "metadata": { "namespace": "argo", "name": "w", "uid": "u1" },
        "spec": { "suspend": true, "entrypoint": "main" },
    });
    json_patch::merge(&mut object, more);
    read(object)
}

fn verdict(run: &Workflow, policies: &[BindingPolicy]) -> Verdict {
    let clusters = ["c1", "c2", "every-cluster"].map(|name| cluster(name, "True"));
    let own = run.labels().clone();
    let course = History::of_workflow(run, &[], &[]);
    explain(
        run_subject(&own, None),
        Some(run),
        &Referred::default(),
        policies,
        &clusters,
        None,
        course,
    )
    .verdict
}

fn claimed(claim: &Value, phase: &str, dispatched: &Value) -> Workflow {
    run(&json!({
        "metadata": { "annotations": { "argosy.dev/claim": claim.to_string() } },
        "status": { "phase": phase, "conditions": [dispatched] },
    }))
}

#[test]
fn a_workflow_for_every_cluster_says_so_and_how_its_runs_are_called() {
    let by = "policy all, clause 0";
    assert_eq!(
        verdict(&run(&json!({})), &[everywhere()]).sentence,
        format!("argo/w will run on every cluster that matches: c1, c2: {by}")
    );
    let told =
        json!({ "type": "Dispatched", "status": "True", "message": "EveryCluster: runs as w-c1, w-c2" });
    let taken = json!({ "type": "Dispatched", "status": "False", "message": "NameTaken: w-c1" });
    let claim =
        |started| json!({ "cluster": "every-cluster", "attempt": 1, "uid": "u1", "started": started });
    let table = [
        (
            false,
            "Pending",
            &told,
            "is sent to every cluster that matches",
            VerdictKind::Sent,
        ),
        (
            false,
            "Pending",
            &taken,
            "is not sent to every cluster",
            VerdictKind::NotSent,
        ),
        (
            true,
            "Running",
            &told,
            "runs on every cluster that matches",
            VerdictKind::Sent,
        ),
        (
            true,
            "Failed",
            &told,
            "has ended on every cluster, Failed",
            VerdictKind::Ended,
        ),
    ];
    for (started, phase, dispatched, sentence, standing) in table {
        let verdict = verdict(&claimed(&claim(started), phase, dispatched), &[everywhere()]);
        assert_eq!(verdict.sentence, format!("argo/w {sentence}: {by}"));
        assert_eq!(verdict.standing, standing);
        assert_eq!(verdict.remarks[0], dispatched["message"]);
    }
    let alone = verdict(&claimed(&claim(true), "Running", &told), &[]);
    assert!(
        alone.remarks.contains(&"its existing runs stay".to_owned()),
        "{alone:?}"
    );
}

#[test]
fn a_run_says_whose_it_is_and_a_copy_of_it_goes_to_the_same_cluster() {
    let claim = json!({ "cluster": "c2", "attempt": 1, "uid": "u1", "runOf": "u9" });
    let owner =
        json!([{ "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "p", "uid": "u9" }]);
    let marks = json!({ "metadata": { "labels": { "argosy.dev/run-on": "c2" }, "ownerReferences": owner } });
    let mut object = json!(claimed(&claim, "Running", &json!({})));
    json_patch::merge(&mut object, &marks);
    let told = verdict(&read(object.clone()), &[everywhere()]);
    assert_eq!(
        told.sentence,
        "argo/w is sent to c2 (attempt 1): policy all, clause 0"
    );
    assert_eq!(told.remarks, ["it is the run of argo/p on this cluster"]);

    object["metadata"]["uid"] = json!("copy");
    object["status"] = json!({});
    let told = verdict(&read(object), &[everywhere()]);
    assert_eq!(told.sentence, "argo/w will be sent to c2: policy all, clause 0");
}
