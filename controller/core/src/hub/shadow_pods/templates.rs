//! The names of the containers of a node's pod: those of its template, and Argo's own. A status
//! contains no pods, so the template is found as Argo finds it (`resolveTemplateReference` in
//! `pkg/apis/workflow/v1alpha1/workflow_types.go`). Clusters write statuses, so every list is bounded.

use std::collections::{BTreeSet, HashMap};

use argosy_api::Workflow;
use serde_json::{Map, Value};

use crate::model::control::Nodes;

/// Maximum number of containers of a template that are shown, of each kind.
pub(super) const CONTAINERS: usize = 16;

/// Maximum number of containers in a list that are looked at. Most of a hostile list has no name.
const LOOKED_AT: usize = 64;

/// Maximum number of steps or tasks that are looked at for an inline template.
const TASKS: usize = 4096;

/// Maximum depth of inline templates in inline templates.
const DEEPEST: usize = 4;

/// Container whose log Argo's tools read unless another one is named.
const MAIN: &str = "main";

/// The name of the artifact that is the log of a container ends with it.
const LOGS: &str = "-logs";

/// Names of the containers of a pod, in Argo's order (`createWorkflowPod` in
/// `workflow/controller/workflowpod.go`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Containers {
    pub(super) init: Vec<String>,
    pub(super) all: Vec<String>,
    /// The one whose log is read by default.
    pub(super) default: String,
}

/// The templates of a Workflow.
pub(super) struct Templates<'a> {
    /// Those of the Workflow, and of the WorkflowTemplate that it is made of, by name.
    own: HashMap<&'a str, &'a Value>,
    /// Those of other WorkflowTemplates, by scope and name.
    stored: Option<&'a Map<String, Value>>,
}

impl<'a> Templates<'a> {
    /// The templates of the Workflow and those that Argo has stored in its status. Of several with one
    /// name, the first counts.
    pub(super) fn of(workflow: &'a Workflow) -> Self {
        let status = workflow.status.as_ref();
        let lists = [
            workflow.spec.get("templates"),
            status.and_then(|status| status.pointer("/storedWorkflowTemplateSpec/templates")),
        ];
        let all = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
        let mut own = HashMap::new();
        for template in all {
            if let Some(name) = text(template, "name") {
                own.entry(name).or_insert(template);
            }
        }
        let stored = status.and_then(|status| status.get("storedTemplates"));
        Self {
            own,
            stored: stored.and_then(Value::as_object),
        }
    }

    /// The containers of a node's pod.
    pub(super) fn containers(&self, node: &Value, nodes: &Nodes<'_>) -> Containers {
        let template = self.find(node, nodes, DEEPEST);
        let field = |pointer: &str| names(template.and_then(|template| template.pointer(pointer)));
        let mains = mains(template);
        let is_main = |name: &&String| *name == MAIN;
        let default = mains.iter().find(is_main).or(mains.last());
        let mut containers = Containers {
            default: default.cloned().unwrap_or_default(),
            init: ["init".to_owned()]
                .into_iter()
                .chain(field("/initContainers"))
                .collect(),
            all: ["wait".to_owned()]
                .into_iter()
                .chain(mains)
                .chain(field("/sidecars"))
                .collect(),
        };
        let mut known = BTreeSet::new();
        for list in [&mut containers.all, &mut containers.init] {
            list.retain(|name| known.insert(name.clone()));
        }
        containers
    }

    /// True if the log of a main container of a node is an artifact. Inline templates, which are
    /// expensive to find, count as those with one container.
    pub(super) fn has_log(&self, node: &Value) -> bool {
        let artifacts = node.get("outputs").and_then(|outputs| outputs.get("artifacts"));
        let artifacts = artifacts.and_then(Value::as_array).into_iter().flatten();
        let mut logs = artifacts.filter_map(|artifact| text(artifact, "name")?.strip_suffix(LOGS));
        let Some(first) = logs.next() else { return false };
        let mains = mains(self.named(node));
        let is_main = |container: &str| mains.iter().any(|main| main == container);
        is_main(first) || logs.any(is_main)
    }

