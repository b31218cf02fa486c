//! The first line and the remarks after it.

use argosy_api::{ManifestWork, WorkStatus};

use super::*;

/// A suspended Workflow `argo/w` with UID `u1`, merged with the fields of `more`.
fn run(more: &Value) -> Workflow {
    let mut object = json!({
        "metadata": { "namespace": "argo", "name": "w", "uid": "u1" },
        "spec": { "suspend": true, "entrypoint": "main" },
    });
    json_patch::merge(&mut object, more);
    read(object)
}

fn claimed(cluster: &str, started: bool, phase: &str) -> Workflow {
    let claim = json!({ "cluster": cluster, "attempt": 1, "uid": "u1", "started": started });
    let dispatched =
        json!({ "type": "Dispatched", "status": "True", "message": "Claimed: sent to c1, attempt 1" });
    let theirs = json!({ "type": "PodRunning", "status": "False" });
    run(&json!({
        "metadata": { "annotations": { "argosy.dev/claim": claim.to_string() } },
        "status": { "phase": phase, "conditions": [dispatched, theirs] },
    }))
}

fn work(cluster: &str, conditions: &[(&str, &str, &str)]) -> ManifestWork {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(type_, status, reason)| {
            json!({
                "type": type_, "status": status, "reason": reason, "message": "said by the agent",
                "lastTransitionTime": "2026-11-21T09:00:00Z",
            })
        })
        .collect();
    read(json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {
            "namespace": cluster, "name": "argosy-u1", "annotations": { "argosy.dev/attempt": "1" },
        },
        "spec": {}, "status": { "conditions": conditions },
    }))
}

fn report(cluster: &str) -> WorkStatus {
    read(json!({
        "metadata": {
            "namespace": cluster, "name": "argosy-u1", "creationTimestamp": "2026-11-21T09:00:00Z",
            "annotations": { "argosy.dev/written-at": "2026-11-21T09:05:00Z" },
        },
        "status": { "phase": "Running" }, "reported": { "attempt": 1 },
    }))
}

/// The explanation of a Workflow among `policies`, with the reachable clusters `c1` and `c2`, and
/// `c3`, which is unreachable.
fn explained(run: &Workflow, policies: &[BindingPolicy], works: &[ManifestWork]) -> Explanation {
    let clusters = [
        cluster("c1", "True"),
        cluster("c2", "True"),
        cluster("c3", "Unknown"),
    ];
    let course = History::of_workflow(run, works, &[]);
    let own = run.labels().clone();
    explain(
        run_subject(&own, None),
        Some(run),
        &Referred::default(),
        policies,
        &clusters,
        None,
        course,
    )
}

fn verdict(run: &Workflow, policies: &[BindingPolicy]) -> Verdict {
    explained(run, policies, &[]).verdict
}

fn rerunning(mut policy: BindingPolicy) -> BindingPolicy {
    policy.metadata.annotations = Some(labels(&[("argosy.dev/on-lost", "rerun")]));
    policy
}

#[test]
fn a_workflow_that_is_not_claimed_says_where_it_will_go_or_why_not() {
    let (one, both) = (for_clusters("one", &["c1"]), for_clusters("both", &["c1", "c2"]));
    let two = for_clusters("two", &["c2"]);
    let nowhere = for_clusters("nowhere", &["c9"]);
    let away = rerunning(for_clusters("away", &["c3"]));
    let other = policy("other", &json!([{}]), &json!([{ "resources": ["pods"] }]));
    let failover = rerunning(for_clusters("failover", &["c2", "c3"]));
    let table: [(&[BindingPolicy], VerdictKind, &str); 9] = [
        (
            std::slice::from_ref(&one),
            VerdictKind::WillBeSent,
            "will be sent to c1: policy one, clause 0",
        ),
        (
            &[one.clone(), nowhere.clone(), other.clone()],
            VerdictKind::WillBeSent,
            "will be sent to c1: policy one, clause 0",
        ),
        (&[], VerdictKind::NotSent, "is not sent: no policy selects it"),
        (
            &[other],
            VerdictKind::NotSent,
            "is not sent: no policy selects it",
        ),
        (
            std::slice::from_ref(&both),
            VerdictKind::NotSent,
            "is not sent: several clusters match: c1, c2",
        ),
        (
            &[one.clone(), two],
            VerdictKind::NotSent,
            "is not sent: several clusters match: c1, c2",
        ),
        (
            &[nowhere],
            VerdictKind::NotSent,
            "is not sent: no cluster matches (selected by policy nowhere, clause 0)",
        ),
        (
            &[away],
            VerdictKind::NotSent,
            "is not sent: none of the matching clusters is reachable: c3",
        ),
        (
            &[failover],
            VerdictKind::WillBeSent,
            "will be sent to c2: policy failover, clause 0",
        ),
    ];
    for (policies, standing, sentence) in table {
        let verdict = verdict(&run(&json!({})), policies);
        assert_eq!(verdict.sentence, format!("argo/w {sentence}"));
        assert_eq!(verdict.standing, standing, "{sentence}");
    }
}

