//! The templates of its cluster that a Workflow refers to.
//!
//! Argo looks them up when it begins a run, and fails the run if one is missing. The agent
//! therefore checks them before it creates the object. Not here: the search in a specification
//! (`dependencies`), and the request to the cluster.

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

use super::dependencies::{Dependencies, Dependency, DependencyKind};

/// A WorkflowTemplate of the Workflow's namespace, or a ClusterWorkflowTemplate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TemplateKey {
    /// True for a ClusterWorkflowTemplate.
    pub is_cluster_scoped: bool,
    /// The name of the template.
    pub name: String,
}

impl fmt::Display for TemplateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.name)
    }
}

/// The templates that `spec` refers to by `workflowTemplateRef` and `templateRef`, at any depth.
/// Names that Argo computes during the run are left out.
pub fn referred(spec: &Value) -> BTreeSet<TemplateKey> {
    let named = Dependencies::of_template(spec, "").named.into_keys();
    named
        .filter_map(|dependency| TemplateKey::of(&dependency))
        .collect()
}

/// The template of the whole Workflow (`workflowTemplateRef`), if there is one.
pub fn whole(spec: &Value) -> Option<TemplateKey> {
    key(spec.get("workflowTemplateRef")?)
}

/// The template that a reference names.
pub(crate) fn key(reference: &Value) -> Option<TemplateKey> {
    let name = reference.get("name")?.as_str()?;
    (!name.is_empty() && !name.contains("{{")).then(|| TemplateKey {
        is_cluster_scoped: reference.get("clusterScope").and_then(Value::as_bool) == Some(true),
        name: name.to_owned(),
    })
}

impl TemplateKey {
    /// The template as a dependency.
    pub fn dependency(&self) -> Dependency {
        Dependency {
            kind: self.kind(),
            name: self.name.as_str().into(),
        }
    }

    fn kind(&self) -> DependencyKind {
        if self.is_cluster_scoped {
            DependencyKind::ClusterWorkflowTemplate
        } else {
            DependencyKind::WorkflowTemplate
        }
    }

    /// The key of a dependency that is a template.
    pub fn of(dependency: &Dependency) -> Option<Self> {
        let is_cluster_scoped = match dependency.kind {
            DependencyKind::WorkflowTemplate => false,
            DependencyKind::ClusterWorkflowTemplate => true,
            _ => return None,
        };
        Some(Self {
            is_cluster_scoped,
            name: dependency.name.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(spec: &Value) -> Vec<String> {
        referred(spec).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn references_of_workflow_steps_tasks_and_hooks_are_found() {
        let spec = json!({
            "workflowTemplateRef": { "name": "whole" },
            "hooks": { "exit": { "templateRef": { "name": "hook", "template": "t" } } },
            "templates": [
                { "steps": [[{ "templateRef": { "name": "step", "template": "t", "clusterScope": true } }]] },
                { "dag": { "tasks": [{ "templateRef": { "name": "task", "template": "t" } }] } },
            ],
        });
        assert_eq!(
            names(&spec),
            [
                "WorkflowTemplate hook",
                "WorkflowTemplate task",
                "WorkflowTemplate whole",
                "ClusterWorkflowTemplate step"
            ]
        );
    }

    #[test]
    fn what_refers_to_nothing_that_is_known_asks_for_nothing() {
        for spec in [
            json!({ "templates": [{ "name": "templateRef", "container": { "image": "busybox" } }] }),
            json!({ "templates": [{ "templateRef": { "name": "{{inputs.parameters.name}}" } }] }),
            json!({ "workflowTemplateRef": null }),
            json!(null),
        ] {
            assert_eq!(names(&spec), Vec::<String>::new(), "{spec}");
        }
    }
}
