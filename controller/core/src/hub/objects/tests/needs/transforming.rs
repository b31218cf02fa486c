//! The names that Workflows and templates have on their cluster, after transforms and templates.

use super::*;

/// The transform of a kind of Argo, with one entry of `set`.
fn setting(spaces: &mut Spaces, resource: &str, entry: &Value) {
    let transform = spaces.next(json!({
        "metadata": { "name": resource, "generation": 1 },
        "spec": { "apiGroup": "argoproj.io", "resource": resource, "set": [entry] },
    }));
    spaces.learn(DownsyncInput::Transform(Change::Apply(read(transform))));
}

/// The entry that sets the name of the ConfigMap in the first template.
fn name(value: &Value) -> Value {
    let path = "$.spec.templates[0].container.envFrom[0].configMapRef.name";
    with(json!({ "path": path }), value.clone())
}

fn configs(spaces: &mut Spaces, names: &[&str]) {
    for name in names {
        spaces.put(object("ConfigMap", name, json!({})));
    }
}

#[test]
fn a_workflow_finds_the_objects_that_a_transform_names_for_its_cluster() {
    let mut spaces = Spaces::asked_for("configmaps");
    configs(&mut spaces, &["plain", "plain-cluster1", "plain-cluster2"]);
    let by_cluster = name(&json!({ "expression": "value + '-' + cluster.clusterName" }));
    setting(&mut spaces, "workflows", &by_cluster);
    for cluster in ["cluster1", "cluster2"] {
        spaces.run(workflow(cluster, cluster, with_config(&["plain"])));
    }
    let sent = [
        "cluster1/plain-cluster1",
        "cluster1/team",
        "cluster2/plain-cluster2",
        "cluster2/team",
    ];
    assert_eq!(spaces.sent(), sent);
}

#[test]
fn a_workflow_that_moves_brings_the_objects_of_its_new_cluster_and_none_of_the_former_one() {
    let mut spaces = Spaces::asked_for("configmaps");
    configs(&mut spaces, &["plain-cluster1", "plain-cluster2"]);
    let by_cluster = name(&json!({ "expression": "value + '-' + cluster.clusterName" }));
    setting(&mut spaces, "workflows", &by_cluster);
    spaces.run(workflow("w", "cluster1", with_config(&["plain"])));
    spaces.run(workflow("w", "cluster2", with_config(&["plain"])));
    let sent = [
        "cluster1/plain-cluster1",
        "cluster1/team",
        "cluster2/plain-cluster2",
        "cluster2/team",
    ];
    assert_eq!(
        spaces.sent(),
        sent,
        "the former cluster has its objects for ten minutes"
    );
    spaces.pass(600);
    assert_eq!(spaces.sent(), ["cluster2/plain-cluster2", "cluster2/team"]);
}

#[test]
fn the_retry_of_a_workflow_has_the_objects_that_it_names_by_then() {
    let mut spaces = Spaces::asked_for("configmaps");
    configs(&mut spaces, &["plain", "other"]);
    let mut spec = with_config(&["plain"]);
    spec["artifactGC"] = json!({ "strategy": "OnWorkflowDeletion" });
    let run = workflow("w", "cluster1", spec);
    spaces.run(run.clone());
    spaces.run(ended(run.clone()));
    setting(&mut spaces, "workflows", &name(&json!({ "value": "other" })));
    assert_eq!(spaces.sent(), ["cluster1/plain", "cluster1/team"], "it has ended");
    let claim = json!({ "cluster": "cluster1", "attempt": 2, "uid": "w" }).to_string();
    let again = json!({ "metadata": { "annotations": { names::CLAIM_ANNOTATION: claim } } });
    spaces.run(with(run, again));
    let all = ["cluster1/other", "cluster1/plain", "cluster1/team"];
    assert_eq!(spaces.sent(), all);
}

#[test]
fn what_a_workflow_names_now_has_precedence_over_what_it_has_named() {
    let mut spaces = Spaces::asked_for("configmaps");
    let former: Vec<String> = (0..60).map(|number| format!("a{number}")).collect();
    let now: Vec<String> = former.iter().map(|name| format!("b-{name}")).collect();
    let all: Vec<&str> = former.iter().chain(&now).map(String::as_str).collect();
    configs(&mut spaces, &all);
    let former: Vec<&str> = former.iter().map(String::as_str).collect();
    spaces.run(workflow("w", "cluster1", with_config(&former)));
    let path = "$.spec.templates[0].container.envFrom[*].configMapRef.name";
    let renamed = json!({ "path": path, "expression": "'b-' + value" });
    setting(&mut spaces, "workflows", &renamed);
    let sent = spaces.sent();
    for name in &now {
        assert!(sent.contains(&format!("cluster1/{name}")), "{name}: {sent:?}");
    }
}

