//! Whether the templates that a Workflow refers to are on its cluster, before it is created there.
//!
//! Only a Workflow that refers to one costs a request. What a whole template refers to is looked up too.

use std::collections::BTreeSet;

use argosy_api::{Workflow, workflow};
use argosy_core::{
    Failure,
    templates::{TemplateKey, referred, whole},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};

use crate::{
    outcome::{found, read},
    tolerant::Tolerant,
};

/// How many templates are looked up for one Workflow; the rest is left to Argo.
const MOST: usize = 200;

/// Fails where a template is missing. One that may not be read is left to Argo.
pub(super) async fn check(wec: &Client, cluster: &str, object: &Workflow) -> Result<(), Failure> {
    let namespace = object.namespace().unwrap_or_default();
    let mut known = BTreeSet::new();
    if carries_templates(object) {
        return Ok(());
    }
    let whole = whole(&object.spec);
    let mut open: Vec<TemplateKey> = referred(&object.spec).into_iter().collect();
    let mut missing = Vec::new();
    while let Some(key) = open.pop() {
        if known.len() == MOST || !known.insert(key.clone()) {
            continue;
        }
        match found(read(api(wec, &namespace, &key).get(&key.name)).await) {
            // Of a template that is used in part, Argo looks at that part only.
            Ok(Some(template)) if whole.as_ref() == Some(&key) => {
                open.extend(template.data.get("spec").map(referred).into_iter().flatten());
            }
            Ok(Some(_)) => {}
            Ok(None) => missing.push(key.to_string()),
            Err(Failure::Refused(message)) => {
                tracing::debug!(action = %key, error = message, "cannot see whether a template is there");
            }
            // Not as it is: nothing has been created yet that could land later.
            Err(failure) => {
                return Err(Failure::Missing(format!(
                    "cannot see whether {key} is on {cluster}: {failure}"
                )));
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    missing.sort();
    Err(Failure::Missing(format!(
        "{} is not on {cluster}, where the run needs it in namespace {namespace} or for all; create it there, and the run starts",
        missing.join(", ")
    )))
}

/// Whether the object brings its templates along, as a retry of a run does whose object is gone.
fn carries_templates(object: &Workflow) -> bool {
    let status = object.status.as_ref();
    status.is_some_and(|status| STORED.iter().any(|field| status.get(field).is_some()))
}

/// Where Argo keeps templates in a status.
const STORED: [&str; 2] = ["storedTemplates", "storedWorkflowTemplateSpec"];

fn api(wec: &Client, namespace: &str, key: &TemplateKey) -> Api<Tolerant<DynamicObject>> {
    let kind =
        |kind: &str| ApiResource::from_gvk(&GroupVersionKind::gvk(workflow::GROUP, workflow::VERSION, kind));
    if key.is_cluster_scoped {
        Api::all_with(wec.clone(), &kind("ClusterWorkflowTemplate"))
    } else {
        Api::namespaced_with(wec.clone(), namespace, &kind("WorkflowTemplate"))
    }
}
