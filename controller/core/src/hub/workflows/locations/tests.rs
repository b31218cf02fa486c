use serde_json::json;

use super::*;

fn node(outputs: &Value) -> Value {
    json!({ "nodes": { "a": { "type": "Pod", "outputs": { "artifacts": outputs } } } })
}

fn artifact(location: &Value) -> Value {
    let mut artifact = json!({ "name": "main-logs" });
    for (name, value) in location.as_object().into_iter().flatten() {
        artifact[name] = value.clone();
    }
    artifact
}

fn named(spec: &Value) -> Named {
    let mut named = Named::default();
    named.learn(spec);
    named
}

/// The artifact of a node as it is shown if `spec` names the places, and the number of artifacts
/// without a location.
fn shown(location: &Value, spec: &Value) -> (Value, u32) {
    let mut status = node(&json!([artifact(location)]));
    let (elsewhere, _) = sanitize(&mut status);
    let named = named(spec);
    restrict(&mut status, &elsewhere, &named);
    let artifact = status.pointer("/nodes/a/outputs/artifacts/0").unwrap().clone();
    (artifact, elsewhere.withheld(&named))
}

fn secret(key: &str) -> Value {
    json!({ "name": "any", "key": key })
}

/// One location of each kind, with the fields of Argo's types.
fn places() -> Vec<Value> {
    vec![
        json!({ "s3": {
            "endpoint": "evil:9000", "bucket": "b", "insecure": true, "key": "k", "region": "r", "roleARN": "a",
            "accessKeySecret": secret("a"), "secretKeySecret": secret("s"), "sessionTokenSecret": secret("t"),
            "caSecret": secret("c"), "useSDKCreds": true,
            "encryptionOptions": { "enableEncryption": true, "serverSideCustomerKeySecret": secret("e") },
        } }),
        json!({ "http": {
            "url": "https://evil/x", "headers": [{ "name": "a", "value": "b" }],
            "auth": { "basicAuth": { "usernameSecret": secret("u"), "passwordSecret": secret("p") } },
        } }),
        json!({ "http": { "url": "https://evil/", "auth": { "oauth2": {
            "clientIDSecret": secret("i"), "clientSecretSecret": secret("s"), "tokenURLSecret": secret("t"), "scopes": ["a"],
        } } } }),
        json!({ "http": { "url": "https://evil/", "auth": { "clientCert": {
            "clientCertSecret": secret("c"), "clientKeySecret": secret("k"),
        } } } }),
        json!({ "http": { "url": "http://169.254.169.254/latest" } }),
        json!({ "git": {
            "repo": "https://evil/r.git", "revision": "main", "depth": 1, "fetch": ["refs/x"], "branch": "b", "singleBranch": true,
            "usernameSecret": secret("u"), "passwordSecret": secret("p"), "sshPrivateKeySecret": secret("k"),
        } }),
        json!({ "artifactory": {
            "url": "https://evil/r/k", "usernameSecret": secret("u"), "passwordSecret": secret("p"),
        } }),
        json!({ "hdfs": {
            "addresses": ["evil:8020"], "path": "/k", "hdfsUser": "root", "krbKeytabSecret": secret("k"), "force": true,
        } }),
        json!({ "oss": {
            "endpoint": "https://evil", "bucket": "b", "key": "k", "accessKeySecret": secret("a"), "secretKeySecret": secret("s"),
        } }),
        json!({ "gcs": { "bucket": "b", "key": "k", "serviceAccountKeySecret": secret("s") } }),
        json!({ "gcs": { "bucket": "b", "key": "k" } }),
        json!({ "azure": {
            "endpoint": "https://evil", "container": "c", "blob": "k", "accountKeySecret": secret("a"), "useSDKCreds": true,
        } }),
        json!({ "plugin": { "name": "p", "configuration": "c", "key": "k" } }),
    ]
}

