//! Tables of the webhook's answers. The fleet has a policy for Workflows with label
//! `kubestellar.io/cluster: cluster1`, one for those with `run: anywhere`, one that sends those
//! with `run: everywhere` to every cluster, and one for namespace `lost` that matches no cluster.

mod dependencies;
mod schedules;
mod verbs;

use argosy_api::{BindingPolicy, names};
use kube::ResourceExt as _;
use serde_json::json;

use super::*;
use crate::{
    model::claim::{Claim, is_held_from_birth},
    policy::Rules,
};

fn policy(selectors: &Value, clause: &Value) -> BindingPolicy {
    let mut clause = clause.clone();
    clause["resources"] = json!(["workflows"]);
    clause["wantSingletonReportedState"] = json!(true);
    serde_json::from_value(json!({
        "metadata": { "name": "p", "annotations": { "argosy.dev/archive-logs": "true" } },
        "spec": { "clusterSelectors": selectors, "downsync": [clause] },
    }))
    .unwrap()
}

fn everywhere(mut policy: BindingPolicy) -> BindingPolicy {
    let annotations = policy.annotations_mut();
    annotations.insert(names::RUNS_ANNOTATION.to_owned(), names::EVERY_CLUSTER.to_owned());
    policy
}

fn admission() -> Admission {
    let edge = json!([{ "matchLabels": { "location": "edge" } }]);
    let one = json!([{ "matchLabels": { "name": "cluster1" } }]);
    let none = json!([{ "matchLabels": { "name": "cluster9" } }]);
    let of = |key: &str, value: &str| json!({ "objectSelectors": [{ "matchLabels": { key: value } }] });
    let policies = [
        ("one", policy(&one, &of("kubestellar.io/cluster", "cluster1"))),
        ("edge", policy(&edge, &of("run", "anywhere"))),
        ("lost", policy(&none, &json!({ "namespaces": ["lost"] }))),
        ("all", everywhere(policy(&edge, &of("run", "everywhere")))),
    ];
    let rules = policies.map(|(name, policy)| {
        let mut problems = Vec::new();
        let rules = Rules::compile(&policy, &mut problems);
        assert_eq!(problems, Vec::<String>::new());
        (name.to_owned(), rules.into())
    });
    let clusters = ["cluster1", "cluster2"].map(|name| {
        let labels = [("name", name), ("location", "edge")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        (name.into(), std::sync::Arc::new(labels.into()))
    });
    let table = Table::of(rules.into_iter(), clusters.into_iter());
    Admission {
        table,
        ..Admission::default()
    }
}

fn workflow(labels: &Value) -> Value {
    json!({ "metadata": { "namespace": "argo", "name": "w", "labels": labels }, "spec": { "entrypoint": "main" } })
}

/// The object after the webhook's answer.
fn after(old: Option<&Value>, new: &Value) -> Workflow {
    patched(new.clone(), &succeeded(old, new, false))
}

/// The webhook's answer.
fn succeeded(old: Option<&Value>, new: &Value, is_edited: bool) -> Answer {
    let read = |value: &Value| serde_json::from_value::<Workflow>(value.clone()).unwrap();
    let request = Request {
        namespace: new["metadata"]["namespace"].as_str().unwrap().to_owned(),
        name: "w".to_owned(),
        old: old.map(read),
        new: read(new),
        is_edited,
    };
    admission().review(&request)
}

/// The object with the answer's patch applied, as an API server does.
pub(crate) fn patched(mut object: Value, answer: &Answer) -> Workflow {
    let patch: json_patch::Patch = serde_json::from_value(json!(answer.patch)).unwrap();
    json_patch::patch(&mut object, &patch).unwrap();
    serde_json::from_value(object).unwrap()
}

fn value(workflow: &Workflow) -> Value {
    json!(workflow)
}

fn born() -> Value {
    let mut object = value(&after(
        None,
        &workflow(&json!({ "kubestellar.io/cluster": "cluster1" })),
    ));
    object["metadata"]["uid"] = json!("u1");
    object
}

#[test]
fn a_selected_workflow_is_claimed_in_the_request_that_creates_it() {
    let born: Workflow = serde_json::from_value(born()).unwrap();
    let claim = Claim::of(&born.metadata).unwrap();
    assert_eq!((claim.cluster.as_str(), claim.attempt), ("cluster1", 1));
    assert!(claim.wants_status && claim.is_guarded && !claim.has_started);
    assert_eq!(born.labels()[names::ARGO_COMPLETED_LABEL], "true");
    assert_eq!(born.labels()[names::ARGO_PHASE_LABEL], "Pending");
    assert_eq!(born.labels()[names::CLUSTER_LABEL], "cluster1");
    assert_eq!(born.finalizers(), [names::CONTROLLER_FINALIZER]);
    assert_eq!(born.status.unwrap()["phase"], "Pending");
    assert_eq!(born.spec["archiveLogs"], true);
}

#[test]
fn the_ticket_is_taken_at_the_claim_unless_somebody_keeps_it() {
    let mut new = workflow(&json!({ "kubestellar.io/cluster": "cluster1" }));
    new["spec"]["suspend"] = json!(true);
    assert_eq!(after(None, &new).spec.get("suspend"), None);
    let keepers = [
        json!({ "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}" } }),
        json!({ "annotations": { "argocd.argoproj.io/tracking-id": "app:argoproj.io/Workflow:argo/w" } }),
        json!({ "annotations": { "meta.helm.sh/release-name": "app" } }),
        json!({ "managedFields": [{ "operation": "Apply", "fieldsV1": { "f:spec": { "f:suspend": {} } } }] }),
        json!({ "managedFields": [{ "operation": "Apply", "fieldsV1": { "f:spec": {} } }] }),
    ];
    for keeper in keepers {
        let mut kept = new.clone();
        let fields = keeper.as_object().unwrap().clone();
        kept["metadata"].as_object_mut().unwrap().extend(fields);
        assert_eq!(after(None, &kept).spec["suspend"], true, "{keeper}");
    }
}

