use serde_json::{Value, json};

use super::*;

/// The named objects, with `?` after optional ones, and the unknown references after `!`.
fn found(found: &Dependencies) -> Vec<String> {
    let named = found.named.iter().map(|(dependency, necessity)| match necessity {
        Necessity::Required => dependency.to_string(),
        Necessity::Optional => format!("{dependency}?"),
    });
    named
        .chain(found.unknown.iter().map(|phrase| format!("!{phrase}")))
        .collect()
}

fn of(spec: &Value) -> Vec<String> {
    found(&Dependencies::of_template(spec, "team"))
}

#[test]
fn each_field_of_the_schema_that_names_an_object_is_found() {
    let selector = json!({ "name": "a", "key": "k" });
    for (spec, wanted) in [
        (
            json!({ "workflowTemplateRef": { "name": "a" } }),
            "WorkflowTemplate a",
        ),
        (
            json!({ "workflowTemplateRef": { "name": "a", "clusterScope": true } }),
            "ClusterWorkflowTemplate a",
        ),
        (
            json!({ "hooks": { "labels": { "templateRef": { "name": "a", "template": "t" } } } }),
            "WorkflowTemplate a",
        ),
        (
            json!({ "volumes": [{ "configMap": { "name": "a" } }] }),
            "ConfigMap a",
        ),
        (
            json!({ "volumes": [{ "configMap": { "name": "a", "optional": true } }] }),
            "ConfigMap a?",
        ),
        (
            json!({ "volumes": [{ "projected": { "sources": [{ "configMap": { "name": "a" } }] } }] }),
            "ConfigMap a",
        ),
        (
            json!({ "volumes": [{ "secret": { "secretName": "a" } }] }),
            "Secret a",
        ),
        (
            json!({ "volumes": [{ "secret": { "secretName": "a", "optional": true } }] }),
            "Secret a?",
        ),
        (
            json!({ "volumes": [{ "projected": { "sources": [{ "secret": { "name": "a" } }] } }] }),
            "Secret a",
        ),
        (
            json!({ "volumes": [{ "azureFile": { "secretName": "a" } }] }),
            "Secret a",
        ),
        (
            json!({ "volumes": [{ "csi": { "nodePublishSecretRef": { "name": "a" } } }] }),
            "Secret a",
        ),
        (
            json!({ "volumes": [{ "cephfs": { "secretRef": { "name": "a" } } }] }),
            "Secret a",
        ),
        (
            json!({ "volumes": [{ "persistentVolumeClaim": { "claimName": "a" } }] }),
            "PersistentVolumeClaim a",
        ),
        (json!({ "imagePullSecrets": [{ "name": "a" }] }), "Secret a"),
        (json!({ "serviceAccountName": "a" }), "ServiceAccount a"),
        (
            json!({ "executor": { "serviceAccountName": "a" } }),
            "ServiceAccount a",
        ),
        (
            json!({ "artifactRepositoryRef": { "configMap": "a" } }),
            "ConfigMap a?",
        ),
        (
            json!({ "artifactRepositoryRef": {} }),
            "ConfigMap artifact-repositories?",
        ),
        (
            json!({ "env": [{ "valueFrom": { "secretKeyRef": selector } }] }),
            "Secret a",
        ),
        (
            json!({ "envFrom": [{ "secretRef": { "name": "a" } }] }),
            "Secret a",
        ),
        (
            json!({ "envFrom": [{ "configMapRef": { "name": "a" } }] }),
            "ConfigMap a",
        ),
        (
            json!({ "parameters": [{ "valueFrom": { "configMapKeyRef": selector } }] }),
            "ConfigMap a",
        ),
        (
            json!({ "synchronization": { "semaphores": [{ "configMapKeyRef": selector, "namespace": "team" }] } }),
            "ConfigMap a",
        ),
        (json!({ "s3": { "accessKeySecret": selector } }), "Secret a"),
        (
            json!({ "hdfs": { "krbConfigConfigMap": selector } }),
            "ConfigMap a",
        ),
    ] {
        assert_eq!(of(&spec), [wanted], "{spec}");
        let inside = json!({ "templates": [{ "dag": { "tasks": [{ "inline": spec }] } }] });
        assert_eq!(of(&inside), [wanted], "{inside}");
    }
}

