//! A second search for references, which knows nothing of the first: it follows the types of
//! Argo's schema, where the first follows the names of fields.

use std::{collections::BTreeSet, fs};

use anyhow::{Context as _, Result};
use argosy_tests::argo::sources;
use serde_json::{Value, json};

/// The type of `spec` of a Workflow and of both kinds of templates.
pub(crate) const SPEC: &str = "io.argoproj.workflow.v1alpha1.WorkflowSpec";

/// The type of an artifact repository in a ConfigMap.
pub(crate) const REPOSITORY: &str = "io.argoproj.workflow.v1alpha1.ArtifactRepository";

/// The definitions of Argo's OpenAPI document.
pub(crate) struct Schema(Value);

/// The part of a value that a schema describes.
pub(crate) enum Shape<'a> {
    /// An object of a type, with the fields of the type.
    Type(&'a str),
    List(&'a Value),
    Map(&'a Value),
    Text,
    /// Any value of the user.
    Data,
    Other,
}

impl Schema {
    pub(crate) fn read() -> Result<Self> {
        let path = sources()?.join("api/openapi-spec/swagger.json");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let document: Value = serde_json::from_str(&text)?;
        Ok(Self(document["definitions"].clone()))
    }

    /// The fields of a type.
    pub(crate) fn fields(&self, name: &str) -> impl Iterator<Item = (&str, &Value)> {
        let fields = self.0[name]["properties"].as_object().into_iter().flatten();
        fields.map(|(name, schema)| (name.as_str(), schema))
    }

    pub(crate) fn shape<'a>(&'a self, schema: &'a Value) -> Shape<'a> {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.trim_start_matches("#/definitions/");
            let target = &self.0[name];
            assert!(target.is_object(), "{reference} is not in the document");
            // These have no fields, and Argo reads none.
            let is_empty = matches!(short(name), "NoneStrategy" | "ZipStrategy");
            return if target["properties"].is_object() {
                Shape::Type(name)
            } else if is_empty {
                Shape::Other
            } else {
                self.shape(target)
            };
        }
        match schema["type"].as_str() {
            Some("array") => Shape::List(&schema["items"]),
            Some("object") if schema["additionalProperties"].is_object() => {
                Shape::Map(&schema["additionalProperties"])
            }
            Some("object") | None => Shape::Data,
            Some("string") => Shape::Text,
            Some(_) => Shape::Other,
        }
    }

    /// The objects that a value of a type names.
    pub(crate) fn references(&self, of: &str, value: &Value) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        self.walk(of, value, &mut found);
        found
    }

    fn walk(&self, of: &str, value: &Value, found: &mut BTreeSet<String>) {
        if let Some(reference) = Reference::of(of) {
            found.extend(reference.read(value));
            return;
        }
        if is_made_by_the_run(of) {
            return;
        }
        for (name, schema) in self.fields(of) {
            let field = &value[name];
            if is_account(name) {
                found.extend(named("ServiceAccount", field));
            }
            self.walk_into(schema, field, found);
        }
    }

    fn walk_into(&self, schema: &Value, value: &Value, found: &mut BTreeSet<String>) {
        match self.shape(schema) {
            Shape::Type(of) => self.walk(of, value, found),
            Shape::List(items) => {
                for item in value.as_array().into_iter().flatten() {
                    self.walk_into(items, item, found);
                }
            }
            Shape::Map(values) => {
                for (_, item) in value.as_object().into_iter().flatten() {
                    self.walk_into(values, item, found);
                }
            }
            Shape::Text | Shape::Data | Shape::Other => {}
        }
    }
}

/// A type whose values name an object.
pub(crate) struct Reference {
    kind: &'static str,
    field: &'static str,
}

impl Reference {
    pub(crate) fn of(name: &str) -> Option<Self> {
        let (kind, field) = match short(name) {
            "SecretKeySelector" | "SecretEnvSource" | "SecretProjection" | "LocalObjectReference" => {
                ("Secret", "name")
            }
            "SecretVolumeSource" | "AzureFileVolumeSource" => ("Secret", "secretName"),
            "ConfigMapKeySelector"
            | "ConfigMapEnvSource"
            | "ConfigMapProjection"
            | "ConfigMapVolumeSource" => ("ConfigMap", "name"),
            "ArtifactRepositoryRef" => ("ConfigMap", "configMap"),
            "PersistentVolumeClaimVolumeSource" => ("PersistentVolumeClaim", "claimName"),
            "TemplateRef" | "WorkflowTemplateRef" => ("WorkflowTemplate", "name"),
            _ => return None,
        };
        Some(Self { kind, field })
    }

    /// A value that names the object `name`.
    pub(crate) fn example(&self, name: &str) -> Value {
        json!({ self.field: name, "key": "key", "template": "template" })
    }

    fn read(&self, value: &Value) -> Option<String> {
        let is_cluster_scoped = self.kind == "WorkflowTemplate" && value["clusterScope"] == true;
        let kind = if is_cluster_scoped {
            "ClusterWorkflowTemplate"
        } else {
            self.kind
        };
        match &value[self.field] {
            Value::Null if self.field == "configMap" && value.is_object() => {
                Some("ConfigMap artifact-repositories".to_owned())
            }
            name => named(kind, name),
        }
    }
}

fn named(kind: &str, name: &Value) -> Option<String> {
    let name = name
        .as_str()
        .filter(|name| !name.contains("{{") && !name.is_empty())?;
    Some(format!("{kind} {name}"))
}

/// True for a field with the name of a ServiceAccount.
pub(crate) fn is_account(field: &str) -> bool {
    field.to_lowercase().ends_with("serviceaccountname")
}

/// True for the types of claims that are made from templates, and of caches, which Argo creates.
pub(crate) fn is_made_by_the_run(name: &str) -> bool {
    matches!(
        short(name),
        "PersistentVolumeClaim" | "PersistentVolumeClaimTemplate" | "Cache"
    )
}

/// The name of a type without its package.
pub(crate) fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
