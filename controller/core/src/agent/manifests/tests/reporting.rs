//! Feedback values, and the WorkStatus.

use super::*;

fn asking(manifest: &Value) -> Value {
    with(
        ours(manifest),
        json!({ "metadata": { "annotations": { names::WANT_STATUS_ANNOTATION: "true" } } }),
    )
}

fn written(world: &World) -> WorkStatus {
    match world.decide("w").action {
        Some(ApplyAction::WriteStatus { status, .. }) => *status,
        other => panic!("{other:?}"),
    }
}

pub(super) fn with_status(world: &mut World, status: &Value) {
    let key = key("configmaps", "c");
    let mut object = with(world.objects[&key].clone(), json!({ "status": status }));
    let entry = json!({
        "manager": "kubelet", "operation": "Update", "subresource": "status", "time": "2026-11-21T09:30:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": { "f:status": {} },
    });
    object["metadata"]["managedFields"]
        .as_array_mut()
        .unwrap()
        .push(entry);
    world.put(&key, object);
}

#[test]
fn a_status_that_is_wanted_is_told_whole_and_once() {
    let mut world = World::new(&[("w", asking(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    with_status(&mut world, &json!({ "phase": "Up", "parts": [1] }));
    let status = written(&world);
    assert_eq!(status.status, Some(json!({ "phase": "Up", "parts": [1] })));
    assert_eq!(status.metadata.name.as_deref(), Some("w"));
    let labels = status.metadata.labels.unwrap();
    assert_eq!(
        (
            labels[names::OBJECT_UID_LABEL].as_str(),
            labels[names::ORIGIN_WDS_LABEL].as_str()
        ),
        ("u1", "wds")
    );
    let reported = status.reported.unwrap();
    assert_eq!(reported.changed_at.as_deref(), Some("2026-11-21T09:30:00Z"));
    assert_eq!(
        reported.uid,
        world.objects[&key("configmaps", "c")]["metadata"]["uid"]
    );
    assert_eq!(world.settle("w"), ["report to the hub"]);
    assert_eq!(world.settle("w"), [""; 0]);
}

#[test]
fn a_report_is_taken_back_with_the_wish_and_with_the_object() {
    let mut world = World::new(&[("w", asking(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    let status = world.works["w"]["status"].clone();
    let mut quiet = with(ours(&config_map("c", "1")), json!({ "status": status }));
    world.put_work("w", quiet.clone());
    assert!(world.settle("w").contains(&"delete the report".to_owned()));
    quiet = with(
        quiet,
        json!({ "metadata": { "annotations": { names::WANT_STATUS_ANNOTATION: "true" } } }),
    );
    world.put_work("w", quiet);
    assert!(world.settle("w").contains(&"report to the hub".to_owned()));
    world.delete_work("w");
    let done = world.settle("w");
    assert_eq!(
        done,
        [
            "delete configmaps shop/c",
            "delete the report",
            "write the ManifestWork's finalizers"
        ]
    );
}

#[test]
fn feedback_is_given_as_it_is_asked_for_and_follows_the_object() {
    let rules = json!({ "spec": { "manifestConfigs": [{
        "resourceIdentifier": { "group": "", "resource": "configmaps", "namespace": "shop", "name": "c" },
        "feedbackRules": [{ "type": "JSONPaths", "jsonPaths": [{ "name": "phase", "path": ".status.phase" }] }],
    }] } });
    let mut world = World::new(&[("w", with(theirs(&[config_map("c", "1")]), rules))]).with_namespace();
    world.settle("w");
    assert_eq!(world.says("w", Some(0), "StatusFeedbackSynced").0, "True");
    for phase in ["Up", "Down"] {
        with_status(&mut world, &json!({ "phase": phase }));
        assert_eq!(world.settle("w"), ["write the ManifestWork's status"]);
        let values =
            &world.works["w"]["status"]["resourceStatus"]["manifests"][0]["statusFeedback"]["values"];
        assert_eq!(
            *values,
            json!([{ "name": "phase", "fieldValue": { "type": "String", "string": phase } }])
        );
    }
}

#[test]
fn conditions_of_others_stay() {
    let other = json!({
        "type": "Delivered", "status": "True", "reason": "x", "message": "", "lastTransitionTime": "2026-11-21T09:00:00Z",
    });
    let work = with(
        ours(&config_map("c", "1")),
        json!({ "status": { "conditions": [other.clone()] } }),
    );
    let mut world = World::new(&[("w", work)]).with_namespace();
    world.settle("w");
    let conditions = world.works["w"]["status"]["conditions"].as_array().unwrap();
    assert_eq!((conditions.len(), &conditions[0]), (3, &other));
}

#[test]
fn an_executor_is_told_nothing_that_it_may_not_read() {
    for (strategy, account, is_allowed) in [
        ("ReadOnly", "reader", true),
        ("ReadOnly", "nobody", false),
        // The object belongs to another ManifestWork, and is in the index for that reason.
        ("Update", "nobody", false),
    ] {
        let config = json!({ "spec": {
            "executor": { "subject": { "type": "ServiceAccount", "serviceAccount": { "namespace": "x", "name": account } } },
            "manifestConfigs": [{
                "resourceIdentifier": { "group": "", "resource": "configmaps", "namespace": "shop", "name": "c" },
                "updateStrategy": { "type": strategy },
                "feedbackRules": [{ "type": "JSONPaths", "jsonPaths": [{ "name": "a", "path": ".data.a" }] }],
            }],
        } });
        let works = [
            ("holder", ours(&config_map("c", "secret"))),
            ("w", with(theirs(&[config_map("c", "1")]), config)),
        ];
        let mut world = World::new(&works).with_namespace();
        world.settle("holder");
        world.settle("w");
        let status = world.works["w"]["status"].to_string();
        assert_eq!(status.contains("secret"), is_allowed, "{status}");
        let (applied, _, message) = world.says("w", Some(0), "Applied");
        assert_eq!(applied == "True", is_allowed, "{message}");
        assert_eq!(
            message.contains("is not allowed to get"),
            !is_allowed,
            "{message}"
        );
    }
}