#[test]
fn a_workflow_that_no_policy_selects_waits_or_is_the_control_clusters() {
    let named = |more: &Value| {
        let mut object = run(&json!({ "metadata": { "labels": { "kubestellar.io/cluster": "c9" } } }));
        object.spec["suspend"] = json!(null);
        let mut object = json!(object);
        json_patch::merge(&mut object, more);
        read::<Workflow>(object)
    };
    let held = json!({ "metadata": {
        "labels": { "workflows.argoproj.io/completed": "true" }, "finalizers": ["argosy.dev/controller"],
        "annotations": { "argosy.dev/claim": r#"{"cluster":"","attempt":0,"held":true,"uid":""}"# },
    } });
    for (run, fate, remark) in [
        (
            named(&held),
            "is not sent",
            "it names c9 (kubestellar.io/cluster) and is held until a policy selects it",
        ),
        (
            named(&json!({ "spec": { "suspend": true } })),
            "is not sent",
            "it is suspended, so it waits",
        ),
        (
            named(&json!({})),
            "runs on the control cluster",
            "it names c9 (kubestellar.io/cluster), but was not held",
        ),
        (
            named(&json!({ "metadata": { "labels": { "kubestellar.io/cluster": "local" } } })),
            "runs on the control cluster",
            "",
        ),
        (
            named(&json!({ "status": { "phase": "Failed" } })),
            "has ended on the control cluster, Failed",
            "",
        ),
    ] {
        let verdict = verdict(&run, &[for_pods()]);
        assert_eq!(verdict.sentence, format!("argo/w {fate}: no policy selects it"));
        assert_eq!(verdict.standing, VerdictKind::NotSent);
        let remarks = verdict.remarks.join("; ");
        assert!(
            remarks.starts_with(remark) && remarks.is_empty() == remark.is_empty(),
            "{remarks}"
        );
    }
}

fn for_pods() -> BindingPolicy {
    policy("other", &json!([{}]), &json!([{ "resources": ["pods"] }]))
}

#[test]
fn several_clauses_and_policies_are_all_named() {
    let clauses = json!([{ "resources": ["*"] }, { "resources": ["pods"] }, { "namespaces": ["argo"] }]);
    let name = json!([{ "matchLabels": { "name": "c1" } }]);
    let several = policy("several", &name, &clauses);
    let verdict_of = |policies: &[BindingPolicy]| verdict(&run(&json!({})), policies).sentence;
    assert_eq!(
        verdict_of(std::slice::from_ref(&several)),
        "argo/w will be sent to c1: policy several, clauses 0, 2"
    );
    assert_eq!(
        verdict_of(&[several, for_clusters("also", &["c1"])]),
        "argo/w will be sent to c1: policies also (clause 0), several (clauses 0, 2)"
    );
}

#[test]
fn what_is_ambiguous_comes_with_what_to_do() {
    let policies = [for_clusters("both", &["c1", "c2"]), for_clusters("one", &["c1"])];
    let advice = verdict(&run(&json!({})), &policies).remarks.join("\n");
    for part in [
        "policy both matches c1, c2: narrow its clusterSelectors",
        "policy one matches c1 only",
        "change the labels of the Workflow",
        "argosy.dev/runs=best-cluster",
        "argosy.dev/runs=every-cluster",
    ] {
        assert!(advice.contains(part), "{part} is not in:\n{advice}");
    }
}

#[test]
fn a_workflow_that_may_have_run_here_is_not_sent() {
    let policies = [for_clusters("one", &["c1"])];
    let unheld = verdict(&run(&json!({ "spec": { "suspend": null } })), &policies);
    assert!(
        unheld.sentence.starts_with("argo/w is not sent: NotHeld: "),
        "{unheld:?}"
    );
    let ended = verdict(&run(&json!({ "status": { "phase": "Succeeded" } })), &policies);
    assert!(
        ended.sentence.starts_with("argo/w is not sent: AlreadyStarted: "),
        "{ended:?}"
    );
    assert!(!unheld.is_sent() && !ended.is_sent());
}

#[test]
fn a_claimed_workflow_says_how_far_it_is() {
    let policies = [for_clusters("one", &["c1"])];
    let sentence = |run: &Workflow, works: &[ManifestWork]| explained(run, &policies, works).verdict.sentence;
    let by = "policy one, clause 0";
    let sent = claimed("c1", false, "Pending");
    let created = work("c1", &[("Applied", "True", "Created")]);
    assert_eq!(
        sentence(&sent, &[]),
        format!("argo/w is sent to c1 (attempt 1): {by}")
    );
    assert_eq!(
        sentence(&sent, &[created]),
        format!("argo/w runs on c1 (attempt 1): {by}")
    );
    assert_eq!(
        sentence(&claimed("c1", true, "Running"), &[]),
        format!("argo/w runs on c1 (attempt 1): {by}")
    );
    assert_eq!(
        sentence(&claimed("c1", true, "Failed"), &[]),
        format!("argo/w has ended on c1 (attempt 1), Failed: {by}")
    );
}

#[test]
fn what_stands_in_the_way_of_a_claimed_workflow_is_remarked() {
    let policies = [for_clusters("one", &["c1"])];
    let blocked = work("c1", &[("Applied", "False", "NamespaceMissing")]);
    let verdict = explained(&claimed("c1", false, "Pending"), &policies, &[blocked]).verdict;
    assert_eq!(
        verdict.sentence,
        "argo/w is sent to c1 (attempt 1), but has not started: policy one, clause 0"
    );
    assert_eq!(verdict.remarks, ["NamespaceMissing: said by the agent"]);
    let mut unsent = claimed("c1", false, "Pending");
    let missing = "MailboxMissing: the ITS has no namespace c1";
    let told = json!({ "type": "Dispatched", "status": "False", "message": missing });
    unsent.status = Some(json!({ "phase": "Pending", "conditions": [told] }));
    let verdict = explained(&unsent, &policies, &[]).verdict;
    assert_eq!(
        verdict.sentence,
        "argo/w is claimed for c1 (attempt 1), but not sent: policy one, clause 0"
    );
    assert_eq!(verdict.remarks, [missing]);
    assert!(!verdict.is_sent());
    let away = [for_clusters("away", &["c3"])];
    let verdict = explained(&claimed("c3", true, "Running"), &away, &[]).verdict;
    assert_eq!(
        verdict.remarks,
        ["c3 has been unreachable since 2026-11-21T09:00:00Z: as the agent says"]
    );
    assert!(verdict.is_sent());
}

#[test]
fn a_claim_that_no_policy_stands_for_any_more_says_what_becomes_of_it() {
    let policies = [for_clusters("two", &["c2"])];
    let started = explained(&claimed("c1", true, "Running"), &policies, &[]).verdict;
    assert_eq!(
        started.sentence,
        "argo/w runs on c1 (attempt 1); no policy sends it to c1 any more"
    );
    assert_eq!(started.remarks, ["it has started, so it stays"]);
    let unstarted = explained(&claimed("c1", false, "Pending"), &policies, &[]).verdict;
    assert_eq!(unstarted.remarks, ["it has not started, so it is withdrawn"]);
}

#[test]
fn the_course_of_a_workflow_has_our_conditions_its_work_and_its_last_report() {
    let run = claimed("c1", false, "Running");
    let works = [work("c1", &[("Applied", "True", "Created")])];
    let course = History::of_workflow(&run, &works, &[report("c1"), report("c2")]);
    let claim = course.claim.as_ref().unwrap();
    assert_eq!(
        (claim.cluster.as_str(), claim.attempt, claim.has_started),
        ("c1", 1, true)
    );
    let types: Vec<&str> = course.conditions.iter().map(|one| one.type_.as_str()).collect();
    assert_eq!(types, ["Dispatched"], "Argo's own are left out");
    let clusters: Vec<&str> = course.copies.iter().map(|copy| copy.cluster.as_str()).collect();
    assert_eq!(clusters, ["c1", "c2"]);
    let copy = course.copy("c1").unwrap();
    assert_eq!(copy.work.as_ref().unwrap().attempt, 1);
    let report = copy.report.as_ref().unwrap();
    assert_eq!(report.phase, "Running");
    assert_eq!(report.written_at, Some("2026-11-21T09:05:00Z".parse().unwrap()));
    assert_eq!(course.copy("c2").unwrap().work, None);
}

#[test]
fn a_report_of_an_earlier_attempt_does_not_say_that_this_one_has_started() {
    let claim = json!({ "cluster": "c1", "attempt": 2, "uid": "u1" });
    let run = run(&json!({ "metadata": { "annotations": { "argosy.dev/claim": claim.to_string() } } }));
    let works = [work("c1", &[("Applied", "True", "Created")])];
    let course = History::of_workflow(&run, &works, &[report("c1")]);
    assert!(!course.claim.unwrap().has_started);
}

#[test]
fn an_object_of_another_kind_goes_to_every_cluster_that_matches() {
    let own = Labels::new();
    let everything = json!([{ "resources": ["clusterroles"] }]);
    let two = json!([{ "matchExpressions": [{ "key": "name", "operator": "In", "values": ["c1", "c2"] }] }]);
    let policies = [policy("roles", &two, &everything)];
    let clusters = [
        cluster("c1", "True"),
        cluster("c2", "True"),
        cluster("c3", "True"),
    ];
    let sentence = |works: &[ManifestWork]| {
        let course = History::of_object(&read(json!({ "name": "reader", "uid": "u1" })), works, &[]);
        explain(
            role_subject(&own),
            None,
            &Referred::default(),
            &policies,
            &clusters,
            None,
            course,
        )
        .verdict
    };
    let (subject, by) = (
        "clusterroles.rbac.authorization.k8s.io reader",
        "policy roles, clause 0",
    );
    let applied = |cluster| work(cluster, &[("Applied", "True", "AppliedManifestComplete")]);
    let table: [(&[ManifestWork], &str, VerdictKind); 4] = [
        (&[], "will be sent to", VerdictKind::WillBeSent),
        (&[applied("c1")], "will be sent to", VerdictKind::WillBeSent),
        (&[applied("c1"), work("c2", &[])], "is sent to", VerdictKind::Sent),
        (&[applied("c1"), applied("c2")], "is on", VerdictKind::Sent),
    ];
    for (works, words, standing) in table {
        let verdict = sentence(works);
        assert_eq!(verdict.sentence, format!("{subject} {words} c1, c2: {by}"));
        assert_eq!(verdict.standing, standing);
    }
    assert_eq!(
        sentence(&[applied("c1")]).remarks,
        ["there is no ManifestWork yet for c2"]
    );
}

#[test]
fn what_is_left_of_an_object_that_no_policy_selects_is_told() {
    let explanation = explained(&run(&json!({})), &[], &[work("c2", &[])]);
    assert_eq!(explanation.verdict.standing, VerdictKind::NotSent);
    assert!(
        explanation
            .verdict
            .remarks
            .contains(&"an object for it is still in the mailbox of c2".to_owned()),
        "{:?}",
        explanation.verdict.remarks
    );
}

#[test]
fn the_explanation_is_json_with_stable_names() {
    let policies = [for_clusters("one", &["c1"])];
    let told = serde_json::to_value(explained(&run(&json!({})), &policies, &[])).unwrap();
    assert_eq!(told["verdict"]["standing"], "WillBeSent");
    assert_eq!(told["policies"][0]["clauses"][0]["wants"]["createOnly"], false);
    assert_eq!(told["clusters"][0]["policies"][0]["selector"], 0);
    assert_eq!(told["clusters"][2]["reachability"]["state"], "Unreachable");
    let failing = &told["clusters"][1]["policies"][0]["failing"][0];
    assert_eq!(
        failing,
        "clusterSelectors[0] requires name in (c1); the cluster has name=c2"
    );
}

#[test]
fn a_cron_workflow_says_where_it_fires() {
    let own = known();
    let cron = ObjectAttributes {
        resource: "cronworkflows",
        ..run_subject(&own, None)
    };
    let all = policy("all", &json!([{ "matchLabels": { "name": "c1" } }]), &json!([{}]));
    let mut asking = all.clone();
    asking.metadata.annotations = Some(labels(&[("argosy.dev/cron", "each-cluster")]));
    let verdict = |policy: &BindingPolicy, fires_here: bool| {
        let course = History {
            fires_here,
            ..History::default()
        };
        let policies = std::slice::from_ref(policy);
        explain(
            cron,
            None,
            &Referred::default(),
            policies,
            &[cluster("c1", "True")],
            None,
            course,
        )
        .verdict
    };
    let stays = verdict(&all, true);
    assert_eq!(
        (stays.standing, stays.sentence.as_str()),
        (
            VerdictKind::NotSent,
            "cronworkflows.argoproj.io argo/w is not sent: no policy selects it"
        )
    );
    assert_eq!(
        stays.remarks,
        ["it fires on the control cluster, and the Workflows that it creates are sent like any others"]
    );
    let waits = verdict(&asking, true);
    assert_eq!(
        (waits.standing, waits.sentence.as_str()),
        (
            VerdictKind::NotSent,
            "cronworkflows.argoproj.io argo/w is not sent: it also fires on the control cluster; it is sent once its spec.suspend is true on the control cluster"
        )
    );
    assert_eq!(verdict(&asking, false).standing, VerdictKind::WillBeSent);
}

#[test]
fn a_run_that_has_not_begun_says_what_may_keep_its_argo() {
    let policies = [for_clusters("one", &["c1"])];
    let remarks = |phase: &str| verdict(&claimed("c1", true, phase), &policies).remarks;
    assert!(remarks("Running").is_empty());
    let [remark] = remarks("Pending").try_into().unwrap();
    assert!(
        remark.contains("instanceID that the agent does not know"),
        "{remark}"
    );
}

#[test]
fn that_a_run_only_looks_suspended_is_said() {
    let mut run = claimed("c1", true, "Running");
    let applied = json!([{ "manager": "kubectl", "operation": "Apply", "fieldsV1": { "f:spec": {} } }]);
    run.metadata.managed_fields = Some(read(applied));
    let policies = [for_clusters("one", &["c1"])];
    let remark = "lists show it as suspended, because the tool that applies it keeps spec.suspend; its run is not suspended";
    assert_eq!(verdict(&run, &policies).remarks, [remark]);
    run.spec["suspend"] = json!(null);
    assert_eq!(verdict(&run, &policies).remarks, Vec::<String>::new());
}

#[test]
fn that_a_run_is_suspended_is_said_with_who_has_asked() {
    let message = "Asked: by kubectl-annotate (argosy.dev/suspend); no step starts until it is resumed with argosy resume";
    let suspended = json!({ "type": "Suspended", "status": "True", "message": message });
    let mut run = claimed("c1", true, "Running");
    let conditions = run
        .status
        .as_mut()
        .and_then(|status| status["conditions"].as_array_mut());
    conditions.unwrap().push(suspended);
    let verdict = verdict(&run, &[for_clusters("one", &["c1"])]);
    assert_eq!(
        verdict.remarks,
        [
            "it is suspended by kubectl-annotate (argosy.dev/suspend); no step starts until it is resumed with argosy resume"
        ]
    );
}
