//! The version of Argo Workflows in a cluster. Argo's API does not expose it, neither in its CRDs
//! nor in its objects. So it is read from the Deployment of the workflow-controller, which the
//! agent may read by name.

use argosy_api::names;
use argosy_core::{Failure, model::cluster_info::deployed_version};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client};

use crate::runtime::requests::{call, found};

/// Returns the version, or `None` if `namespace` has no Deployment with a usual name or the agent
/// may not read it. While the API server does not respond, it returns `known`.
pub(super) async fn read(wec: &Client, namespace: &str, known: Option<String>) -> Option<String> {
    let api: Api<Deployment> = Api::namespaced(wec.clone(), namespace);
    for name in names::ARGO_DEPLOYMENTS {
        match found(call(api.get(name)).await) {
            Ok(Some(deployment)) => return deployed_version(&deployment),
            Ok(None) => {}
            Err(Failure::Unreachable(_)) => return known,
            // The chart of an earlier release grants no right to it.
            Err(failure) => {
                tracing::debug!(name, error = %failure, "cannot read the version of Argo on this cluster");
            }
        }
    }
    None
}
