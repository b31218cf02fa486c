//! Workflows that need many objects.

use super::*;

fn configs(spaces: &mut Spaces, prefix: &str, count: usize) -> Value {
    let names: Vec<String> = (0..count).map(|number| format!("{prefix}{number:03}")).collect();
    for name in &names {
        spaces.put(object("ConfigMap", name, json!({})));
    }
    with_config(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A Workflow that names `own` ConfigMaps, and a template that names others.
fn needing(own: usize, others: usize) -> Spaces {
    let mut spaces = Spaces::asked_for("templates,configmaps");
    let others = configs(&mut spaces, "other", others);
    spaces.put(object("WorkflowTemplate", "whole", json!({ "spec": others })));
    let own = configs(&mut spaces, "own", own);
    let whole = json!({ "workflowTemplateRef": { "name": "whole" } });
    spaces.run(workflow("w", "cluster1", with(own, whole)));
    spaces.pass(2);
    spaces
}

#[test]
fn as_many_objects_travel_as_an_agent_waits_for() {
    // Beside them the template and the namespace.
    let spaces = needing(150, 50);
    assert_eq!(spaces.sent().len(), 202);
    assert_eq!(spaces.status("p")["errors"], Value::Null);
}

#[test]
fn those_that_a_workflow_itself_names_travel_first_and_a_policy_says_that_others_do_not() {
    let spaces = needing(197, 100);
    let sent = spaces.sent();
    assert_eq!(sent.iter().filter(|name| name.contains("/own")).count(), 197);
    let said = "cluster1: a Workflow in team names more than 200 objects, or needs 256 or more, and the others are not sent";
    assert_eq!(spaces.status("p")["errors"], json!([said]));
}

#[test]
fn a_policy_says_that_a_workflow_names_more_objects_than_are_sent() {
    let spaces = needing(205, 0);
    let sent = spaces.sent();
    assert_eq!(sent.iter().filter(|name| name.contains("/own")).count(), 197);
    let said = "cluster1: a Workflow in team names more than 200 objects, or needs 256 or more, and the others are not sent";
    assert_eq!(spaces.status("p")["errors"], json!([said]));
}
