//! Objects that Workflows need are sent to the clusters of these Workflows while they run.

use argosy_api::names;

use super::*;

mod artifacts;
mod limits;
mod obstacles;
mod policies;
mod transforming;

/// The kinds that runs can need, and Workflows.
fn kinds() -> Vec<Kind> {
    let argo = |resource, name, is_namespaced| kind("argoproj.io", resource, name, is_namespaced, false);
    vec![
        config_maps(),
        namespaces(),
        secrets(),
        kind("", "serviceaccounts", "ServiceAccount", true, false),
        argo("workflows", "Workflow", true),
        argo("workflowtemplates", "WorkflowTemplate", true),
        argo("clusterworkflowtemplates", "ClusterWorkflowTemplate", false),
    ]
}

fn secrets() -> Kind {
    kind("", "secrets", "Secret", true, false)
}

fn kind_of(object: &Value) -> Kind {
    kinds()
        .into_iter()
        .find(|kind| object["kind"] == *kind.kind)
        .unwrap()
}

/// An object whose UID is its name.
fn object(kind: &str, name: &str, fields: Value) -> Value {
    let named = json!({ "kind": kind, "metadata": { "namespace": "team", "name": name, "uid": name } });
    with(named, fields)
}

/// The Workflow `name`, claimed for a cluster, or unclaimed without one.
fn workflow(name: &str, cluster: &str, spec: Value) -> Value {
    let claim = json!({ "cluster": cluster, "attempt": 1, "uid": name }).to_string();
    let annotations = if cluster.is_empty() {
        json!({})
    } else {
        json!({ names::CLAIM_ANNOTATION: claim })
    };
    let metadata = json!({ "labels": { "app": "web" }, "annotations": annotations });
    let mut workflow = object("Workflow", name, json!({ "metadata": metadata }));
    workflow["spec"] = spec;
    workflow
}

fn ended(workflow: Value) -> Value {
    with(
        workflow,
        json!({ "metadata": { "labels": { names::ARGO_PHASE_LABEL: "Succeeded" } } }),
    )
}

/// A specification with environment variables from these ConfigMaps.
fn with_config(names: &[&str]) -> Value {
    let sources = names
        .iter()
        .map(|name| json!({ "configMapRef": { "name": name } }));
    let container = json!({ "image": "busybox", "envFrom": sources.collect::<Vec<_>>() });
    json!({ "templates": [{ "name": "main", "container": container }] })
}

/// A policy for Workflows that asks for these dependencies.
fn asking(value: &str) -> Value {
    let clause = json!({ "apiGroup": "argoproj.io", "resources": ["workflows"] });
    with(
        wanting(policy("p", &json!({ "fleet": "a" })), clause),
        json!({ "metadata": { "annotations": { names::DEPENDENCIES_ANNOTATION: value } } }),
    )
}

impl Spaces {
    /// With the policy `p`, the namespace `team`, and nothing else.
    fn asked_for(value: &str) -> Self {
        let mut spaces = Self::new();
        spaces.learn(DownsyncInput::Kinds(kinds()));
        spaces.policy(asking(value));
        for kind in kinds() {
            spaces.learn(DownsyncInput::object(Arc::new(kind), Change::Reset(Vec::new())));
        }
        let level = json!({ "other": "x", "pod-security.kubernetes.io/enforce": "restricted" });
        let team = json!({
            "kind": "Namespace",
            "metadata": { "name": "team", "uid": "team", "labels": level, "annotations": { "a": "b" } },
        });
        spaces.write(&namespaces(), team);
        spaces
    }

    fn put(&mut self, object: Value) {
        let kind = kind_of(&object);
        self.write(&kind, object);
    }

    /// A user or the other index writes a Workflow. Its watch brings only the metadata.
    fn run(&mut self, workflow: Value) {
        let workflow = self.next(workflow);
        let uid = workflow["metadata"]["uid"].as_str().unwrap().to_owned();
        let seen = json!({ "metadata": workflow["metadata"] });
        self.objects.insert(uid, workflow.clone());
        let kind = Arc::new(kind_of(&workflow));
        self.learn(DownsyncInput::object(kind, Change::Apply(read(seen))));
    }

    /// A new index with the stored objects, of whose watches none has listed anything.
    fn restart_empty(&mut self) {
        self.forget();
        self.learn(DownsyncInput::Kinds(kinds()));
        for input in self.lists(&[]) {
            self.learn(input);
        }
    }

