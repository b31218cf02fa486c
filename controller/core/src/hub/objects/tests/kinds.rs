//! The kinds that are watched, and the label of each watch.

use super::*;

fn wanted(spaces: &Spaces) -> Vec<String> {
    let kinds = spaces.index.wanted_kinds().iter();
    kinds
        .map(|(name, wanted)| format!("{name} {}", wanted.label))
        .collect()
}

fn with_clauses(clauses: &Value) -> Value {
    with(
        policy("p", &json!({})),
        json!({ "spec": { "downsync": clauses } }),
    )
}

#[test]
fn only_what_a_policy_can_select_is_watched() {
    let mut spaces = Spaces::new();
    assert!(wanted(&spaces).is_empty());
    spaces.policy(with_clauses(&json!([{ "apiGroup": "apps" }])));
    assert_eq!(wanted(&spaces), ["deployments.apps "]);
    spaces.policy(with_clauses(
        &json!([{ "resources": ["configmaps"] }, { "resources": ["namespaces"] }]),
    ));
    assert_eq!(wanted(&spaces), ["configmaps ", "namespaces "]);
    spaces.delete_policy("p");
    assert!(wanted(&spaces).is_empty());
}

#[test]
fn a_label_that_every_clause_asks_for_is_asked_of_the_api_server() {
    let mut spaces = Spaces::new();
    let web = json!([{ "matchLabels": { "app": "web", "tier": "1" } }]);
    spaces.policy(with_clauses(
        &json!([{ "resources": ["configmaps"], "objectSelectors": web }]),
    ));
    assert_eq!(wanted(&spaces), ["configmaps app"]);
    let tier = json!([{ "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["1", "2"] }] }]);
    spaces.policy(with(
        with_clauses(&json!([{ "objectSelectors": tier }])),
        json!({ "metadata": { "name": "q", "uid": "q" } }),
    ));
    assert_eq!(
        wanted(&spaces),
        ["configmaps tier", "namespaces tier", "deployments.apps tier"]
    );
    spaces.policy(with(
        with_clauses(&json!([{ "resources": ["configmaps"], "objectNames": ["x"] }])),
        json!({ "metadata": { "name": "r", "uid": "r" } }),
    ));
    assert_eq!(
        wanted(&spaces),
        ["configmaps ", "namespaces tier", "deployments.apps tier"]
    );
}

#[test]
fn a_kind_that_describes_one_cluster_is_never_watched() {
    let mut spaces = Spaces::new();
    let stay = [
        kind("", "nodes", "Node", false, true),
        kind("", "events", "Event", true, false),
        kind("coordination.k8s.io", "leases", "Lease", true, false),
        kind(
            "control.kubestellar.io",
            "bindingpolicies",
            "BindingPolicy",
            false,
            true,
        ),
        kind(
            "work.open-cluster-management.io",
            "manifestworks",
            "ManifestWork",
            true,
            true,
        ),
        config_maps(),
    ];
    spaces.learn(DownsyncInput::Kinds(stay.into()));
    spaces.policy(with_clauses(&json!([{ "resources": ["*"] }])));
    assert_eq!(wanted(&spaces), ["configmaps "]);
    spaces.policy(with_clauses(
        &json!([{ "apiGroup": "", "resources": ["nodes", "configmapz"] }]),
    ));
    spaces.pass(2);
    let warnings = spaces.status("p")["warnings"].clone();
    assert!(
        warnings[0].as_str().unwrap().starts_with("nodes are never sent"),
        "{warnings}"
    );
    assert!(
        warnings[1].as_str().unwrap() == "no API serves configmapz; did you mean configmaps?",
        "{warnings}"
    );
}

#[test]
fn a_policy_is_not_ready_where_no_api_serves_what_it_names() {
    let mut spaces = Spaces::new();
    let told = |spaces: &mut Spaces, clauses: &Value| {
        spaces.policy(with(
            with_clauses(clauses),
            json!({ "spec": { "clusterSelectors": [{}] } }),
        ));
        spaces.pass(2);
        let status = spaces.status("p");
        let ready = status["conditions"].as_array().unwrap().iter();
        let ready = ready
            .clone()
            .find(|known| known["type"] == "Ready")
            .unwrap()
            .clone();
        (
            ready["status"] == "True",
            ready["reason"].clone(),
            status["warnings"].clone(),
        )
    };
    let meant = "no API serves configmap; did you mean configmaps?";
    for (clauses, is_ready, reason, warnings) in [
        (
            json!([{ "resources": ["configmap"] }]),
            false,
            "NotServed",
            json!([meant]),
        ),
        (
            json!([{ "resources": ["configmap"] }, { "apiGroup": "apps", "resources": ["configmaps"] }]),
            false,
            "NotServed",
            json!([meant, "no API serves configmaps.apps; did you mean configmaps?"]),
        ),
        (
            json!([{ "resources": ["configmap", "configmaps"] }]),
            true,
            "NothingSelected",
            json!([meant]),
        ),
        (
            json!([{ "resources": ["configmap"] }, { "apiGroup": "apps" }]),
            true,
            "NothingSelected",
            json!([meant]),
        ),
        (
            json!([{ "resources": ["widgets"] }]),
            false,
            "NotServed",
            json!(["no API serves widgets"]),
        ),
        (
            json!([{ "resources": ["configmaps"] }]),
            true,
            "NothingSelected",
            json!(null),
        ),
    ] {
        assert_eq!(
            told(&mut spaces, &clauses),
            (is_ready, json!(reason), warnings),
            "{clauses}"
        );
    }
    // The kind is served a moment later.
    told(&mut spaces, &json!([{ "resources": ["widgets"] }]));
    let widgets = kind("example.com", "widgets", "Widget", true, false);
    spaces.learn(DownsyncInput::Kinds(vec![config_maps(), widgets]));
    spaces.pass(2);
    assert_eq!(spaces.status("p")["warnings"], Value::Null);
}

#[test]
fn a_kind_that_may_not_be_read_is_said_and_what_was_sent_of_it_stays() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("all", &json!({ "name": "cluster1" })));
    spaces.policy(wanting(
        policy("named", &json!({ "name": "cluster1" })),
        json!({ "resources": ["configmaps"] }),
    ));
    spaces.write(&config_maps(), settings());
    spaces.pass(2);
    let message = "configmaps is forbidden".to_owned();
    spaces.learn(DownsyncInput::Unreadable(config_maps().name(), message));
    spaces.pass(2);
    assert_eq!(
        spaces.status("named")["errors"],
        json!(["configmaps cannot be watched: configmaps is forbidden"])
    );
    assert_eq!(spaces.status("all")["errors"], Value::Null);
    let hint = spaces.status("all")["warnings"][0].as_str().unwrap().to_owned();
    assert!(
        hint.starts_with("the controller may not read 1 kinds, such as configmaps"),
        "{hint}"
    );
    assert_eq!(spaces.sent(), ["cluster1/c1"]);
}
