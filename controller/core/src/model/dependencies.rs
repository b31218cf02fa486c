//! The other objects that a Workflow or a template names, so that it cannot run without them.
//!
//! Fields are recognized by their names in Argo's schema, at every depth. Fields that contain data
//! of the user (labels, items, values of parameters, plugins) are not searched. A name that Argo
//! computes during the run, and a text in which names may stand, are reported as unknown, and not
//! guessed.
//!
//! Not here: if a named object exists, if it may be sent, and where it is needed.

mod asked;
mod needs;
mod repository;
mod used;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use argosy_api::names;
use serde_json::{Map, Value, json};

pub use asked::Asked;
pub use needs::Needs;
pub use repository::RepositoryRef;
pub use used::used;

/// Maximum depth of values that are searched. Argo's schema is deeper only where templates are
/// inside templates (`inline`).
const DEEPEST: usize = 96;

/// Maximum number of values that are searched in one object.
const MOST_VISITS: usize = 200_000;

/// Maximum number of objects that one object may name.
const MOST_NAMED: usize = 256;

/// Maximum number of unknown references that are reported for one object.
const MOST_UNKNOWN: usize = 32;

/// Maximum length of the name of an object in Kubernetes, in bytes.
pub(crate) const LONGEST_NAME: usize = 253;

/// The ConfigMap of artifact repositories that Argo looks for in each namespace.
const REPOSITORIES: &str = "artifact-repositories";

/// The ServiceAccount of pods that name none.
const DEFAULT_ACCOUNT: &str = "default";

/// A kind of object that a Workflow can need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DependencyKind {
    /// A WorkflowTemplate of the namespace.
    WorkflowTemplate,
    /// A ClusterWorkflowTemplate.
    ClusterWorkflowTemplate,
    /// A ConfigMap of the namespace.
    ConfigMap,
    /// A Secret of the namespace.
    Secret,
    /// A ServiceAccount of the namespace.
    ServiceAccount,
    /// A PersistentVolumeClaim of the namespace that exists before the run.
    PersistentVolumeClaim,
}

impl fmt::Display for DependencyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WorkflowTemplate => "WorkflowTemplate",
            Self::ClusterWorkflowTemplate => "ClusterWorkflowTemplate",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::ServiceAccount => "ServiceAccount",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
        })
    }
}

/// An object that is named. Its namespace is that of the Workflow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dependency {
    /// Its kind.
    pub kind: DependencyKind,
    /// Its name, which is valid in Kubernetes.
    pub name: Box<str>,
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// The effect of a missing object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Necessity {
    /// The run goes on without the object: each place that names it is marked `optional`, or Argo
    /// looks elsewhere, too.
    Optional,
    /// The run fails, or waits.
    Required,
}

/// The objects that a specification names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// The objects that are named.
    pub named: BTreeMap<Dependency, Necessity>,
    /// The single templates of other objects that are used, each with the name of the template.
    pub used: BTreeSet<(Dependency, Box<str>)>,
    /// A `resource` template creates ConfigMaps, Secrets or volumes during the run, or objects of a
    /// kind that is not known before: perhaps some of those that are named.
    pub creates: bool,
    /// It has artifacts in the artifact repository, or archives logs.
    pub has_artifacts: bool,
    /// Argo is asked to delete artifacts when the Workflow is deleted (`artifactGC`).
    pub collects_artifacts: bool,
    /// Objects that are used because a field does not name another.
    by_default: BTreeSet<Dependency>,
    /// A phrase for each reference that cannot be determined before the run.
    pub unknown: BTreeSet<String>,
}

impl Dependencies {
    /// The objects that the `spec` of a Workflow in `namespace` names, the ConfigMap in which Argo
    /// looks for the artifact repositories of the namespace, and the ServiceAccount of pods that name
    /// none.
    pub fn of_workflow(spec: &Value, namespace: &str) -> Self {
        let mut found = Self::default();
        // Before the search, which ends when it has found as many as it may.
        if spec.get("artifactRepositoryRef").is_none_or(Value::is_null) {
            found.add(DependencyKind::ConfigMap, REPOSITORIES, Necessity::Optional);
        }
        if spec
            .get("serviceAccountName")
            .and_then(Value::as_str)
            .is_none_or(str::is_empty)
        {
            found.add(
                DependencyKind::ServiceAccount,
                DEFAULT_ACCOUNT,
                Necessity::Optional,
            );
        }
        found.searched(spec, namespace).with_defaults()
    }

