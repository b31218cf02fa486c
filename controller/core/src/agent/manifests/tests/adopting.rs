//! Objects that existed before, and objects of other owners.

use super::*;
use crate::model::json_patch::JsonPatch;

#[test]
fn what_was_there_before_is_adopted_and_left_when_the_manifest_work_goes() {
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    world.put(&key("configmaps", "c"), config_map("c", "0"));
    world.settle("w");
    let there = &world.objects[&key("configmaps", "c")]["metadata"];
    assert_eq!(there["annotations"][names::ADOPTED_ANNOTATION], "true");
    world.restart();
    world.delete_work("w");
    let done = world.settle("w");
    assert_eq!(
        done[1..],
        [
            "remove Argosy's marks from configmaps shop/c",
            "write the ManifestWork's finalizers"
        ]
    );
    let there = &world.objects[&key("configmaps", "c")];
    assert_eq!(there["data"]["a"], "1");
    assert_eq!(there["metadata"]["labels"], json!({}));
    assert_eq!(there["metadata"]["annotations"], json!({}));
    assert!(!world.works.contains_key("w"));
}

#[test]
fn what_our_manager_has_applied_is_ours_without_its_marks_too() {
    let mut world = World::new(&[("w", theirs(&[config_map("c", "1")]))]).with_namespace();
    world.settle("w");
    let mut object = world.objects[&key("configmaps", "c")].clone();
    object["metadata"]["labels"] = json!({});
    object["metadata"]["annotations"] = json!({});
    let marked = world.objects.insert(key("configmaps", "c"), object).unwrap();
    world.feed(ApplyInput::Objects(
        key("configmaps", "c").resource,
        Change::Delete(Box::new(read(marked))),
    ));
    world.settle("w");
    let annotations = &world.objects[&key("configmaps", "c")]["metadata"]["annotations"];
    assert_eq!(annotations[names::MANIFEST_WORK_ANNOTATION], "w");
    assert!(annotations.get(names::ADOPTED_ANNOTATION).is_none());
}

#[test]
fn the_object_of_another_manifest_work_is_left_alone_until_that_is_gone() {
    let works = [
        ("a", theirs(&[config_map("c", "a")])),
        ("b", theirs(&[config_map("c", "b")])),
    ];
    let mut world = World::new(&works).with_namespace();
    world.settle("a");
    world.settle("b");
    let (status, reason, message) = world.says("b", Some(0), "Applied");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ForeignObject"));
    assert!(message.contains("ManifestWork a"), "{message}");
    assert_eq!(world.objects[&key("configmaps", "c")]["data"]["a"], "a");
    world.delete_work("a");
    world.settle("b");
    assert!(world.says("b", Some(0), "Applied").2.contains("being deleted"));
    world.settle("a");
    world.settle("b");
    assert_eq!(world.objects[&key("configmaps", "c")]["data"]["a"], "b");
    assert_eq!(world.says("b", Some(0), "Applied").0, "True");
}

#[test]
fn the_object_of_a_manifest_work_that_is_not_there_is_taken_over() {
    let mut world = World::new(&[("w", theirs(&[config_map("c", "1")]))]).with_namespace();
    let left = json!({ "metadata": {
        "labels": { names::CLUSTER_LABEL: "cluster1" }, "annotations": { names::MANIFEST_WORK_ANNOTATION: "lost" },
    } });
    world.put(&key("configmaps", "c"), with(config_map("c", "0"), left));
    world.settle("w");
    let there = &world.objects[&key("configmaps", "c")];
    assert_eq!(
        (
            &there["data"]["a"],
            there["metadata"]["annotations"].get(names::ADOPTED_ANNOTATION)
        ),
        (&json!("1"), None)
    );
    world.delete_work("w");
    world.settle("w");
    assert!(!world.objects.contains_key(&key("configmaps", "c")));
}

#[test]
fn the_object_of_another_cluster_or_a_run_is_never_touched() {
    let of_cluster2 = json!({ "metadata": {
        "labels": { names::CLUSTER_LABEL: "cluster2" }, "annotations": { names::MANIFEST_WORK_ANNOTATION: "w" },
    } });
    let run = json!({ "metadata": { "labels": { names::CLUSTER_LABEL: "cluster1", names::ORIGIN_UID_LABEL: "u9" } } });
    for marks in [of_cluster2, run] {
        let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
        world.put(&key("configmaps", "c"), with(config_map("c", "0"), marks));
        world.settle("w");
        assert_eq!(world.says("w", Some(0), "Applied").1, "ForeignObject");
        world.delete_work("w");
        world.settle("w");
        assert_eq!(world.objects[&key("configmaps", "c")]["data"]["a"], "0");
        assert!(!world.works.contains_key("w"));
    }
}

