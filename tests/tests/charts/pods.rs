//! The rules for every pod of the charts: the Pod Security Standard `restricted`, a read-only root,
//! and resource bounds.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{
    goldens,
    helm::{objects, render, title},
};

/// The pod spec that an object creates.
fn pod(object: &Value) -> Option<&Value> {
    let spec = match object["kind"].as_str()? {
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job" => {
            &object["spec"]["template"]["spec"]
        }
        "CronJob" => &object["spec"]["jobTemplate"]["spec"]["template"]["spec"],
        "Pod" => &object["spec"],
        _ => return None,
    };
    Some(spec)
}

/// The rules that a pod violates.
fn faults(pod: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let mut must = |is_so: bool, what: &str| faults.extend((!is_so).then(|| what.to_owned()));
    let security = &pod["securityContext"];
    must(security["runAsNonRoot"] == true, "is not non-root");
    must(security["runAsUser"] == 65532, "is another user than the image's");
    must(
        security["seccompProfile"]["type"] == "RuntimeDefault",
        "has no seccomp profile",
    );
    for shared in ["hostNetwork", "hostPID", "hostIPC"] {
        must(pod[shared].is_null() || pod[shared] == false, shared);
    }
    must(
        pod["enableServiceLinks"] == false,
        "has Services as environment variables",
    );
    let volumes = pod["volumes"].as_array();
    let is_of_host = |volume: &Value| !volume["hostPath"].is_null();
    must(
        !volumes.is_some_and(|all| all.iter().any(is_of_host)),
        "mounts the host",
    );
    let containers = ["containers", "initContainers"].map(|key| pod[key].as_array());
    let containers: Vec<&Value> = containers.into_iter().flatten().flatten().collect();
    must(!containers.is_empty(), "has no container");
    for container in containers {
        let security = &container["securityContext"];
        must(security["readOnlyRootFilesystem"] == true, "may write its root");
        must(security["allowPrivilegeEscalation"] == false, "may escalate");
        must(
            security["capabilities"] == json!({"drop": ["ALL"]}),
            "has capabilities",
        );
        let resources = &container["resources"];
        for request in ["cpu", "memory"] {
            must(resources["requests"][request].is_string(), "requests nothing");
        }
        must(
            resources["limits"]["memory"].is_string(),
            "has no limit of memory",
        );
    }
    faults
}

#[test]
fn every_pod_is_an_ordinary_user_with_a_read_only_root_and_bounds() -> Result<()> {
    let mut pods = 0;
    for case in goldens::cases()? {
        for object in objects(&goldens::rendered(&case)?)? {
            if let Some(pod) = pod(&object) {
                pods += 1;
                let faults = faults(pod);
                ensure!(faults.is_empty(), "{case}: {} {faults:?}", title(&object));
            }
        }
    }
    ensure!(pods >= 4, "only {pods} pods were looked at");
    Ok(())
}

#[test]
fn of_several_replicas_one_at_a_time_may_be_evicted_and_a_single_one_at_any_time() -> Result<()> {
    for (replicas, budgets) in [(1, 0), (3, 1)] {
        let set = format!("replicas={replicas}");
        let rendered = objects(&render("argosy", &["--set", &set])?)?;
        let found: Vec<&Value> = rendered
            .iter()
            .filter(|object| object["kind"] == "PodDisruptionBudget")
            .collect();
        assert_eq!(found.len(), budgets, "{replicas} replicas");
        for budget in found {
            assert_eq!(budget["spec"]["maxUnavailable"], 1);
            let selected = &budget["spec"]["selector"]["matchLabels"];
            let deployment = rendered.iter().find(|object| object["kind"] == "Deployment");
            assert_eq!(
                deployment.map(|object| &object["spec"]["selector"]["matchLabels"]),
                Some(selected)
            );
        }
    }
    Ok(())
}

#[test]
fn a_pod_that_says_nothing_keeps_to_nothing() {
    let faults = faults(&json!({"containers": [{"name": "bare"}], "volumes": [{"hostPath": {"path": "/"}}]}));
    assert_eq!(faults.len(), 11, "{faults:?}");
}

/// Kinds whose creation creates pods, by API group. In a group with `*`, every kind does.
const MAKERS: [(&str, &[&str]); 3] = [
    ("", &["pods", "replicationcontrollers"]),
    (
        "apps",
        &["*", "deployments", "daemonsets", "replicasets", "statefulsets"],
    ),
    ("batch", &["*", "jobs", "cronjobs"]),
];

/// True if a rule of a role permits its holder to create pods, directly or through another object.
fn creates_pods(rule: &Value) -> bool {
    let has = |field: &str, wanted: &[&str]| {
        let known = rule[field].as_array().into_iter().flatten();
        known
            .filter_map(Value::as_str)
            .any(|known| known == "*" || wanted.contains(&known))
    };
    let mut makers = MAKERS.iter();
    has("verbs", &["create"])
        && makers.any(|(group, kinds)| has("apiGroups", &[group]) && has("resources", kinds))
}

/// The rules in the output of a chart that permit the creation of pods.
fn pod_creating(chart: &str, values: &[&str]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for object in objects(&render(chart, values)?)? {
        let rules = object["rules"].as_array().into_iter().flatten();
        found.extend(
            rules
                .filter(|rule| creates_pods(rule))
                .map(|rule| format!("{}: {rule}", title(&object))),
        );
    }
    Ok(found)
}

#[test]
fn by_default_nobody_may_create_pods() -> Result<()> {
    let agent = ["--set", "clusterName=one"];
    let push = ["--set", "clusterName=one,mode=push"];
    let cases: [(&str, &[&str]); 3] = [("argosy", &[]), ("argosy-agent", &agent), ("argosy-agent", &push)];
    for (chart, values) in cases {
        let found = pod_creating(chart, values)?;
        ensure!(found.is_empty(), "{chart} lets somebody create pods: {found:?}");
    }
    let all = pod_creating("argosy-agent", &["--set", "clusterName=one,objects.common=true"])?;
    ensure!(!all.is_empty(), "who asks for workloads gets them");
    Ok(())
}