    /// The watch of a kind lists all its objects.
    fn list(&mut self, kind: &Kind) {
        let objects = self
            .objects
            .values()
            .filter(|object| object["kind"] == *kind.kind);
        let objects = objects.map(|object| {
            let mut object = object.clone();
            if kind.is_run() {
                object.as_object_mut().unwrap().remove("spec");
            }
            read(object)
        });
        let objects = objects.collect();
        self.learn(DownsyncInput::object(
            Arc::new(kind.clone()),
            Change::Reset(objects),
        ));
    }

    fn requests(&self, part: &str) -> usize {
        self.log.iter().filter(|line| line.contains(part)).count()
    }
}

#[test]
fn what_a_workflow_needs_is_on_its_cluster_until_ten_minutes_after_its_end() {
    let mut spaces = Spaces::asked_for("configmaps");
    spaces.put(object("ConfigMap", "settings", json!({ "data": { "a": "1" } })));
    spaces.put(object("ConfigMap", "other", json!({})));
    spaces.run(workflow("w", "", with_config(&["settings"])));
    assert_eq!(spaces.sent(), [""; 0], "it is not claimed");

    spaces.run(workflow("w", "cluster1", with_config(&["settings"])));
    assert_eq!(spaces.sent(), ["cluster1/settings", "cluster1/team"]);
    let work = spaces.work("cluster1", "settings");
    assert_eq!(
        work["metadata"]["annotations"][names::DEPENDENCY_ANNOTATION],
        "true"
    );
    assert_eq!(spaces.manifest("cluster1", "settings")["data"]["a"], "1");

    spaces.put(object("ConfigMap", "settings", json!({ "data": { "a": "2" } })));
    assert_eq!(spaces.manifest("cluster1", "settings")["data"]["a"], "2");

    spaces.run(ended(workflow("w", "cluster1", with_config(&["settings"]))));
    spaces.pass(599);
    assert_eq!(spaces.sent(), ["cluster1/settings", "cluster1/team"]);
    spaces.pass(1);
    assert_eq!(spaces.sent(), [""; 0]);
    assert!(spaces.index.needs.is_empty());
}

#[test]
fn a_workflow_that_comes_in_time_keeps_what_the_former_one_needed() {
    let mut spaces = Spaces::asked_for("configmaps");
    spaces.put(object("ConfigMap", "settings", json!({})));
    spaces.run(workflow("w1", "cluster1", with_config(&["settings"])));
    spaces.run(ended(workflow("w1", "cluster1", with_config(&["settings"]))));
    spaces.pass(500);
    spaces.run(workflow("w2", "cluster1", with_config(&["settings"])));
    spaces.pass(500);
    assert_eq!(spaces.sent(), ["cluster1/settings", "cluster1/team"]);
    assert_eq!(spaces.requests("ManifestWork"), 2);
}

#[test]
fn a_new_object_of_the_name_is_not_sent_for_workflows_that_have_ended() {
    let mut spaces = Spaces::asked_for("configmaps");
    let named = |uid: &str| object("ConfigMap", "settings", json!({ "metadata": { "uid": uid } }));
    spaces.put(named("old"));
    spaces.run(workflow("w1", "cluster1", with_config(&["settings"])));
    spaces.run(ended(workflow("w1", "cluster1", with_config(&["settings"]))));
    spaces.delete(&config_maps(), "old");
    spaces.put(named("new"));
    assert_eq!(spaces.sent(), ["cluster1/team"]);

    spaces.run(workflow("w2", "cluster1", with_config(&["settings"])));
    assert_eq!(spaces.sent(), ["cluster1/new", "cluster1/team"]);
}

#[test]
fn a_thousand_workflows_that_need_one_config_map_send_it_once() {
    let mut spaces = Spaces::asked_for("configmaps");
    spaces.put(object("ConfigMap", "settings", json!({})));
    for number in 0..1000 {
        spaces.run(workflow(
            &format!("w{number}"),
            "cluster1",
            with_config(&["settings"]),
        ));
    }
    assert_eq!(spaces.requests("create the ManifestWork"), 2);
    for number in 0..1000 {
        spaces.run(ended(workflow(
            &format!("w{number}"),
            "cluster1",
            with_config(&["settings"]),
        )));
    }
    spaces.pass(600);
    assert_eq!(spaces.sent(), [""; 0]);
    assert!(spaces.index.needs.is_empty());
}

