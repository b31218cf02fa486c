//! What of admission a test waits for: an API server puts a webhook or a policy into effect some moments after it was
//! written, and nothing tells when. So it is asked, by requests that change nothing, until it answers as it should.

use std::time::Duration;

use anyhow::{Result, bail};
use argosy_api::{Workflow, names};
use kube::{
    Api, Error, ResourceExt,
    api::{DeleteParams, PostParams},
};
use tokio::time::{Instant, sleep};

use super::{Member, Scene, objects, waiting::PATIENCE};

/// The control cluster's own workflow-controller.
pub const LOCAL_ARGO: &str = "system:serviceaccount:argo:argo";

/// What an admission policy says, if the request was refused by one.
pub fn refusal<T>(result: &kube::Result<T>) -> Option<&str> {
    match result {
        Err(Error::Api(status)) if status.message.contains("ValidatingAdmissionPolicy") => {
            Some(&status.message)
        }
        _ => None,
    }
}

/// Asks `probe` until it says yes.
pub async fn eventually(what: &str, mut probe: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !probe().await? {
        if Instant::now() > deadline {
            bail!("waited {} s: {what}", PATIENCE.as_secs());
        }
        // When an API server puts something into effect cannot be watched.
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Waits until the webhook holds what is created for `member`.
pub async fn until_held(scene: &Scene, member: &Member) -> Result<()> {
    let workflows = scene.workflows();
    eventually("the webhook holds what its policy selects", async || {
        let tried = try_unsuspended(&workflows, &member.cluster).await;
        // The policy may be in effect before the webhook is.
        if refusal(&tried).is_some() {
            return Ok(false);
        }
        Ok(is_held(&tried?))
    })
    .await
}

/// Waits until the policy argosy-hold guards `name`, a claimed Workflow that has not ended.
pub async fn until_guarded(scene: &Scene, name: &str) -> Result<()> {
    let workflows = workflows_as(scene, LOCAL_ARGO).await?;
    let params = DeleteParams {
        dry_run: true,
        ..DeleteParams::default()
    };
    eventually("the policy argosy-hold is in effect", async || {
        Ok(refusal(&workflows.delete(name, &params).await).is_some())
    })
    .await
}

/// What would be created of a Workflow for `cluster` that is not suspended.
pub async fn try_unsuspended(workflows: &Api<Workflow>, cluster: &str) -> kube::Result<Workflow> {
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    workflows.create(&params, &unsuspended("probe", cluster)).await
}

/// The scene's Workflows in the WDS for a user called `name`.
pub async fn workflows_as(scene: &Scene, name: &str) -> Result<Api<Workflow>> {
    let client = scene.stage.control.client_as(name).await?;
    Ok(Api::namespaced(client, &scene.namespace))
}

/// A Workflow with the label of `cluster` that is not suspended.
pub fn unsuspended(name: &str, cluster: &str) -> Workflow {
    let mut workflow = objects::workflow(name, cluster);
    if let Some(spec) = workflow.spec.as_object_mut() {
        spec.remove("suspend");
    }
    workflow
}

/// Whether the hold is on.
pub fn is_held(workflow: &Workflow) -> bool {
    let label = workflow.labels().get(names::ARGO_COMPLETED_LABEL);
    label.is_some_and(|value| value == "true")
}
