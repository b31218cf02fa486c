//! The status of a BindingPolicy, and its Binding.

use super::*;

#[test]
fn a_policy_counts_objects_clusters_and_what_is_applied() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "fleet": "a" })));
    assert_eq!(spaces.condition("p", "Ready"), "True NothingSelected");
    spaces.write(&config_maps(), settings());
    spaces.pass(2);
    assert_eq!(spaces.condition("p", "Ready"), "True Ready");
    assert_eq!(spaces.condition("p", "Synced"), "False Applying");
    let status = spaces.status("p");
    assert_eq!(
        (&status["objects"], &status["clusters"], &status["applied"]),
        (&json!(1), &json!(2), &json!("0/2"))
    );
    spaces.applied("cluster1", "argosy-c1", "True", "");
    spaces.applied("cluster2", "argosy-c1", "True", "");
    spaces.pass(2);
    assert_eq!(spaces.condition("p", "Synced"), "True Applied");
    assert_eq!(spaces.status("p")["applied"], "2/2");
}

#[test]
fn what_an_agent_could_not_apply_is_said_with_its_words() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "fleet": "a" })));
    spaces.write(&config_maps(), settings());
    spaces.applied("cluster2", "argosy-c1", "False", "configmaps is forbidden");
    spaces.pass(2);
    assert_eq!(spaces.condition("p", "Synced"), "False Failing");
    assert_eq!(
        spaces.status("p")["errors"],
        json!(["cluster2: configmaps team/settings: Said: configmaps is forbidden"])
    );
}

#[test]
fn many_failures_are_counted_and_few_are_said() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "name": "cluster1" })));
    for index in 0..12 {
        let uid = format!("c{index}");
        spaces.write(
            &config_maps(),
            with(settings(), json!({ "metadata": { "name": uid, "uid": uid } })),
        );
        spaces.applied("cluster1", &format!("argosy-{uid}"), "False", "no");
    }
    spaces.pass(2);
    let errors = spaces.status("p")["errors"].clone();
    assert_eq!(errors.as_array().unwrap().len(), 11);
    assert_eq!(errors[10], "and 2 more");
}

#[test]
fn a_mailbox_that_is_not_there_is_said_until_it_is() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "name": "cluster1" })));
    let origin = OriginUid::from("c1");
    let key = DownsyncKey::Copy(origin, "cluster1".into());
    let object = spaces.next(settings());
    spaces.index.apply(
        DownsyncInput::object(Arc::new(config_maps()), Change::Apply(read(object))),
        spaces.now,
    );
    let action = spaces.index.decide(&key, spaces.now).action.unwrap();
    let missing = Failure::NotFound {
        namespace: true,
        message: "namespaces \"cluster1\" not found".to_owned(),
    };
    spaces.index.started(&key);
    let dirty = spaces.index.failed(&key, &action, &missing, spaces.now);
    assert!(dirty.contains(&DownsyncKey::Policy("p".to_owned())));
    spaces.now = spaces
        .now
        .saturating_add(jiff::SignedDuration::from_secs(2))
        .unwrap();
    spaces.settle([DownsyncKey::Policy("p".to_owned())].into());
    assert!(
        spaces.status("p")["errors"][0]
            .as_str()
            .unwrap()
            .contains("has the cluster joined?")
    );
    spaces.pass(2);
    spaces.pass(2);
    assert_eq!(spaces.status("p")["errors"], Value::Null);
}

#[test]
fn a_policy_that_cannot_be_used_says_why() {
    let mut spaces = Spaces::new();
    let no_selector = with(
        policy("none", &json!({})),
        json!({ "spec": { "clusterSelectors": [] } }),
    );
    spaces.policy(no_selector);
    assert_eq!(spaces.condition("none", "Ready"), "False NoCluster");
    let no_clause = with(policy("empty", &json!({})), json!({ "spec": { "downsync": [] } }));
    spaces.policy(no_clause);
    assert_eq!(spaces.condition("empty", "Ready"), "False NothingSelected");
    let broken = json!({ "matchExpressions": [{ "key": "k", "operator": "Like" }] });
    spaces.policy(wanting(
        policy("broken", &json!({})),
        json!({ "objectSelectors": [broken] }),
    ));
    assert_eq!(spaces.condition("broken", "Ready"), "False Invalid");
    let annotated = json!({ "metadata": { "annotations": { "argosy.dev/on-lost": "rerun", "argosy.dev/lost-after": "soon" } } });
    spaces.policy(with(policy("soon", &json!({})), annotated));
    assert!(
        spaces.status("soon")["errors"][0]
            .as_str()
            .unwrap()
            .contains("soon is not a duration")
    );
    let annotated = json!({ "metadata": { "annotations": { "argosy.dev/runs": "here" } } });
    spaces.policy(with(policy("here", &json!({})), annotated));
    let problem = spaces.status("here")["errors"][0].as_str().unwrap().to_owned();
    assert!(problem.contains("here is not known"), "{problem}");
}

