//! Whether the templates that a Workflow refers to are on its cluster, before it is created there.
//!
//! Only a Workflow that refers to one costs a request. Templates may refer to others, so these are looked up too.

use std::collections::BTreeSet;

use argosy_api::{Workflow, workflow};
use argosy_core::{
    Failure,
    templates::{TemplateKey, referred},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};

use crate::outcome::{call, found};

/// How many templates are looked up for one Workflow; the rest is left to Argo.
const MOST: usize = 200;

/// Fails where a template is missing. One that may not be read is left to Argo.
pub(super) async fn check(wec: &Client, cluster: &str, object: &Workflow) -> Result<(), Failure> {
    let namespace = object.namespace().unwrap_or_default();
    let mut known = BTreeSet::new();
    let mut open: Vec<TemplateKey> = referred(&object.spec).into_iter().collect();
    let mut missing = Vec::new();
    while let Some(key) = open.pop() {
        if known.len() == MOST || !known.insert(key.clone()) {
            continue;
        }
        match found(call(api(wec, &namespace, &key).get(&key.name)).await) {
            Ok(Some(template)) => open.extend(template.data.get("spec").map(referred).into_iter().flatten()),
            Ok(None) => missing.push(key.to_string()),
            Err(Failure::Refused(message)) => {
                tracing::debug!(%key, message, "cannot see whether a template is there");
            }
            Err(failure) => return Err(failure),
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

fn api(wec: &Client, namespace: &str, key: &TemplateKey) -> Api<DynamicObject> {
    let kind =
        |kind: &str| ApiResource::from_gvk(&GroupVersionKind::gvk(workflow::GROUP, workflow::VERSION, kind));
    if key.is_cluster_scoped {
        Api::all_with(wec.clone(), &kind("ClusterWorkflowTemplate"))
    } else {
        Api::namespaced_with(wec.clone(), namespace, &kind("WorkflowTemplate"))
    }
}