#[test]
fn what_the_user_said_of_logs_stays() {
    let mut new = workflow(&json!({ "kubestellar.io/cluster": "cluster1" }));
    new["spec"]["archiveLogs"] = json!(false);
    assert_eq!(after(None, &new).spec["archiveLogs"], false);
}

#[test]
fn a_manifest_that_is_applied_again_keeps_the_logs_that_its_policy_wants() {
    let old = born();
    let mut new = old.clone();
    new["spec"].as_object_mut().unwrap().remove("archiveLogs");
    assert_eq!(after(Some(&old), &new).spec["archiveLogs"], true);
    new["spec"]["archiveLogs"] = json!(false);
    assert_eq!(after(Some(&old), &new).spec["archiveLogs"], false);
}

#[test]
fn a_workflow_that_nothing_selects_is_left_as_it_is() {
    for labels in [json!({}), json!({ "kubestellar.io/cluster": "local" })] {
        let new = workflow(&labels);
        let read: Workflow = serde_json::from_value(new.clone()).unwrap();
        assert_eq!(after(None, &new), read);
    }
}

#[test]
fn a_workflow_that_names_a_cluster_which_no_policy_sends_it_to_is_held_and_its_user_is_told() {
    for suspend in [json!(null), json!(true)] {
        let mut new = workflow(&json!({ "kubestellar.io/cluster": "cluster2" }));
        new["spec"]["suspend"] = suspend.clone();
        let request = Request {
            namespace: "argo".to_owned(),
            name: "w".to_owned(),
            old: None,
            new: serde_json::from_value(new.clone()).unwrap(),
            is_edited: false,
        };
        let answer = admission().review(&request);
        let told = "argosy: no BindingPolicy selects this Workflow (kubestellar.io/cluster=cluster2); it is held until a policy selects it";
        assert_eq!(answer.warnings, [told]);
        let held = patched(new, &answer);
        assert_eq!(Claim::of(&held.metadata), None);
        assert!(is_held(&held) && is_held_from_birth(&held.metadata), "{held:?}");
        assert_eq!(held.status.unwrap()["phase"], "Pending");
        assert_eq!(held.spec["suspend"], suspend, "it is no verb before the claim");
    }
    let over = json!({
        "metadata": { "namespace": "argo", "name": "w", "labels": { "kubestellar.io/cluster": "cluster2" } },
        "spec": {}, "status": { "phase": "Succeeded" },
    });
    assert!(!is_held(&after(None, &over)), "a copy of what has ended");
}

