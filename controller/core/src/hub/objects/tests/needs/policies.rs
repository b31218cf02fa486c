//! The policies of running Workflows change, or the rights to read the kinds that they ask for.

use super::*;

/// A change of policies or clusters to a value.
type Change = fn(&mut Spaces, &str);

#[test]
fn a_policy_that_takes_back_its_consent_takes_secrets_from_runs_but_no_templates() {
    let asks = |spaces: &mut Spaces, value: &str| spaces.policy(asking(value));
    let matches = |spaces: &mut Spaces, fleet: &str| {
        spaces.policy(with(
            asking("templates,secrets"),
            json!({
                "metadata": { "generation": 2 },
                "spec": { "clusterSelectors": [{ "matchLabels": { "fleet": fleet } }] },
            }),
        ));
    };
    let belongs = |spaces: &mut Spaces, fleet: &str| spaces.cluster("cluster1", json!({ "fleet": fleet }));
    let changes: [(Change, &str, Option<&str>); 3] = [
        (asks, "templates", Some("templates,secrets")),
        (matches, "none", None),
        (belongs, "none", Some("a")),
    ];
    for (change, later, again) in changes {
        let mut spaces = Spaces::asked_for("templates,secrets");
        let travels = json!({ "metadata": { "labels": { names::TRAVELS_LABEL: "true" } } });
        spaces.put(object("Secret", "key", travels));
        let sources = json!([{ "secretRef": { "name": "key" } }]);
        let named = json!({ "templates": [{ "name": "main", "container": { "envFrom": sources } }] });
        spaces.put(object("WorkflowTemplate", "t", json!({ "spec": named })));
        let spec = json!({ "workflowTemplateRef": { "name": "t" } });
        // It is read again when its cluster changes.
        let templated =
            json!({ "metadata": { "annotations": { "control.kubestellar.io/expand-templates": "true" } } });
        spaces.run(with(workflow("w", "cluster1", spec), templated));
        let all = ["cluster1/key", "cluster1/t", "cluster1/team"];
        assert_eq!(spaces.sent(), all);

        change(&mut spaces, later);
        spaces.pass(600);
        assert_eq!(spaces.sent(), ["cluster1/t", "cluster1/team"]);
        if let Some(again) = again {
            change(&mut spaces, again);
            assert_eq!(spaces.sent(), all);
        }
    }
}

#[test]
fn a_policy_says_which_of_the_kinds_that_it_asks_for_cannot_be_read() {
    let mut spaces = Spaces::asked_for("configmaps");
    for (kind, errors) in [
        (secrets(), Value::Null),
        (
            config_maps(),
            json!(["configmaps cannot be watched: it is forbidden"]),
        ),
    ] {
        let message = "it is forbidden".to_owned();
        spaces.learn(DownsyncInput::Unreadable(kind.name(), message));
        spaces.pass(2);
        assert_eq!(spaces.status("p")["errors"], errors);
    }
}

#[test]
fn an_account_that_a_run_needs_has_the_right_of_the_executor_although_a_policy_selects_it() {
    for name in ["runner", "default"] {
        assert_selected_account_has_the_right(name);
    }
}

fn assert_selected_account_has_the_right(name: &str) {
    let mut spaces = Spaces::asked_for("serviceaccounts");
    let clause = json!({ "apiGroup": "", "resources": ["serviceaccounts"] });
    spaces.policy(wanting(policy("q", &json!({ "fleet": "a" })), clause));
    let labels = json!({ "metadata": { "labels": { "app": "web" } } });
    spaces.put(object("ServiceAccount", name, labels));
    let manifests = |spaces: &Spaces| {
        let work = spaces.works.values().find(|work| {
            let manifests = work["spec"]["workload"]["manifests"].as_array().unwrap();
            work["metadata"]["namespace"] == "cluster1"
                && manifests.iter().any(|one| one["metadata"]["name"] == name)
        });
        let manifests = work.unwrap()["spec"]["workload"]["manifests"].clone();
        let kinds = manifests.as_array().unwrap().iter();
        kinds
            .map(|one| one["kind"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(manifests(&spaces), ["ServiceAccount"]);
    spaces.run(workflow("w", "cluster1", json!({ "serviceAccountName": name })));
    assert_eq!(manifests(&spaces), ["RoleBinding", "ServiceAccount"]);
}

#[test]
fn a_run_keeps_what_its_template_has_named_when_its_policy_asks_for_more() {
    let mut spaces = Spaces::asked_for("templates,configmaps");
    for name in ["former", "latter"] {
        spaces.put(object("ConfigMap", name, json!({})));
    }
    let naming = |name: &str| object("WorkflowTemplate", "t", json!({ "spec": with_config(&[name]) }));
    spaces.put(naming("former"));
    let spec = json!({ "workflowTemplateRef": { "name": "t" } });
    spaces.run(workflow("w", "cluster1", spec.clone()));
    spaces.put(naming("latter"));
    let all = [
        "cluster1/former",
        "cluster1/latter",
        "cluster1/t",
        "cluster1/team",
    ];
    assert_eq!(spaces.sent(), all);

    spaces.policy(asking("templates,configmaps,serviceaccounts"));
    spaces.pass(600);
    assert_eq!(spaces.sent(), all);
    spaces.run(ended(workflow("w", "cluster1", spec)));
    spaces.pass(600);
    assert_eq!(spaces.sent(), [""; 0]);
    assert!(spaces.index.needs.is_empty());
}
