//! Rules for Services: addresses and ports that the control cluster has allocated.

use serde_json::{Map, Value};

use super::{map_at, retain_elements};

/// KubeStellar's annotation with which a user keeps the node ports of a Service. It is sent with
/// the Service.
const PRESERVE: &str = "control.kubestellar.io/preserve";

/// Fields that the API server fills in and KubeStellar removes, and two fields that are rejected
/// without them: `healthCheckNodePort` without `externalTrafficPolicy: Local` and
/// `sessionAffinityConfig` without `sessionAffinity: ClientIP`.
const DEFAULTED: [&str; 7] = [
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "internalTrafficPolicy",
    "ipFamilies",
    "ipFamilyPolicy",
    "sessionAffinity",
    "sessionAffinityConfig",
];

/// The address of a headless Service. It is the user's choice and is kept.
const HEADLESS: &str = "None";

/// Applies KubeStellar's rules for a Service.
pub(super) fn service(object: &mut Value) {
    let preserves_ports = map_at(object, &["metadata", "annotations"])
        .is_some_and(|annotations| annotations.get(PRESERVE).and_then(Value::as_str) == Some("nodeport"));
    let Some(spec) = map_at(object, &["spec"]) else {
        return;
    };
    for field in DEFAULTED {
        spec.remove(field);
    }
    if spec.get("clusterIP").is_some_and(|address| address != HEADLESS) {
        spec.remove("clusterIP");
    }
    retain_elements(spec, "clusterIPs", |address| address == HEADLESS);
    if !preserves_ports {
        forget_node_ports(spec);
    }
}

fn forget_node_ports(spec: &mut Map<String, Value>) {
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        port.remove("nodePort");
    }
}
