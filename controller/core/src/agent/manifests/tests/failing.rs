//! A manifest that cannot be applied reports the reason and does not block the others.

use super::*;

#[test]
fn a_manifest_that_is_refused_says_the_api_servers_words_and_the_others_are_applied() {
    let mut world =
        World::new(&[("w", theirs(&[config_map("bad", "invalid"), config_map("c", "1")]))]).with_namespace();
    world.settle("w");
    let (status, reason, message) = world.says("w", Some(0), "Applied");
    assert_eq!(
        (status.as_str(), reason.as_str(), message.as_str()),
        ("False", "AppliedManifestFailed", "data.a: Invalid value")
    );
    assert_eq!(world.says("w", Some(0), "Available").1, "ResourceNotAvailable");
    assert_eq!(world.says("w", Some(1), "Applied").0, "True");
    let (status, reason, message) = world.says("w", None, "Applied");
    assert_eq!(
        (status.as_str(), reason.as_str(), message.as_str()),
        ("False", "AppliedManifestWorkFailed", "data.a: Invalid value")
    );
    assert_eq!(
        world.says("w", None, "Available").2,
        "1 of 2 resources are not available"
    );
}

#[test]
fn what_is_refused_is_tried_less_and_less_often_and_at_once_when_the_manifest_changes() {
    let mut world = World::new(&[("w", ours(&config_map("c", "invalid")))]).with_namespace();
    world.settle("w");
    let mut delays = Vec::new();
    for _ in 0..3 {
        let at = world.decide("w").requeue_at.unwrap();
        delays.push(at.duration_since(world.now).as_millis());
        world.now = at;
        assert_eq!(
            world.settle("w"),
            ["look for configmaps shop/c", "apply configmaps shop/c"]
        );
    }
    assert_eq!(delays, [250, 500, 1000]);
    world.put_work("w", ours(&config_map("c", "1")));
    world.settle("w");
    assert_eq!(world.says("w", None, "Applied").0, "True");
}

#[test]
fn a_manifest_that_can_be_no_object_says_so() {
    let malformed = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" } });
    let mut world =
        World::new(&[("w", theirs(&[json!({ "kind": "ConfigMap" }), malformed]))]).with_namespace();
    world.settle("w");
    assert!(world.says("w", Some(0), "Applied").2.contains("needs apiVersion"));
    assert!(
        world
            .says("w", Some(1), "Applied")
            .2
            .contains("needs a namespace")
    );
}

#[test]
fn a_manifest_work_that_cannot_be_read_whole_leaves_what_is_on_the_cluster() {
    let whole = || theirs(&[config_map("c", "1"), config_map("d", "1")]);
    let mut world = World::new(&[("w", whole())]).with_namespace();
    world.settle("w");
    // The ManifestWork lacks the part that could not be decoded, such as all its manifests.
    let unreadable = || {
        with(
            theirs(&[]),
            json!({ "metadata": { "annotations": { "argosy.dev/flaw": "no" } } }),
        )
    };
    world.put_work("w", unreadable());
    assert_eq!(world.settle("w"), ["write the ManifestWork's status"]);
    let (status, reason, message) = world.says("w", None, "Applied");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Unreadable"));
    assert_eq!(message, "the objects on the cluster are left unchanged: no");
    world.restart();
    assert_eq!(world.settle("w"), [""; 0]);
    assert!(world.objects.contains_key(&key("configmaps", "c")));
    world.put_work("w", whole());
    world.settle("w");
    assert_eq!(world.says("w", None, "Applied").0, "True");
}
