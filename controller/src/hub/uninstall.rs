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
///
/// # Errors
///
/// Something could not be deleted or released. A refusal to delete virtual Nodes or shadow pods comes
/// last, because nobody else would release the Workflows.
pub async fn release_wds(wds: &Client, namespace: &str) -> Result<usize, Failure> {
    // The clusters may be in another API server.
    let offers = withdraw_offers(wds, namespace).await;
    let mut refused = Ok(());
    for removed in [offers, remove(wds).await.map(|_| ())] {
        match removed {
            Ok(()) | Err(Failure::NotFound { .. } | Failure::Unserved(_)) => {}
            Err(refusal @ Failure::Refused(_)) => refused = Err(refusal),
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
    refused.map(|()| released)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::{
        Router,
        extract::Request,
        http::{Method, StatusCode},
        response::IntoResponse,
    };
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn virtual_nodes_that_must_not_be_deleted_are_an_error_after_the_workflows_are_released() {
        let lists: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = lists.clone();
        let answer = move |request: Request| async move {
            let path = request.uri().path().to_owned();
            let failure = |status: StatusCode, reason: &str| {
                let text = json!({
                    "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": status.as_u16(),
                    "reason": reason, "message": format!("{reason}: {path}"),
                    "details": { "kind": "kind", "name": "name" },
                });
                (status, text.to_string()).into_response()
            };
            if request.method() != Method::GET {
                return failure(StatusCode::NOT_FOUND, "NotFound");
            }
            seen.lock().unwrap().push(path.clone());
            if path == "/api/v1/nodes" {
                return failure(StatusCode::FORBIDDEN, "Forbidden");
            }
            let list = json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": [] });
            list.to_string().into_response()
        };
        let client = Client::new(Router::new().fallback(answer), "default");
        let failure = release_wds(&client, "argosy").await.unwrap_err();
        assert!(
            matches!(&failure, Failure::Refused(text) if text.contains("nodes")),
            "{failure:?}"
        );
        let lists = lists.lock().unwrap();
        assert!(lists.iter().any(|path| path.ends_with("/workflows")), "{lists:?}");
    }
}
