//! Tests with reviews as an API server posts them.

use serde_json::json;

use super::*;

fn answer(body: &[u8]) -> Result<Vec<u8>, String> {
    Review::read(body)?.answer(&Admission::default())
}

fn asked(request: &Value) -> Result<Value, String> {
    let review =
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request });
    let answered = answer(review.to_string().as_bytes())?;
    Ok(serde_json::from_slice(&answered).unwrap())
}

#[test]
fn what_no_policy_selects_is_allowed_without_a_patch() {
    let workflow = json!({ "metadata": { "generateName": "a-" }, "spec": {} });
    let answered =
        asked(&json!({ "uid": "u1", "operation": "CREATE", "oldObject": null, "object": workflow }));
    let wanted = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": { "uid": "u1", "allowed": true },
    });
    assert_eq!(answered, Ok(wanted));
}

#[test]
fn a_workflow_that_cannot_be_read_is_let_through_with_a_warning() {
    let odd = json!({ "metadata": { "labels": ["a"] }, "spec": {} });
    let answered = asked(&json!({ "uid": "u1", "object": odd })).unwrap();
    assert_eq!(answered["response"]["allowed"], true);
    let warning = answered["response"]["warnings"][0].as_str().unwrap();
    assert!(
        warning.starts_with("Argosy cannot read this Workflow"),
        "{warning}"
    );
}

#[test]
fn what_is_no_review_gets_an_error_that_says_so() {
    for bad in [
        "",
        "[]",
        "{}",
        r#"{"apiVersion":"v1","kind":"AdmissionReview","request":{}}"#,
    ] {
        let error = answer(bad.as_bytes()).unwrap_err();
        assert!(error.starts_with("this is not an AdmissionReview"), "{error}");
    }
}

/// Parses a review of these Workflows.
fn read(old: Option<&Value>, new: &Value) -> Result<(Workflow, Option<Workflow>), String> {
    read_whole(old, new).map(|(new, old, _)| (new, old))
}

fn read_whole(old: Option<&Value>, new: &Value) -> Result<(Workflow, Option<Workflow>, bool), String> {
    let request = json!({ "uid": "u1", "object": new, "oldObject": old });
    let review = json!({ "apiVersion": "v1", "kind": "AdmissionReview", "request": request }).to_string();
    let read = Review::read(review.as_bytes())?.workflows();
    read.map(Option::unwrap)
}

#[test]
fn of_the_rest_of_a_specification_it_is_seen_whether_it_differs() {
    let old = json!({ "spec": { "entrypoint": "main", "suspend": true, "templates": [{ "name": "main" }] } });
    for (spec, is_edited) in [
        (old["spec"].clone(), false),
        (
            json!({ "entrypoint": "main", "templates": [{ "name": "main" }] }),
            false,
        ),
        (
            json!({ "entrypoint": "main", "shutdown": "Stop", "archiveLogs": true, "templates": [{ "name": "main" }] }),
            false,
        ),
        (
            json!({ "entrypoint": "main", "templates": [{ "name": "other" }] }),
            true,
        ),
        (json!({ "templates": [{ "name": "main" }] }), true),
        (
            json!({ "entrypoint": "main", "priority": 1, "templates": [{ "name": "main" }] }),
            true,
        ),
    ] {
        let (.., seen) = read_whole(Some(&old), &json!({ "spec": spec })).unwrap();
        assert_eq!(seen, is_edited, "{spec}");
    }
    let created = read_whole(None, &old).unwrap();
    assert!(!created.2, "nothing is edited at a creation");
}

#[test]
fn of_a_workflow_only_what_a_review_looks_at_is_read() {
    let new = json!({
        "metadata": { "name": "a", "labels": { "b": "c" } },
        "spec": { "templates": [{ "name": "main" }], "suspend": null, "arguments": { "parameters": [] } },
        "status": { "phase": "Running" }, "else": [0],
    });
    let before = json!({ "metadata": { "name": "a" }, "spec": new["spec"] });
    let (read_new, old) = read(Some(&before), &new).unwrap();
    assert_eq!(old.map(|old| old.spec).as_ref(), Some(&read_new.spec));
    assert_eq!(read_new.metadata.name.as_deref(), Some("a"));
    assert_eq!(
        read_new.spec,
        json!({ "suspend": null, "arguments": { "parameters": [] } })
    );
    assert_eq!(read_new.status, Some(json!({ "phase": "Running" })));
    let (odd, _) = read(None, &json!({ "metadata": {}, "spec": true, "status": null })).unwrap();
    assert_eq!((odd.spec, odd.status), (Value::Null, None));
}