    /// The objects that the `spec` of a WorkflowTemplate or a ClusterWorkflowTemplate names if a
    /// Workflow in `namespace` uses it. The same for a definition of an artifact repository.
    pub fn of_template(spec: &Value, namespace: &str) -> Self {
        Self::default().searched(spec, namespace)
    }

    /// Adds the objects that are used by default.
    fn with_defaults(mut self) -> Self {
        for Dependency { kind, name } in std::mem::take(&mut self.by_default) {
            self.add(kind, &name, Necessity::Optional);
        }
        self
    }

    fn searched(self, spec: &Value, namespace: &str) -> Self {
        let mut search = Search {
            namespace,
            visits: 0,
            found: self,
        };
        search.value(spec, 0);
        search.found
    }

    /// The objects that an object of this kind names, for a Workflow in `namespace`.
    pub fn of_object(kind: DependencyKind, object: &Value, namespace: &str) -> Self {
        let field = |name: &str| object.get(name).unwrap_or(&Value::Null);
        match kind {
            DependencyKind::WorkflowTemplate | DependencyKind::ClusterWorkflowTemplate => {
                Self::of_template(field("spec"), namespace).with_defaults()
            }
            DependencyKind::ServiceAccount => {
                let secrets = json!({ "imagePullSecrets": field("imagePullSecrets") });
                Self::of_template(&secrets, namespace)
            }
            DependencyKind::ConfigMap => Self::of_repositories(field("data"), namespace),
            DependencyKind::Secret | DependencyKind::PersistentVolumeClaim => Self::default(),
        }
    }

    /// The references to objects of these kinds whose names are computed during the run, such as
    /// `ConfigMap {{inputs.parameters.name}}`.
    pub fn computed(&self, asked: Asked) -> impl Iterator<Item = &str> {
        let unknown = self.unknown.iter().map(String::as_str);
        unknown.filter(move |phrase| {
            let kind = phrase.split(' ').next().unwrap_or_default();
            phrase.contains("{{") && asked.lists(kind)
        })
    }

    /// Adds all that another object names.
    pub fn extend(&mut self, other: Self) {
        for (dependency, necessity) in other.named {
            self.add(dependency.kind, &dependency.name, necessity);
        }
        self.used.extend(other.used);
        self.creates |= other.creates;
        self.has_artifacts |= other.has_artifacts;
        self.collects_artifacts |= other.collects_artifacts;
        self.by_default.extend(other.by_default);
        for phrase in other.unknown {
            self.add_unknown(phrase);
        }
    }

    fn add(&mut self, kind: DependencyKind, name: &str, necessity: Necessity) {
        let dependency = Dependency {
            kind,
            name: name.into(),
        };
        if let Some(known) = self.named.get_mut(&dependency) {
            *known = necessity.max(*known);
        } else if self.named.len() < MOST_NAMED {
            self.named.insert(dependency, necessity);
        } else {
            self.add_unknown(format!("objects after the first {MOST_NAMED}"));
        }
    }

    fn add_unknown(&mut self, phrase: String) {
        if self.unknown.len() < MOST_UNKNOWN {
            self.unknown.insert(phrase);
        }
    }
}

/// The name of the RoleBinding that gives a ServiceAccount the rights of Argo's executor; `None` if it
/// would be too long for an object.
pub fn executor_binding(account: &str) -> Option<String> {
    let name = format!("{}-{account}", names::EXECUTOR_ROLE);
    (name.len() <= LONGEST_NAME).then_some(name)
}

struct Search<'a> {
    namespace: &'a str,
    visits: usize,
    found: Dependencies,
}

