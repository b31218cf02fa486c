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
