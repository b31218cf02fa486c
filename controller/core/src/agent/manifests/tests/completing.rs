//! Conditions from rules, and complete manifests.

use super::{reporting::with_status, *};

fn ruled(name: &str, rules: &Value) -> Value {
    json!({
        "resourceIdentifier": { "group": "", "resource": "configmaps", "namespace": "*", "name": name },
        "conditionRules": rules,
    })
}

fn complete_when_done() -> Value {
    json!([{ "type": "CEL", "condition": "Complete", "celExpressions": ["object.status.phase == 'Done'"] }])
}

/// A ManifestWork of the ConfigMaps `names`, of which `c` is complete when its phase is `Done`.
fn completing(names: &[&str]) -> Value {
    let manifests: Vec<Value> = names.iter().map(|name| config_map(name, "1")).collect();
    let configs = json!([ruled("c", &complete_when_done())]);
    with(
        theirs(&manifests),
        json!({ "spec": { "manifestConfigs": configs } }),
    )
}

/// Replaces the specification of a ManifestWork. Its status stays.
fn rewrite(world: &mut World, work: Value) {
    let status = world.works["w"]["status"].clone();
    world.put_work("w", with(work, json!({ "status": status })));
}

fn types(conditions: &Value) -> Vec<&str> {
    let conditions = conditions.as_array().unwrap().iter();
    conditions.map(|known| known["type"].as_str().unwrap()).collect()
}

#[test]
fn a_condition_of_a_rule_follows_the_object_and_goes_with_the_rule() {
    let mut world = World::new(&[("w", completing(&["c"]))]).with_namespace();
    world.settle("w");
    // The object has no status yet.
    assert_eq!(
        world.says("w", Some(0), "Complete").1,
        "ConditionRuleExpressionError"
    );
    with_status(&mut world, &json!({ "phase": "Up" }));
    let done = world.settle("w");
    assert_eq!(
        done,
        [
            "evaluate the condition rules of configmaps shop/c",
            "write the ManifestWork's status"
        ]
    );
    let expected = ("False", "ConditionRuleEvaluated", "Manifest is not Complete");
    let (status, reason, message) = world.says("w", Some(0), "Complete");
    assert_eq!((status.as_str(), reason.as_str(), message.as_str()), expected);
    let (status, reason, message) = world.says("w", None, "Complete");
    assert_eq!(
        (status.as_str(), reason.as_str(), message.as_str()),
        ("False", "ConditionRulesAggregated", "Manifest is not Complete")
    );
    assert_eq!(world.settle("w"), [""; 0]);
    rewrite(&mut world, theirs(&[config_map("c", "1")]));
    world.settle("w");
    let status = &world.works["w"]["status"];
    assert_eq!(types(&status["conditions"]), ["Applied", "Available"]);
    let of_manifest = &status["resourceStatus"]["manifests"][0]["conditions"];
    assert_eq!(
        types(of_manifest),
        ["Applied", "Available", "StatusFeedbackSynced"]
    );
}

#[test]
fn what_is_complete_is_neither_corrected_nor_made_again() {
    let c = key("configmaps", "c");
    let mut world = World::new(&[("w", completing(&["c", "d"]))]).with_namespace();
    world.settle("w");
    with_status(&mut world, &json!({ "phase": "Done" }));
    world.settle("w");
    assert_eq!(world.says("w", None, "Complete").0, "True");
    world.take(&c, "a", "another's");
    world.settle("w");
    assert_eq!(world.objects[&c]["data"]["a"], "another's");
    // A Job is removed in this way after its time to live.
    world.remove(&c);
    world.settle("w");
    assert!(!world.objects.contains_key(&c));
    assert_eq!(world.says("w", Some(0), "Available").0, "False");
    assert_eq!(world.says("w", Some(0), "Complete").0, "True");
    world.restart();
    world.settle("w");
    // A changed specification with the same rules does not create it again either.
    rewrite(&mut world, completing(&["c", "d", "e"]));
    world.settle("w");
    assert!(!world.objects.contains_key(&c));
    assert_eq!(world.says("w", None, "Complete").0, "True");
    assert!(!world.objects.contains_key(&key("configmaps", "e")));
    assert_eq!(world.settle("w"), [""; 0]);
    world.delete_work("w");
    world.settle("w");
    assert_eq!(world.objects.len(), 1, "{:?}", world.objects.keys());
}

