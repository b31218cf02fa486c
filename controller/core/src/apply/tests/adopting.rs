//! What was there before, and what is another's.

use super::*;

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
        ["give configmaps shop/c up", "write the ManifestWork's finalizers"]
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
