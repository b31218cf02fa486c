//! Only applied objects are deleted, and only after a deletion was seen.

use super::*;

#[test]
fn objects_go_before_the_finalizer_and_the_record_between_them() {
    let mut world =
        World::new(&[("w", theirs(&[config_map("c", "1"), config_map("d", "1")]))]).with_namespace();
    world.settle("w");
    world.delete_work("w");
    assert_eq!(
        world.settle("w"),
        [
            "delete configmaps shop/c",
            "delete configmaps shop/d",
            "delete the record",
            "write the ManifestWork's finalizers",
        ]
    );
    assert!(!world.works.contains_key("w"));
    assert!(world.objects.contains_key(&key("namespaces", "shop")));
}

#[test]
fn a_cron_workflow_of_ours_goes_without_the_workflows_that_it_has_created() {
    let their = theirs(&[nightly()]);
    for (work, deleted) in [
        (
            ours(&nightly()),
            "delete cronworkflows shop/nightly and orphan its dependents",
        ),
        (their, "delete cronworkflows shop/nightly"),
        (ours(&config_map("c", "1")), "delete configmaps shop/c"),
    ] {
        let mut world = World::new(&[("w", work)]).with_namespace();
        world.settle("w");
        world.delete_work("w");
        assert_eq!(world.settle("w")[0], deleted);
        assert!(!world.works.contains_key("w"));
    }
}

#[test]
fn an_object_that_may_not_be_deleted_is_said_and_tried_again() {
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    world.delete_work("w");
    let refused = Failure::Refused("configmaps \"c\" is forbidden".to_owned());
    let name = WorkName::from("w");
    world.applier.started(&name);
    let failed = ApplyInput::Failed(key("configmaps", "c"), refused);
    world.applier.succeeded(&name, failed, world.now);
    assert_eq!(world.settle("w"), ["write the ManifestWork's status"]);
    let (status, _, message) = world.says("w", None, "Applied");
    assert_eq!(status, "False");
    assert_eq!(
        message,
        "configmaps shop/c cannot be deleted: configmaps \"c\" is forbidden"
    );
    world.now = world.decide("w").requeue_at.unwrap();
    assert!(world.settle("w").contains(&"delete configmaps shop/c".to_owned()));
    assert!(!world.works.contains_key("w"));
}

#[test]
fn an_object_with_a_finalizer_is_waited_for() {
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    world.delete_work("w");
    let object = world.objects[&key("configmaps", "c")].clone();
    world.put(
        &key("configmaps", "c"),
        with(
            object,
            json!({ "metadata": { "deletionTimestamp": "2026-11-21T10:00:00Z" } }),
        ),
    );
    assert_eq!(world.settle("w"), [""; 0]);
    world.remove(&key("configmaps", "c"));
    assert_eq!(
        world.settle("w"),
        [
            "look for configmaps shop/c",
            "write the ManifestWork's finalizers"
        ]
    );
}

#[test]
fn what_is_to_be_orphaned_stays_without_our_marks() {
    let orphan_d = json!({ "spec": { "deleteOption": { "propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {
        "orphaningRules": [{ "group": "", "resource": "configmaps", "namespace": "shop", "name": "d" }],
    } } } });
    let orphan = json!({ "spec": { "deleteOption": { "propagationPolicy": "Orphan" } } });
    for (option, stay) in [(orphan_d, vec!["d"]), (orphan, vec!["c", "d"])] {
        let work = with(theirs(&[config_map("c", "1"), config_map("d", "1")]), option);
        let mut world = World::new(&[("w", work)]).with_namespace();
        world.settle("w");
        world.delete_work("w");
        world.settle("w");
        for name in ["c", "d"] {
            let there = world.objects.get(&key("configmaps", name));
            assert_eq!(there.is_some(), stay.contains(&name), "{name}");
            assert!(there.is_none_or(|there| there["metadata"]["labels"] == json!({})));
        }
    }
}