impl Search<'_> {
    fn value(&mut self, value: &Value, depth: usize) {
        self.visits += 1;
        if depth > DEEPEST || self.visits > MOST_VISITS {
            self.found
                .add_unknown("parts that are too deep or too many to be searched".to_owned());
            return;
        }
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    self.field(name, field, fields, depth + 1);
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.value(item, depth + 1);
                }
            }
            _ => {}
        }
    }

    fn field(&mut self, name: &str, field: &Value, beside: &Map<String, Value>, depth: usize) {
        use DependencyKind::{ConfigMap, PersistentVolumeClaim, Secret, ServiceAccount};

        match name {
            name if is_data(name) => {}
            // Names of hooks are those of the user.
            "hooks" => {
                for hook in field.as_object().into_iter().flat_map(Map::values) {
                    self.value(hook, depth);
                }
            }
            "workflowTemplateRef" | "templateRef" => self.template(field),
            "artifactRepositoryRef" => self.repository(field),
            "serviceAccountName" => self.name(ServiceAccount, field, Necessity::Required),
            "claimName" => self.name(PersistentVolumeClaim, field, Necessity::Required),
            "secretName" => self.name(Secret, field, necessity(beside)),
            "imagePullSecrets" => {
                for item in field.as_array().into_iter().flatten() {
                    self.reference(Secret, item);
                }
            }
            "configMapKeyRef" if self.is_elsewhere(beside) => self.elsewhere(field, beside),
            "configMapKeyRef" | "configMapRef" | "configMap" => self.reference(ConfigMap, field),
            "secretKeyRef" | "secretRef" | "nodePublishSecretRef" => self.reference(Secret, field),
            // A volume has `secretName`; the source of a projected volume has `name`.
            "secret" => {
                self.reference(Secret, field);
                self.value(field, depth);
            }
            "resource" => {
                let action = field.get("action").and_then(Value::as_str);
                let creates = matches!(action, Some("create" | "apply"));
                self.found.creates |= creates && may_create_needs(field.get("manifest"));
                self.value(field, depth);
            }
            "artifacts" | "artifactPaths" => {
                let artifacts = field
                    .as_array()
                    .map_or(std::slice::from_ref(field), Vec::as_slice);
                self.found.has_artifacts |= artifacts.iter().any(repository::is_kept_in);
                self.value(field, depth);
            }
            "archiveLogs" => self.found.has_artifacts |= *field == true,
            "artifactGC" => {
                self.artifact_gc(field);
                self.value(field, depth);
            }
            "podSpecPatch" | "manifest" => self.text(name, field),
            name if name.ends_with("Secret") => self.reference(Secret, field),
            name if name.ends_with("ConfigMap") => self.reference(ConfigMap, field),
            _ => self.value(field, depth),
        }
    }

    /// An object with the field `name`, and perhaps `optional`.
    fn reference(&mut self, kind: DependencyKind, reference: &Value) {
        if let Some(fields) = reference.as_object()
            && let Some(name) = fields.get("name")
        {
            self.name(kind, name, necessity(fields));
        }
    }

    fn name(&mut self, kind: DependencyKind, name: &Value, necessity: Necessity) {
        let Some(name) = name.as_str().filter(|name| !name.is_empty()) else {
            return;
        };
        if is_name(name) {
            self.found.add(kind, name, necessity);
        } else {
            let shown = name
                .get(..name.floor_char_boundary(LONGEST_NAME))
                .unwrap_or_default();
            self.found.add_unknown(format!("{kind} {shown}"));
        }
    }

    fn template(&mut self, reference: &Value) {
        let is_cluster_scoped = reference.get("clusterScope").and_then(Value::as_bool) == Some(true);
        let kind = if is_cluster_scoped {
            DependencyKind::ClusterWorkflowTemplate
        } else {
            DependencyKind::WorkflowTemplate
        };
        self.reference(kind, reference);
        let text = |field: &str| reference.get(field).and_then(Value::as_str);
        if let (Some(name), Some(template)) = (text("name").filter(|name| is_name(name)), text("template"))
            && template.len() <= LONGEST_NAME
            && self.found.used.len() < MOST_NAMED
        {
            let name = name.into();
            self.found
                .used
                .insert((Dependency { kind, name }, template.into()));
        }
    }

    /// Argo's pods that delete artifacts have the ServiceAccount `default` if none is named here.
    fn artifact_gc(&mut self, fields: &Value) {
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        self.found.collects_artifacts |= text("strategy") == "OnWorkflowDeletion";
        if !matches!(text("strategy"), "" | "Never") && text("serviceAccountName").is_empty() {
            self.found.by_default.insert(Dependency {
                kind: DependencyKind::ServiceAccount,
                name: DEFAULT_ACCOUNT.into(),
            });
        }
    }

    /// Argo looks for the ConfigMap in its own namespace, too.
    fn repository(&mut self, reference: &Value) {
        if reference.is_null() {
            return;
        }
        let default = Value::from(REPOSITORIES);
        let name = reference
            .get("configMap")
            .filter(|name| *name != "" && !name.is_null());
        let name = name.unwrap_or(&default);
        self.name(DependencyKind::ConfigMap, name, Necessity::Optional);
    }

    /// True if a semaphore names the namespace of its ConfigMap, and this is another one.
    fn is_elsewhere(&self, beside: &Map<String, Value>) -> bool {
        let namespace = beside.get("namespace").and_then(Value::as_str);
        namespace.is_some_and(|namespace| !namespace.is_empty() && namespace != self.namespace)
    }

    fn elsewhere(&mut self, reference: &Value, beside: &Map<String, Value>) {
        let shown = |fields: Option<&Value>| {
            let text = fields.and_then(Value::as_str).unwrap_or_default();
            text.get(..text.floor_char_boundary(LONGEST_NAME))
                .unwrap_or_default()
                .to_owned()
        };
        let (name, namespace) = (shown(reference.get("name")), shown(beside.get("namespace")));
        self.found
            .add_unknown(format!("ConfigMap {name} of namespace {namespace}"));
    }

    fn text(&mut self, name: &str, text: &Value) {
        if text.as_str().is_some_and(|text| !text.is_empty()) {
            self.found.add_unknown(format!("names in the text of {name}"));
        }
    }
}

