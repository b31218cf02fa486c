//! Read-only objects that are watched by name.

use super::*;

fn looking() -> World {
    looking_as(&Value::Null)
}

fn looking_as(executor: &Value) -> World {
    let config = json!({ "spec": { "executor": executor, "manifestConfigs": [{
        "resourceIdentifier": { "group": "", "resource": "configmaps", "namespace": "shop", "name": "c" },
        "updateStrategy": { "type": "ReadOnly" },
        "feedbackRules": [{ "type": "JSONPaths", "jsonPaths": [{ "name": "a", "path": ".data.a" }] }],
    }] } });
    let mut world = World::new(&[("w", with(theirs(&[config_map("c", "1")]), config))]).with_namespace();
    world.settle("w");
    world
}

impl World {
    fn single(&mut self, change: Change<ObjectView>) {
        self.feed(ApplyInput::Single(key("configmaps", "c"), change));
    }

    fn version_of(value: &str, version: u64) -> ObjectView {
        let named = json!({ "metadata": { "uid": "theirs", "resourceVersion": version.to_string() } });
        read(with(config_map("c", value), named))
    }

    fn work_status(&self) -> Value {
        let manifests = &self.works["w"]["status"]["resourceStatus"]["manifests"];
        manifests[0]["statusFeedback"]["values"][0]["fieldValue"]["string"].clone()
    }

    fn watched_by_name(&self) -> Vec<String> {
        self.applier.watched_by_name().map(ToString::to_string).collect()
    }
}

#[test]
fn it_is_told_what_becomes_of_it_and_it_is_not_read() {
    let mut world = looking();
    assert_eq!(world.watched_by_name(), ["configmaps shop/c"]);
    world.single(Change::Reset(Vec::new()));
    world.later(600);
    assert_eq!(world.settle("w"), [""; 0]);
    for (value, version) in [("1", 500), ("2", 501)] {
        let object = World::version_of(value, version);
        world.single(Change::Apply(Box::new(object)));
        assert_eq!(world.settle("w"), ["write the ManifestWork's status"]);
        assert_eq!(world.work_status(), *value);
    }
    // Late events of an old version, and of the deletion of another object.
    let (old, other) = (World::version_of("1", 500), World::version_of("2", 502));
    world.single(Change::Apply(Box::new(old)));
    let mut another = other.clone();
    another.uid = "former".to_owned();
    world.single(Change::Delete(Box::new(another)));
    assert_eq!(world.settle("w"), [""; 0]);
    world.single(Change::Delete(Box::new(other)));
    world.settle("w");
    assert_eq!(world.says("w", Some(0), "Available").0, "False");
    assert_eq!(world.decide("w").requeue_at, None);
}

#[test]
fn an_executor_is_asked_for_its_permission_every_minute_whatever_the_watch_tells() {
    let account = json!({ "namespace": "x", "name": "reader" });
    let mut world =
        looking_as(&json!({ "subject": { "type": "ServiceAccount", "serviceAccount": account } }));
    world.single(Change::Reset(Vec::new()));
    assert_eq!(world.settle("w"), [""; 0]);
    // With an event every second, no read would ever become due.
    for version in 500..559 {
        world.later(1);
        let object = World::version_of(&version.to_string(), version);
        world.single(Change::Apply(Box::new(object)));
        assert_eq!(
            world.settle("w"),
            ["write the ManifestWork's status"],
            "{version}"
        );
    }
    world.later(1);
    // The read returns an older version than the watch has sent.
    assert_eq!(world.settle("w"), ["look for configmaps shop/c"]);
    assert_eq!(world.work_status(), "558");
    world.reader = "nobody";
    let asked_at = world.decide("w").requeue_at.unwrap();
    assert_eq!(asked_at.duration_since(world.now).as_secs(), 60);
    world.now = asked_at;
    let done = world.settle("w");
    assert_eq!(
        done,
        ["look for configmaps shop/c", "write the ManifestWork's status"]
    );
    let (applied, _, message) = world.says("w", Some(0), "Applied");
    assert_eq!(applied, "False");
    assert!(message.contains("is not allowed to get"), "{message}");
    assert_eq!(world.work_status(), Value::Null);
}

#[test]
fn without_its_watch_it_is_read_again() {
    let mut world = looking();
    world.single(Change::Reset(Vec::new()));
    world.settle("w");
    world.feed(ApplyInput::SingleUnwatched(key("configmaps", "c")));
    assert!(world.decide("w").action.is_some() || world.decide("w").requeue_at.is_some());
    world.later(60);
    assert_eq!(world.settle("w"), ["look for configmaps shop/c"]);
}

#[test]
fn it_is_watched_only_while_it_is_looked_at_and_its_kind_may_be_watched() {
    let mut world = looking();
    world.feed(ApplyInput::Unlisted(
        key("configmaps", "c").resource,
        Obstacle::Refused("no".to_owned()),
    ));
    assert_eq!(world.watched_by_name(), [""; 0]);
    let mut world = looking();
    world.put_work("w", theirs(&[config_map("c", "1")]));
    assert_eq!(world.watched_by_name(), [""; 0]);
    // An event still arrives before the watch ends.
    let object = World::version_of("late", 900);
    world.single(Change::Apply(Box::new(object)));
    world.settle("w");
    assert_eq!(world.objects[&key("configmaps", "c")]["data"]["a"], "1");
}
