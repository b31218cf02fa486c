//! Waits for admission. An API server applies a webhook or a policy some moments after it was
//! written, without any signal. So the functions here send dry-run requests until the answer is as
//! expected.

use std::time::Duration;

use anyhow::{Result, bail};
use argosy_api::{Workflow, names};
use kube::{
    Api, Error, ResourceExt,
    api::{DeleteParams, PostParams},
};
use tokio::time::{Instant, sleep};

use super::{Fixture, Member, objects, waiting::PATIENCE};

/// The control cluster's own workflow-controller.
pub const LOCAL_ARGO: &str = "system:serviceaccount:argo:argo";

/// The message of the admission policy that refused the request, if one did.
pub fn refusal<T>(result: &kube::Result<T>) -> Option<&str> {
    match result {
        Err(Error::Api(status)) if status.message.contains("ValidatingAdmissionPolicy") => {
            Some(&status.message)
        }
        _ => None,
    }
}

/// Calls `probe` until it returns true.
pub async fn eventually(what: &str, mut probe: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !probe().await? {
        if Instant::now() > deadline {
            bail!("waited {} s: {what}", PATIENCE.as_secs());
        }
        // The moment at which an API server applies a change cannot be watched.
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Waits until the webhook holds and claims new Workflows for `member`.
pub async fn until_held(fixture: &Fixture, member: &Member) -> Result<()> {
    let workflows = fixture.workflows();
    eventually("the webhook holds what its policy selects", async || {
        let tried = try_unsuspended(&workflows, &member.cluster).await;
        // The policy may be in effect before the webhook is.
        if refusal(&tried).is_some() {
            return Ok(false);
        }
        let tried = tried?;
        Ok(is_held(&tried) && tried.labels().get(names::CLUSTER_LABEL) == Some(&member.cluster))
    })
    .await
}

/// Waits until the webhook holds new Workflows with this label of a cluster.
pub async fn until_selected(fixture: &Fixture, label: &str) -> Result<()> {
    let workflows = fixture.workflows();
    eventually("the webhook holds what the policy selects", async || {
        let tried = try_unsuspended(&workflows, label).await;
        Ok(refusal(&tried).is_none() && is_held(&tried?))
    })
    .await
}

/// Waits until the policy argosy-hold guards `name`, a claimed Workflow that has not ended.
pub async fn until_guarded(fixture: &Fixture, name: &str) -> Result<()> {
    let workflows = workflows_as(fixture, LOCAL_ARGO).await?;
    let params = DeleteParams {
        dry_run: true,
        ..DeleteParams::default()
    };
    eventually("the policy argosy-hold is in effect", async || {
        Ok(refusal(&workflows.delete(name, &params).await).is_some())
    })
    .await
}

/// The result of a dry-run creation of an unsuspended Workflow for `cluster`.
pub async fn try_unsuspended(workflows: &Api<Workflow>, cluster: &str) -> kube::Result<Workflow> {
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    workflows.create(&params, &unsuspended("probe", cluster)).await
}

/// The fixture's Workflows in the WDS, accessed as the user `name`.
pub async fn workflows_as(fixture: &Fixture, name: &str) -> Result<Api<Workflow>> {
    let client = fixture.env.control.client_as(name).await?;
    Ok(Api::namespaced(client, &fixture.namespace))
}

/// An unsuspended Workflow with the label of `cluster`.
pub fn unsuspended(name: &str, cluster: &str) -> Workflow {
    let mut workflow = objects::workflow(name, cluster);
    if let Some(spec) = workflow.spec.as_object_mut() {
        spec.remove("suspend");
    }
    workflow
}

/// True if the Workflow is held.
pub fn is_held(workflow: &Workflow) -> bool {
    let label = workflow.labels().get(names::ARGO_COMPLETED_LABEL);
    label.is_some_and(|value| value == "true")
}
