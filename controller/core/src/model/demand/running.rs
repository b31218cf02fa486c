//! The resources that the pods of a run ask for at present, according to its status.
//!
//! A status names the template of each node, and contains the templates that are not in the Workflow
//! itself. Packed nodes are not unpacked, because that takes as long as a thousand other statuses.

use std::collections::BTreeMap;

use serde_json::Value;

use super::pod::Pod;
use crate::model::amounts::Amounts;

/// The template of a node: the key of a stored template, or the name of one of the Workflow's own.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Origin<'a> {
    Own(&'a str),
    Stored(String),
}

/// The requests of the pods that a run has, with what the kube-scheduler assumes where there are none.
/// `None` if it has no pods, or if its nodes are packed.
pub(crate) fn running(spec: &Value, status: &Value) -> Option<Amounts> {
    let nodes = status.get("nodes")?.as_object()?;
    let mut counts: BTreeMap<Origin<'_>, u64> = BTreeMap::new();
    for node in nodes.values().filter(|node| has_pod(node)) {
        *counts.entry(Origin::of(node)).or_default() += 1;
    }
    let own = own_templates(spec, status);
    let of_reference = status.get("storedWorkflowTemplateSpec");
    let mut specs = [Some(spec), of_reference].into_iter().flatten();
    let defaults = specs.find_map(|spec| spec.get("templateDefaults"));
    let defaults = defaults.unwrap_or(&Value::Null);
    let mut total = Amounts::default();
    for (origin, count) in &counts {
        let template = origin.template(&own, status);
        let pod = template.map_or_else(
            || Some(Pod::unknown()),
            |template| Pod::of_template(template, defaults),
        );
        total.add(&pod.unwrap_or_default().assumed.scaled(*count, 1));
    }
    (!total.is_empty()).then(|| total.rounded())
}

/// The Workflow's own templates by name. Those in its specification come first.
fn own_templates<'a>(spec: &'a Value, status: &'a Value) -> BTreeMap<&'a str, &'a Value> {
    let of_reference = status.get("storedWorkflowTemplateSpec");
    let specs = [of_reference, Some(spec)].into_iter().flatten();
    let lists = specs.filter_map(|spec| spec.get("templates")?.as_array());
    // The first one of a name counts, so it is inserted last.
    let templates = lists.flat_map(|templates| templates.iter().rev());
    templates
        .filter_map(|template| Some((template.get("name")?.as_str()?, template)))
        .collect()
}

/// True if a node has a pod that has not ended. One that waits for a lock has none yet.
fn has_pod(node: &Value) -> bool {
    let text = |field: &str| node.get(field).and_then(Value::as_str).unwrap_or_default();
    let waiting = node
        .get("synchronizationStatus")
        .and_then(|status| status.get("waiting")?.as_str());
    text("type") == "Pod"
        && ["Pending", "Running"].contains(&text("phase"))
        && waiting.unwrap_or_default().is_empty()
}

impl<'a> Origin<'a> {
    /// As Argo names stored templates (`resolveTemplateReference`).
    fn of(node: &'a Value) -> Self {
        let text = |field: &str| node.get(field).and_then(Value::as_str).unwrap_or_default();
        if let Some(reference) = node.get("templateRef").filter(|known| known.is_object()) {
            let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
            let is_of_cluster = reference.get("clusterScope") == Some(&Value::Bool(true));
            let scope = if is_of_cluster { "cluster" } else { "namespaced" };
            return Self::Stored(format!("{scope}/{}/{}", text("name"), text("template")));
        }
        match text("templateScope") {
            scope if scope.is_empty() || scope.starts_with("local/") => Self::Own(text("templateName")),
            scope => Self::Stored(format!("{scope}/{}", text("templateName"))),
        }
    }

    fn template<'v>(&self, own: &BTreeMap<&str, &'v Value>, status: &'v Value) -> Option<&'v Value> {
        match self {
            Self::Stored(key) => status.get("storedTemplates")?.get(key),
            Self::Own(name) => own.get(name).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(name: &str, cpu: &str) -> Value {
        json!({ "name": name, "container": { "resources": { "requests": { "cpu": cpu, "memory": "1Gi" } } } })
    }

    fn asked(nodes: &[Value]) -> Option<String> {
        let nodes = nodes.iter().enumerate();
        let nodes: serde_json::Map<String, Value> = nodes
            .map(|(number, node)| (number.to_string(), node.clone()))
            .collect();
        let spec = json!({ "templates": [template("a", "2"), { "name": "wait", "suspend": {} }] });
        let status = json!({
            "nodes": nodes,
            "storedTemplates": {
                "namespaced/t/a": template("a", "3"), "cluster/t/a": template("a", "4"), "namespaced/t/b": template("b", "5"),
            },
            "storedWorkflowTemplateSpec": { "templates": [template("c", "6")] },
        });
        running(&spec, &status).map(|amounts| amounts.to_string())
    }

    fn node(more: &Value) -> Value {
        let mut node =
            json!({ "type": "Pod", "phase": "Running", "templateName": "a", "templateScope": "local/w" });
        let fields = node.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        node
    }

    #[test]
    fn a_pod_asks_for_what_its_template_says_wherever_that_is_stored() {
        for (more, expected) in [
            (json!({}), "cpu=2,memory=1Gi"),
            (json!({ "phase": "Pending" }), "cpu=2,memory=1Gi"),
            (json!({ "templateScope": "" }), "cpu=2,memory=1Gi"),
            (json!({ "templateName": "c" }), "cpu=6,memory=1Gi"),
            (
                json!({ "templateRef": { "name": "t", "template": "a" } }),
                "cpu=3,memory=1Gi",
            ),
            (
                json!({ "templateRef": { "name": "t", "template": "a", "clusterScope": true } }),
                "cpu=4,memory=1Gi",
            ),
            // A template of a WorkflowTemplate that names another one of the same.
            (
                json!({ "templateName": "b", "templateScope": "namespaced/t" }),
                "cpu=5,memory=1Gi",
            ),
            (json!({ "templateName": "gone" }), "cpu=100m,memory=200Mi"),
            (json!({ "templateRef": { "name": 7 } }), "cpu=100m,memory=200Mi"),
            (
                json!({ "templateName": {}, "templateRef": [] }),
                "cpu=100m,memory=200Mi",
            ),
        ] {
            assert_eq!(asked(&[node(&more)]).as_deref(), Some(expected), "{more}");
        }
    }

    #[test]
    fn only_pods_that_exist_and_have_not_ended_count() {
        for more in [
            json!({ "phase": "Succeeded" }),
            json!({ "phase": "Omitted" }),
            json!({ "phase": "" }),
            json!({ "phase": null }),
            json!({ "type": "StepGroup" }),
            json!({ "type": "Suspend", "templateName": "wait" }),
            json!({ "synchronizationStatus": { "waiting": "argo/ConfigMap/lock/x" } }),
        ] {
            assert_eq!(asked(&[node(&more)]), None, "{more}");
            assert_eq!(
                asked(&[
                    node(&more),
                    node(&json!({})),
                    node(&json!({ "templateName": "c" }))
                ])
                .as_deref(),
                Some("cpu=8,memory=2Gi"),
                "{more}"
            );
        }
        assert_eq!(running(&json!({}), &json!({ "compressedNodes": "H4sI" })), None);
        assert_eq!(running(&json!({}), &json!({ "nodes": [] })), None);
    }
}
