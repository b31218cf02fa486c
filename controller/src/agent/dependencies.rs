//! Checks that the objects that a Workflow names exist on its cluster, before it is created there.
//!
//! Templates are always checked. Other objects are checked if a policy sends them
//! ([`Needs`]): they arrive a moment before the Workflow or after it. A Workflow that names nothing
//! costs no request. So are the references in a status checked, which `argo submit` leaves in the
//! object, or a retry of a run whose object is gone: a created object has no phase, and Argo then
//! resolves every reference (`workflow/validate`), stored or not. Not here: the search in a
//! specification (`argosy_core::model::dependencies`), and the versions of the objects.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use argosy_api::Workflow;
use argosy_core::{
    Failure,
    model::{
        dependencies::{Dependencies, Dependency, DependencyKind, Necessity, Needs, used},
        template_refs::{TemplateKey, whole},
    },
};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, ServiceAccount};
use kube::{Api, Client, Resource, ResourceExt, core::NamespaceResourceScope};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::runtime::{
    requests::{call, found, read},
    templates::api,
};

/// Maximum number of objects that are checked for one Workflow; Argo and the kubelet miss the others.
const MOST: usize = 200;

/// Fails if an object is missing. An object that may not be read is left to Argo.
pub(super) async fn check(
    wec: &Client,
    cluster: &str,
    object: &Workflow,
    needs: &Needs,
) -> Result<(), Failure> {
    let namespace = object.namespace().unwrap_or_default();
    let mut check = Check {
        wec,
        cluster,
        namespace: &namespace,
        needs,
        templates: BTreeMap::new(),
        wanted: needs.listed.clone(),
        missing: BTreeSet::new(),
    };
    check.templates(&object.spec).await?;
    check.others().await?;
    if check.missing.is_empty() {
        return Ok(());
    }
    let missing = Vec::from_iter(check.missing).join(", ");
    let advice = if needs.is_empty() {
        "create it there to start the run"
    } else {
        "create it there or on the control cluster (a Secret is sent if it has the label argosy.dev/travels=true, a \
        PersistentVolumeClaim never), and the run starts"
    };
    Err(Failure::Missing(format!(
        "{missing} does not exist on {cluster}, where the run needs it in namespace {namespace} or cluster-wide; {advice}"
    )))
}

struct Check<'a> {
    wec: &'a Client,
    cluster: &'a str,
    namespace: &'a str,
    needs: &'a Needs,
    /// The templates that were looked up, with their specifications.
    templates: BTreeMap<TemplateKey, Option<Value>>,
    /// The other objects to look up.
    wanted: BTreeSet<Dependency>,
    missing: BTreeSet<String>,
}

/// A template, and the one of its templates that is used, if not all of it is.
type Part = (TemplateKey, Option<Box<str>>);

impl Check<'_> {
    /// Looks up the templates that are used, and collects all other objects.
    async fn templates(&mut self, spec: &Value) -> Result<(), Failure> {
        let mut open = self.parts(spec);
        // Argo resolves only the used part of a template that is used in part.
        open.extend(whole(spec).map(|key| (key, None)));
        let mut known: BTreeSet<Part> = BTreeSet::new();
        while let Some((key, part)) = open.pop() {
            if known.len() == MOST || !known.insert((key.clone(), part.clone())) {
                continue;
            }
            let Some(spec) = self.template(&key).await? else {
                continue;
            };
            match part {
                None => open.extend(self.parts(&spec)),
                Some(_) if self.needs.is_empty() => {}
                Some(name) => open.extend(self.parts(&used(&spec, &name))),
            }
        }
        Ok(())
    }

    /// The parts of templates that a specification uses. Notes the other objects that it names.
    fn parts(&mut self, spec: &Value) -> Vec<Part> {
        let found = Dependencies::of_template(spec, self.namespace);
        for (dependency, necessity) in found.named {
            let is_checked = match dependency.kind {
                DependencyKind::PersistentVolumeClaim => !self.needs.is_empty(),
                kind => self.needs.asked.has(kind),
            };
            if is_checked && necessity == Necessity::Required && self.wanted.len() < MOST {
                self.wanted.insert(dependency);
            }
        }
        let used = found.used.into_iter();
        used.filter_map(|(template, part)| Some((TemplateKey::of(&template)?, Some(part))))
            .collect()
    }

    /// The `spec` of a template; `None` if it is missing or may not be read.
    async fn template(&mut self, key: &TemplateKey) -> Result<Option<Value>, Failure> {
        let place = match self.templates.entry(key.clone()) {
            Entry::Occupied(known) => return Ok(known.get().clone()),
            Entry::Vacant(place) => place,
        };
        let api = api(self.wec, self.namespace, key);
        let answer = read(api.get(&key.name)).await;
        let template = answered(self.cluster, key, answer, &mut self.missing)?;
        let spec = template.and_then(|mut template| template.data.get_mut("spec").map(Value::take));
        Ok(place.insert(spec).clone())
    }

    async fn others(&mut self) -> Result<(), Failure> {
        for dependency in std::mem::take(&mut self.wanted) {
            match dependency.kind {
                DependencyKind::ConfigMap => self.other::<ConfigMap>(&dependency).await?,
                DependencyKind::Secret => self.other::<Secret>(&dependency).await?,
                DependencyKind::ServiceAccount => self.other::<ServiceAccount>(&dependency).await?,
                DependencyKind::PersistentVolumeClaim => {
                    self.other::<PersistentVolumeClaim>(&dependency).await?;
                }
                DependencyKind::WorkflowTemplate | DependencyKind::ClusterWorkflowTemplate => {}
            }
        }
        Ok(())
    }

    /// Looks up an object, without its content.
    async fn other<K>(&mut self, dependency: &Dependency) -> Result<(), Failure>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.wec.clone(), self.namespace);
        let answer = call(api.get_metadata(&dependency.name)).await;
        answered(self.cluster, dependency, answer, &mut self.missing).map(drop)
    }
}

/// The object of an answer. Notes it if it is missing.
fn answered<T>(
    cluster: &str,
    named: &impl std::fmt::Display,
    answer: Result<T, Failure>,
    missing: &mut BTreeSet<String>,
) -> Result<Option<T>, Failure> {
    match found(answer) {
        Ok(Some(object)) => Ok(Some(object)),
        Ok(None) => {
            missing.insert(named.to_string());
            Ok(None)
        }
        Err(Failure::Refused(message)) => {
            tracing::debug!(action = %named, error = message, "cannot check if an object exists");
            Ok(None)
        }
        // The failure is converted: nothing has been created that could arrive late.
        Err(failure) => Err(Failure::Missing(format!(
            "cannot check if {named} exists on {cluster}: {failure}"
        ))),
    }
}
