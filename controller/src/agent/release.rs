//! Uninstalling: take the agent's finalizer off every Workflow of the WEC, so that nothing waits for an agent that is
//! gone. Workflows that run go on running; they are no longer reported.

use argosy_api::{Workflow, names};
use argosy_core::{ClusterName, Failure, patch::JsonPatch};
use kube::{Api, Client, ResourceExt, api::ListParams};

use crate::outcome::{call, found, json_patch, patching};

/// Releases every Workflow that `cluster`'s agent holds and returns how many those were.
pub async fn release_all(wec: &Client, cluster: &ClusterName) -> Result<usize, Failure> {
    let all: Api<Workflow> = Api::all(wec.clone());
    let own = ListParams::default().labels(&format!("{}={cluster}", names::CLUSTER_LABEL));
    let Some(list) = found(call(all.list(&own)).await)? else {
        return Ok(0);
    };
    let mut released = 0;
    for workflow in list {
        released += usize::from(release(wec, &workflow).await?);
    }
    Ok(released)
}

/// Tries again while somebody else, such as Argo, writes the object at the same time.
async fn release(wec: &Client, workflow: &Workflow) -> Result<bool, Failure> {
    let api: Api<Workflow> = Api::namespaced(wec.clone(), &workflow.namespace().unwrap_or_default());
    let name = workflow.name_any();
    loop {
        let Some(workflow) = found(call(api.get(&name)).await)? else {
            return Ok(false);
        };
        let (ours, others): (Vec<_>, Vec<_>) = workflow
            .finalizers()
            .iter()
            .cloned()
            .partition(|finalizer| finalizer == names::AGENT_FINALIZER);
        if ours.is_empty() {
            return Ok(false);
        }
        let version = workflow.resource_version().unwrap_or_default();
        let patch = JsonPatch::guarded(&workflow.uid().unwrap_or_default(), &version)
            .set("/metadata/finalizers", others);
        match found(call(api.patch(&name, &patching(names::AGENT), &json_patch(&patch)?)).await) {
            Err(Failure::Conflict) => {}
            Err(failure) => return Err(failure),
            Ok(_) => return Ok(true),
        }
    }
}
