//! A Workflow after a run with Argo 3.7, and the remaining object that is sent to a WEC.

use serde_json::json;

use super::*;
use crate::{Applied, Transform};

/// A finished run of a hello-world Workflow, with the fields that Argo 3.7 and the API server set.
const FINISHED: &str = include_str!("finished.json");

/// The paths of the CustomTransform that KubeStellar publishes for Argo.
const PUBLISHED: [&str; 3] = [
    "$.spec.suspend",
    r#"$.metadata.labels["workflows.argoproj.io/completed"]"#,
    r#"$.metadata.labels["workflows.argoproj.io/phase"]"#,
];

fn finished() -> Value {
    serde_json::from_str(FINISHED).unwrap()
}

/// The Workflow that the user wrote, which is also the expected result.
fn as_submitted() -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {
            "name": "hello-world-x7k2p",
            "namespace": "argo",
            "labels": {
                "kubestellar.io/cluster": "cluster1",
                "workflows.argoproj.io/archive-strategy": "false",
                "workflows.argoproj.io/creator": "system-serviceaccount-argo-argo-server",
                "workflows.argoproj.io/workflow-template": "hello",
            },
            "annotations": {
                "workflows.argoproj.io/description": "This is a simple hello world example.\n",
                "workflows.argoproj.io/scheduled-time": "2026-11-21T10:00:00Z",
            },
        },
        "spec": {
            "entrypoint": "hello",
            "arguments": {"parameters": [{"name": "phase", "value": "suspend"}]},
            "templates": [
                {
                    "name": "hello",
                    "inputs": {}, "outputs": {}, "metadata": {},
                    "container": {
                        "name": "", "image": "busybox:1.36", "command": ["echo"],
                        "args": ["hello {{workflow.parameters.phase}}"], "resources": {},
                    },
                },
                {"name": "approve", "inputs": {}, "outputs": {}, "metadata": {}, "suspend": {"duration": "5s"}},
            ],
        },
    })
}

#[test]
fn a_workflow_goes_down_as_its_user_submitted_it() {
    let mut workflow = finished();
    strip(&mut workflow);
    assert_eq!(workflow, as_submitted());
}

#[test]
fn stripping_again_changes_nothing() {
    let mut workflow = finished();
    strip(&mut workflow);
    let once = workflow.clone();
    strip(&mut workflow);
    assert_eq!(workflow, once);
}

#[test]
fn the_published_transform_removes_the_ticket_and_two_labels() {
    let transform = Transform::compile(&PUBLISHED).transform;
    let mut workflow = finished();
    let mut expected = finished();
    assert_eq!(
        transform.apply(&mut workflow),
        Applied {
            removed: 3,
            refused: Vec::new()
        }
    );
    expected["spec"].as_object_mut().unwrap().remove("suspend");
    let labels = expected["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove("workflows.argoproj.io/completed");
    labels.remove("workflows.argoproj.io/phase");
    assert_eq!(workflow, expected);
}

#[test]
fn the_published_transform_before_or_after_the_built_in_rules_ends_the_same() {
    let transform = Transform::compile(&PUBLISHED).transform;
    let mut after = finished();
    strip(&mut after);
    assert_eq!(transform.apply(&mut after).removed, 0);
    let mut before = finished();
    transform.apply(&mut before);
    strip(&mut before);
    assert_eq!(before, after);
}

#[test]
fn a_held_copy_that_never_ran_keeps_no_hold() {
    let mut workflow = json!({
        "metadata": {
            "name": "w",
            "labels": {"argosy.dev/cluster": "cluster1", "workflows.argoproj.io/completed": "true"},
            "annotations": {"argosy.dev/claim": "{}"},
            "finalizers": ["argosy.dev/controller"],
        },
        "spec": {"suspend": true, "entrypoint": "main"},
        "status": {"phase": "Pending"},
    });
    strip(&mut workflow);
    assert_eq!(
        workflow,
        json!({"metadata": {"name": "w"}, "spec": {"entrypoint": "main"}})
    );
}

#[test]
fn a_malformed_workflow_is_left_as_far_as_it_goes() {
    for value in [
        json!(null),
        json!({"spec": true}),
        json!({"metadata": 1, "spec": []}),
    ] {
        let mut workflow = value.clone();
        strip(&mut workflow);
        assert_eq!(workflow, value);
    }
}
