//! Results of condition rules for an object.

use argosy_api::manifest_work::ConditionRule;

use super::*;

/// Status, reason and message of every condition that the rules produce for an object.
fn judged(rules: &[Value], object: &Value) -> Vec<(String, String, String, String)> {
    let rules: Vec<ConditionRule> = rules.iter().map(|rule| read(rule.clone())).collect();
    let evaluation: Evaluation = Evaluation::of(rules, read(object.clone()));
    let outcomes = evaluation.run().outcomes;
    outcomes
        .into_iter()
        .map(|outcome| {
            (
                outcome.type_,
                outcome.status.to_owned(),
                outcome.reason.to_owned(),
                outcome.message,
            )
        })
        .collect()
}

fn job(status: &Value) -> Value {
    json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "j" }, "status": status })
}

fn pod(status: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" }, "status": status })
}

fn well_known(more: Value) -> Value {
    with(
        json!({ "type": "WellKnownConditions", "condition": "Complete" }),
        more,
    )
}

fn cel(expressions: &[&str], more: Value) -> Value {
    let rule = json!({ "type": "CEL", "condition": "Ready", "celExpressions": expressions });
    with(rule, more)
}

#[test]
fn what_ocm_knows_of_jobs_and_pods_is_known() {
    let ended = |type_: &str| job(&json!({ "conditions": [{ "type": type_, "status": "True" }] }));
    for (object, status, message) in [
        (job(&json!({})), "False", "Job is not finished"),
        (job(&json!({ "conditions": [] })), "False", "Job is not finished"),
        (ended("Suspended"), "False", "Job is not finished"),
        (ended("Complete"), "True", "Job is finished"),
        (ended("Failed"), "True", "Job is finished"),
        (
            pod(&json!({ "phase": "Running" })),
            "False",
            "Pod is in phase Running",
        ),
        (
            pod(&json!({ "phase": "Failed" })),
            "True",
            "Pod is in phase Failed",
        ),
    ] {
        let judged = judged(&[well_known(json!({}))], &object);
        let [(type_, is, reason, says)] = judged.as_slice() else {
            panic!("{judged:?}");
        };
        assert_eq!(
            (type_.as_str(), is.as_str(), reason.as_str(), says.as_str()),
            ("Complete", status, "ConditionRuleEvaluated", message),
            "{object}"
        );
    }
}

#[test]
fn of_what_ocm_does_not_know_nothing_is_said() {
    let other = json!({ "type": "WellKnownConditions", "condition": "Ready" });
    assert_eq!(judged(&[other], &job(&json!({}))), []);
    let config_map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" } });
    assert_eq!(judged(&[well_known(json!({}))], &config_map), []);
}

#[test]
fn every_rule_gives_a_status_a_reason_and_a_message() {
    let object = pod(&json!({ "phase": "Running", "ready": 2, "conditions": [{ "type": "Up" }] }));
    let (evaluated, failed) = ("ConditionRuleEvaluated", "ConditionRuleExpressionError");
    for (rule, status, reason, message) in [
        (
            cel(&["object.status.ready == 2"], json!({})),
            "True",
            evaluated,
            "Manifest is Ready",
        ),
        (
            cel(&["object.status.ready == 3", "object.no"], json!({})),
            "False",
            evaluated,
            "Manifest is not Ready",
        ),
        (cel(&[], json!({})), "True", evaluated, "Manifest is Ready"),
        (
            cel(&["true"], json!({ "message": "up" })),
            "True",
            evaluated,
            "up",
        ),
        (
            cel(
                &["false"],
                json!({ "message": "up", "messageExpression": "result ? 'up' : object.status.phase" }),
            ),
            "False",
            evaluated,
            "Running",
        ),
        (
            cel(&["true"], json!({ "message": "up", "messageExpression": "''" })),
            "True",
            evaluated,
            "up",
        ),
        (
            cel(&["true"], json!({ "messageExpression": "1" })),
            "True",
            evaluated,
            "expected message expression to have a string result, got int",
        ),
        (
            cel(
                &["hasConditions(object.status)", "!hasConditions(object.metadata)"],
                json!({}),
            ),
            "True",
            evaluated,
            "Manifest is Ready",
        ),
        (
            cel(&["object.status.phase"], json!({})),
            "False",
            failed,
            "expected bool result, got string",
        ),
        (
            cel(&["object.status.gone == 1"], json!({})),
            "False",
            failed,
            "No such key: gone",
        ),
        (
            cel(&["result"], json!({})),
            "False",
            failed,
            r#""result" refers to the unknown variable result; available: object"#,
        ),
        (
            json!({ "type": "Other", "condition": "Ready" }),
            "Unknown",
            "ConditionRuleInvalid",
            "unrecognized condition rule type Other",
        ),
    ] {
        let judged = judged(std::slice::from_ref(&rule), &object);
        let expected = ["Ready", status, reason, message].map(str::to_owned);
        let [type_, status, reason, message] = expected;
        assert_eq!(judged, [(type_, status, reason, message)], "{rule}");
    }
}

#[test]
fn rules_that_cost_too_much_say_so_and_leave_the_others_their_share() {
    let dear = "[1,2,3,4,5,6,7,8,9,10].map(a, [1,2,3,4,5,6,7,8,9,10].map(b, [1,2,3,4,5,6,7,8,9,10].map(c, \
                [1,2,3,4,5,6,7,8,9,10].map(d, [1,2,3,4,5,6,7,8,9,10].map(e, 1))))).size() > 0";
    let rules = [
        cel(&[dear], json!({})),
        cel(&["true"], json!({ "condition": "Other" })),
    ];
    let costly = judged(&rules, &pod(&json!({})));
    assert!(costly[0].3.contains("costs too much"), "{costly:?}");
    assert_eq!((costly[0].1.as_str(), costly[1].1.as_str()), ("False", "True"));
    let many = vec!["true"; 65];
    let too_many = judged(&[cel(&many, json!({}))], &pod(&json!({})));
    assert!(too_many[0].3.contains("more than 64"), "{too_many:?}");
}
