//! CustomTransforms take effect on existing copies whenever they change.

use super::*;

fn transform(spaces: &mut Spaces, name: &str, resource: (&str, &str), path: &str) -> Value {
    spaces.next(json!({
        "metadata": { "name": name, "generation": 1 },
        "spec": { "apiGroup": resource.0, "resource": resource.1, "remove": [path] },
    }))
}

#[test]
fn a_transform_that_comes_changes_or_goes_changes_what_is_out_there_and_nothing_else() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "name": "cluster1" })));
    spaces.write(&config_maps(), with(settings(), json!({ "data": { "b": "2" } })));
    spaces.write(&deployments(), web());
    let data = |spaces: &Spaces| spaces.manifest("cluster1", "c1")["data"].clone();
    let writes = spaces.log.len();
    let first = transform(&mut spaces, "t", ("", "configmaps"), "$.data.a");
    spaces.learn(DownsyncInput::Transform(Change::Apply(read(first))));
    assert_eq!(data(&spaces), json!({ "b": "2" }));
    let second = transform(&mut spaces, "t", ("", "configmaps"), "$.data.b");
    spaces.learn(DownsyncInput::Transform(Change::Apply(read(second.clone()))));
    assert_eq!(data(&spaces), json!({ "a": "1" }));
    assert_eq!(spaces.log.len(), writes + 2, "{:#?}", &spaces.log[writes..]);
    let third = transform(&mut spaces, "t", ("apps", "deployments"), "$.spec.replicas");
    spaces.learn(DownsyncInput::Transform(Change::Apply(read(third.clone()))));
    assert_eq!(data(&spaces), json!({ "a": "1", "b": "2" }));
    assert_eq!(spaces.manifest("cluster1", "d1")["spec"], json!({}));
    spaces.learn(DownsyncInput::Transform(Change::Delete(read(third))));
    assert_eq!(
        spaces.manifest("cluster1", "d1")["spec"],
        json!({ "replicas": 2 })
    );
}

#[test]
fn a_status_of_a_transform_changes_nothing() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "name": "cluster1" })));
    spaces.write(&config_maps(), settings());
    let first = transform(&mut spaces, "t", ("", "configmaps"), "$.data.a");
    spaces.learn(DownsyncInput::Transform(Change::Apply(read(first.clone()))));
    let told = spaces.next(with(first, json!({ "status": { "observedGeneration": 1 } })));
    let dirty = spaces
        .index
        .apply(DownsyncInput::Transform(Change::Apply(read(told))), spaces.now);
    assert!(dirty.is_empty(), "{dirty:?}");
}