#[test]
fn a_key_of_the_repository_is_shown_as_it_is() {
    for location in [
        json!({}),
        json!({ "s3": { "key": "a/b" } }),
        json!({ "s3": { "key": "a/b", "endpoint": "", "insecure": false, "accessKeySecret": null } }),
        json!({ "oss": { "key": "k" } }),
        json!({ "gcs": { "key": "k" } }),
        json!({ "azure": { "blob": "k" } }),
        json!({ "hdfs": { "path": "/k" } }),
        json!({ "artifactory": { "url": "a/b" } }),
        json!({ "plugin": { "key": "k" } }),
        json!({ "raw": { "data": "text" } }),
        json!({ "s3": { "key": "k" }, "path": "/p", "mode": 420, "archive": { "none": {} }, "optional": true, "globalName": "g",
            "subPath": "s", "from": "{{x}}", "fromExpression": "x", "recurseMode": true, "deleted": true, "archiveLogs": true,
            "artifactGC": { "strategy": "Never" } }),
    ] {
        assert_eq!(
            shown(&location, &json!({})),
            (artifact(&location), 0),
            "{location}"
        );
    }
}

#[test]
fn a_place_that_only_the_cluster_names_is_taken_off_whatever_its_kind() {
    for location in places() {
        assert_eq!(
            shown(&location, &json!({ "templates": [] })),
            (artifact(&json!({})), 1),
            "{location}"
        );
    }
}

#[test]
fn a_place_that_the_workflow_names_is_shown_with_any_key() {
    for location in places() {
        let specs = [
            json!({ "templates": [{ "outputs": { "artifacts": [artifact(&location)] } }] }),
            json!({ "templates": [{ "archiveLocation": location }] }),
            json!({ "arguments": { "artifacts": [artifact(&location)] } }),
            json!({ "templates": [{ "data": { "source": { "artifactPaths": artifact(&location) } } }] }),
        ];
        for spec in specs {
            assert_eq!(
                shown(&location, &spec),
                (artifact(&location), 0),
                "{location} {spec}"
            );
        }
    }
    let spec =
        |location: &Value| json!({ "templates": [{ "outputs": { "artifacts": [artifact(location)] } }] });
    for (asked, reported) in [
        (
            json!({ "s3": { "endpoint": "e", "bucket": "b", "key": "{{workflow.name}}/x" } }),
            json!({ "s3": { "endpoint": "e", "bucket": "b", "key": "w/x" } }),
        ),
        (
            json!({ "git": { "repo": "https://g/r", "revision": "{{inputs.parameters.revision}}" } }),
            json!({ "git": { "repo": "https://g/r", "revision": "v1" } }),
        ),
        (
            json!({ "http": { "url": "https://h/{{workflow.name}}", "auth": {} } }),
            json!({ "http": { "url": "https://h/w", "auth": { "basicAuth": {}, "oauth2": {}, "clientCert": {} } } }),
        ),
    ] {
        assert_eq!(
            shown(&reported, &spec(&asked)),
            (artifact(&reported), 0),
            "{reported}"
        );
    }
}

#[test]
fn nearly_the_place_that_the_workflow_names_is_another_one() {
    let spec = |location: Value| json!({ "templates": [{ "archiveLocation": location }] });
    for (asked, reported) in [
        (
            json!({ "s3": { "endpoint": "e", "bucket": "b", "key": "k" } }),
            json!({ "s3": { "endpoint": "e", "bucket": "b", "key": "k", "accessKeySecret": secret("a") } }),
        ),
        (
            json!({ "s3": { "endpoint": "{{inputs.parameters.e}}", "bucket": "b", "key": "k" } }),
            json!({ "s3": { "endpoint": "evil", "bucket": "b", "key": "k" } }),
        ),
        (
            json!({ "s3": { "endpoint": "e", "bucket": "b", "key": "k" } }),
            json!({ "s3": { "endpoint": "e", "bucket": "b", "key": "k", "Endpoint": "evil" } }),
        ),
        (
            json!({ "http": { "url": "https://h/x" } }),
            json!({ "http": { "url": "https://h.evil/x" } }),
        ),
        (
            json!({ "http": { "url": "https://h/x" } }),
            json!({ "http": { "url": "https://h@evil/x" } }),
        ),
        (
            json!({ "http": { "url": "https://{{x}}/y" } }),
            json!({ "http": { "url": "https://{{x}}/y" } }),
        ),
        (
            json!({ "git": { "repo": "https://g/r" } }),
            json!({ "git": { "repo": "https://g/r", "insecureIgnoreHostKey": true } }),
        ),
    ] {
        assert_eq!(
            shown(&reported, &spec(asked)),
            (artifact(&json!({})), 1),
            "{reported}"
        );
    }
}