#[test]
fn templates_accounts_and_pull_secrets_travel_with_all_that_they_name() {
    let mut spaces = Spaces::asked_for("templates,configmaps,secrets,serviceaccounts");
    let travels = json!({ "metadata": { "labels": { names::TRAVELS_LABEL: "true" } } });
    let part = json!({ "name": "part", "clusterScope": true, "template": "main" });
    let whole = json!({ "spec": { "templates": [{ "dag": { "tasks": [{ "templateRef": part }] } }] } });
    spaces.put(object("WorkflowTemplate", "whole", whole));
    let mut cluster_wide = object(
        "ClusterWorkflowTemplate",
        "part",
        json!({ "spec": with_config(&["settings"]) }),
    );
    cluster_wide["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("namespace");
    spaces.put(cluster_wide);
    spaces.put(object("ConfigMap", "settings", json!({})));
    let pulls = json!([{ "name": "pull" }]);
    spaces.put(object(
        "ServiceAccount",
        "runner",
        json!({ "imagePullSecrets": pulls }),
    ));
    spaces.put(object("Secret", "pull", travels));
    spaces.run(workflow(
        "w",
        "cluster2",
        json!({ "workflowTemplateRef": { "name": "whole" }, "serviceAccountName": "runner" }),
    ));
    let wanted = ["part", "pull", "runner", "settings", "team", "whole"];
    assert_eq!(spaces.sent(), wanted.map(|name| format!("cluster2/{name}")));
}

#[test]
fn a_secret_travels_with_two_consents_and_a_token_never() {
    let named = json!({ "env": [
        { "valueFrom": { "secretKeyRef": { "name": "plain", "key": "k" } } },
        { "valueFrom": { "secretKeyRef": { "name": "labeled", "key": "k" } } },
        { "valueFrom": { "secretKeyRef": { "name": "token", "key": "k" } } },
    ] });
    let travels = json!({ "metadata": { "labels": { names::TRAVELS_LABEL: "true" } } });
    let token = json!({ "type": "kubernetes.io/service-account-token" });
    for (asked, wanted) in [
        ("configmaps", vec!["cluster1/team"]),
        ("secrets", vec!["cluster1/labeled", "cluster1/team"]),
    ] {
        let mut spaces = Spaces::asked_for(asked);
        spaces.put(object("Secret", "plain", json!({})));
        spaces.put(object("Secret", "labeled", travels.clone()));
        spaces.put(object("Secret", "token", with(travels.clone(), token.clone())));
        spaces.run(workflow("w", "cluster1", named.clone()));
        assert_eq!(spaces.sent(), wanted);
        let watched = spaces.index.wanted_kinds().get(&secrets().name()).cloned();
        let label = watched.map(|wanted| wanted.label);
        assert_eq!(
            label,
            (asked == "secrets").then(|| names::TRAVELS_LABEL.to_owned())
        );

        spaces.put(object(
            "Secret",
            "labeled",
            json!({ "metadata": { "labels": {} } }),
        ));
        assert_eq!(spaces.sent(), ["cluster1/team"], "a consent was withdrawn");
    }
}

#[test]
fn a_namespace_travels_with_its_pod_security_only_and_stays() {
    let mut spaces = Spaces::asked_for("configmaps");
    spaces.run(workflow("w", "cluster1", json!({})));
    let manifest = spaces.manifest("cluster1", "team");
    assert_eq!(
        manifest["metadata"],
        json!({ "name": "team", "labels": {
            names::OBJECT_UID_LABEL: "team", "pod-security.kubernetes.io/enforce": "restricted",
        } })
    );
    let spec = &spaces.work("cluster1", "team")["spec"];
    assert_eq!(spec["deleteOption"]["propagationPolicy"], "Orphan");
}

#[test]
fn a_policy_that_asks_for_nothing_reads_and_sends_nothing() {
    for asked in ["", "configmaps,volumes"] {
        let mut spaces = Spaces::asked_for(asked);
        spaces.put(object("ConfigMap", "settings", json!({})));
        spaces.run(workflow("w", "cluster1", with_config(&["settings"])));
        assert_eq!(spaces.sent(), [""; 0]);
        assert_eq!(spaces.requests("read the object"), 0);
    }
}

#[test]
fn a_claim_that_a_user_may_have_written_draws_nothing_to_a_cluster_that_no_policy_matches() {
    for (cluster, wanted) in [
        ("cluster1", vec!["cluster1/settings", "cluster1/team"]),
        ("cluster2", vec![]),
    ] {
        let mut spaces = Spaces::asked_for("configmaps");
        let only = json!([{ "matchLabels": { "name": "cluster1" } }]);
        spaces.policy(with(
            asking("configmaps"),
            json!({ "spec": { "clusterSelectors": only } }),
        ));
        spaces.put(object("ConfigMap", "settings", json!({})));
        let born = json!({ "cluster": cluster, "attempt": 1, "name": "w", "uid": "" }).to_string();
        let claim = json!({ "metadata": {
            "annotations": { names::CLAIM_ANNOTATION: born }, "finalizers": [names::CONTROLLER_FINALIZER],
            "labels": { "app": "web", names::ARGO_COMPLETED_LABEL: "true", names::ARGO_PHASE_LABEL: "Pending" },
        } });
        spaces.run(with(workflow("w", "", with_config(&["settings"])), claim));
        assert_eq!(spaces.sent(), wanted);
    }
}

#[test]
fn a_run_is_read_once() {
    let mut spaces = Spaces::asked_for("configmaps");
    for _ in 0..3 {
        spaces.run(workflow("w", "cluster1", with_config(&["settings"])));
    }
    assert_eq!(spaces.requests("object w: read the object"), 1);
}

#[test]
fn an_object_that_comes_late_or_anew_is_sent() {
    let mut spaces = Spaces::asked_for("configmaps");
    spaces.run(workflow("w", "cluster1", with_config(&["settings"])));
    assert_eq!(spaces.sent(), ["cluster1/team"]);
    spaces.put(object("ConfigMap", "settings", json!({})));
    assert_eq!(spaces.sent(), ["cluster1/settings", "cluster1/team"]);
    spaces.delete(&config_maps(), "settings");
    assert_eq!(spaces.sent(), ["cluster1/team"]);
    let anew = json!({ "metadata": { "uid": "anew" } });
    spaces.put(object("ConfigMap", "settings", anew));
    assert_eq!(spaces.sent(), ["cluster1/anew", "cluster1/team"]);
}

#[test]
fn a_changed_template_adds_objects_and_takes_none_away_from_what_runs() {
    let mut spaces = Spaces::asked_for("templates,configmaps");
    let template = |names: &[&str]| object("WorkflowTemplate", "t", json!({ "spec": with_config(names) }));
    spaces.put(object("ConfigMap", "old", json!({})));
    spaces.put(object("ConfigMap", "new", json!({})));
    spaces.put(template(&["old"]));
    spaces.run(workflow(
        "w",
        "cluster1",
        json!({ "workflowTemplateRef": { "name": "t" } }),
    ));
    spaces.put(template(&["new"]));
    let wanted = ["cluster1/new", "cluster1/old", "cluster1/t", "cluster1/team"];
    assert_eq!(spaces.sent(), wanted);
}

#[test]
fn a_policy_that_selects_an_object_decides_where_it_does() {
    let mut spaces = Spaces::asked_for("configmaps");
    spaces.put(object(
        "ConfigMap",
        "settings",
        json!({ "metadata": { "labels": { "app": "web" } } }),
    ));
    spaces.run(workflow("w", "cluster1", with_config(&["settings"])));
    let note = |spaces: &Spaces| spaces.work("cluster1", "settings")["metadata"]["annotations"].clone();
    assert_eq!(note(&spaces)[names::DEPENDENCY_ANNOTATION], "true");

    let maps = json!({ "apiGroup": "", "resources": ["configmaps"] });
    spaces.policy(wanting(policy("maps", &json!({ "name": "cluster1" })), maps));
    assert_eq!(note(&spaces)[names::DEPENDENCY_ANNOTATION], Value::Null);
    spaces.run(ended(workflow("w", "cluster1", with_config(&["settings"]))));
    spaces.pass(600);
    assert_eq!(spaces.sent(), ["cluster1/settings"], "the policy keeps it");

    spaces.run(workflow("w2", "cluster1", with_config(&["settings"])));
    spaces.delete_policy("maps");
    assert_eq!(note(&spaces)[names::DEPENDENCY_ANNOTATION], "true");
    assert_eq!(spaces.sent(), ["cluster1/settings", "cluster1/team"]);
}

#[test]
fn a_policy_that_asks_later_or_no_more_counts_for_the_runs_that_there_are() {
    let mut spaces = Spaces::asked_for("");
    for kind in kinds() {
        spaces.list(&kind);
    }
    spaces.put(object("ConfigMap", "settings", json!({})));
    spaces.run(workflow("w", "cluster1", with_config(&["settings"])));
    spaces.policy(asking("configmaps"));
    for kind in kinds() {
        spaces.list(&kind);
    }
    assert_eq!(spaces.sent(), ["cluster1/settings", "cluster1/team"]);
    spaces.policy(asking(""));
    spaces.pass(6000);
    assert_eq!(spaces.sent(), ["cluster1/settings", "cluster1/team"]);
    spaces.run(ended(workflow("w", "cluster1", with_config(&["settings"]))));
    spaces.pass(599);
    assert_eq!(spaces.sent(), ["cluster1/settings", "cluster1/team"]);
    spaces.pass(1);
    assert_eq!(spaces.sent(), [""; 0]);
}

#[test]
fn the_kinds_of_what_was_sent_are_watched_until_it_is_gone() {
    let mut spaces = Spaces::asked_for("configmaps");
    spaces.put(object("ConfigMap", "settings", json!({})));
    spaces.run(workflow("w", "cluster1", with_config(&["settings"])));
    let is_watched = |spaces: &Spaces| spaces.index.wanted_kinds().get(&config_maps().name()).is_some();
    spaces.delete_policy("p");
    spaces.pass(6000);
    let workflows = kind_of(&workflow("w", "cluster1", json!({}))).name();
    spaces.learn(DownsyncInput::Unwatched(workflows));
    spaces.pass(599);
    assert!(is_watched(&spaces));
    assert_eq!(spaces.sent(), ["cluster1/settings", "cluster1/team"]);
    spaces.pass(1);
    assert!(!is_watched(&spaces));
    assert_eq!(spaces.sent(), [""; 0]);
}

#[test]
fn a_policy_sends_nothing_to_a_cluster_that_only_another_policy_matches() {
    let mut spaces = Spaces::asked_for("");
    let on = |name: &str, asked: &str, cluster: &str| {
        with(
            asking(asked),
            json!({
                "metadata": { "name": name, "uid": name },
                "spec": { "clusterSelectors": [{ "matchLabels": { "name": cluster } }] },
            }),
        )
    };
    spaces.policy(on("p", "", "cluster2"));
    spaces.policy(on("prod", "configmaps", "cluster1"));
    for kind in kinds() {
        spaces.list(&kind);
    }
    spaces.put(object("ConfigMap", "settings", json!({})));
    spaces.run(workflow("w", "cluster2", with_config(&["settings"])));
    assert_eq!(spaces.sent(), [""; 0]);
    spaces.run(workflow("w2", "cluster1", with_config(&["settings"])));
    assert_eq!(spaces.sent(), ["cluster1/settings", "cluster1/team"]);
}

#[test]
fn a_new_controller_deletes_nothing_before_it_knows_all_needs() {
    let mut spaces = Spaces::asked_for("templates,configmaps,secrets,serviceaccounts");
    spaces.put(object(
        "WorkflowTemplate",
        "t",
        json!({ "spec": with_config(&["settings"]) }),
    ));
    spaces.put(object("ConfigMap", "settings", json!({})));
    spaces.put(object("ConfigMap", "former", json!({})));
    let spec = json!({ "workflowTemplateRef": { "name": "t" } });
    spaces.run(workflow("w", "cluster1", spec));
    spaces.run(workflow("w2", "cluster1", with_config(&["former"])));
    let all = [
        "cluster1/former",
        "cluster1/settings",
        "cluster1/t",
        "cluster1/team",
    ];
    assert_eq!(spaces.sent(), all);

    let of_former = ended(spaces.objects["w2"].clone());
    spaces.objects.insert("w2".to_owned(), of_former);
    let may_name_others = |kind: &Kind| ![namespaces(), secrets()].contains(kind);
    let mut order = kinds();
    for _ in 0..order.len() {
        order.rotate_left(1);
        let works = spaces.works.clone();
        spaces.restart_empty();
        let (last, first) = order.split_last().unwrap();
        for kind in first {
            if may_name_others(kind) {
                let message = "forbidden".to_owned();
                spaces.learn(DownsyncInput::Unreadable(kind.name(), message));
                assert_eq!(spaces.sent(), all, "{} may not be read", kind.kind);
            }
            spaces.list(kind);
            assert_eq!(
                spaces.sent(),
                all,
                "{} was listed, {} was not",
                kind.kind,
                last.kind
            );
        }
        if may_name_others(last) {
            spaces.learn(DownsyncInput::Unreadable(last.name(), "forbidden".to_owned()));
            assert_eq!(
                spaces.sent(),
                all,
                "{} may not be read, all others are",
                last.kind
            );
        }
        spaces.list(last);
        assert_eq!(
            spaces.sent(),
            ["cluster1/settings", "cluster1/t", "cluster1/team"],
            "{} was listed last",
            last.kind
        );
        assert_eq!(spaces.requests("delete"), 1);
        spaces.works = works;
    }
}
