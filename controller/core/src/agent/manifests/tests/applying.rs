//! Apply an object once, correct drift, write nothing else.

use super::*;

#[test]
fn a_cron_workflow_is_marked_for_the_argo_of_its_cluster() {
    for (work, object, marked) in [
        (ours(&nightly()), key("cronworkflows", "nightly"), json!("there")),
        (theirs(&[nightly()]), key("cronworkflows", "nightly"), Value::Null),
        (ours(&config_map("c", "1")), key("configmaps", "c"), Value::Null),
    ] {
        let mut world = World::new(&[("w", work)]).with_namespace();
        world.applier.config.argo_instance = Some("there".to_owned());
        world.settle("w");
        assert_eq!(
            world.objects[&object]["metadata"]["labels"][names::ARGO_INSTANCE_LABEL],
            marked
        );
        assert_eq!(world.settle("w"), [""; 0]);
    }
}

#[test]
fn an_object_is_read_and_applied_and_its_namespace_is_made_first() {
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]);
    assert_eq!(
        world.settle("w"),
        [
            "discover the kinds of v1",
            "look for configmaps shop/c",
            "apply configmaps shop/c",
            "create namespace shop",
            "look for configmaps shop/c",
            "apply configmaps shop/c",
            "write the ManifestWork's status",
        ]
    );
    let there = &world.objects[&key("configmaps", "c")];
    assert_eq!(there["metadata"]["labels"][names::CLUSTER_LABEL], "cluster1");
    assert_eq!(
        there["metadata"]["annotations"][names::MANIFEST_WORK_ANNOTATION],
        "w"
    );
    assert!(
        there["metadata"]["annotations"]
            .get(names::ADOPTED_ANNOTATION)
            .is_none()
    );
    assert_eq!(world.says("w", None, "Applied").0, "True");
    assert_eq!(world.says("w", None, "Available").1, "ResourcesAvailable");
    assert_eq!(world.says("w", Some(0), "Applied").1, "AppliedManifestComplete");
}

#[test]
fn nothing_is_written_when_nothing_has_changed_also_after_a_restart() {
    let mut world =
        World::new(&[("w", theirs(&[config_map("c", "1"), config_map("d", "1")]))]).with_namespace();
    world.settle("w");
    assert_eq!(world.settle("w"), [""; 0]);
    world.restart();
    assert_eq!(world.settle("w"), ["discover the kinds of v1"]);
}

#[test]
fn a_field_of_ours_that_somebody_changes_is_put_back_also_after_a_restart() {
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    world.take(&key("configmaps", "c"), "a", "other");
    assert_eq!(world.settle("w"), ["apply configmaps shop/c"]);
    assert_eq!(world.objects[&key("configmaps", "c")]["data"]["a"], "1");
    world.take(&key("configmaps", "c"), "a", "other");
    world.restart();
    assert_eq!(
        world.settle("w"),
        ["discover the kinds of v1", "apply configmaps shop/c"]
    );
}

#[test]
fn a_field_of_others_is_left_alone() {
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    world.take(&key("configmaps", "c"), "b", "theirs");
    assert_eq!(world.settle("w"), [""; 0]);
}

#[test]
fn a_new_manifest_is_applied() {
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    let status = world.works["w"]["status"].clone();
    world.put_work(
        "w",
        with(ours(&config_map("c", "2")), json!({ "status": status })),
    );
    assert_eq!(
        world.settle("w"),
        ["apply configmaps shop/c", "write the ManifestWork's status"]
    );
    assert_eq!(world.objects[&key("configmaps", "c")]["data"]["a"], "2");
    let observed = &world.works["w"]["status"]["conditions"][0]["observedGeneration"];
    assert_eq!(*observed, world.works["w"]["metadata"]["generation"]);
}

#[test]
fn an_object_that_somebody_deletes_is_made_again_whatever_the_strategy() {
    for strategy in ["Update", "CreateOnly"] {
        let config = json!({ "spec": { "manifestConfigs": [{
            "resourceIdentifier": { "group": "", "resource": "configmaps", "namespace": "shop", "name": "c" },
            "updateStrategy": { "type": strategy },
        }] } });
        let mut world = World::new(&[("w", with(ours(&config_map("c", "1")), config))]).with_namespace();
        world.settle("w");
        world.remove(&key("configmaps", "c"));
        assert_eq!(
            world.settle("w"),
            ["look for configmaps shop/c", "apply configmaps shop/c"],
            "{strategy}"
        );
    }
}

fn create_only() -> Value {
    json!({ "spec": { "manifestConfigs": [{
        "resourceIdentifier": { "group": "", "resource": "configmaps", "namespace": "shop", "name": "c" },
        "updateStrategy": { "type": "CreateOnly" },
    }] } })
}

