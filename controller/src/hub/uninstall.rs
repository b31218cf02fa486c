//! Uninstalls the controller: afterwards nothing on the control cluster waits for it. ManifestWorks
//! are left to their agents.

use argosy_api::{Workflow, names};
use argosy_core::Failure;
use kube::{Client, Resource as _};

use super::{
    nodes::{remove, withdraw_offers},
    webhook::{is_refusal_of_guard, unregister},
};
use crate::runtime::release::Release;

/// Withdraws the offers of tunnels, and deletes virtual Nodes and shadow pods, the webhook and the
/// admission policies, which would protect the finalizers, and the webhook's Secret in `namespace`. Then
/// releases every Workflow of the WDS that the controller holds, and returns their number.
pub async fn release_wds(wds: &Client, namespace: &str) -> Result<usize, Failure> {
    // Without virtual Nodes, the account may not list them. The clusters may be in another API server.
    let offers = withdraw_offers(wds, namespace).await;
    for removed in [offers, remove(wds).await.map(|_| ())] {
        match removed {
            Ok(()) | Err(Failure::Refused(_) | Failure::NotFound { .. } | Failure::Unserved(_)) => {}
            Err(failure) => return Err(failure),
        }
    }
    unregister(wds, namespace).await?;
    let workflows = Release {
        client: wds,
        path: |namespace| Workflow::url_path(&(), namespace),
        // A Workflow that is held but not claimed has no label of Argosy.
        labels: String::new(),
        finalizer: names::CONTROLLER_FINALIZER,
        manager: names::CONTROLLER,
        is_passing: is_refusal_of_guard,
    };
    let released = workflows.all().await?;
    if unregister(wds, namespace).await? > 0 {
        let message = "argosy-controller is running and has registered its webhook again; stop it, and run \
            the command again";
        return Err(Failure::Refused(message.to_owned()));
    }
    Ok(released)
}