#[test]
fn a_selected_workflow_without_one_cluster_is_held_and_not_claimed() {
    let anywhere = workflow(&json!({ "run": "anywhere" }));
    let mut lost = workflow(&json!({}));
    lost["metadata"]["namespace"] = json!("lost");
    for new in [anywhere, lost] {
        let held = after(None, &new);
        assert_eq!(Claim::of(&held.metadata), None);
        assert!(is_held(&held), "{new}");
        assert_eq!(held.labels()[names::ARGO_PHASE_LABEL], "Pending");
        assert_eq!(held.finalizers(), [names::CONTROLLER_FINALIZER]);
    }
}

#[test]
fn a_workflow_for_every_cluster_is_claimed_for_all_of_them_and_a_copy_of_a_run_for_one() {
    let born = after(None, &workflow(&json!({ "run": "everywhere" })));
    let claim = Claim::of(&born.metadata).unwrap();
    assert!(claim.is_for_every_cluster());
    assert_eq!(born.labels()[names::CLUSTER_LABEL], "every-cluster");
    assert_eq!(born.labels()[names::ARGO_COMPLETED_LABEL], "true");

    let mut copy = workflow(&json!({ "run": "everywhere", "argosy.dev/run-on": "cluster2" }));
    let run = Claim {
        run_of: Some("u1".into()),
        ..Claim::new(&"cluster2".into(), 1)
    };
    copy["metadata"]["annotations"] = json!({
        "argosy.dev/claim": run.to_annotation("r1"), "argosy.dev/passed-on": "{}", "argosy.dev/runs-on": "{}",
    });
    let copy = after(None, &copy);
    let claim = Claim::of(&copy.metadata).unwrap();
    assert_eq!((claim.cluster.as_str(), claim.run_of), ("cluster2", None));
    let annotations: Vec<_> = copy.annotations().keys().collect();
    assert_eq!(annotations, [names::CLAIM_ANNOTATION]);
}

#[test]
fn the_record_of_its_runs_stays_whoever_writes() {
    let mut old = value(&after(None, &workflow(&json!({ "run": "everywhere" }))));
    old["metadata"]["uid"] = json!("u1");
    old["metadata"]["annotations"][names::RUNS_ON_ANNOTATION] = json!("record");
    let mut new = old.clone();
    new["metadata"]["annotations"][names::RUNS_ON_ANNOTATION] = json!("none");
    let mended = after(Some(&old), &new);
    assert_eq!(mended.annotations()[names::RUNS_ON_ANNOTATION], "record");
}

fn is_held(workflow: &Workflow) -> bool {
    is_held_from_birth(&workflow.metadata)
}

#[test]
fn a_claim_copied_from_another_workflow_is_replaced() {
    let mut copy = born();
    copy["metadata"]["labels"] = json!({ "run": "anywhere", "argosy.dev/cluster": "cluster1" });
    copy["metadata"].as_object_mut().unwrap().remove("uid");
    let held = after(None, &copy);
    assert_eq!(Claim::of(&held.metadata), None);
    assert!(!held.labels().contains_key(names::CLUSTER_LABEL) && is_held(&held));
}

#[test]
fn the_nodes_that_a_resubmit_brings_along_stay() {
    let mut memoized = workflow(&json!({ "kubestellar.io/cluster": "cluster1" }));
    memoized["status"] =
        json!({ "phase": "", "nodes": { "w-1": { "type": "Skipped" } }, "message": "of another run" });
    let status = after(None, &memoized).status.unwrap();
    assert_eq!(status["nodes"], json!({ "w-1": { "type": "Skipped" } }));
    assert_eq!(
        (&status["phase"], &status["message"]),
        (&json!("Pending"), &Value::Null)
    );
}

#[test]
fn a_copy_of_a_finished_run_is_not_held() {
    let mut over = workflow(&json!({ "kubestellar.io/cluster": "cluster1" }));
    over["status"] = json!({ "phase": "Succeeded" });
    let read: Workflow = serde_json::from_value(over.clone()).unwrap();
    assert_eq!(after(None, &over), read);
}