#[test]
fn a_workflow_that_has_not_begun_is_read_again_when_its_names_may_have_changed() {
    for (phase, is_read) in [("Pending", true), ("", true), ("Running", false)] {
        let mut spaces = Spaces::asked_for("configmaps");
        configs(&mut spaces, &["plain", "other"]);
        let begun = json!({ "metadata": { "labels": { names::ARGO_PHASE_LABEL: phase } } });
        let run = workflow("w", "cluster1", with_config(&["plain"]));
        spaces.run(if phase.is_empty() { run } else { with(run, begun) });
        setting(&mut spaces, "workflows", &name(&json!({ "value": "other" })));
        assert_eq!(
            spaces.requests("object w: read"),
            1 + usize::from(is_read),
            "{phase}"
        );
        spaces.pass(600);
        let has_other = spaces.sent().contains(&"cluster1/other".to_owned());
        assert_eq!(has_other, is_read, "{phase}");
        assert!(
            spaces.sent().contains(&"cluster1/plain".to_owned()),
            "it may have begun with that"
        );
    }
}

#[test]
fn a_workflow_finds_the_objects_that_are_named_by_a_property_of_its_cluster() {
    let mut spaces = Spaces::asked_for("configmaps");
    configs(&mut spaces, &["plain-cluster1"]);
    let templated =
        json!({ "metadata": { "annotations": { "control.kubestellar.io/expand-templates": "true" } } });
    let run = workflow("w", "cluster1", with_config(&["plain-{{.clusterName}}"]));
    spaces.run(with(run, templated));
    assert_eq!(spaces.sent(), ["cluster1/plain-cluster1", "cluster1/team"]);
}

#[test]
fn a_workflow_that_cannot_be_sent_yet_has_its_own_objects_and_those_it_names_once_it_can() {
    let mut spaces = Spaces::asked_for("configmaps");
    configs(&mut spaces, &["plain", "set"]);
    let failing = name(&json!({ "expression": "value < 3 ? 'a' : 'b'" }));
    setting(&mut spaces, "workflows", &failing);
    spaces.run(workflow("w", "cluster1", with_config(&["plain"])));
    assert_eq!(spaces.sent(), ["cluster1/plain", "cluster1/team"]);
    setting(&mut spaces, "workflows", &name(&json!({ "value": "set" })));
    spaces.pass(600);
    assert_eq!(spaces.sent(), ["cluster1/plain", "cluster1/set", "cluster1/team"]);

    let mut spaces = Spaces::asked_for("configmaps");
    configs(&mut spaces, &["plain-deep"]);
    let templated =
        json!({ "metadata": { "annotations": { "control.kubestellar.io/expand-templates": "true" } } });
    let run = workflow("w", "cluster1", with_config(&["plain-{{.pool}}"]));
    spaces.run(with(run, templated));
    assert_eq!(spaces.sent(), ["cluster1/team"], "the property is missing");
    let map = spaces.next(json!({
        "metadata": { "name": "cluster1", "namespace": "customization-properties" }, "data": { "pool": "deep" },
    }));
    spaces.learn(DownsyncInput::Properties(Change::Apply(read(map))));
    assert_eq!(spaces.sent(), ["cluster1/plain-deep", "cluster1/team"]);
}

#[test]
fn a_template_that_comes_to_name_another_object_brings_it() {
    let mut spaces = Spaces::asked_for("templates,configmaps");
    configs(&mut spaces, &["plain", "other", "third-a", "third-b"]);
    spaces.put(object(
        "WorkflowTemplate",
        "t",
        json!({ "spec": with_config(&["plain"]) }),
    ));
    spaces.run(workflow(
        "w",
        "cluster1",
        json!({ "workflowTemplateRef": { "name": "t" } }),
    ));
    assert_eq!(spaces.sent(), ["cluster1/plain", "cluster1/t", "cluster1/team"]);

    setting(
        &mut spaces,
        "workflowtemplates",
        &name(&json!({ "value": "other" })),
    );
    let with_other = ["cluster1/other", "cluster1/plain", "cluster1/t", "cluster1/team"];
    assert_eq!(
        spaces.sent(),
        with_other,
        "the run may have begun with the former one"
    );

    let by_label = name(&json!({ "expression": "'third-' + cluster.fleet" }));
    setting(&mut spaces, "workflowtemplates", &by_label);
    assert!(
        spaces.sent().contains(&"cluster1/third-a".to_owned()),
        "{:?}",
        spaces.sent()
    );
    spaces.cluster("cluster1", json!({ "fleet": "b" }));
    spaces.policy(with(
        asking("templates,configmaps"),
        json!({
            "metadata": { "generation": 2 },
            "spec": { "clusterSelectors": [{ "matchLabels": { "fleet": "b" } }] },
        }),
    ));
    assert!(
        spaces.sent().contains(&"cluster1/third-b".to_owned()),
        "{:?}",
        spaces.sent()
    );
}