#[test]
fn an_object_without_its_manifest_goes_also_when_that_went_while_nobody_looked() {
    for is_restarted in [false, true] {
        let mut world =
            World::new(&[("w", theirs(&[config_map("c", "1"), config_map("d", "1")]))]).with_namespace();
        world.settle("w");
        if is_restarted {
            let work = theirs(&[config_map("c", "1")]);
            let work = with(
                work,
                json!({ "metadata": world.works["w"]["metadata"], "status": world.works["w"]["status"] }),
            );
            world.works.insert("w".to_owned(), work);
            world.restart();
        } else {
            world.put_work("w", theirs(&[config_map("c", "1")]));
        }
        let done = world.settle("w");
        assert!(done.contains(&"delete configmaps shop/d".to_owned()), "{done:?}");
        assert!(world.objects.contains_key(&key("configmaps", "c")));
        assert_eq!(world.record("w").status.unwrap().applied_resources.len(), 1);
    }
}

#[test]
fn a_kind_that_is_not_known_yet_is_no_reason_to_delete_what_the_record_names() {
    let mut world = World::new(&[("w", theirs(&[widget("x")]))]).with_namespace();
    world.put(
        &key("customresourcedefinitions", "widgets.example.com"),
        json!({}),
    );
    world.settle("w");
    let definition = world
        .objects
        .remove(&key("customresourcedefinitions", "widgets.example.com"))
        .unwrap();
    world.restart();
    world.settle("w");
    assert!(world.objects.contains_key(&key("widgets", "x")));
    assert_eq!(world.record("w").status.unwrap().applied_resources.len(), 1);
    world.put(
        &key("customresourcedefinitions", "widgets.example.com"),
        definition,
    );
    world.later(60);
    world.settle("w");
    assert_eq!(world.says("w", Some(0), "Applied").0, "True");
}

#[test]
fn a_manifest_work_that_is_merely_missing_deletes_nothing() {
    let mut world = World::new(&[("w", theirs(&[config_map("c", "1")]))]).with_namespace();
    world.settle("w");
    world.feed(ApplyInput::Work(Change::Reset(Vec::new())));
    assert_eq!(world.decide("w"), Decision::rest());
    assert_eq!(world.applier.orphans().count(), 1);
}

#[test]
fn a_manifest_work_that_we_never_held_is_left_to_itself() {
    let work = with(
        theirs(&[config_map("c", "1")]),
        json!({ "metadata": { "finalizers": ["somebody"] } }),
    );
    let mut world = World::new(&[("w", work)]).with_namespace();
    world.delete_work("w");
    assert_eq!(world.settle("w"), [""; 0]);
}

#[test]
fn nothing_is_applied_before_the_finalizer_stands() {
    let work = with(
        theirs(&[config_map("c", "1")]),
        json!({ "metadata": { "finalizers": ["somebody"] } }),
    );
    let mut world = World::new(&[("w", work)]).with_namespace();
    assert_eq!(
        world.settle("w"),
        [
            "write the ManifestWork's finalizers",
            "discover the kinds of v1",
            "write the record",
            "look for configmaps shop/c",
            "apply configmaps shop/c",
            "rewrite the record",
            "write the ManifestWork's status",
        ]
    );
    assert_eq!(
        world.works["w"]["metadata"]["finalizers"],
        json!(["somebody", names::MANIFEST_WORK_FINALIZER])
    );
}

#[test]
fn an_unanswered_question_lets_no_object_behind() {
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    world.delete_work("w");
    world.restart();
    let Some(ApplyAction::Discover(api)) = world.decide("w").action else {
        panic!("it is not asked");
    };
    world.answer(
        "w",
        ApplyInput::Undiscovered(api, "no answer within 15 s".to_owned()),
    );
    assert_eq!(world.settle("w"), [""; 0]);
    assert!(world.works.contains_key("w"));
    world.now = world.decide("w").requeue_at.unwrap();
    world.settle("w");
    assert!(!world.works.contains_key("w") && !world.objects.contains_key(&key("configmaps", "c")));
}

