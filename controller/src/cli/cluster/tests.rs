use argosy_api::managed_cluster::Taint;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::cordon::{Cordon, tainted};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn a_cordon_is_one_taint_that_keeps_its_time_and_leaves_others() {
    let other = Taint {
        key: "other".to_owned(),
        effect: "NoSelect".to_owned(),
        ..Taint::default()
    };
    let values = |taints: &[Taint]| -> Vec<(String, String, Option<Time>)> {
        let told = taints
            .iter()
            .map(|taint| (taint.key.clone(), taint.value.clone(), taint.time_added.clone()));
        told.collect()
    };
    let named = |value: &str| {
        (
            "argosy.dev/cordoned".to_owned(),
            value.to_owned(),
            Some(Time(at(1))),
        )
    };
    let rest = ("other".to_owned(), String::new(), None);
    let cordoned = tainted(std::slice::from_ref(&other), Cordon::On, at(1));
    assert_eq!(values(&cordoned), [rest.clone(), named("")]);
    let draining = tainted(&cordoned, Cordon::Drain, at(2));
    assert_eq!(values(&draining), [rest.clone(), named("drain")]);
    assert_eq!(values(&tainted(&draining, Cordon::Off, at(3))), [rest]);
}

/// The part of a rendered object that is compared: without Helm's labels and annotations, and
/// independent of YAML style.
fn essence(object: &Value) -> Value {
    let mut essence = object.clone();
    if let Some(metadata) = essence.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| ["name", "namespace"].contains(&key.as_str()));
    }
    essence
}

#[test]
fn the_command_makes_what_the_chart_makes_but_for_the_token_that_lasts() {
    let limits = |resource: &str, most: &str| (resource.to_owned(), most.to_owned());
    let limited = [
        limits("count/workstatuses.control.kubestellar.io", "20000"),
        limits("count/leases.coordination.k8s.io", "5"),
    ];
    let cluster = "cluster1";
    for (case, quota) in [("default", &[][..]), ("production", &limited[..])] {
        let path = format!(
            "{}/../tests/goldens/charts/argosy/{case}.yaml",
            env!("CARGO_MANIFEST_DIR")
        );
        let golden = std::fs::read_to_string(path).unwrap();
        let documents = golden
            .split("\n---\n")
            .map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
        // The right to the tunnel is one RoleBinding of the chart for the agents of all clusters, and
        // their priority is one FlowSchema.
        let is_of_all =
            |object: &Value| object["metadata"]["name"] == "argosy-tunnel" || object["kind"] == "FlowSchema";
        let is_of_cluster = |object: &Value| {
            object.to_string().contains(cluster) && object["kind"] != "Secret" && !is_of_all(object)
        };
        let mut expected: Vec<Value> = documents
            .filter(is_of_cluster)
            .map(|object| essence(&object))
            .collect();
        let registered = super::mailbox::managed_cluster(cluster, &[], true);
        let mut made: Vec<Value> = super::mailbox::objects(cluster, quota)
            .iter()
            .chain([&registered])
            .map(essence)
            .collect();
        let name = |object: &Value| format!("{} {}", object["kind"], object["metadata"]);
        expected.sort_by_key(name);
        made.sort_by_key(name);
        assert_eq!(made, expected, "{case}");
    }
}