    fn find(&self, node: &Value, nodes: &Nodes<'_>, depth: usize) -> Option<&'a Value> {
        self.named(node).or_else(|| self.inline(node, nodes, depth))
    }

    /// The template that a node names.
    fn named(&self, node: &Value) -> Option<&'a Value> {
        let stored = |key: String| self.stored.and_then(|stored| stored.get(&key));
        if let Some(reference) = node.get("templateRef") {
            let (name, template) = (text(reference, "name")?, text(reference, "template")?);
            let is_of_cluster = reference.get("clusterScope") == Some(&Value::Bool(true));
            let scope = if is_of_cluster { "cluster" } else { "namespaced" };
            return stored(format!("{scope}/{name}/{template}"));
        }
        let template = text(node, "templateName").filter(|name| !name.is_empty());
        match (scope(node), template) {
            (None, Some(name)) => self.own.get(name).copied(),
            (Some(scope), Some(name)) => stored(format!("{scope}/{name}")),
            (Some(scope), None) => stored(format!("{scope}/inline/{}", step(node))),
            (None, None) => None,
        }
    }

    /// The template in the step of a node, which is in the template of the node around it.
    fn inline(&self, node: &Value, nodes: &Nodes<'_>, depth: usize) -> Option<&'a Value> {
        let is_named = text(node, "templateName").is_some_and(|name| !name.is_empty());
        if depth == 0 || is_named || node.get("templateRef").is_some() {
            return None;
        }
        let around = nodes.get(text(node, "boundaryID")?)?;
        let template = self.find(&around, nodes, depth - 1)?;
        let groups = template.get("steps").and_then(Value::as_array).into_iter();
        let groups = groups.flatten().take(TASKS);
        let steps = groups.filter_map(Value::as_array).flatten();
        let tasks = template.pointer("/dag/tasks").and_then(Value::as_array);
        let mut tasks = steps.chain(tasks.into_iter().flatten()).take(TASKS);
        tasks
            .find(|task| text(task, "name") == Some(step(node)))?
            .get("inline")
    }
}

/// A text of a node. Not by a JSON pointer, which allocates for each of its parts.
pub(super) fn text<'a>(node: &'a Value, key: &str) -> Option<&'a str> {
    node.get(key).and_then(Value::as_str)
}

/// Kind and name of the WorkflowTemplate that a node's template is in; `None` for the Workflow.
fn scope(node: &Value) -> Option<String> {
    let scope = text(node, "templateScope").filter(|scope| !scope.is_empty())?;
    match scope.split_once('/') {
        Some(("local", _)) => None,
        Some(_) => Some(scope.to_owned()),
        None => Some(format!("namespaced/{scope}")),
    }
}

/// Name of the step of a node, without the number of its item or attempt.
fn step(node: &Value) -> &str {
    let name = text(node, "displayName").unwrap_or_default();
    name.split_once('(').map_or(name, |(name, _)| name)
}

/// Names of the containers for which Argo runs a template.
fn mains(template: Option<&Value>) -> Vec<String> {
    let set = names(template.and_then(|template| template.pointer("/containerSet/containers")));
    if set.is_empty() {
        vec![MAIN.to_owned()]
    } else {
        set
    }
}

fn names(list: Option<&Value>) -> Vec<String> {
    let containers = list.and_then(Value::as_array).into_iter().flatten();
    let names = containers
        .take(LOOKED_AT)
        .filter_map(|container| text(container, "name"));
    let names = names.filter(|name| is_name(name, 63) && !["init", "wait"].contains(name));
    names.take(CONTAINERS).map(str::to_owned).collect()
}

