//! Artifact locations: a location that a cluster reports is shown if the control cluster has named
//! the place.

use super::*;

const EVIL: &str = "https://evil/";

fn reported(location: &Value) -> Value {
    let mut artifact = json!({ "name": "main-logs" });
    artifact
        .as_object_mut()
        .unwrap()
        .extend(location.as_object().unwrap().clone());
    let nodes = json!({ "a": { "type": "Pod", "outputs": { "artifacts": [artifact] } } });
    report("cluster1", 1, json!({ "phase": "Running", "nodes": nodes }))
}

fn bucket(name: &str) -> Value {
    json!({ "s3": { "endpoint": "s3", "bucket": name, "key": "k", "accessKeySecret": { "name": "any", "key": "a" } } })
}

fn running(spec: &Value) -> Fleet {
    let mut fleet = Fleet::of(with(claimed("cluster1", 1), json!({ "spec": spec })));
    fleet.work(started("cluster1", 1));
    fleet
}

/// The artifact as it is shown, and the conditions.
#[track_caller]
fn shown(fleet: &Fleet) -> (Value, Vec<String>) {
    let patch = fleet.patch(Purpose::Mirror);
    let artifact = patch
        .value_at("/status")
        .unwrap()
        .pointer("/nodes/a/outputs/artifacts/0");
    (artifact.unwrap().clone(), fleet.conditions(Purpose::Mirror))
}

const WITHHELD: [&str; 2] = [
    "Dispatched=True Claimed",
    "StatusComplete=False LocationsWithheld",
];

#[test]
fn a_place_that_only_the_cluster_names_is_not_shown_and_said_until_there_is_a_better_report() {
    let mut fleet = running(&json!({}));
    fleet.report(reported(&json!({ "http": { "url": EVIL } })));
    assert_eq!(
        shown(&fleet),
        (
            json!({ "name": "main-logs" }),
            WITHHELD.map(ToOwned::to_owned).into()
        )
    );
    let key = reported(&json!({ "s3": { "key": "k" } }));
    fleet.report(key);
    assert_eq!(fleet.conditions(Purpose::Mirror), ["Dispatched=True Claimed"]);
}

#[test]
fn a_place_that_the_workflow_names_is_shown() {
    let mut fleet = running(&json!({ "templates": [{ "archiveLocation": bucket("mine") }] }));
    fleet.report(reported(&bucket("mine")));
    let (artifact, conditions) = shown(&fleet);
    assert_eq!(artifact["s3"], bucket("mine")["s3"]);
    assert_eq!(conditions, ["Dispatched=True Claimed"]);
    fleet.report(reported(&bucket("other")));
    assert_eq!(shown(&fleet).0, json!({ "name": "main-logs" }));
}

#[test]
fn a_place_that_a_template_here_names_is_shown_once_that_was_read() {
    let mut fleet = running(&json!({ "workflowTemplateRef": { "name": "whole" } }));
    fleet.report(reported(&bucket("templates")));
    let read = |fleet: &Fleet| match fleet.decide() {
        Some(HubAction::ReadTemplate { namespace, template }) => (namespace, template),
        other => panic!("a template is to be read, not {other:#?}"),
    };
    let (namespace, whole) = read(&fleet);
    assert_eq!((namespace.as_str(), whole.name.as_str()), ("argo", "whole"));
    // The first template refers to another one.
    let spec = json!({ "templates": [{ "steps": [[{ "templateRef": { "name": "part", "clusterScope": true } }]] }] });
    fleet.learn(HubInput::TemplateRead(key(), whole, Some(spec)));
    let (_, part) = read(&fleet);
    assert!(part.is_cluster_scoped && part.name == "part");
    let spec = json!({ "templates": [{ "archiveLocation": bucket("templates") }] });
    fleet.learn(HubInput::TemplateRead(key(), part, Some(spec)));
    let (artifact, conditions) = shown(&fleet);
    assert_eq!(artifact["s3"], bucket("templates")["s3"]);
    assert_eq!(conditions, ["Dispatched=True Claimed"]);
    // The templates are not read again for the next report.
    fleet.report(reported(&bucket("other")));
    assert_eq!(shown(&fleet).1, WITHHELD);
}

#[test]
fn a_template_that_is_not_here_names_nothing() {
    let mut fleet = running(&json!({ "workflowTemplateRef": { "name": "whole" } }));
    fleet.report(reported(&bucket("templates")));
    let Some(HubAction::ReadTemplate { template, .. }) = fleet.decide() else {
        panic!("a template is to be read");
    };
    fleet.learn(HubInput::TemplateRead(key(), template, None));
    assert_eq!(shown(&fleet).1, WITHHELD);
}

#[test]
fn no_template_is_read_for_a_mere_key() {
    let mut fleet = running(&json!({ "workflowTemplateRef": { "name": "whole" } }));
    fleet.report(reported(&json!({ "s3": { "key": "k" } })));
    assert_eq!(shown(&fleet).1, ["Dispatched=True Claimed"]);
}

#[test]
fn the_repository_of_a_run_is_that_of_the_control_cluster() {
    let repository =
        |bucket: &str| json!({ "archiveLogs": true, "s3": { "endpoint": "s3", "bucket": bucket } });
    let reported = |bucket: &str| {
        let repository = json!({ "default": true, "artifactRepository": repository(bucket) });
        report(
            "cluster1",
            1,
            json!({ "phase": "Running", "artifactRepositoryRef": repository }),
        )
    };
    let shown = |fleet: &Fleet| {
        fleet.patch(Purpose::Mirror).value_at("/status").unwrap()["artifactRepositoryRef"].clone()
    };
    let mut fleet = running(&json!({}));
    fleet.report(reported("evil"));
    assert_eq!(shown(&fleet), json!({ "default": true }));
    fleet.learn(HubInput::LocalArgo(LocalArgo {
        namespace: "argo".to_owned(),
        repository: Some(repository("ours")),
        ..LocalArgo::default()
    }));
    assert_eq!(
        shown(&fleet),
        json!({ "default": true, "artifactRepository": repository("ours") })
    );
}

#[test]
fn of_a_run_that_is_remembered_only_the_end_is_believed() {
    let mut fleet = running(&json!({}));
    let mut remembered = reported(&json!({ "http": { "url": EVIL } }));
    remembered["reported"]["isRemembered"] = json!(true);
    remembered["status"]["phase"] = json!("Failed");
    fleet.report(remembered);
    let patch = fleet.patch(Purpose::Mirror);
    assert_eq!(patch.value_at("/status/nodes"), None);
    assert!(!format!("{patch:?}").contains(EVIL));
}
