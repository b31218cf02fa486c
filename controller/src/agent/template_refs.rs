//! Checks that the templates of a Workflow exist on its cluster, before it is created there.
//!
//! A Workflow without references costs no request. The references of a template that is used as a
//! whole are checked, too. So are those in a status, which `argo submit` leaves in the object, or a
//! retry of a run whose object is gone: a created object has no phase, and Argo then resolves every
//! reference (`workflow/validate`), stored or not.

use std::collections::BTreeSet;

use argosy_api::Workflow;
use argosy_core::{
    Failure,
    model::template_refs::{TemplateKey, referred, whole},
};
use kube::{Client, ResourceExt};

use crate::runtime::{
    requests::{found, read},
    templates::api,
};

/// Maximum number of templates that are checked for one Workflow; Argo checks the others.
const MOST: usize = 200;

/// Fails if a template is missing. A template that may not be read is left to Argo.
pub(super) async fn check(wec: &Client, cluster: &str, object: &Workflow) -> Result<(), Failure> {
    let namespace = object.namespace().unwrap_or_default();
    let mut known = BTreeSet::new();
    let whole = whole(&object.spec);
    let mut open: Vec<TemplateKey> = referred(&object.spec).into_iter().collect();
    let mut missing = Vec::new();
    while let Some(key) = open.pop() {
        if known.len() == MOST || !known.insert(key.clone()) {
            continue;
        }
        match found(read(api(wec, &namespace, &key).get(&key.name)).await) {
            // Argo resolves only the used part of a template that is used in part.
            Ok(Some(template)) if whole.as_ref() == Some(&key) => {
                open.extend(template.data.get("spec").map(referred).into_iter().flatten());
            }
            Ok(Some(_)) => {}
            Ok(None) => missing.push(key.to_string()),
            Err(Failure::Refused(message)) => {
                tracing::debug!(action = %key, error = message, "cannot check if a template exists");
            }
            // The failure is converted: nothing has been created that could arrive late.
            Err(failure) => {
                return Err(Failure::Missing(format!(
                    "cannot check if {key} exists on {cluster}: {failure}"
                )));
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    missing.sort();
    Err(Failure::Missing(format!(
        "{} does not exist on {cluster}, where the run needs it in namespace {namespace} or cluster-wide; \
        create it there to start the run",
        missing.join(", ")
    )))
}