#[test]
fn data_of_the_user_and_objects_that_the_run_creates_name_nothing() {
    let bait = json!({ "serviceAccountName": "bait", "secretKeyRef": { "name": "bait" } });
    for spec in [
        json!({ "templates": [{ "name": "templateRef", "container": { "image": "busybox" } }] }),
        json!({ "workflowTemplateRef": null, "artifactRepositoryRef": null, "podSpecPatch": "" }),
        json!({ "arguments": { "parameters": [{ "name": "p", "value": bait, "default": bait }] } }),
        json!({ "tasks": [{ "withItems": [bait] }] }),
        json!({ "plugin": { "mine": bait }, "nodeSelector": bait, "podMetadata": { "labels": bait } }),
        json!({ "memoize": { "cache": { "configMap": { "name": "bait", "key": "k" } } } }),
        json!({ "volumeClaimTemplates": [{ "spec": { "dataSource": bait } }] }),
        json!({ "volumes": [{ "ephemeral": { "volumeClaimTemplate": bait } }] }),
        json!({ "volumes": [{ "secret": "bait", "configMap": ["bait"], "csi": { "volumeAttributes": bait } }] }),
        json!({ "synchronization": { "mutex": { "name": "bait", "namespace": "bait" } } }),
        json!({ "serviceAccountName": 7, "imagePullSecrets": "bait", "hooks": "bait", "claimName": "" }),
        json!(null),
    ] {
        assert_eq!(of(&spec), Vec::<String>::new(), "{spec}");
    }
}

#[test]
fn an_unknown_reference_is_said_and_not_guessed() {
    let long = "x".repeat(300);
    for (spec, wanted) in [
        (
            json!({ "templateRef": { "name": "{{inputs.parameters.t}}" } }),
            "!WorkflowTemplate {{inputs.parameters.t}}".to_owned(),
        ),
        (
            json!({ "volumes": [{ "secret": { "secretName": "a-{{workflow.name}}" } }] }),
            "!Secret a-{{workflow.name}}".to_owned(),
        ),
        (
            json!({ "podSpecPatch": "{}" }),
            "!names in the text of podSpecPatch".to_owned(),
        ),
        (
            json!({ "resource": { "manifest": "kind: Job" } }),
            "!names in the text of manifest".to_owned(),
        ),
        (
            json!({ "semaphore": { "namespace": "other", "configMapKeyRef": { "name": "a", "key": "k" } } }),
            "!ConfigMap a of namespace other".to_owned(),
        ),
        (
            json!({ "serviceAccountName": long }),
            format!("!ServiceAccount {}", "x".repeat(253)),
        ),
    ] {
        assert_eq!(of(&spec), [wanted], "{spec}");
    }
}

#[test]
fn only_a_valid_name_of_an_object_is_a_name() {
    for (name, wanted) in [
        ("a", true),
        ("a-1.b", true),
        ("0", true),
        ("", false),
        ("..", false),
        ("a/../b", false),
        ("a.", false),
        ("a..b", false),
        ("-a", false),
        ("a-.b", false),
        ("A", false),
        ("a b", false),
        ("ä", false),
    ] {
        assert_eq!(is_name(name), wanted, "{name}");
    }
}

#[test]
fn an_object_that_one_place_requires_is_required() {
    let reference = |optional: bool| json!({ "configMapRef": { "name": "a", "optional": optional } });
    for (first, second, wanted) in [
        (true, true, "ConfigMap a?"),
        (true, false, "ConfigMap a"),
        (false, true, "ConfigMap a"),
    ] {
        assert_eq!(of(&json!([reference(first), reference(second)])), [wanted]);
    }
    let mut both = Dependencies::of_template(&reference(true), "team");
    both.extend(Dependencies::of_template(&reference(false), "team"));
    assert_eq!(found(&both), ["ConfigMap a"]);
}

#[test]
fn a_workflow_may_need_the_artifact_repositories_and_the_default_account_of_its_namespace() {
    let (own, default) = ("ServiceAccount own", "ServiceAccount default?");
    for (spec, wanted) in [
        (json!({}), ["ConfigMap artifact-repositories?", default]),
        (
            json!({ "artifactRepositoryRef": null, "serviceAccountName": "" }),
            ["ConfigMap artifact-repositories?", default],
        ),
        (
            json!({ "artifactRepositoryRef": { "configMap": "own" }, "serviceAccountName": "own" }),
            ["ConfigMap own?", own],
        ),
    ] {
        assert_eq!(found(&Dependencies::of_workflow(&spec, "team")), wanted, "{spec}");
    }
}

