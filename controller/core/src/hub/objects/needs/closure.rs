//! All objects that a group needs: those that its runs name, and those that templates,
//! ServiceAccounts and artifact repositories among them name in turn.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Value, json};

use super::{KINDS, ObjectIndex};
use crate::{
    ClusterName,
    hub::objects::{kind::KindName, object_ref::ObjectRef},
    model::dependencies::{Asked, Dependencies, Dependency, DependencyKind},
};

/// Maximum number of objects that a group needs.
const MOST_TARGETS: usize = 128;

/// The needs of a run, as its specification names them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Need {
    pub(super) cluster: ClusterName,
    pub(super) namespace: Arc<str>,
    /// The kinds that its policies ask for.
    pub(super) asked: Asked,
    pub(super) named: Arc<[Dependency]>,
}

/// The objects that a group needs.
#[derive(Debug, Default)]
pub(super) struct Closure {
    pub(super) targets: BTreeSet<ObjectRef>,
    /// An object that may name others has not been read yet.
    pub(super) is_incomplete: bool,
}

/// The objects that other objects name, by the namespace of the runs: each is read once, however many
/// groups need it.
pub(super) type Named = BTreeMap<(Arc<str>, ObjectRef), Vec<Dependency>>;

impl ObjectIndex {
    pub(super) fn closure(&self, need: &Need, named: &mut Named) -> Closure {
        let mut closure = Closure::default();
        closure.targets.insert(ObjectRef {
            kind: KindName::new("", "namespaces"),
            namespace: String::new(),
            name: need.namespace.to_string(),
        });
        let mut open: Vec<Dependency> = need.named.to_vec();
        while let Some(dependency) = open.pop() {
            let Some(target) = target(&dependency, need) else {
                continue;
            };
            if closure.targets.len() >= MOST_TARGETS || !closure.targets.insert(target.clone()) {
                continue;
            }
            let origin = self.needs.there.get(&target);
            let Some(object) = origin.and_then(|origin| self.objects.get(origin)) else {
                continue;
            };
            let Some(content) = &object.content else {
                closure.is_incomplete |= object.decode_error.is_none() && names_others(dependency.kind);
                continue;
            };
            let found = named
                .entry((Arc::clone(&need.namespace), target))
                .or_insert_with(|| names_in(dependency.kind, &content.value(), &need.namespace));
            open.extend(found.iter().cloned());
        }
        closure
    }
}

/// The objects that an object of this kind names.
fn names_in(kind: DependencyKind, object: &Value, namespace: &str) -> Vec<Dependency> {
    let field = |name: &str| object.get(name).unwrap_or(&Value::Null);
    let found = match kind {
        DependencyKind::WorkflowTemplate | DependencyKind::ClusterWorkflowTemplate => {
            Dependencies::of_template(field("spec"), namespace)
        }
        DependencyKind::ServiceAccount => {
            let secrets = json!({ "imagePullSecrets": field("imagePullSecrets") });
            Dependencies::of_template(&secrets, namespace)
        }
        DependencyKind::ConfigMap => Dependencies::of_repositories(field("data"), namespace),
        DependencyKind::Secret | DependencyKind::PersistentVolumeClaim => return Vec::new(),
    };
    found.named.into_keys().collect()
}

/// True if objects of the kind can name others.
pub(super) fn names_others(kind: DependencyKind) -> bool {
    kind != DependencyKind::Secret
}

/// The address of an object that a policy asks for.
fn target(dependency: &Dependency, need: &Need) -> Option<ObjectRef> {
    let (kind, group, resource) = KINDS.iter().find(|(kind, ..)| *kind == dependency.kind)?;
    let is_namespaced = *kind != DependencyKind::ClusterWorkflowTemplate;
    need.asked.has(*kind).then(|| ObjectRef {
        kind: KindName::new(group, resource),
        namespace: if is_namespaced {
            need.namespace.to_string()
        } else {
            String::new()
        },
        name: dependency.name.to_string(),
    })
}
