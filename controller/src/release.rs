//! Uninstalling: take Argosy's finalizer off every Workflow it stands on, so that nothing waits for a process that is gone.
//!
//! Workflows that run go on running; they are no longer reported. ManifestWorks are left for their agents.

use argosy_api::{Workflow, names};
use argosy_core::{ClusterName, Failure, patch::JsonPatch};
use kube::{Api, Client, ResourceExt, api::ListParams};

use crate::outcome::{call, found, json_patch, patching};

/// Releases every Workflow of a WEC that `cluster`'s agent holds and returns how many those were.
pub async fn release_wec(wec: &Client, cluster: &ClusterName) -> Result<usize, Failure> {
    let own = format!("{}={cluster},{}", names::CLUSTER_LABEL, names::ORIGIN_UID_LABEL);
    release_all(wec, &own, names::AGENT_FINALIZER, names::AGENT).await
}

/// Releases every Workflow of the WDS that the controller holds and returns how many those were.
pub async fn release_wds(wds: &Client) -> Result<usize, Failure> {
    release_all(wds, "", names::CONTROLLER_FINALIZER, names::CONTROLLER).await
}

async fn release_all(
    client: &Client,
    labels: &str,
    finalizer: &str,
    manager: &str,
) -> Result<usize, Failure> {
    let all: Api<Workflow> = Api::all(client.clone());
    let Some(list) = found(call(all.list(&ListParams::default().labels(labels))).await)? else {
        return Ok(0);
    };
    let mut released = 0;
    for workflow in list {
        released += usize::from(release(client, &workflow, finalizer, manager).await?);
    }
    Ok(released)
}

/// Tries again while somebody else, such as Argo, writes the object at the same time.
async fn release(
    client: &Client,
    workflow: &Workflow,
    finalizer: &str,
    manager: &str,
) -> Result<bool, Failure> {
    let api: Api<Workflow> = Api::namespaced(client.clone(), &workflow.namespace().unwrap_or_default());
    let name = workflow.name_any();
    let mut known = Some(workflow.clone());
    while let Some(workflow) = known {
        let (ours, others): (Vec<_>, Vec<_>) = workflow
            .finalizers()
            .iter()
            .cloned()
            .partition(|known| known == finalizer);
        if ours.is_empty() {
            return Ok(false);
        }
        let version = workflow.resource_version().unwrap_or_default();
        let patch = JsonPatch::guarded(&workflow.uid().unwrap_or_default(), &version)
            .set("/metadata/finalizers", others);
        match found(call(api.patch(&name, &patching(manager), &json_patch(&patch)?)).await) {
            Err(Failure::Conflict) => known = found(call(api.get(&name)).await)?,
            Err(failure) => return Err(failure),
            Ok(_) => return Ok(true),
        }
    }
    Ok(false)
}