#[test]
fn marks_that_are_put_back_on_what_is_created_only_take_nothing_else_away() {
    for (field, mark) in [
        ("labels", names::CLUSTER_LABEL),
        ("annotations", names::MANIFEST_WORK_ANNOTATION),
    ] {
        let work = with(ours(&config_map("c", "1")), create_only());
        let mut world = World::new(&[("w", work)]).with_namespace();
        world.settle("w");
        let key = key("configmaps", "c");
        let marked = world.objects[&key].clone();
        let mut object = marked.clone();
        object["metadata"][field].as_object_mut().unwrap().remove(mark);
        for entry in object["metadata"]["managedFields"].as_array_mut().unwrap() {
            let noted = &mut entry["fieldsV1"]["f:metadata"][format!("f:{field}")];
            noted.as_object_mut().unwrap().remove(&format!("f:{mark}"));
        }
        world.put(&key, object);
        if field == "labels" {
            let lost = Change::Delete(Box::new(read(marked)));
            world.feed(ApplyInput::Objects(key.resource.clone(), lost));
        }
        let done = world.settle("w");
        assert_eq!(done.last().unwrap(), "apply configmaps shop/c", "{mark}");
        let there = &world.objects[&key];
        assert!(there["metadata"][field].get(mark).is_some(), "{there}");
        assert!(
            there["metadata"]["annotations"]
                .get(names::ADOPTED_ANNOTATION)
                .is_none()
        );
        assert_eq!(there["data"]["a"], "1", "{mark}");
        assert_eq!(world.settle("w"), [""; 0]);
    }
}

#[test]
fn what_is_created_only_keeps_all_it_has_when_its_manifest_work_is_taken_over_from() {
    let first = with(theirs(&[config_map("c", "1")]), create_only());
    let second = with(theirs(&[config_map("c", "2")]), create_only());
    let mut world = World::new(&[("first", first)]).with_namespace();
    world.settle("first");
    // The ManifestWork is missing without a deletion event, as after a restore of the ITS.
    world.works.remove("first");
    world.put_work("second", second);
    world.restart();
    world.settle("second");
    let there = &world.objects[&key("configmaps", "c")];
    let holder = &there["metadata"]["annotations"][names::MANIFEST_WORK_ANNOTATION];
    assert_eq!((holder, &there["data"]["a"]), (&json!("second"), &json!("1")));
}

#[test]
fn what_is_created_only_is_not_written_again() {
    let config = create_only();
    let mut world = World::new(&[("w", with(ours(&config_map("c", "1")), config.clone()))]).with_namespace();
    world.settle("w");
    world.take(&key("configmaps", "c"), "a", "other");
    assert_eq!(world.settle("w"), [""; 0]);
    world.put_work("w", with(ours(&config_map("c", "2")), config));
    assert_eq!(world.settle("w"), ["write the ManifestWork's status"]);
    assert_eq!(world.objects[&key("configmaps", "c")]["data"]["a"], "other");
}

#[test]
fn what_is_read_only_is_looked_at_less_and_less_often_and_never_written() {
    let config = json!({ "spec": { "manifestConfigs": [{
        "resourceIdentifier": { "group": "", "resource": "configmaps", "namespace": "shop", "name": "c" },
        "updateStrategy": { "type": "ReadOnly" },
    }] } });
    let mut world = World::new(&[("w", with(theirs(&[config_map("c", "1")]), config))]).with_namespace();
    let read = "look for configmaps shop/c";
    assert_eq!(world.settle("w")[1..], [read, "write the ManifestWork's status"]);
    assert_eq!(world.says("w", Some(0), "Available").0, "False");
    let mut delays = Vec::new();
    for _ in 0..3 {
        let next = world.decide("w").requeue_at.unwrap();
        delays.push(next.duration_since(world.now).as_secs());
        world.now = next;
        assert_eq!(world.settle("w"), [read]);
    }
    assert_eq!(delays, [1, 2, 4]);
    world.put(&key("configmaps", "c"), config_map("c", "theirs"));
    world.later(60);
    assert_eq!(world.settle("w"), [read, "write the ManifestWork's status"]);
    assert_eq!(world.says("w", Some(0), "Available").0, "True");
}

#[test]
fn two_that_fight_over_a_field_are_slowed_down() {
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    let mut waited = 0;
    for _ in 0..12 {
        world.take(&key("configmaps", "c"), "a", "other");
        if let Some(at) = world.decide("w").requeue_at {
            waited += at.duration_since(world.now).as_millis();
            world.now = at;
        }
        assert_eq!(world.settle("w"), ["apply configmaps shop/c"]);
    }
    assert!(waited > 20_000, "{waited}");
}

#[test]
fn an_apply_that_changes_nothing_is_not_repeated() {
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    // The API server's `managedFields` differ from the expected ones.
    let mut object = world.objects[&key("configmaps", "c")].clone();
    object["metadata"]["managedFields"][0]["fieldsV1"] = json!({ "f:data": { "f:else": {} } });
    world.put(&key("configmaps", "c"), object.clone());
    let work = WorkName::from("w");
    let Some(ApplyAction::Apply(application)) = world.decide("w").action else {
        panic!("it is not applied");
    };
    world.applier.started(&work);
    let answer = ApplyInput::Applied(
        application,
        Box::new(read(world.objects[&key("configmaps", "c")].clone())),
    );
    let now = world.now;
    world.applier.succeeded(&work, answer, now);
    assert_eq!(world.settle("w"), [""; 0]);
}