/// True if the manifest of a `resource` template may create objects of the kinds that a run waits for.
/// It is a text with templates in it, so only the names of the kinds are looked for.
fn may_create_needs(manifest: Option<&Value>) -> bool {
    // Without a manifest here, it comes from an artifact.
    let Some(text) = manifest.and_then(Value::as_str) else {
        return true;
    };
    let mut kinds = text.split("kind").skip(1).map(|rest| {
        rest.trim_start_matches(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | ':'))
    });
    let is_waited_for = |kind: &str| {
        ["ConfigMap", "Secret", "PersistentVolumeClaim", "{{", "List"]
            .iter()
            .any(|waited| kind.starts_with(waited))
    };
    !text.contains("kind") || kinds.any(is_waited_for)
}

/// True for a field that contains data of the user, in which a field name means nothing, and for
/// a field whose references the run creates: claims that are made from templates, and caches.
fn is_data(name: &str) -> bool {
    matches!(
        name,
        "annotations"
            | "cache"
            | "default"
            | "labels"
            | "labelsFrom"
            | "limits"
            | "matchLabels"
            | "nodeAntiAffinity"
            | "nodeSelector"
            | "options"
            | "plugin"
            | "requests"
            | "supplied"
            | "value"
            | "volumeAttributes"
            | "volumeClaimTemplate"
            | "volumeClaimTemplates"
            | "withItems"
    )
}

fn necessity(fields: &Map<String, Value>) -> Necessity {
    if fields.get("optional").and_then(Value::as_bool) == Some(true) {
        Necessity::Optional
    } else {
        Necessity::Required
    }
}

/// True if an object can have this name: a DNS subdomain (RFC 1123), as for all these kinds.
fn is_name(name: &str) -> bool {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= LONGEST_NAME
        && name.split('.').all(|label| {
            let ends = (label.bytes().next(), label.bytes().next_back());
            matches!(ends, (Some(first), Some(last)) if is_alphanumeric(first) && is_alphanumeric(last))
                && label.bytes().all(|byte| is_alphanumeric(byte) || byte == b'-')
        })
}

#[cfg(test)]
mod tests;
