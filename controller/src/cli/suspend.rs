//! `argosy suspend` and `argosy resume`: what `argo suspend` refuses for a Workflow that runs on another cluster, because its
//! hold looks to it like the end of the run.

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use argosy_api::{Workflow, names, workflow};
use argosy_core::claim::Claim;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    client,
    outcome::{call, read},
    tolerant::Tolerant,
};

/// Suspends a run, or resumes one that was suspended.
#[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
pub(super) async fn set(
    kubeconfig: Option<PathBuf>,
    namespace: &str,
    name: &str,
    suspend: bool,
) -> anyhow::Result<()> {
    let client = client::connect_as_user(kubeconfig.as_deref()).await?;
    let workflows: Api<Tolerant<Workflow>> = Api::namespaced(client, namespace);
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
    call(workflows.patch(name, &PatchParams::default(), &patch))
        .await
        .map_err(|failure| anyhow!("cannot {verb} {namespace}/{name}: {failure}"))?;
    println!("{name}: {verb} asked of {}", claim.cluster);
    Ok(())
}

/// Without the webhook, `spec.suspend` is the hold and no verb: only the annotation is changed then.
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
        && let Some(fields) = change.as_object_mut()
    {
        fields.insert("spec".to_owned(), json!({ "suspend": null }));
    }
    change
}