#[test]
fn what_is_no_artifact_of_argos_is_taken_off() {
    for location in [
        json!({ "s3": { "key": "k" }, "http": { "url": "https://evil/" } }),
        json!({ "HTTP": { "url": "https://evil/" } }),
        json!({ "s3": "k" }),
        json!({ "s3": { "key": ["k"] } }),
        json!({ "s3": {} }),
        json!({ "http": { "url": "//evil/" } }),
        json!({ "artifactory": { "url": "//evil/" } }),
        json!({ "artifactory": { "url": "evil:80/k" } }),
        json!({ "raw": { "data": "text", "url": "https://evil/" } }),
        json!({ "later": { "endpoint": "evil" } }),
        json!({ "path": ["/p"] }),
        json!({ "hdfs": { "path": "/k", "force": 7 } }),
        json!({ "s3": { "key": 7, "bucket": "b" } }),
        json!({ "mode": 1.5 }),
        json!({ "archive": { "tar": { "compressionLevel": "x" } } }),
    ] {
        assert_eq!(
            shown(&location, &json!({})),
            (artifact(&json!({})), 1),
            "{location}"
        );
    }
    let collected = json!({ "artifactGC": { "strategy": "Never", "serviceAccountName": "admin" } });
    assert_eq!(
        shown(&collected, &json!({})),
        (artifact(&json!({ "artifactGC": { "strategy": "Never" } })), 0)
    );
    let mut status = node(&json!(["a", 7]));
    sanitize(&mut status);
    assert_eq!(status, node(&json!([])));
    let mut status = node(&json!("many"));
    sanitize(&mut status);
    assert_eq!(
        status,
        json!({ "nodes": { "a": { "type": "Pod", "outputs": {} } } })
    );
}

#[test]
fn every_part_of_a_status_that_argo_server_looks_at_is_looked_at() {
    let evil = || json!({ "http": { "url": "https://evil/" } });
    let one = || json!([artifact(&evil())]);
    let nothing = || json!([artifact(&json!({}))]);
    for (mut status, expected) in [
        (node(&one()), node(&nothing())),
        (
            json!({ "nodes": { "a": { "inputs": { "artifacts": one() } } } }),
            json!({ "nodes": { "a": { "inputs": { "artifacts": nothing() } } } }),
        ),
        (
            json!({ "outputs": { "artifacts": one() } }),
            json!({ "outputs": { "artifacts": nothing() } }),
        ),
        (
            json!({ "storedTemplates": { "t": { "name": "t", "archiveLocation": evil() } } }),
            json!({ "storedTemplates": { "t": { "name": "t", "archiveLocation": {} } } }),
        ),
        (
            json!({ "storedWorkflowTemplateSpec": { "templates": [{ "archiveLocation": evil() }] } }),
            json!({ "storedWorkflowTemplateSpec": { "templates": [{ "archiveLocation": {} }] } }),
        ),
        (
            json!({ "storedWorkflowTemplateSpec": { "templateDefaults": { "archiveLocation": evil() } } }),
            json!({ "storedWorkflowTemplateSpec": { "templateDefaults": { "archiveLocation": {} } } }),
        ),
    ] {
        let (elsewhere, _) = sanitize(&mut status);
        restrict(&mut status, &elsewhere, &Named::default());
        assert_eq!(status, expected);
        assert_eq!(elsewhere.withheld(&Named::default()), 1);
    }
}