#[test]
fn whatever_would_lift_the_hold_is_mended() {
    let old = born();
    let breaks: [fn(&mut Value); 6] = [
        |new| new["metadata"]["labels"][names::ARGO_COMPLETED_LABEL] = json!("false"),
        |new| new["metadata"]["labels"][names::ARGO_PHASE_LABEL] = json!("Running"),
        |new| new["metadata"]["labels"] = json!({ "kubestellar.io/cluster": "cluster1" }),
        |new| new["metadata"]["annotations"] = json!({ names::CLAIM_ANNOTATION: "{}" }),
        |new| new["metadata"]["finalizers"] = json!([names::ARGO_ARTIFACT_GC_FINALIZER]),
        |new| new["status"] = json!({ "phase": "Running", "nodes": { "w": { "type": "Pod" } } }),
    ];
    let held: Workflow = serde_json::from_value(old.clone()).unwrap();
    for (index, lift) in breaks.iter().enumerate() {
        let mut new = old.clone();
        lift(&mut new);
        let mut mended = after(Some(&old), &new);
        mended.metadata.labels = Some(mended.labels().clone());
        let kept = |key: &str| mended.labels().get(key) == held.labels().get(key);
        for label in [
            names::ARGO_COMPLETED_LABEL,
            names::ARGO_PHASE_LABEL,
            names::CLUSTER_LABEL,
        ] {
            assert!(kept(label), "break {index}: {label}");
        }
        assert_eq!(
            Claim::of(&mended.metadata),
            Claim::of(&held.metadata),
            "break {index}"
        );
        assert_eq!(mended.finalizers(), held.finalizers(), "break {index}");
        assert_eq!(mended.status, held.status, "break {index}");
    }
}

#[test]
fn what_users_put_on_a_held_workflow_stays() {
    let old = born();
    let mut new = old.clone();
    new["metadata"]["labels"]["team"] = json!("blue");
    new["metadata"]["annotations"]["note"] = json!("mine");
    new["spec"]["shutdown"] = json!("Stop");
    let read: Workflow = serde_json::from_value(new.clone()).unwrap();
    assert_eq!(after(Some(&old), &new), read);
}

#[test]
fn a_workflow_that_runs_here_is_left_as_it_is() {
    let old = workflow(&json!({}));
    let mut new = old.clone();
    new["status"] = json!({ "phase": "Running" });
    new["metadata"]["labels"][names::ARGO_COMPLETED_LABEL] = json!("true");
    let read: Workflow = serde_json::from_value(new.clone()).unwrap();
    assert_eq!(after(Some(&old), &new), read);
}

#[test]
fn marks_that_a_user_puts_on_a_workflow_that_is_not_held_are_left_out() {
    let old = workflow(&json!({}));
    let mut forged = old.clone();
    let claim = r#"{"cluster":"cluster2","attempt":1,"uid":"u1","started":true}"#;
    forged["metadata"]["uid"] = json!("u1");
    forged["metadata"]["annotations"] = json!({
        names::CLAIM_ANNOTATION: claim, names::RUNS_ON_ANNOTATION: "{}", names::PASSED_ON_ANNOTATION: "{}",
        names::VERBS_ANNOTATION: "{}", "note": "mine",
    });
    let mended = after(Some(&old), &forged);
    assert_eq!(
        mended.annotations(),
        &[("note".to_owned(), "mine".to_owned())].into()
    );

    // A copied claim that is already there claims nothing, and stays as it is.
    let mut copied = old.clone();
    copied["metadata"]["annotations"] = json!({ names::CLAIM_ANNOTATION: "{}" });
    assert_eq!(
        after(Some(&copied), &forged).annotations()[names::CLAIM_ANNOTATION],
        "{}"
    );
}

#[test]
fn a_copy_that_no_policy_selects_begins_here_with_nothing_that_another_cluster_has_reported() {
    let reported = json!({
        "nodes": { "w": { "type": "Pod", "phase": "Succeeded" } }, "compressedNodes": "H4sI", "outputs": { "result": "x" },
        "storedTemplates": { "namespaced/w/main": {} }, "storedWorkflowTemplateSpec": { "entrypoint": "x" },
        "conditions": [{ "type": "Completed", "status": "False" }],
    });
    let reported_by = json!({ "cluster": "", "attempt": 0, "reportedBy": "cluster2", "uid": "" }).to_string();
    let marks = [
        json!({ "labels": { names::CLUSTER_LABEL: "cluster2" } }),
        json!({ "annotations": { names::CLAIM_ANNOTATION: reported_by } }),
    ];
    for mark in marks {
        let copy = |phase: &str| {
            let mut copy = workflow(&json!({}));
            for (field, marks) in mark.as_object().unwrap() {
                copy["metadata"][field] = marks.clone();
            }
            copy["status"] = reported.clone();
            copy["status"]["phase"] = json!(phase);
            after(None, &copy)
        };
        let begun = copy("");
        let conditions = json!({ "phase": "", "conditions": reported["conditions"] });
        assert_eq!(begun.status, Some(conditions), "{mark}");
        assert_eq!((begun.labels().len(), begun.annotations().len()), (0, 0));
        // A copy of a finished run does not run, so it keeps its nodes.
        assert!(copy("Failed").status.unwrap()["nodes"].is_object());
    }
    let mut own = workflow(&json!({}));
    own["status"] = reported.clone();
    assert_eq!(after(None, &own).status, Some(reported));
}