#[test]
fn a_kind_that_is_not_served_for_a_moment_lets_no_object_behind() {
    for is_recorded in [false, true] {
        let work = if is_recorded {
            theirs(&[widget("x")])
        } else {
            ours(&widget("x"))
        };
        let mut world = World::new(&[("w", work)]).with_namespace();
        let definition = key("customresourcedefinitions", "widgets.example.com");
        world.put(&definition, json!({}));
        world.settle("w");
        world.delete_work("w");
        world.restart();
        let kind = key("widgets", "x").resource;
        world.feed(ApplyInput::Unlisted(kind.clone(), Obstacle::Missing));
        let definition_ = world.objects.remove(&definition).unwrap();
        world.settle("w");
        assert!(world.works.contains_key("w"));
        assert!(world.decide("w").requeue_at.is_some());
        world.put(&definition, definition_);
        world.later(30);
        world.settle("w");
        // The watch of the kind is listed again.
        let there = world.objects.get(&key("widgets", "x")).cloned();
        let live = there.map(read).into_iter().collect();
        world.feed(ApplyInput::Objects(kind, Change::Reset(live)));
        world.settle("w");
        assert!(!world.objects.contains_key(&key("widgets", "x")));
        assert!(world.works.is_empty());
    }
}

#[test]
fn a_request_that_is_answered_with_an_unknown_kind_lets_no_object_behind() {
    let mut world = World::new(&[("w", ours(&config_map("c", "1")))]).with_namespace();
    world.settle("w");
    world.delete_work("w");
    let unserved = Failure::Unserved("404 page not found".to_owned());
    world.answer("w", ApplyInput::Failed(key("configmaps", "c"), unserved));
    assert_eq!(
        world.decide("w").action,
        Some(ApplyAction::Discover(GroupVersion::parse("v1")))
    );
    world.settle("w");
    world.later(1);
    world.settle("w");
    assert!(!world.objects.contains_key(&key("configmaps", "c")));
    assert!(world.works.is_empty());
}

/// A ServiceAccount, and the RoleBinding that is sent with it while runs need it.
fn account() -> (Value, Value) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "argosy-workflow-executor-runner", "namespace": "shop" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "argosy-workflow-executor" },
    });
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "runner", "namespace": "shop" } });
    (account, binding)
}

/// A ManifestWork of ours with these manifests.
fn ours_with(manifests: &[&Value]) -> Value {
    let several = json!({ "spec": { "workload": { "manifests": manifests } } });
    with(ours(manifests[0]), several)
}

#[test]
fn the_rights_of_an_account_go_when_no_run_needs_them_although_nobody_saw_it() {
    let (account, binding) = account();
    let (of_account, of_binding) = (
        key("serviceaccounts", "runner"),
        key("rolebindings", "argosy-workflow-executor-runner"),
    );
    for is_restarted in [false, true] {
        let mut world = World::new(&[("w", ours_with(&[&binding, &account]))]).with_namespace();
        assert!(world.settle("w").contains(&"write the record".to_owned()));
        world.put_work("w", ours_with(&[&account]));
        if is_restarted {
            world.restart();
        }
        world.settle("w");
        assert!(!world.objects.contains_key(&of_binding));
        assert!(world.objects.contains_key(&of_account));
        world.delete_work("w");
        assert!(world.settle("w").contains(&"delete the record".to_owned()));
        assert!(!world.objects.contains_key(&of_account));
    }
}

#[test]
fn an_account_of_which_only_the_rights_are_sent_any_more_stays() {
    let (account, binding) = account();
    let mut world = World::new(&[("w", ours_with(&[&binding, &account]))]).with_namespace();
    world.settle("w");
    world.put_work("w", ours_with(&[&binding]));
    world.settle("w");
    assert!(world.objects.contains_key(&key("serviceaccounts", "runner")));
}