/// True if this can be the name of an object (with `longest` 253) or of a container (63).
pub(super) fn is_name(text: &str, longest: usize) -> bool {
    let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let may_have_dots = longest > 63;
    let is_inner = |byte: u8| is_end(byte) || byte == b'-' || (may_have_dots && byte == b'.');
    (1..=longest).contains(&text.len())
        && text.bytes().all(is_inner)
        && text.bytes().next().is_some_and(is_end)
        && text.bytes().next_back().is_some_and(is_end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::read;

    fn set(names: &[&str]) -> Value {
        let containers: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        json!({ "containerSet": { "containers": containers } })
    }

    /// A Workflow with templates of its own, with stored ones, and with inline ones.
    fn workflow() -> Workflow {
        let mut whole = set(&["first", "main"]);
        whole["name"] = json!("whole");
        whole["sidecars"] = json!([{ "name": "proxy" }, { "name": "wait" }, { "name": "first" }]);
        whole["initContainers"] = json!([{ "name": "fetch" }, { "name": "unpack" }, { "name": "Bad" }]);
        let inline = |name: &str| json!({ "name": name, "inline": set(&["in", name]) });
        read(json!({
            "metadata": { "namespace": "argo", "name": "hello" },
            "spec": { "templates": [
                whole, { "name": "dag", "dag": { "tasks": [inline("b")] } }, { "name": "steps", "steps": [[inline("a")]] },
            ] },
            "status": {
                "storedTemplates": {
                    "namespaced/t/work": set(&["one", "two"]), "cluster/t/work": set(&["three"]),
                    "namespaced/t/inline/c": set(&["four"]),
                },
                "nodes": {
                    "d": { "templateName": "dag", "templateScope": "local/hello" }, "s": { "templateName": "steps" },
                    "loop": { "boundaryID": "loop", "displayName": "a" },
                },
            },
        }))
    }

    #[test]
    fn the_template_of_a_node_is_found_as_argo_finds_it() {
        let workflow = workflow();
        let nodes = Nodes::of(workflow.status.as_ref().unwrap()).unwrap();
        let templates = Templates::of(&workflow);
        let reference = json!({ "name": "t", "template": "work" });
        let of_cluster = json!({ "name": "t", "template": "work", "clusterScope": true });
        for (node, expected) in [
            (json!({ "templateRef": reference }), &["one", "two"][..]),
            (
                json!({ "templateRef": of_cluster, "templateScope": "local/hello" }),
                &["three"],
            ),
            (
                json!({ "templateName": "work", "templateScope": "namespaced/t" }),
                &["one", "two"],
            ),
            (
                json!({ "templateName": "work", "templateScope": "t" }),
                &["one", "two"],
            ),
            (
                json!({ "displayName": "c(0:x)", "templateScope": "namespaced/t" }),
                &["four"],
            ),
            (json!({ "displayName": "a(1)", "boundaryID": "s" }), &["in", "a"]),
            (
                json!({ "displayName": "b", "boundaryID": "d", "templateScope": "local/hello" }),
                &["in", "b"],
            ),
            (json!({ "templateName": "other" }), &["main"]),
            (json!({ "templateRef": {} }), &["main"]),
            (json!({ "displayName": "a", "boundaryID": "loop" }), &["main"]),
            (json!({}), &["main"]),
        ] {
            let found = templates.containers(&node, &nodes);
            assert_eq!(found.all[1..], *expected, "{node}");
        }
    }

    #[test]
    fn the_containers_of_a_pod_have_the_names_and_the_order_of_argo() {
        let workflow = workflow();
        let templates = Templates::of(&workflow);
        let node = json!({ "templateName": "whole" });
        let found = templates.containers(&node, &Nodes::default());
        assert_eq!(found.init, ["init", "fetch", "unpack"]);
        assert_eq!(found.all, ["wait", "first", "main", "proxy"]);
        assert_eq!(found.default, "main");
        let node = json!({ "templateRef": { "name": "t", "template": "work" } });
        assert_eq!(templates.containers(&node, &Nodes::default()).default, "two");
        let many = (0..100).map(|number| json!({ "name": format!("c{number}") }));
        let many = json!({ "name": "many", "initContainers": many.collect::<Vec<_>>() });
        let workflow = read(json!({ "metadata": {}, "spec": { "templates": [many] } }));
        let node = json!({ "templateName": "many" });
        let found = Templates::of(&workflow).containers(&node, &Nodes::default());
        assert_eq!(found.init.len(), CONTAINERS + 1);
    }

    #[test]
    fn an_artifact_whose_name_ends_like_that_of_a_log_is_no_log() {
        let workflow = workflow();
        let templates = Templates::of(&workflow);
        for (template, artifacts, expected) in [
            ("other", &["main-logs"][..], true),
            ("other", &["result", "build-logs", "main-logs"], true),
            ("other", &["build-logs", "logs"], false),
            ("whole", &["first-logs"], true),
            ("whole", &["proxy-logs"], false),
            ("whole", &[], false),
        ] {
            let artifacts: Vec<Value> = artifacts.iter().map(|name| json!({ "name": name })).collect();
            let node = json!({ "templateName": template, "outputs": { "artifacts": artifacts } });
            assert_eq!(templates.has_log(&node), expected, "{node}");
        }
    }
}
