//! Templates in a Workflow, which are expanded for the cluster that it is claimed for if its user
//! asks for it.

use super::*;

fn templated(text: &str) -> Value {
    let asked =
        json!({ "metadata": { "annotations": { "control.kubestellar.io/expand-templates": "true" } } });
    let args = json!({ "spec": { "arguments": { "parameters": [{ "name": "a", "value": text }] } } });
    with(with(claimed("cluster1", 1), asked), args)
}

fn properties(fleet: &mut Fleet, data: &Value) {
    let map = read(
        json!({ "metadata": { "name": "cluster1", "namespace": "customization-properties" }, "data": data }),
    );
    fleet.learn(HubInput::Properties(Change::Reset(vec![map])));
}

fn sent(fleet: &Fleet) -> Value {
    match fleet.decide() {
        Some(HubAction::CreateWork { work, .. }) => {
            work.spec.workload.manifests[0]["spec"]["arguments"]["parameters"][0]["value"].clone()
        }
        other => panic!("expected a ManifestWork, not {other:#?}"),
    }
}

#[test]
fn they_are_expanded_with_the_properties_of_its_cluster_and_argos_own_stay() {
    let mut fleet = Fleet::of(templated("{{.zone}} {{workflow.name}} {{=1}}"));
    properties(&mut fleet, &json!({ "zone": "z1" }));
    assert_eq!(sent(&fleet), "z1 {{workflow.name}} {{=1}}");
}

#[test]
fn nothing_is_sent_before_the_properties_are_known_or_while_one_is_missing() {
    let mut fleet = Fleet::of(templated("{{.zone}}"));
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["Dispatched=False TemplateInvalid"]
    );
    properties(&mut fleet, &json!({}));
    assert_eq!(
        fleet.conditions(Purpose::Mirror),
        ["Dispatched=False TemplateInvalid"]
    );
    properties(&mut fleet, &json!({ "zone": "z1" }));
    assert_eq!(sent(&fleet), "z1");
}

#[test]
fn without_the_annotation_nothing_is_expanded() {
    let plain =
        json!({ "metadata": { "annotations": { "control.kubestellar.io/expand-templates": "false" } } });
    let fleet = Fleet::of(with(templated("{{.zone}}"), plain));
    assert_eq!(sent(&fleet), "{{.zone}}");
}