#[test]
fn the_old_place_of_the_wish_for_a_singleton_status_counts_and_says_where_it_belongs() {
    let mut spaces = Spaces::new();
    let old = json!({ "spec": { "wantSingletonReportedState": true } });
    spaces.policy(with(policy("old", &json!({ "name": "cluster1" })), old));
    assert!(
        spaces.status("old")["warnings"][0]
            .as_str()
            .unwrap()
            .contains("spec.downsync[]")
    );
    spaces.write(&deployments(), web());
    assert_eq!(
        spaces.work("cluster1", "d1")["metadata"]["annotations"]["argosy.dev/want-status"],
        "true"
    );
}

#[test]
fn a_status_is_written_once_and_at_most_once_a_second() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "name": "cluster1" })));
    let writes = |spaces: &Spaces| {
        spaces
            .log
            .iter()
            .filter(|line| line.ends_with("write the status"))
            .count()
    };
    assert_eq!(writes(&spaces), 1);
    for index in 0..5 {
        let uid = format!("c{index}");
        spaces.write(
            &config_maps(),
            with(settings(), json!({ "metadata": { "name": uid, "uid": uid } })),
        );
    }
    assert_eq!(writes(&spaces), 1);
    spaces.pass(2);
    assert_eq!(writes(&spaces), 2);
    spaces.pass(2);
    assert_eq!(writes(&spaces), 2);
}

#[test]
fn nothing_is_counted_while_objects_are_still_being_listed() {
    let mut spaces = Spaces::new();
    spaces.index.listed.remove(&config_maps().name());
    spaces.policy(policy("p", &json!({ "name": "cluster1" })));
    assert_eq!(spaces.status("p"), Value::Null);
    let object = spaces.next(settings());
    spaces.objects.insert("c1".to_owned(), object.clone());
    let listed = Change::Reset(vec![read(object)]);
    spaces.learn(DownsyncInput::object(Arc::new(config_maps()), listed));
    assert_eq!(spaces.status("p")["objects"], 1);
}

#[test]
fn a_kind_that_is_never_listed_does_not_keep_a_policy_silent() {
    let mut spaces = Spaces::new();
    spaces.index.listed.remove(&config_maps().name());
    spaces.policy(policy("p", &json!({ "name": "cluster1" })));
    spaces.pass(11);
    assert_eq!(spaces.condition("p", "Ready"), "True NothingSelected");
}

#[test]
fn nothing_is_counted_before_workflows_are_listed_which_may_take_minutes() {
    let mut spaces = Spaces::new();
    let runs = kind("argoproj.io", "workflows", "Workflow", true, false);
    spaces.learn(DownsyncInput::Kinds(vec![config_maps(), runs]));
    let clause = json!({ "apiGroup": "argoproj.io", "resources": ["workflows"] });
    spaces.policy(wanting(policy("p", &json!({ "name": "cluster1" })), clause));
    spaces.pass(240);
    assert_eq!(spaces.status("p"), Value::Null);
    assert!(!spaces.bindings.contains_key("p"));
    spaces.pass(61);
    assert_eq!(spaces.condition("p", "Ready"), "True NothingSelected");
}

#[test]
fn a_binding_names_what_is_selected_and_is_not_rewritten_for_a_status() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "fleet": "a" })));
    spaces.write(&deployments(), web());
    spaces.pass(2);
    spaces.pass(4);
    let binding = spaces.bindings["p"].clone();
    let reference = &binding["spec"]["workload"]["namespaceScope"][0];
    assert_eq!(
        (&reference["group"], &reference["name"]),
        (&json!("apps"), &json!("web"))
    );
    assert_eq!(
        binding["spec"]["destinations"],
        json!([{ "clusterId": "cluster1" }, { "clusterId": "cluster2" }])
    );
    assert_eq!(binding["metadata"]["ownerReferences"][0]["uid"], "policy-p");
    spaces.write(
        &deployments(),
        with(web(), json!({ "status": { "replicas": 1 } })),
    );
    spaces.pass(2);
    spaces.pass(4);
    assert_eq!(spaces.bindings["p"], binding);
    let mut edited = spaces.next(binding.clone());
    edited["spec"]["destinations"] = json!([]);
    spaces.bindings.insert("p".to_owned(), edited.clone());
    spaces.learn(DownsyncInput::Binding(Change::Apply(read(edited))));
    spaces.pass(2);
    spaces.pass(4);
    assert_eq!(spaces.bindings["p"]["spec"], binding["spec"]);
}

#[test]
fn a_policy_that_the_admission_policy_has_no_room_for_says_so_until_it_has() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("other", &json!({ "fleet": "a" })));
    let namespaces: Vec<String> = (0..100_000).map(|number| format!("namespace-{number}")).collect();
    let long = wanting(
        policy("p", &json!({ "fleet": "a" })),
        json!({ "namespaces": namespaces }),
    );
    spaces.policy(long);
    assert_eq!(spaces.condition("p", "Guarded"), "False SelectionTooLong");
    assert_eq!(spaces.condition("other", "Guarded"), "");
    spaces.policy(policy("p", &json!({ "fleet": "a" })));
    spaces.pass(2);
    assert_eq!(spaces.condition("p", "Guarded"), "");
}
