//! Kinds that appear and disappear.

use super::*;

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": { "group": "example.com", "names": { "kind": "Widget" } },
    })
}

fn established() -> Value {
    json!({ "status": { "conditions": [{ "type": "Established", "status": "True" }] } })
}

#[test]
fn a_custom_object_waits_for_its_definition_and_says_so() {
    let works = [
        ("object", theirs(&[widget("x")])),
        ("definition", theirs(&[definition()])),
    ];
    let mut world = World::new(&works).with_namespace();
    world.settle("object");
    let (status, _, message) = world.says("object", Some(0), "Applied");
    assert_eq!(status, "False");
    assert_eq!(message, "the cluster does not serve Widget of example.com/v1");
    assert!(world.decide("object").requeue_at.is_some());
    world.settle("definition");
    // The object is applied only after the CRD is established, and then at once.
    assert_eq!(world.decide("object").action, None);
    let key_ = key("customresourcedefinitions", "widgets.example.com");
    let there = world.objects[&key_].clone();
    world.put(&key_, with(there, established()));
    world.settle("object");
    assert_eq!(world.says("object", Some(0), "Applied").0, "True");
}

#[test]
fn a_kind_that_vanishes_ends_its_watch_and_is_asked_for_again() {
    let mut world = World::new(&[("w", theirs(&[widget("x"), config_map("c", "1")]))]).with_namespace();
    let key_ = key("customresourcedefinitions", "widgets.example.com");
    world.put(&key_, with(definition(), established()));
    world.settle("w");
    let kind = key("widgets", "x").resource;
    assert!(world.applier.kinds().any(|watched| *watched == kind));
    world.objects.remove(&key_);
    world.objects.remove(&key("widgets", "x"));
    world.feed(ApplyInput::Unlisted(kind.clone(), Obstacle::Missing));
    world.later(1);
    world.settle("w");
    assert_eq!(world.says("w", Some(0), "Applied").0, "False");
    assert_eq!(world.says("w", Some(1), "Applied").0, "True");
    world.delete_work("w");
    world.settle("w");
    // An API server that has just started does not serve its kinds for a moment.
    assert!(world.works.contains_key("w"));
    let at = world.decide("w").requeue_at.unwrap();
    assert!(at.duration_since(world.now).as_secs() <= 30);
    world.later(30);
    world.settle("w");
    assert!(world.works.is_empty());
    assert!(world.applier.kinds().next().is_none());
}

#[test]
fn nothing_of_a_kind_is_decided_before_it_was_listed() {
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    let served = world.served(&GroupVersion::parse("v1"));
    world.feed(ApplyInput::Served(GroupVersion::parse("v1"), served));
    assert_eq!(world.decide("w").action, None);
    let kind = key("configmaps", "c").resource;
    world.feed(ApplyInput::Objects(kind, Change::Reset(Vec::new())));
    assert_eq!(
        world.decide("w").action,
        Some(ApplyAction::look(key("configmaps", "c")))
    );
}

#[test]
fn a_kind_that_may_not_be_listed_is_applied_and_said_and_read_now_and_then() {
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    let served = world.served(&GroupVersion::parse("v1"));
    world.feed(ApplyInput::Served(GroupVersion::parse("v1"), served));
    let refusal = Obstacle::Refused("configmaps is forbidden".to_owned());
    world.feed(ApplyInput::Unlisted(key("configmaps", "c").resource, refusal));
    world.settle("w");
    assert_eq!(world.says("w", Some(0), "Applied").0, "True");
    let watched = world.says("w", Some(0), "Watched");
    assert_eq!(
        watched,
        (
            "False".to_owned(),
            "Forbidden".to_owned(),
            "configmaps is forbidden".to_owned()
        )
    );
    world.take(&key("configmaps", "c"), "a", "other");
    world.later(120);
    world.settle("w");
    assert_eq!(world.objects[&key("configmaps", "c")]["data"]["a"], "1");
    world.delete_work("w");
    world.settle("w");
    assert!(!world.objects.contains_key(&key("configmaps", "c")));
}

#[test]
fn a_question_that_is_not_answered_holds_nobody_else_up() {
    let mut world = World::new(&[("w", theirs(&[widget("x"), config_map("c", "1")]))]).with_namespace();
    let problem = "the server is currently unable to handle the request".to_owned();
    world.feed(ApplyInput::Undiscovered(
        GroupVersion::parse("example.com/v1"),
        problem.clone(),
    ));
    world.settle("w");
    assert_eq!(world.says("w", Some(0), "Applied").2, problem);
    assert_eq!(world.says("w", Some(1), "Applied").0, "True");
}

