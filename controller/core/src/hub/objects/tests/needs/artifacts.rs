//! Argo deletes the artifacts of a Workflow with it, on its cluster and with what it names.

use super::*;

/// A specification that asks Argo to delete artifacts by this strategy.
fn collecting(strategy: &str) -> Value {
    let mut spec = with_config(&["settings"]);
    spec["artifactGC"] = json!({ "strategy": strategy });
    spec
}

fn deleted(workflow: Value) -> Value {
    let finalizer = json!([names::CONTROLLER_FINALIZER]);
    let marks = json!({ "deletionTimestamp": "2026-11-21T10:00:00Z", "finalizers": finalizer });
    with(workflow, json!({ "metadata": marks }))
}

fn reported(workflow: Value, is_unspecified: bool) -> Value {
    let status = json!({ "artifactGCStatus": { "notSpecified": is_unspecified } });
    with(workflow, json!({ "status": status }))
}

const ALL: [&str; 2] = ["cluster1/settings", "cluster1/team"];

#[test]
fn a_run_whose_artifacts_go_with_it_has_its_objects_until_ten_minutes_after_it_is_gone() {
    for (strategy, is_kept) in [
        ("OnWorkflowDeletion", true),
        ("OnWorkflowCompletion", false),
        ("Never", false),
    ] {
        let mut spaces = Spaces::asked_for("configmaps");
        spaces.put(object("ConfigMap", "settings", json!({})));
        let run = workflow("w", "cluster1", collecting(strategy));
        spaces.run(run.clone());
        spaces.run(ended(run.clone()));
        spaces.pass(6000);
        assert_eq!(spaces.sent() == ALL, is_kept, "{strategy}");
        spaces.run(deleted(ended(run)));
        spaces.pass(6000);
        assert_eq!(spaces.sent() == ALL, is_kept, "{strategy}");
        spaces.delete(&kind_of(&json!({ "kind": "Workflow" })), "w");
        spaces.pass(599);
        assert_eq!(spaces.sent() == ALL, is_kept, "{strategy}");
        spaces.pass(1);
        assert_eq!(spaces.sent(), [""; 0]);
        assert!(spaces.index.needs.is_empty());
    }
}

#[test]
fn a_run_whose_templates_may_delete_artifacts_has_its_objects_again_when_it_is_deleted() {
    for is_unspecified in [false, true] {
        let mut spaces = Spaces::asked_for("templates,configmaps");
        spaces.put(object("ConfigMap", "settings", json!({})));
        spaces.put(object(
            "WorkflowTemplate",
            "t",
            json!({ "spec": collecting("OnWorkflowDeletion") }),
        ));
        let run = workflow("w", "cluster1", json!({ "workflowTemplateRef": { "name": "t" } }));
        spaces.run(run.clone());
        spaces.run(ended(run.clone()));
        spaces.pass(600);
        assert_eq!(spaces.sent(), [""; 0]);

        let reads = spaces.requests("object w: read");
        spaces.run(deleted(reported(ended(run.clone()), is_unspecified)));
        let wanted = ["cluster1/settings", "cluster1/t", "cluster1/team"];
        assert_eq!(spaces.sent() == wanted, !is_unspecified, "{:?}", spaces.sent());
        spaces.run(deleted(reported(ended(run), is_unspecified)));
        assert_eq!(spaces.requests("object w: read"), reads + 1, "{:#?}", spaces.log);
    }
}
