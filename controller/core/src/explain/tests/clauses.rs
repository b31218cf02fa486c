//! The reasons why a clause does not select an object, test by test.

use super::*;

/// For each clause, the reason why it does not select the Workflow `argo/w`; empty if it does.
#[test]
fn the_first_test_that_fails_is_told_with_both_sides() {
    let table = [
        (
            json!({ "apiGroup": "apps" }),
            "apiGroup requires apps; the object is of argoproj.io",
        ),
        (
            json!({ "apiGroup": "" }),
            "apiGroup requires the core group; the object is of argoproj.io",
        ),
        (json!({ "apiGroup": "argoproj.io" }), ""),
        (
            json!({ "resources": ["pods", "secrets"] }),
            "resources requires pods, secrets; the object is one of workflows",
        ),
        (json!({ "resources": ["pods", "*"] }), ""),
        (
            json!({ "namespaces": ["default"] }),
            "namespaces requires default; the object is in argo",
        ),
        (json!({ "namespaces": ["*"] }), ""),
        (
            json!({ "objectNames": ["a", "b"] }),
            "objectNames requires a, b; the name of the object is w",
        ),
        (json!({ "objectNames": ["a", "w"] }), ""),
    ];
    let own = known();
    for (clause, sentence) in table {
        let expected: Vec<&str> = Some(sentence)
            .filter(|text| !text.is_empty())
            .into_iter()
            .collect();
        assert_eq!(failing(&clause, run_subject(&own, None)), expected, "{clause}");
    }
}

#[test]
fn of_a_selector_the_first_requirement_that_fails_is_told_with_what_the_object_has() {
    let expression = |operator: &str, key: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
    let table = [
        (
            json!({ "matchLabels": { "color": "red" } }),
            "requires color=red; the object has color=blue",
        ),
        (
            json!({ "matchLabels": { "size": "xl" } }),
            "requires size=xl; the object has no such label",
        ),
        (
            json!({ "matchLabels": { "color": "blue", "size": "xl" } }),
            "requires size=xl; the object has no such label",
        ),
        (
            expression("In", "color", &["red", "green"]),
            "requires color in (green, red); the object has color=blue",
        ),
        (
            expression("NotIn", "color", &["blue"]),
            "requires color not in (blue); the object has color=blue",
        ),
        (
            json!({ "matchExpressions": [{ "key": "size", "operator": "Exists" }] }),
            "requires a label size; the object has no such label",
        ),
        (
            json!({ "matchExpressions": [{ "key": "tier", "operator": "DoesNotExist" }] }),
            "requires no label tier; the object has tier=gold",
        ),
        (
            json!({ "matchExpressions": [{ "key": "tier", "operator": "Near" }] }),
            "cannot be used: failed to parse value as expression: Invalid expression operator",
        ),
    ];
    let own = known();
    for (selector, sentence) in table {
        let clause = json!({ "objectSelectors": [selector] });
        let expected = [format!("objectSelectors[0] {sentence}")];
        assert_eq!(failing(&clause, run_subject(&own, None)), expected, "{clause}");
    }
}

#[test]
fn of_several_selectors_each_says_why_and_one_that_matches_is_enough() {
    let own = known();
    let red = json!({ "matchLabels": { "color": "red" } });
    let blue = json!({ "matchLabels": { "color": "blue" } });
    let silver = json!({ "matchLabels": { "tier": "silver" } });
    let sentences = failing(
        &json!({ "objectSelectors": [red, silver] }),
        run_subject(&own, None),
    );
    assert_eq!(
        sentences,
        [
            "objectSelectors[0] requires color=red; the object has color=blue",
            "objectSelectors[1] requires tier=silver; the object has tier=gold",
        ]
    );
    assert!(
        failing(
            &json!({ "objectSelectors": [red, blue] }),
            run_subject(&own, None)
        )
        .is_empty()
    );
}

#[test]
fn the_tests_are_made_in_kubestellars_order() {
    let own = known();
    let of_namespace = labels(&[("team", "a")]);
    let mut clause = json!({
        "apiGroup": "apps", "resources": ["pods"], "namespaces": ["default"], "objectNames": ["x"],
        "objectSelectors": [{ "matchLabels": { "color": "red" } }],
        "namespaceSelectors": [{ "matchLabels": { "team": "b" } }],
    });
    let order = [
        "apiGroup",
        "resources",
        "namespaces",
        "objectNames",
        "objectSelectors",
        "namespaceSelectors",
    ];
    for test in order {
        let sentences = failing(&clause, run_subject(&own, Some(&of_namespace)));
        assert!(sentences[0].starts_with(test), "{test}: {sentences:?}");
        clause.as_object_mut().unwrap().remove(test);
    }
    assert!(failing(&clause, run_subject(&own, Some(&of_namespace))).is_empty());
}

