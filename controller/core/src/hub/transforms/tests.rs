//! The consequences of a change to a CustomTransform, and the order in which rules apply to an
//! object.

mod setting;
mod unchanged;

use serde_json::json;

use super::*;

fn transform(name: &str, resource: &str, remove: &[&str]) -> CustomTransform {
    serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "CustomTransform",
        "metadata": { "name": name, "resourceVersion": "1" },
        "spec": { "apiGroup": "apps", "resource": resource, "remove": remove },
    }))
    .unwrap()
}

fn resources(touched: Touched) -> Vec<String> {
    let bound = touched.resources.into_iter();
    bound
        .map(|(group, resource)| format!("{group}/{resource}"))
        .collect()
}

#[test]
fn a_new_transform_concerns_what_it_is_bound_to() {
    let mut transforms = Transforms::default();
    let touched = transforms.apply(transform("a", "deployments", &["$.spec.replicas"]));
    assert_eq!(touched.names, ["a"]);
    assert_eq!(resources(touched), ["apps/deployments"]);
}

#[test]
fn a_transform_that_moves_concerns_its_old_and_its_new_binding() {
    let mut transforms = Transforms::default();
    transforms.apply(transform("a", "deployments", &["$.spec.replicas"]));
    let touched = transforms.apply(transform("a", "statefulsets", &["$.spec.replicas"]));
    assert_eq!(resources(touched), ["apps/deployments", "apps/statefulsets"]);
}

#[test]
fn a_transform_with_other_paths_concerns_its_binding_once() {
    let mut transforms = Transforms::default();
    transforms.apply(transform("a", "deployments", &["$.spec.replicas"]));
    let touched = transforms.apply(transform("a", "deployments", &["$.spec.paused"]));
    assert_eq!(resources(touched), ["apps/deployments"]);
}

#[test]
fn a_transform_that_does_the_same_as_before_concerns_no_object() {
    let mut transforms = Transforms::default();
    transforms.apply(transform("a", "deployments", &["$.spec.replicas"]));
    let mut with_status = transform("a", "deployments", &["$.spec.replicas", "broken"]);
    with_status.status = Some(CustomTransformStatus::default());
    let touched = transforms.apply(with_status);
    assert_eq!(touched.names, ["a"]);
    assert_eq!(resources(touched), Vec::<String>::new());
}

#[test]
fn a_transform_without_a_good_path_concerns_no_object() {
    let mut transforms = Transforms::default();
    let touched = transforms.apply(transform("a", "deployments", &["broken"]));
    assert_eq!(resources(touched), Vec::<String>::new());
    assert_eq!(resources(transforms.delete("a")), Vec::<String>::new());
}

#[test]
fn a_deleted_transform_concerns_its_binding_and_its_siblings() {
    let mut transforms = Transforms::default();
    transforms.apply(transform("a", "deployments", &["$.spec.replicas"]));
    let touched = transforms.apply(transform("b", "deployments", &["$.spec.paused"]));
    assert_eq!(touched.names, ["a", "b"]);
    let touched = transforms.delete("a");
    assert_eq!(touched.names, ["b"]);
    assert_eq!(resources(touched), ["apps/deployments"]);
    assert_eq!(transforms.delete("a"), Touched::default());
}

#[test]
fn the_rules_of_the_kind_go_before_the_transforms() {
    let mut transforms = Transforms::default();
    let path = r#"$.metadata.annotations["deployment.kubernetes.io/revision", "note"]"#;
    transforms.apply(transform("a", "deployments", &[path]));
    let mut object = json!({
        "metadata": { "name": "d", "annotations": { "deployment.kubernetes.io/revision": "1", "note": "n", "kept": "k" } },
        "status": {},
    });
    let effect = transforms.apply_to("apps", "deployments", &mut object, None);
    assert_eq!(effect, Effect::default());
    assert_eq!(
        object,
        json!({ "metadata": { "name": "d", "annotations": { "kept": "k" } } })
    );
}