#[test]
fn an_answer_that_is_older_than_the_end_of_the_object_brings_nothing_back() {
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    world.take(&key("configmaps", "c"), "a", "other");
    let Some(action) = world.decide("w").action else {
        panic!("it is not corrected");
    };
    let work = WorkName::from("w");
    world.applier.started(&work);
    let answer = world.carry_out("w", action);
    world.remove(&key("configmaps", "c"));
    let now = world.now;
    world.applier.succeeded(&work, answer, now);
    assert_eq!(
        world.settle("w"),
        ["look for configmaps shop/c", "apply configmaps shop/c"]
    );
}

#[test]
fn a_manifest_work_does_no_more_about_one_object_however_many_it_has() {
    for count in [2, 30] {
        let manifests: Vec<_> = (0..count)
            .map(|number| config_map(&format!("c{number}"), "1"))
            .collect();
        let mut world = World::new(&[("w", theirs(&manifests))]).with_namespace();
        let mut numbers: BTreeMap<Option<String>, usize> = BTreeMap::new();
        world.watch();
        while let Some(action) = world.decide("w").action {
            *numbers.entry(crate::Action::about(&action)).or_default() += 1;
            let input = world.carry_out("w", action);
            world.answer("w", input);
            world.watch();
        }
        assert_eq!(world.says("w", None, "Applied").0, "True");
        assert!(numbers.len() > count, "{numbers:?}");
        assert!(numbers.values().all(|number| *number <= 4), "{numbers:?}");
    }
}

/// The version of an object on the cluster according to the last change of its ManifestWork, which must
/// be the only one.
fn version(world: &mut World, kind: &str, key: &ObjectKey) -> Version {
    let mut learned = world.applier.take_contents().unwrap();
    let (work, contents) = learned.pop().unwrap();
    assert_eq!(work.as_str(), "w");
    let object: ObjectView = read(with(
        world.objects[key].clone(),
        json!({ "metadata": { "namespace": "shop" } }),
    ));
    contents.unwrap().version_of(kind, object.metadata())
}

#[test]
fn an_object_is_an_earlier_version_until_the_present_manifest_is_applied() {
    let c = key("configmaps", "c");
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    assert_eq!(version(&mut world, "ConfigMap", &c), Version::Present);
    let mut work = world.works["w"].clone();
    work["spec"]["workload"]["manifests"][0]["data"]["a"] = json!("2");
    world.put_work("w", work);
    assert_eq!(version(&mut world, "ConfigMap", &c), Version::Earlier);
    world.settle("w");
    assert_eq!(version(&mut world, "ConfigMap", &c), Version::Present);
    // After a restart, the object tells.
    world.restart();
    assert_eq!(version(&mut world, "ConfigMap", &c), Version::Present);
    world.delete_work("w");
    assert_eq!(version(&mut world, "ConfigMap", &c), Version::Ending);
}

#[test]
fn an_object_that_is_created_only_or_was_copied_is_never_an_earlier_version() {
    let c = key("configmaps", "c");
    let created_only = json!({ "spec": { "manifestConfigs": [{
        "resourceIdentifier": { "group": "", "resource": "configmaps", "namespace": "shop", "name": "c" },
        "updateStrategy": { "type": "CreateOnly" },
    }] } });
    let work = with(ours(&config_map("c", "1")), created_only);
    let mut world = World::new(&[("w", work)]).with_namespace();
    world.settle("w");
    let mut work = world.works["w"].clone();
    work["spec"]["workload"]["manifests"][0]["data"]["a"] = json!("2");
    world.put_work("w", work);
    assert_eq!(version(&mut world, "ConfigMap", &c), Version::Present);

    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    let copy = key("configmaps", "copy");
    let copied = with(
        world.objects[&c].clone(),
        json!({ "metadata": { "name": "copy" } }),
    );
    world.objects.insert(copy.clone(), copied);
    world.delete_work("w");
    assert_eq!(version(&mut world, "ConfigMap", &copy), Version::Present);
    world.delete_work("w");
    assert_eq!(version(&mut world, "Secret", &c), Version::Present);
}

#[test]
fn contents_are_unknown_before_the_mailbox_is_listed_and_those_of_others_always() {
    let mut world = World::new(&[("w", theirs(&[config_map("c", "1")]))]);
    let learned = world.applier.take_contents().unwrap();
    assert_eq!(learned, [(WorkName::from("w"), None)]);
    let mut applier = ManifestIndex::new(world.applier.config);
    assert_eq!(applier.take_contents(), None);
}