#[test]
fn the_labels_of_the_namespace_are_told_or_that_there_are_none_to_look_at() {
    let own = known();
    let team = json!({ "namespaceSelectors": [{ "matchLabels": { "team": "a" } }] });
    let of_namespace = labels(&[("team", "b")]);
    let told = |subject| failing(&team, subject).join("");
    assert_eq!(
        told(run_subject(&own, Some(&of_namespace))),
        "namespaceSelectors[0] requires team=a; the namespace argo has team=b"
    );
    assert_eq!(
        told(run_subject(&own, None)),
        "namespaceSelectors[0] requires team=a; the labels of the namespace argo are not known"
    );
    assert_eq!(
        told(role_subject(&own)),
        "namespaceSelectors[0] requires team=a; the object is in no namespace"
    );
}

/// KubeStellar's rules for objects without a namespace.
#[test]
fn a_cluster_scoped_object_is_selected_by_every_namespace_and_by_none_in_particular() {
    let own = known();
    let role = role_subject(&own);
    let in_argo = json!({ "namespaces": ["argo"] });
    assert_eq!(
        failing(&in_argo, role),
        ["namespaces requires argo; the object is in no namespace"]
    );
    for clause in [
        json!({ "namespaces": [] }),
        json!({ "namespaces": ["*"] }),
        json!({ "namespaceSelectors": [{ "matchLabels": { "team": "a" } }, {}] }),
        json!({ "apiGroup": "rbac.authorization.k8s.io", "resources": ["clusterroles"], "objectNames": ["reader"] }),
    ] {
        assert!(failing(&clause, role).is_empty(), "{clause}");
    }
}

#[test]
fn long_lists_are_cut_and_the_rest_is_counted() {
    let own = known();
    let names: Vec<String> = (0..9).map(|index| format!("n{index}")).collect();
    assert_eq!(
        failing(&json!({ "objectNames": names }), run_subject(&own, None)),
        ["objectNames requires n0, n1, n2, n3, n4, n5 and 3 more; the name of the object is w"]
    );
}

#[test]
fn a_clause_says_what_it_wants_and_the_old_place_of_the_singleton_status_counts() {
    let own = known();
    let clause = json!({
        "resources": ["*"], "createOnly": true, "statusCollectors": ["a", "b"], "wantMultiWECReportedState": true,
    });
    let mut policy = policy("p", &json!([{}]), &json!([clause]));
    let wants = |policy: &BindingPolicy| {
        answer_of(policy, run_subject(&own, None)).clauses[0]
            .wants
            .clone()
    };
    let expected = Wants {
        create_only: true,
        singleton_status: false,
        multi_status: true,
        status_collectors: vec!["a".to_owned(), "b".to_owned()],
    };
    assert_eq!(wants(&policy), expected);
    policy.spec.want_singleton_reported_state = Some(true);
    assert!(wants(&policy).singleton_status);
}

#[test]
fn a_policy_is_as_near_as_its_nearest_clause_and_those_that_select_come_first() {
    let own = known();
    let downsync = |clauses: &Value| policy("p", &json!([{}]), clauses);
    let group = json!({ "apiGroup": "apps" });
    let name = json!({ "objectNames": ["x"] });
    let nearest = answer_of(&downsync(&json!([group, name, group])), run_subject(&own, None));
    assert_eq!(nearest.nearest().map(|clause| clause.index), Some(1));
    let mut policies = [
        downsync(&json!([])),
        downsync(&json!([group])),
        downsync(&json!([{ "resources": ["*"] }])),
        downsync(&json!([group, name])),
    ];
    for (policy, name) in policies.iter_mut().zip(["empty", "group", "selects", "name"]) {
        policy.metadata.name = Some(name.to_owned());
    }
    let explanation = explain(
        run_subject(&own, None),
        None,
        &Referred::default(),
        &policies,
        &[],
        None,
        History::default(),
    );
    let order: Vec<&str> = explanation
        .policies
        .iter()
        .map(|policy| policy.name.as_str())
        .collect();
    assert_eq!(order, ["selects", "name", "group", "empty"]);
}

#[test]
fn a_cron_workflow_is_selected_by_a_policy_that_asks_for_copies() {
    let own = known();
    let cron = ObjectAttributes {
        resource: "cronworkflows",
        ..run_subject(&own, None)
    };
    let answer = |annotation: Option<&str>, subject: ObjectAttributes<'_>| {
        let mut policy = policy("p", &json!([{}]), &json!([{}]));
        policy.metadata.annotations = annotation.map(|value| labels(&[("argosy.dev/cron", value)]));
        answer_of(&policy, subject)
    };
    let stays = answer(None, cron);
    assert!(!stays.selects);
    let failing = stays.nearest().and_then(|clause| clause.failing.clone()).unwrap();
    assert_eq!(failing.test, Test::Cron);
    assert_eq!(
        failing.sentences,
        [
            "CronWorkflows fire on the control cluster for the whole fleet and are not sent; to send them, annotate the policy with argosy.dev/cron=each-cluster"
        ]
    );
    assert!(answer(Some("each-cluster"), cron).selects);
    let wrong = answer(Some("all"), cron);
    assert!(!wrong.selects && wrong.problems.len() == 1, "{wrong:?}");
    assert!(answer(None, run_subject(&own, None)).selects);
}
