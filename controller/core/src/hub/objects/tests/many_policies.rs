//! The numbers of many policies: each keeps its own pace, and all together have a limit.

use super::*;

/// The number of writes of statuses and Bindings since `begun`.
fn written(spaces: &Spaces, begun: usize) -> usize {
    let since = spaces.log.iter().skip(begun);
    since
        .filter(|line| line.starts_with("bindingpolicy") || line.starts_with("binding "))
        .count()
}

#[test]
fn numbers_of_a_hundred_policies_are_written_ten_times_a_second_and_a_new_policy_is_answered_at_once() {
    let mut spaces = Spaces::new();
    for n in 0..100 {
        spaces.policy(policy(&format!("p{n}"), &json!({ "name": "cluster1" })));
    }
    for _ in 0..60 {
        spaces.pass(10);
    }
    let begun = spaces.log.len();
    spaces.pass(10);
    assert_eq!(written(&spaces, begun), 0, "all is written");

    spaces.write(&config_maps(), settings());
    spaces.policy(policy("new", &json!({ "name": "cluster1" })));
    assert_eq!(spaces.condition("new", "Ready"), "True Ready");

    let mut seconds = 0;
    while written(&spaces, begun) < 202 {
        spaces.pass(1);
        seconds += 1;
        assert!(
            seconds < 30,
            "202 writes take 20 s, and a Binding waits for 5 s before"
        );
        let now = written(&spaces, begun);
        assert!(now <= 22 + 10 * seconds, "{now} writes in {seconds} s");
    }
    assert!((0..100).all(|n| spaces.status(&format!("p{n}"))["objects"] == 1));
}

/// Lets the decision about the key fail, and returns true if there was an action.
fn fails(spaces: &mut Spaces, key: &DownsyncKey) -> bool {
    let Some(action) = spaces.index.decide(key, spaces.now).action else {
        return false;
    };
    spaces.index.started(key);
    let failure = Failure::Unreachable("no answer".to_owned());
    spaces.index.failed(key, &action, &failure, spaces.now);
    true
}

/// Lets time pass until there is an action about the key, which fails.
fn seconds_until_failure(spaces: &mut Spaces, key: &DownsyncKey) -> i64 {
    for seconds in 0..100 {
        if fails(spaces, key) {
            return seconds;
        }
        let second = jiff::SignedDuration::from_secs(1);
        spaces.now = spaces.now.saturating_add(second).unwrap();
    }
    panic!("there is no action about {key}");
}

#[test]
fn a_status_or_a_binding_that_was_not_written_waits_only_for_the_next_attempt_of_the_engine() {
    let mut spaces = Spaces::new();
    let object = spaces.next(policy("one", &json!({ "name": "cluster1" })));
    let learnt = DownsyncInput::Policy(Change::Apply(read(object)));
    spaces.index.apply(learnt, spaces.now);
    for key in [
        DownsyncKey::Policy("one".to_owned()),
        DownsyncKey::Binding("one".to_owned()),
    ] {
        for attempt in 0..3 {
            assert!(fails(&mut spaces, &key), "{key}: {attempt}");
        }
    }
}

#[test]
fn a_long_binding_whose_change_was_refused_is_changed_within_seconds() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("one", &json!({ "name": "cluster1" })));
    for n in 0..200 {
        let (name, uid) = (format!("settings{n}"), format!("u{n}"));
        spaces.write(
            &config_maps(),
            with(settings(), json!({ "metadata": { "name": name, "uid": uid } })),
        );
    }
    spaces.pass(60);
    spaces.pass(5);
    let named = &spaces.bindings["one"]["spec"]["workload"]["namespaceScope"];
    assert_eq!(named.as_array().map(Vec::len), Some(200));

    spaces.write(&config_maps(), settings());
    let key = DownsyncKey::Binding("one".to_owned());
    assert!(seconds_until_failure(&mut spaces, &key) > 10, "it is long");
    assert!(seconds_until_failure(&mut spaces, &key) <= 5);
}

/// The policy `name`, which selects objects by this clause.
fn selecting_by(name: &str, clause: &Value) -> Value {
    with(
        policy(name, &json!({ "name": "cluster1" })),
        json!({ "spec": { "downsync": [clause] } }),
    )
}

/// Writes the ConfigMap `uid` with these labels. Returns the policies that select it, and the number of
/// comparisons with policies.
fn selected_by(spaces: &mut Spaces, uid: &str, labels: &Value) -> (Vec<String>, usize) {
    let metadata = json!({ "name": uid, "uid": uid, "labels": null });
    let object = with(settings(), json!({ "metadata": metadata }));
    let object = with(object, json!({ "metadata": { "labels": labels } }));
    let ((), looks) = crate::testing::looks(|| spaces.write(&config_maps(), object));
    let origin = OriginUid::from(uid);
    let selection = &spaces.index.objects[&origin].selection;
    (selection.keys().cloned().collect(), looks)
}

#[test]
fn an_object_is_compared_only_with_the_policies_that_may_select_it_by_its_labels() {
    let mut spaces = Spaces::new();
    for n in 0..100 {
        let label = json!({ "objectSelectors": [{ "matchLabels": { "of": format!("p{n}") } }] });
        spaces.policy(selecting_by(&format!("p{n}"), &label));
    }
    let of = |name: &str| json!({ "of": name });
    assert_eq!(
        selected_by(&mut spaces, "one", &of("p7")),
        (vec!["p7".to_owned()], 1)
    );
    assert_eq!(selected_by(&mut spaces, "two", &of("other")), (vec![], 0));
}

#[test]
fn an_object_is_selected_by_each_policy_whatever_it_selects_by_and_since_it_was_changed() {
    let mut spaces = Spaces::new();
    let any_of = json!([{ "key": "of", "operator": "In", "values": ["a", "b"] }]);
    for (name, clause) in [
        (
            "by label",
            json!({ "objectSelectors": [{ "matchLabels": { "of": "a" } }] }),
        ),
        (
            "by expression",
            json!({ "objectSelectors": [{ "matchExpressions": any_of }] }),
        ),
        (
            "by either",
            json!({ "objectSelectors": [{ "matchLabels": { "of": "b" } }, { "matchLabels": { "app": "web" } }] }),
        ),
        ("all", json!({ "resources": ["configmaps"] })),
        ("other kind", json!({ "resources": ["secrets"] })),
    ] {
        spaces.policy(selecting_by(name, &clause));
    }
    for (labels, expected) in [
        (json!({ "of": "a" }), &["all", "by expression", "by label"][..]),
        (json!({ "of": "b" }), &["all", "by either", "by expression"]),
        (json!({ "of": "c", "app": "web" }), &["all", "by either"]),
        (json!({}), &["all"]),
    ] {
        assert_eq!(selected_by(&mut spaces, "one", &labels).0, expected, "{labels}");
    }

    let other = json!({ "objectSelectors": [{ "matchLabels": { "of": "c" } }] });
    spaces.policy(selecting_by("by label", &other));
    let labels = json!({ "of": "c", "app": "web" });
    let before = ["all", "by either", "by label"];
    assert_eq!(
        selected_by(&mut spaces, "one", &labels).0,
        before,
        "a policy was changed"
    );
    spaces.delete_policy("by either");
    for uid in ["one", "two"] {
        assert_eq!(
            selected_by(&mut spaces, uid, &labels).0,
            ["all", "by label"],
            "{uid}"
        );
    }
}