#[test]
fn what_argo_writes_of_the_shared_repository_is_left_as_it_is() {
    let mut status = node(&json!([artifact(&json!({ "s3": { "key": "k" } }))]));
    status["storedTemplates"] = json!({ "t": { "name": "t", "container": { "image": "x" } } });
    let before = status.clone();
    let (elsewhere, has_changed) = sanitize(&mut status);
    assert!(elsewhere.is_empty() && !has_changed);
    assert_eq!(status, before);
}

#[test]
fn places_are_counted_up_to_some_number_and_the_rest_is_taken_off() {
    let many =
        (0..100).map(|number| artifact(&json!({ "gcs": { "bucket": number.to_string(), "key": "k" } })));
    let mut status = node(&many.collect());
    let (elsewhere, _) = sanitize(&mut status);
    assert_eq!((elsewhere.places.len(), elsewhere.nameless), (MOST, 36));
    assert_eq!(elsewhere.withheld(&Named::default()), 100);
    let long = artifact(&json!({ "gcs": { "bucket": "b".repeat(3000), "key": "k" } }));
    let (elsewhere, _) = sanitize(&mut node(&json!([long])));
    assert_eq!((elsewhere.places.len(), elsewhere.nameless), (0, 1));
}

fn s3(bucket: &str) -> Value {
    json!({ "endpoint": "e", "bucket": bucket, "keyFormat": "{{pod.name}}", "accessKeySecret": secret("a") })
}

#[test]
fn the_repository_is_the_control_clusters_unless_somebody_here_names_another() {
    let own = json!({ "archiveLogs": true, "s3": s3("own") });
    let mut known = named(&json!({ "artifactRepositoryRef": { "configMap": "mine", "key": "k" } }));
    known.on_location(&own);
    let ours = json!({ "default": true, "artifactRepository": own });
    let mut keys = own.clone();
    keys["s3"]["keyFormat"] = json!("c1/{{pod.name}}");
    let its_own_keys = json!({ "default": true, "artifactRepository": keys });
    for (reported, expected) in [
        (ours.clone(), ours.clone()),
        (its_own_keys.clone(), its_own_keys),
        (json!({ "default": true }), ours.clone()),
        (
            json!({ "default": true, "artifactRepository": { "s3": s3("evil") } }),
            ours.clone(),
        ),
        (
            json!({ "artifactRepository": { "s3": s3("evil") } }),
            ours.clone(),
        ),
        (
            json!({ "default": true, "artifactRepository": { "s3": s3("own"), "azure": { "endpoint": "evil" } } }),
            ours.clone(),
        ),
        (
            json!({ "configMap": "artifact-repositories", "key": "k", "namespace": "ns" }),
            json!({ "configMap": "artifact-repositories", "key": "k", "namespace": "ns" }),
        ),
        (
            json!({ "configMap": "mine", "key": "k", "namespace": "argo", "artifactRepository": { "s3": s3("evil") } }),
            json!({ "configMap": "mine", "key": "k", "namespace": "argo" }),
        ),
        (
            json!({ "configMap": "others", "key": "k", "namespace": "ns" }),
            ours.clone(),
        ),
        (
            json!({ "configMap": "mine", "key": "k", "namespace": "elsewhere" }),
            ours.clone(),
        ),
        (json!({ "configMap": 7, "default": "x" }), ours),
    ] {
        assert_eq!(
            repository(&reported, ["ns", "argo"], &known, Some(&own)),
            expected,
            "{reported}"
        );
    }
    let reported = json!({ "default": true, "artifactRepository": { "s3": s3("any") } });
    assert_eq!(
        repository(&reported, ["ns", ""], &Named::default(), None),
        json!({ "default": true })
    );
}
