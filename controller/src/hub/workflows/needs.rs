//! Completes the needs of a Workflow before it is sent: objects that the run could do without, but
//! that it would use if they were there, such as the artifact repositories of its namespace, and
//! ServiceAccounts, with which rights arrive.
//!
//! The agent must know which of them will arrive. Only the WDS tells, and a read is cheaper than to
//! wait for nothing on the cluster. Not here: objects that the run cannot do without, for which the
//! agent waits in any case.

use std::borrow::Cow;

use argosy_api::{ManifestWork, names};
use argosy_core::{
    Failure,
    model::dependencies::{Dependencies, Dependency, DependencyKind, Necessity, Needs},
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::{Api, Client};
use serde_json::Value;

use crate::runtime::requests::{call, found};

/// Maximum number of objects that are looked up for one Workflow.
const MOST: usize = 16;

/// Returns the ManifestWork with all needs of its run.
pub(super) async fn completed<'a>(
    wds: &Client,
    work: &'a ManifestWork,
) -> Result<Cow<'a, ManifestWork>, Failure> {
    let mut needs = Needs::of(&work.metadata);
    let manifest = work.spec.workload.manifests.first();
    let (Some(manifest), false) = (manifest, needs.is_empty()) else {
        return Ok(Cow::Borrowed(work));
    };
    let namespace = manifest.pointer("/metadata/namespace").and_then(Value::as_str);
    let namespace = namespace.unwrap_or_default();
    let spec = manifest.get("spec").unwrap_or(&Value::Null);
    let found = Dependencies::of_workflow(spec, namespace);
    let brings_rights = |dependency: &Dependency| dependency.kind == DependencyKind::ServiceAccount;
    let listed = found.named.into_iter().filter(|(dependency, necessity)| {
        (*necessity == Necessity::Optional || brings_rights(dependency)) && needs.asked.has(dependency.kind)
    });
    let listed = listed.map(|(dependency, _)| dependency);
    // A run without rights fails, so they are not left out if there are too many others.
    let (accounts, others): (Vec<_>, Vec<_>) = listed.partition(brings_rights);
    for dependency in accounts.into_iter().chain(others).take(MOST) {
        if is_sent(wds, namespace, &dependency).await? {
            needs.listed.insert(dependency);
        }
    }
    if needs.listed.is_empty() {
        return Ok(Cow::Borrowed(work));
    }
    let mut work = work.clone();
    let annotations = work.metadata.annotations.get_or_insert_default();
    annotations.insert(names::NEEDS_ANNOTATION.to_owned(), needs.to_string());
    Ok(Cow::Owned(work))
}

/// True if the object exists and is sent to clusters.
async fn is_sent(wds: &Client, namespace: &str, dependency: &Dependency) -> Result<bool, Failure> {
    let name = &dependency.name;
    let answer = match dependency.kind {
        DependencyKind::ConfigMap => {
            let api: Api<ConfigMap> = Api::namespaced(wds.clone(), namespace);
            call(api.get_metadata(name)).await.map(|_| true)
        }
        DependencyKind::Secret => {
            let api: Api<Secret> = Api::namespaced(wds.clone(), namespace);
            call(api.get(name)).await.map(|secret| travels(&secret))
        }
        DependencyKind::ServiceAccount => {
            let api: Api<ServiceAccount> = Api::namespaced(wds.clone(), namespace);
            call(api.get_metadata(name)).await.map(|_| true)
        }
        _ => return Ok(false),
    };
    match found(answer) {
        Ok(is_sent) => Ok(is_sent.unwrap_or_default()),
        // The objects of a kind that may not be read are not sent either.
        Err(Failure::Refused(_)) => Ok(false),
        // The failure is converted: nothing has been created that could arrive late.
        Err(failure) => Err(Failure::Missing(format!("cannot read {dependency}: {failure}"))),
    }
}

/// True if the Secret itself allows that it is sent (`hub::objects::needs`).
fn travels(secret: &Secret) -> bool {
    let is_token = secret.type_.as_deref() == Some("kubernetes.io/service-account-token");
    let labels = secret.metadata.labels.as_ref();
    let label = labels.and_then(|labels| labels.get(names::TRAVELS_LABEL));
    label.is_some_and(|value| value == "true") && !is_token
}