#[test]
fn a_kind_that_is_left_and_named_again_at_once_stays_listed_and_its_objects_are_read() {
    let c = key("configmaps", "c");
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    world.feed(ApplyInput::Work(Change::Reset(Vec::new())));
    // No ManifestWork names the kind, but its watch has not ended yet.
    world.take(&c, "a", "other");
    world.put_work("v", theirs(&[config_map("d", "1")]));
    world.settle("v");
    assert_eq!(world.says("v", None, "Applied").0, "True");
    assert!(!world.applier.objects.contains_key(&c));
    world.put_work("v", theirs(&[config_map("d", "1"), config_map("c", "2")]));
    let done = world.settle("v");
    assert!(
        done.contains(&"look for configmaps shop/c".to_owned()),
        "{done:?}"
    );
    assert_eq!(world.objects[&c]["data"]["a"], "2");
}

/// Looks at an object, and answers after `meanwhile`. The answer does not restore the object as it was.
fn answer_late(meanwhile: impl FnOnce(&mut World, &ObjectKey)) {
    let (c, work) = (key("configmaps", "c"), WorkName::from("w"));
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    world.applier.started(&work);
    let old = world.carry_out("w", ApplyAction::look(c.clone()));
    meanwhile(&mut world, &c);
    let now = world.now;
    world.applier.succeeded(&work, old, now);
    assert!(!world.applier.objects.contains_key(&c));
    world.settle("w");
    assert_eq!(world.objects[&c]["data"]["a"], "1");
}

#[test]
fn an_answer_is_dropped_if_its_object_was_not_named_in_the_meantime() {
    answer_late(|world, c| {
        world.put_work("w", ours(&config_map("d", "1")));
        // The event of this change is dropped.
        world.take(c, "a", "other");
        world.put_work("w", ours(&config_map("c", "1")));
    });
}

#[test]
fn an_answer_that_a_list_overtakes_does_not_restore_its_object() {
    answer_late(|world, c| {
        world.objects.remove(c);
        world.feed(ApplyInput::Objects(c.resource.clone(), Change::Reset(Vec::new())));
    });
}

#[test]
fn an_event_from_before_its_object_was_named_again_is_not_believed() {
    let c = key("configmaps", "c");
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    let naming = world.applier.named_objects().naming(&c).unwrap();
    let old = read::<ObjectView>(world.objects[&c].clone()).passed_on(naming);
    world.put_work("w", ours(&config_map("d", "1")));
    // The event of this deletion is dropped.
    world.objects.remove(&c);
    world.put_work("w", ours(&config_map("c", "1")));
    assert_ne!(world.applier.named_objects().naming(&c), Some(naming));
    world.feed(ApplyInput::Objects(
        c.resource.clone(),
        Change::Apply(Box::new(old)),
    ));
    assert!(!world.applier.objects.contains_key(&c));
    world.settle("w");
    assert_eq!(world.objects[&c]["data"]["a"], "1");
}

#[test]
fn a_kind_that_is_named_again_after_its_watch_has_ended_is_listed_anew() {
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    world.feed(ApplyInput::Work(Change::Reset(Vec::new())));
    world.watch();
    assert!(world.applier.objects.is_empty() && world.applier.listings.is_empty());
    world.put_work("v", theirs(&[config_map("d", "1")]));
    world.settle("v");
    assert_eq!(world.says("v", None, "Applied").0, "True");
}

#[test]
fn an_object_is_kept_only_while_a_manifest_work_names_it() {
    let (c, strange) = (key("configmaps", "c"), key("configmaps", "strange"));
    let labeled = |name: &str| {
        let label = json!({ "metadata": { "labels": { names::CLUSTER_LABEL: "cluster1" } } });
        with(config_map(name, "1"), label)
    };
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    let named = world.applier.named_objects();
    world.settle("w");
    world.put(&strange, labeled("strange"));
    assert!(named.naming(&c).is_some() && named.naming(&strange).is_none());
    assert!(world.applier.objects.contains_key(&c) && !world.applier.objects.contains_key(&strange));

    // It is read as soon as a ManifestWork names it, and adopted.
    world.put_work("x", ours(&config_map("strange", "1")));
    assert!(named.naming(&strange).is_some());
    world.settle("x");
    assert!(world.applier.objects.contains_key(&strange));
    assert_eq!(world.says("x", None, "Applied").0, "True");

    for name in ["w", "x"] {
        world.delete_work(name);
        world.settle(name);
    }
    world.feed(ApplyInput::Work(Change::Reset(Vec::new())));
    assert!(named.naming(&c).is_none() && named.naming(&strange).is_none());
    // The adopted one stays on the cluster, and an event of it that comes late changes nothing.
    world.put(&strange, labeled("strange"));
    assert!(world.applier.objects.is_empty() && world.applier.looks.is_empty());
}