#[test]
fn only_what_is_complete_itself_rests_until_all_is() {
    let both = |names: &[&str]| {
        let configs = json!([ruled("?", &json!([])), ruled("*", &complete_when_done())]);
        let manifests: Vec<Value> = names.iter().map(|name| config_map(name, "1")).collect();
        with(
            theirs(&manifests),
            json!({ "spec": { "manifestConfigs": configs } }),
        )
    };
    let mut world = World::new(&[("w", both(&["c", "d"]))]).with_namespace();
    world.settle("w");
    with_status(&mut world, &json!({ "phase": "Done" }));
    world.settle("w");
    assert_eq!(
        (
            world.says("w", Some(0), "Complete").0.as_str(),
            world.says("w", None, "Complete").0.as_str()
        ),
        ("True", "False")
    );
    assert_eq!(
        world.says("w", None, "Complete").2,
        "Aggregated from 2 manifest conditions"
    );
    for name in ["c", "d"] {
        world.take(&key("configmaps", name), "a", "another's");
    }
    world.settle("w");
    assert_eq!(world.objects[&key("configmaps", "c")]["data"]["a"], "another's");
    assert_eq!(world.objects[&key("configmaps", "d")]["data"]["a"], "1");
}

#[test]
fn a_rule_that_goes_lets_what_was_complete_be_applied_again() {
    let mut world = World::new(&[("w", completing(&["c"]))]).with_namespace();
    world.settle("w");
    with_status(&mut world, &json!({ "phase": "Done" }));
    world.settle("w");
    world.take(&key("configmaps", "c"), "a", "another's");
    assert_eq!(world.settle("w"), {
        ["evaluate the condition rules of configmaps shop/c"]
    });
    rewrite(&mut world, theirs(&[config_map("c", "1")]));
    world.settle("w");
    assert_eq!(world.objects[&key("configmaps", "c")]["data"]["a"], "1");
}

#[test]
fn a_rule_may_say_when_an_object_is_available_but_not_whether_it_is_applied() {
    let rules = json!([
        { "type": "CEL", "condition": "Available", "celExpressions": ["object.status.phase == 'Up'"] },
        { "type": "CEL", "condition": "Available", "celExpressions": ["true"] },
        { "type": "CEL", "condition": "Applied", "celExpressions": ["false"] },
        { "type": "CEL", "condition": "not a type", "celExpressions": ["true"] },
    ]);
    let configs = json!({ "spec": { "manifestConfigs": [ruled("c", &rules)] } });
    let mut world = World::new(&[("w", with(theirs(&[config_map("c", "1")]), configs))]).with_namespace();
    world.settle("w");
    for (phase, expected) in [("Down", "False"), ("Up", "True")] {
        with_status(&mut world, &json!({ "phase": phase }));
        world.settle("w");
        assert_eq!(world.says("w", Some(0), "Available").0, expected);
        assert_eq!(world.says("w", None, "Available").0, expected);
        assert_eq!(world.says("w", Some(0), "Applied").0, "True");
        assert_eq!(world.settle("w"), [""; 0]);
    }
    assert_eq!(
        types(&world.works["w"]["status"]["conditions"]),
        ["Applied", "Available"]
    );
}

#[test]
fn what_another_has_made_is_not_evaluated() {
    let mut world = World::new(&[("a", theirs(&[config_map("c", "1")])), ("w", completing(&["c"]))]);
    world = world.with_namespace();
    world.settle("a");
    with_status(&mut world, &json!({ "phase": "Done" }));
    world.settle("w");
    assert_eq!(world.says("w", Some(0), "Applied").1, "ForeignObject");
    assert!(!types(&world.works["w"]["status"]["conditions"]).contains(&"Complete"));
}

#[test]
fn of_several_entries_for_an_object_the_first_counts_that_says_something_of_a_matter() {
    let entry = |name: &str, more: Value| with(ruled(name, &json!([])), more);
    let strategy = |type_: &str| json!({ "updateStrategy": { "type": type_ } });
    let phase = |name: &str| json!({ "feedbackRules": [{ "type": "JSONPaths", "jsonPaths": [{ "name": name, "path": ".data.a" }] }] });
    let configs = json!([
        entry("d", strategy("ReadOnly")),
        entry("*", phase("first")),
        entry("c*", strategy("CreateOnly")),
        entry("c", with(strategy("ReadOnly"), phase("second"))),
    ]);
    let work = with(
        theirs(&[config_map("c", "1")]),
        json!({ "spec": { "manifestConfigs": configs } }),
    );
    let mut world = World::new(&[("w", work)]).with_namespace();
    world.settle("w");
    let c = key("configmaps", "c");
    assert!(world.objects.contains_key(&c), "created, so not read only");
    world.take(&c, "a", "another's");
    world.settle("w");
    assert_eq!(world.objects[&c]["data"]["a"], "another's", "created only");
    let values = &world.works["w"]["status"]["resourceStatus"]["manifests"][0]["statusFeedback"]["values"];
    assert_eq!(values[0]["name"], "first");
}
