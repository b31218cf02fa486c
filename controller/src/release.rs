//! Uninstalling: take Argosy's finalizer off every Workflow it stands on, and OCM's off the
//! records of other objects, so that nothing waits for a process that is gone.
//!
//! Workflows that run go on running; they are no longer reported. ManifestWorks are left for their agents.

use std::time::Duration;

use argosy_api::{AppliedManifestWork, Workflow, names};
use argosy_core::{ClusterName, Failure, patch::JsonPatch};
use kube::{Api, Client, ResourceExt, api::ListParams};
use tokio::time::{Instant, sleep};

use crate::{
    outcome::{found, json_patch, list, patching, read},
    tolerant::Tolerant,
    webhook::{is_refusal_of_guard, unregister},
};

/// How long API servers may take to notice that webhook and admission policies are gone.
const UNREGISTERED_WITHIN: Duration = Duration::from_mins(1);

/// Between two tries while they have not.
const AGAIN: Duration = Duration::from_millis(500);

/// Releases every Workflow of a WEC that `cluster`'s agent holds, and every record of objects of other kinds, and returns how many
/// those were. The objects themselves wait for nobody.
pub async fn release_wec(wec: &Client, cluster: &ClusterName) -> Result<usize, Failure> {
    let own = format!("{}={cluster},{}", names::CLUSTER_LABEL, names::ORIGIN_UID_LABEL);
    let workflows = release_all(wec, &own, names::AGENT_FINALIZER, names::AGENT).await?;
    Ok(workflows + release_records(wec, cluster).await?)
}

async fn release_records(wec: &Client, cluster: &ClusterName) -> Result<usize, Failure> {
    let records: Api<Tolerant<AppliedManifestWork>> = Api::all(wec.clone());
    let own = format!("{}={cluster},!{}", names::CLUSTER_LABEL, names::ORIGIN_UID_LABEL);
    let Some(all) = found(list(records.list(&ListParams::default().labels(&own))).await)? else {
        return Ok(0);
    };
    let mut released = 0;
    for record in all {
        let is_kept = |finalizer: &&String| *finalizer != names::APPLIED_MANIFEST_WORK_FINALIZER;
        let others: Vec<_> = record.finalizers().iter().filter(is_kept).cloned().collect();
        if others.len() == record.finalizers().len() {
            continue;
        }
        let uid = record.uid().unwrap_or_default();
        let version = record.resource_version().unwrap_or_default();
        let patch = json_patch(&JsonPatch::guarded(&uid, &version).set("/metadata/finalizers", others))?;
        match found(read(records.patch(&record.name_any(), &patching(names::AGENT), &patch)).await) {
            // It was written meanwhile; whoever releases looks again until nothing is left.
            Ok(_) | Err(Failure::Conflict) => released += 1,
            Err(failure) => return Err(failure),
        }
    }
    Ok(released)
}

/// Takes away the webhook and the admission policies, which would keep the finalizers where they are, and the webhook's Secret
/// in `namespace`; then releases every Workflow of the WDS that the controller holds and returns how many those were.
pub async fn release_wds(wds: &Client, namespace: &str) -> Result<usize, Failure> {
    unregister(wds, namespace).await?;
    let released = release_all(wds, "", names::CONTROLLER_FINALIZER, names::CONTROLLER).await?;
    if unregister(wds, namespace).await? > 0 {
        let message = "argosy-controller runs and registers its webhook again; stop it, then release again";
        return Err(Failure::Refused(message.to_owned()));
    }
    Ok(released)
}

async fn release_all(
    client: &Client,
    labels: &str,
    finalizer: &str,
    manager: &str,
) -> Result<usize, Failure> {
    let api: Api<Tolerant<Workflow>> = Api::all(client.clone());
    let Some(all) = found(list(api.list(&ListParams::default().labels(labels))).await)? else {
        return Ok(0);
    };
    let mut released = 0;
    for workflow in all {
        released += usize::from(release(client, &workflow, finalizer, manager).await?);
    }
    Ok(released)
}

/// Tries again while somebody else, such as Argo, writes the object at the same time, and while an API server still asks the
/// webhook or the policies that were taken away.
async fn release(
    client: &Client,
    workflow: &Workflow,
    finalizer: &str,
    manager: &str,
) -> Result<bool, Failure> {
    let api: Api<Tolerant<Workflow>> =
        Api::namespaced(client.clone(), &workflow.namespace().unwrap_or_default());
    let name = workflow.name_any();
    let deadline = Instant::now() + UNREGISTERED_WITHIN;
    let mut known = Some(workflow.clone());
    while let Some(workflow) = known {
        let Some(patch) = without(&workflow, finalizer) else {
            return Ok(false);
        };
        match found(read(api.patch(&name, &patching(manager), &json_patch(&patch)?)).await) {
            Err(Failure::Conflict) => {}
            Err(Failure::Refused(message)) if is_refusal_of_guard(&message) && Instant::now() < deadline => {
                sleep(AGAIN).await;
            }
            Err(failure) => return Err(failure),
            // The webhook puts the finalizer back while it is still asked.
            Ok(Some(written)) if without(&written, finalizer).is_some() => {
                if Instant::now() >= deadline {
                    let message = format!("{name}: something puts the finalizer {finalizer} back");
                    return Err(Failure::Refused(message));
                }
                sleep(AGAIN).await;
            }
            Ok(_) => return Ok(true),
        }
        known = found(read(api.get(&name)).await)?;
    }
    Ok(false)
}

/// The patch that takes `finalizer` off; none where it does not stand.
fn without(workflow: &Workflow, finalizer: &str) -> Option<JsonPatch> {
    let (ours, others): (Vec<_>, Vec<_>) = workflow
        .finalizers()
        .iter()
        .cloned()
        .partition(|known| known == finalizer);
    let version = workflow.resource_version().unwrap_or_default();
    let patch = JsonPatch::guarded(&workflow.uid().unwrap_or_default(), &version);
    (!ours.is_empty()).then(|| patch.set("/metadata/finalizers", others))
}