#[test]
fn the_selection_names_what_the_policies_select() {
    assert_eq!(Admission::default().selection(), "false");
    let selection = admission().selection().to_owned();
    for part in [
        r#"object.metadata.labels["kubestellar.io/cluster"] == "cluster1""#,
        r#"object.metadata.labels["run"] in ["anywhere", "everywhere"]"#,
        r#"object.metadata.namespace == "lost""#,
    ] {
        assert!(selection.contains(part), "{part} is not in {selection}");
    }
}

#[test]
fn what_is_too_deep_to_be_sent_is_held_and_not_claimed() {
    let mut deep = workflow(&json!({ "kubestellar.io/cluster": "cluster1" }));
    let claim = |created: &Workflow| Claim::of(&created.metadata).is_some();
    deep["spec"]["x"] = (0..98).fold(json!(1), |inner, _| json!([inner]));
    assert!(claim(&after(None, &deep)));
    deep["spec"]["x"] = json!([deep["spec"]["x"]]);
    let created = after(None, &deep);
    assert!(!claim(&created));
    assert_eq!(created.labels()[names::ARGO_COMPLETED_LABEL], "true");
}

#[test]
fn a_workflow_whose_stated_requests_cannot_be_read_is_held_and_its_user_is_told() {
    let mut stated = workflow(&json!({ "kubestellar.io/cluster": "cluster1" }));
    for (requests, is_claimed) in [("cpu=8", true), ("cpu 8", false)] {
        stated["metadata"]["annotations"] = json!({ "argosy.dev/requests": requests });
        let answer = succeeded(None, &stated, false);
        let created = after(None, &stated);
        assert_eq!(Claim::of(&created.metadata).is_some(), is_claimed, "{requests}");
        let told = answer.warnings.join(" ");
        assert_eq!(
            told.contains("\"cpu 8\" is not RESOURCE=QUANTITY"),
            !is_claimed,
            "{told}"
        );
        assert_eq!(created.labels()[names::ARGO_COMPLETED_LABEL], "true");
    }
}

#[test]
fn whoever_edits_what_was_sent_is_told_that_a_run_is_not_changed_and_who_uses_a_verb_is_not() {
    let old = born();
    let with = |spec: &Value| {
        let mut new = old.clone();
        let fields = spec.as_object().unwrap().clone();
        new["spec"].as_object_mut().unwrap().extend(fields);
        new
    };
    let mut resumed = with(&json!({}));
    resumed["status"] = json!({ "phase": "Running", "nodes": {} });
    let mut labeled = with(&json!({}));
    labeled["metadata"]["labels"]["team"] = json!("blue");
    for (new, is_edited, is_told) in [
        (with(&json!({})), true, true),
        (
            with(&json!({ "arguments": { "parameters": [{ "name": "a" }] } })),
            false,
            true,
        ),
        (labeled, false, false),
        (with(&json!({ "archiveLogs": false })), false, false),
        // As `argo` writes them: the other fields are in the order and spelling of its types.
        (with(&json!({ "suspend": true })), true, false),
        (with(&json!({ "shutdown": "Stop" })), true, false),
        (resumed, true, false),
    ] {
        let warnings = succeeded(Some(&old), &new, is_edited).warnings;
        let expected = "argosy: a run is not changed: cluster1 continues";
        let told = warnings.iter().filter(|warning| warning.starts_with(expected));
        assert_eq!(
            told.count(),
            usize::from(is_told),
            "{}: {warnings:?}",
            new["spec"]
        );
    }
    let local = workflow(&json!({ "team": "blue" }));
    assert_eq!(succeeded(Some(&local), &local, true), Answer::default());
}