/// A mailbox after OCM's agent applied `c` and `d`. Then that agent was stopped, and `d` was
/// removed from the ManifestWork.
fn after_ocm(delete_option: &Value) -> World {
    let work = with(
        theirs(&[config_map("c", "1"), config_map("e", "1")]),
        json!({ "spec": { "deleteOption": delete_option } }),
    );
    let mut world = World::new(&[("w", work)]).with_namespace();
    let owner = json!({ "metadata": { "ownerReferences": [{
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "AppliedManifestWork", "name": "hub-w", "uid": "uid-record",
    }] } });
    for name in ["c", "d"] {
        world.put(
            &key("configmaps", name),
            with(config_map(name, "0"), owner.clone()),
        );
    }
    world.put(&key("configmaps", "f"), config_map("f", "another's"));
    let named = ["c", "d", "f"].map(|name| {
        json!({ "version": "v1", "resource": "configmaps", "namespace": "shop", "name": name, "uid": "" })
    });
    let record = json!({
        "metadata": { "name": "hub-w", "uid": "uid-record", "resourceVersion": "9" },
        "spec": { "hubHash": "hub", "manifestWorkName": "w" },
        "status": { "appliedResources": named },
    });
    world.left.insert("w".to_owned(), record);
    world
}

#[test]
fn what_ocms_agent_has_left_is_gone_on_with() {
    let mut world = after_ocm(&json!({}));
    let done = world.settle("w");
    assert_eq!(
        done.iter().filter(|done| done.ends_with("the record")).count(),
        3,
        "{done:?}"
    );
    // No manifest names `d` any more. `f` is in the record but does not belong to it, so it is left
    // alone.
    assert!(!world.objects.contains_key(&key("configmaps", "d")));
    assert_eq!(world.objects[&key("configmaps", "f")]["data"]["a"], "another's");
    let annotations = &world.objects[&key("configmaps", "c")]["metadata"]["annotations"];
    assert!(annotations.get(names::ADOPTED_ANNOTATION).is_none());
    let record = world.record("w").status.unwrap().applied_resources;
    let names: Vec<_> = record.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["c", "e"]);
    world.delete_work("w");
    world.settle("w");
    assert!(!world.objects.contains_key(&key("configmaps", "c")));
}

#[test]
fn what_ocms_agent_has_left_stays_if_another_record_is_its_owner_too() {
    let ocm = "work.open-cluster-management.io/v1";
    for (api, kind, stays) in [
        (ocm, "AppliedManifestWork", true),
        (
            "work.open-cluster-management.io/v1beta1",
            "AppliedManifestWork",
            true,
        ),
        ("example.com/v1", "AppliedManifestWork", false),
        (ocm, "Other", false),
        ("apps/v1", "Deployment", false),
        ("v1", "ConfigMap", false),
    ] {
        let mut world = after_ocm(&json!({}));
        let place = key("configmaps", "d");
        let mut object = world.objects[&place].clone();
        let owners = object["metadata"]["ownerReferences"].as_array_mut().unwrap();
        owners.push(json!({ "apiVersion": api, "kind": kind, "name": "another", "uid": "uid-another" }));
        world.put(&place, object);
        world.settle("w");
        let record = world.record("w").status.unwrap().applied_resources;
        assert!(record.iter().all(|entry| entry.name != "d"), "{kind} of {api}");
        assert_eq!(world.objects.contains_key(&place), stays, "{kind} of {api}");
    }
}

#[test]
fn a_record_that_is_taken_over_keeps_what_others_have_put_on_it_and_another_is_left_alone() {
    let ocms = names::APPLIED_MANIFEST_WORK_FINALIZER;
    let record = |metadata: Value, hub: &str, work: &str| -> AppliedManifestWork {
        let named = json!({ "metadata": { "name": "hub-w", "uid": "r", "resourceVersion": "9" } });
        let spec = json!({ "spec": { "hubHash": hub, "manifestWorkName": work, "agentID": "whoever" } });
        read(with(with(named, spec), json!({ "metadata": metadata })))
    };
    let ours = json!({ "labels": { names::CLUSTER_LABEL: "cluster1" }, "finalizers": [ocms] });
    let wanted = record(ours, "hub", "w");
    for (metadata, labels, finalizers) in [
        (
            json!({}),
            json!({ names::CLUSTER_LABEL: "cluster1" }),
            json!([ocms]),
        ),
        (
            json!({ "labels": { "a": "b" }, "finalizers": ["example.com/x", ocms] }),
            json!({ "a": "b", names::CLUSTER_LABEL: "cluster1" }),
            json!(["example.com/x", ocms]),
        ),
        (
            json!({ "labels": { names::CLUSTER_LABEL: "other" }, "finalizers": ["example.com/x"] }),
            json!({ names::CLUSTER_LABEL: "cluster1" }),
            json!(["example.com/x", ocms]),
        ),
    ] {
        let there = record(metadata.clone(), "hub", "w");
        let guarded = JsonPatch::guarded("r", "9")
            .set("/metadata/labels", labels)
            .set("/metadata/finalizers", finalizers);
        assert_eq!(taking_over(&there, &wanted), Some(guarded), "{metadata}");
    }
    for (hub, work) in [("another", "w"), ("hub", "another")] {
        assert_eq!(taking_over(&record(json!({}), hub, work), &wanted), None);
    }
}

#[test]
fn what_ocms_agent_has_left_is_given_up_without_an_owner_that_goes() {
    let mut world = after_ocm(&json!({ "propagationPolicy": "Orphan" }));
    world.settle("w");
    world.delete_work("w");
    world.settle("w");
    for name in ["c", "d"] {
        let there = &world.objects[&key("configmaps", name)]["metadata"];
        assert_eq!(there["ownerReferences"], json!([]), "{name}");
    }
}
