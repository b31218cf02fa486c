//! `argosy suspend` and `argosy resume`. `argo suspend` refuses a Workflow that runs on another
//! cluster, because it takes the hold for the end of the run.

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use argosy_api::{Workflow, names, workflow};
use argosy_core::model::{claim::Claim, hold::keeps_suspend};
use kube::{Api, ResourceExt, api::Patch};
use serde_json::{Value, json};

use crate::runtime::{
    client,
    lenient::Lenient,
    requests::{call, patching, read},
};

/// Field manager; the condition names it as the one that has suspended a run.
const MANAGER: &str = "argosy";

/// Suspends or resumes a run.
#[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
pub(super) async fn set(
    kubeconfig: Option<PathBuf>,
    namespace: &str,
    name: &str,
    suspend: bool,
) -> anyhow::Result<()> {
    let client = client::connect_as_user(kubeconfig.as_deref()).await?;
    let workflows: Api<Lenient<Workflow>> = Api::namespaced(client, namespace);
    let found = read(workflows.get(name)).await;
    let workflow = found.map_err(|failure| anyhow!("cannot read Workflow {namespace}/{name}: {failure}"))?;
    let verb = if suspend { "suspend" } else { "resume" };
    let Some(claim) = Claim::of(&workflow.metadata) else {
        bail!("{namespace}/{name} is not dispatched to another cluster; use argo {verb}");
    };
    let phase = workflow::phase(workflow.status.as_ref());
    if workflow::is_final(phase) {
        bail!("{namespace}/{name} has ended ({phase}); there is nothing to {verb}");
    }
    let patch = Patch::Merge(change(&workflow, &claim, suspend));
    call(workflows.patch(name, &patching(MANAGER), &patch))
        .await
        .map_err(|failure| anyhow!("cannot {verb} {namespace}/{name}: {failure}"))?;
    println!("{name}: {verb} requested on {}", claim.cluster);
    Ok(())
}

/// Builds the patch. It changes only the annotation if `spec.suspend` is no verb: without the
/// webhook that field is the hold, and on an applied object a write would take over the ownership
/// of the field.
fn change(workflow: &Workflow, claim: &Claim, suspend: bool) -> Value {
    let annotation = if suspend { json!("true") } else { Value::Null };
    let mut change = json!({
        "metadata": {
            "uid": workflow.uid(),
            "annotations": { names::SUSPEND_ANNOTATION: annotation },
        },
    });
    if !suspend
        && claim.is_guarded
        && !keeps_suspend(&workflow.metadata)
        && let Some(fields) = change.as_object_mut()
    {
        fields.insert("spec".to_owned(), json!({ "suspend": null }));
    }
    change
}