#[test]
fn the_account_of_pods_that_name_none_is_found_however_many_objects_are_named() {
    let names = (0..1000).map(|number| json!({ "configMapRef": { "name": format!("c{number}") } }));
    let many = Dependencies::of_workflow(&json!({ "templates": names.collect::<Value>() }), "team");
    let is_account = |found: &&Dependency| found.kind == DependencyKind::ServiceAccount;
    assert!(many.named.keys().any(|found| is_account(&found)));
}

#[test]
fn artifacts_with_a_location_of_their_own_need_no_repository() {
    for (artifact, is_kept) in [
        (json!({ "name": "a" }), true),
        (
            json!({ "name": "a", "path": "/a", "archive": { "none": {} } }),
            true,
        ),
        (json!({ "s3": { "key": "a" } }), true),
        (json!({ "raw": null }), true),
        (json!({ "s3": { "key": "a", "bucket": "b" } }), false),
        (json!({ "azure": { "container": "c" } }), false),
        (json!({ "raw": { "data": "a" } }), false),
        (json!({ "from": "{{tasks.a.outputs.artifacts.b}}" }), false),
    ] {
        let inputs = json!({ "inputs": { "artifacts": [artifact] } });
        assert_eq!(
            Dependencies::of_template(&inputs, "team").has_artifacts,
            is_kept,
            "{inputs}"
        );
        let paths = json!({ "data": { "source": { "artifactPaths": artifact } } });
        assert_eq!(
            Dependencies::of_template(&paths, "team").has_artifacts,
            is_kept,
            "{paths}"
        );
    }
    let none = json!({ "outputs": { "artifacts": [] } });
    assert!(!Dependencies::of_template(&none, "team").has_artifacts);
}

#[test]
fn a_hostile_specification_is_searched_within_bounds() {
    let names = (0..1000).map(|number| json!({ "configMapRef": { "name": format!("c{number}") } }));
    let many = Dependencies::of_template(&names.collect(), "team");
    assert_eq!(many.named.len(), MOST_NAMED);
    assert_eq!(many.unknown.len(), 1);

    let unknown = (0..1000).map(|number| json!({ "serviceAccountName": format!("{{{{{number}}}}}") }));
    let unknown = Dependencies::of_template(&unknown.collect(), "team");
    assert_eq!(unknown.unknown.len(), MOST_UNKNOWN);

    let mut deep = json!({ "serviceAccountName": "deep" });
    for _ in 0..=DEEPEST {
        deep = json!([deep]);
    }
    assert_eq!(of(&deep), ["!parts that are too deep or too many to be searched"]);

    let mut wide = vec![Value::Null; MOST_VISITS];
    wide.push(json!({ "serviceAccountName": "last" }));
    assert_eq!(
        of(&wide.into()),
        ["!parts that are too deep or too many to be searched"]
    );
}

#[test]
fn a_run_that_creates_objects_may_create_those_that_it_names() {
    for (action, creates) in [
        ("create", true),
        ("apply", true),
        ("get", false),
        ("delete", false),
    ] {
        let spec = json!({ "templates": [{ "name": "main", "resource": { "action": action } }] });
        assert_eq!(
            Dependencies::of_template(&spec, "team").creates,
            creates,
            "{action}"
        );
    }
    for (manifest, creates) in [
        (
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: configmap}",
            false,
        ),
        (
            "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Workflow\"}",
            false,
        ),
        ("apiVersion: v1\nkind: ConfigMap", true),
        ("{\"kind\": \"Secret\"}", true),
        ("kind: 'PersistentVolumeClaim'", true),
        ("kind: Job\n---\nkind: ConfigMap", true),
        ("kind: \"{{inputs.parameters.kind}}\"", true),
        ("{{inputs.parameters.manifest}}", true),
    ] {
        let resource = json!({ "action": "create", "manifest": manifest });
        let spec = json!({ "templates": [{ "name": "main", "resource": resource }] });
        let found = Dependencies::of_template(&spec, "team").creates;
        assert_eq!(found, creates, "{manifest}");
    }
    let limits = json!({ "env": [{ "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } }] });
    assert!(!Dependencies::of_template(&limits, "team").creates);
}