#[test]
fn at_its_creation_what_a_workflow_asks_for_is_read_unless_it_is_too_long_or_too_deep() {
    let pod = |args: &str| json!([{ "name": "main", "container": { "args": [args] } }]);
    let asks = |templates: &Value| json!({ "spec": { "entrypoint": "main", "templates": templates, "priority": 1, "suspend": true } });
    let (created, _) = read(None, &asks(&pod("x"))).unwrap();
    assert_eq!(
        created.spec,
        json!({ "entrypoint": "main", "templates": pod("x"), "suspend": true })
    );
    let (long, _) = read(None, &asks(&pod(&"x".repeat(LONGEST_DEMAND)))).unwrap();
    assert_eq!(long.spec, json!({ "suspend": true }));
    let deep = format!(
        r#"{{"spec":{{"entrypoint":"main","suspend":true,"templates":{}{}}}}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    let review =
        format!(r#"{{"apiVersion":"v1","kind":"AdmissionReview","request":{{"uid":"u","object":{deep}}}}}"#);
    let (deep, ..) = Review::read(review.as_bytes())
        .unwrap()
        .workflows()
        .unwrap()
        .unwrap();
    assert_eq!(deep.spec, json!({ "entrypoint": "main", "suspend": true }));
}

#[test]
fn a_status_that_nobody_writes_is_not_read() {
    let mut old = json!({ "metadata": { "labels": {} }, "spec": {}, "status": { "nodes": { "a": {} } } });
    let mut new = old.clone();
    new["metadata"]["labels"]["b"] = json!("c");
    let statuses = |old: &Value, new: &Value| {
        let (new, old) = read(Some(old), new).unwrap();
        (old.unwrap().status, new.status)
    };
    assert_eq!(statuses(&old, &new), (None, None));
    new["status"]["phase"] = json!("Error");
    let (before, after) = statuses(&old, &new);
    assert_eq!(
        (before.unwrap(), after.unwrap()),
        (old["status"].take(), new["status"].take())
    );
}

#[test]
fn what_would_take_too_much_memory_is_let_through_unread() {
    let zeros = json!(vec![0; 1 << 20]);
    let harmless = read(None, &json!({ "metadata": {}, "spec": { "templates": zeros } })).unwrap();
    assert_eq!(harmless.0.spec, json!({}));
    for heavy in [
        json!({ "metadata": {}, "spec": { "arguments": zeros } }),
        json!({ "metadata": {}, "status": zeros }),
        json!({ "metadata": { "name": zeros } }),
    ] {
        let error = read(None, &heavy).unwrap_err();
        assert!(error.contains("the limit is"), "{error}");
        let answered = asked(&json!({ "uid": "u1", "object": heavy })).unwrap();
        assert_eq!(answered["response"]["allowed"], true);
    }
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let deep: Box<RawValue> = serde_json::from_str(&deep).unwrap();
    let body =
        format!(r#"{{"apiVersion":"v1","kind":"A","request":{{"uid":"u1","object":{{"status":{deep}}}}}}}"#);
    assert!(Review::read(body.as_bytes()).unwrap().workflows().is_err());
}

#[test]
fn a_cron_workflow_is_answered_without_a_patch_however_odd_it_is() {
    let resource = json!({ "group": "argoproj.io", "version": "v1alpha1", "resource": "cronworkflows" });
    for object in [
        json!({ "metadata": { "name": "c" }, "spec": { "workflowMetadata": { "labels": { "a": "b" } } } }),
        json!({ "metadata": { "labels": ["a"] }, "spec": {} }),
        json!({ "spec": { "workflowMetadata": "x" } }),
        json!([1]),
    ] {
        let request = json!({ "uid": "u1", "resource": resource, "object": object, "oldObject": null });
        let answered = asked(&request).unwrap();
        assert_eq!(
            answered["response"],
            json!({ "uid": "u1", "allowed": true }),
            "{object}"
        );
    }
    let deletion = json!({ "uid": "u1", "resource": resource, "object": null });
    assert_eq!(asked(&deletion).unwrap()["response"]["allowed"], true);
}
