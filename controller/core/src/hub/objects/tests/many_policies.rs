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
