//! The Workflows that BindingPolicies select, and the status of CustomTransforms.

use super::*;

fn on_policy(fleet: &mut Fleet, object: Value) -> BTreeSet<HubKey> {
    let change = fleet.change(object);
    fleet.learn(HubInput::Policy(change))
}

#[test]
fn the_old_place_of_the_wish_for_a_singleton_status_counts() {
    for wants in [true, false] {
        let mut fleet = Fleet::of(held("old"));
        let mut object = policy("old", json!({ "name": "cluster1" }));
        object["spec"]["wantSingletonReportedState"] = json!(wants);
        object["spec"]["downsync"][0]["wantSingletonReportedState"] = json!(false);
        on_policy(&mut fleet, object);
        let claim = fleet.patch(Purpose::Claim);
        let claim = claim.value_at("/metadata/annotations").unwrap()["argosy.dev/claim"].clone();
        let claim: Value = serde_json::from_str(claim.as_str().unwrap()).unwrap();
        assert_eq!(claim["status"], wants);
    }
}

#[test]
fn a_selector_that_cannot_be_used_selects_nothing() {
    let mut fleet = Fleet::of(held("cluster7"));
    let broken = json!({ "matchExpressions": [{ "key": "kubestellar.io/cluster", "operator": "Like" }] });
    let mut object = policy("cluster7", json!({}));
    object["spec"]["downsync"][0]["objectSelectors"] = json!([broken]);
    on_policy(&mut fleet, object);
    assert_eq!(fleet.conditions(Purpose::Explain), ["Dispatched=False NoPolicy"]);
}

#[test]
fn a_policy_that_was_created_anew_counts_although_its_generation_is_the_same() {
    let mut fleet = Fleet::of(held("cluster1"));
    let anew = with(
        policy("cluster1", json!({ "name": "cluster2" })),
        json!({ "metadata": { "uid": "another" } }),
    );
    let anew = read(fleet.next(anew));
    let dirty = fleet.learn(HubInput::Policy(Change::Reset(vec![anew])));
    assert!(dirty.contains(&HubKey::Workflow(key())));
    assert_eq!(
        fleet.patch(Purpose::Claim).value_at("/metadata/labels").unwrap()["argosy.dev/cluster"],
        "cluster2"
    );
}

#[test]
fn a_policy_that_no_longer_wants_the_status_does_not_count_when_the_one_that_wants_it_is_gone() {
    let mut fleet = Fleet::new();
    fleet.workflow(held("any"));
    let policy = |name: &str, generation: u64, wants: bool| {
        json!({
            "metadata": { "name": name, "uid": name, "generation": generation },
            "spec": { "clusterSelectors": [{}], "downsync": [{ "wantSingletonReportedState": wants }] },
        })
    };
    on_policy(&mut fleet, policy("changes", 1, true));
    on_policy(&mut fleet, policy("goes", 1, true));
    on_policy(&mut fleet, policy("changes", 2, false));
    assert!(fleet.hub.workflows[&key()].placement.wants_status);
    let gone = read(fleet.next(policy("goes", 1, true)));
    fleet.learn(HubInput::Policy(Change::Delete(Box::new(gone))));
    assert!(!fleet.hub.workflows[&key()].placement.wants_status);
}

#[test]
fn a_clause_selects_by_namespace_and_name() {
    for (clause, selects) in [
        (json!({ "namespaces": ["argo"] }), true),
        (json!({ "namespaces": ["other"] }), false),
        (json!({ "objectNames": ["w", "x"] }), true),
        (json!({ "objectNames": ["x"] }), false),
        (json!({ "namespaces": ["*"], "resources": ["*"] }), true),
        (json!({ "namespaceSelectors": [{}] }), true),
        (
            json!({ "namespaceSelectors": [{ "matchLabels": { "a": "b" } }] }),
            false,
        ),
        (
            json!({ "namespaceSelectors": [{ "matchLabels": { "a": "b" } }, { "matchLabels": { "team": "a" } }] }),
            true,
        ),
        (
            json!({ "namespaceSelectors": [{ "matchLabels": { "team": "a" } }], "namespaces": ["other"] }),
            false,
        ),
    ] {
        let mut fleet = Fleet::of(held("cluster7"));
        let spec = json!({ "spec": { "downsync": [clause] } });
        on_policy(&mut fleet, with(policy("p", json!({ "name": "cluster1" })), spec));
        let is_claim = matches!(
            fleet.decide(),
            Some(HubAction::PatchWorkflow {
                purpose: Purpose::Claim,
                ..
            })
        );
        assert_eq!(is_claim, selects, "{clause}");
    }
}

#[test]
fn a_namespaces_labels_count_from_when_they_change_and_an_unknown_namespace_has_none_that_match() {
    let mut fleet = Fleet::of(held("cluster7"));
    let clause = json!({ "namespaceSelectors": [{ "matchExpressions": [{ "key": "team", "operator": "NotIn", "values": ["a"] }] }] });
    let spec = json!({ "spec": { "downsync": [clause] } });
    on_policy(&mut fleet, with(policy("p", json!({ "name": "cluster1" })), spec));
    let is_claimed = |fleet: &Fleet| {
        matches!(
            fleet.decide(),
            Some(HubAction::PatchWorkflow {
                purpose: Purpose::Claim,
                ..
            })
        )
    };
    assert!(!is_claimed(&fleet));
    let namespace = |team: &str| read(json!({ "metadata": { "name": "argo", "labels": { "team": team } } }));
    let dirty = fleet.learn(HubInput::Namespace(Change::Apply(Box::new(namespace("b")))));
    assert!(dirty.contains(&HubKey::Workflow(key())));
    assert!(is_claimed(&fleet));
    assert!(
        fleet
            .learn(HubInput::Namespace(Change::Apply(Box::new(namespace("b")))))
            .is_empty()
    );
    fleet.learn(HubInput::Namespace(Change::Delete(Box::new(namespace("b")))));
    assert!(!is_claimed(&fleet));
}

#[test]
fn a_transform_says_what_of_it_cannot_be_used_and_who_else_changes_the_same_resource() {
    let mut fleet = Fleet::new();
    let transform = |name: &str, path: &str| json!({ "metadata": { "name": name, "generation": 2 }, "spec": { "apiGroup": "argoproj.io", "resource": "workflows", "remove": [path] } });
    for (name, path) in [("one", "$.spec.suspend"), ("two", "not a path")] {
        let change = fleet.change(transform(name, path));
        assert!(
            fleet
                .learn(HubInput::Transform(change))
                .contains(&HubKey::Transform(name.to_owned()))
        );
    }
    let status = |name: &str| match fleet
        .hub
        .decide(&HubKey::Transform(name.to_owned()), now())
        .action
    {
        Some(HubAction::TransformStatus { status, .. }) => status,
        other => panic!("expected a transform's status, not {other:#?}"),
    };
    assert_eq!((status("one").errors.len(), status("one").warnings.len()), (0, 1));
    assert_eq!(
        (status("two").errors.len(), status("two").observed_generation),
        (1, 2)
    );
}
