//! Which version of Argo Workflows a cluster runs. Argo tells it nowhere in its API: neither its CRDs nor its objects name it. So it
//! is read from the Deployment of its workflow-controller, which the agent may read by name.

use argosy_api::names;
use argosy_core::{Failure, facts::deployed_version};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client};

use crate::outcome::{call, found};

/// The version, or `None` where no Deployment of a usual name is in `namespace` or it may not be read. While the API server does not
/// answer, what was `known`.
pub(super) async fn read(wec: &Client, namespace: &str, known: Option<String>) -> Option<String> {
    let api: Api<Deployment> = Api::namespaced(wec.clone(), namespace);
    for name in names::ARGO_DEPLOYMENTS {
        match found(call(api.get(name)).await) {
            Ok(Some(deployment)) => return deployed_version(&deployment),
            Ok(None) => {}
            Err(Failure::Unreachable(_)) => return known,
            // The chart of an earlier release gives no right to it.
            Err(failure) => {
                tracing::debug!(name, error = %failure, "cannot see which version of Argo runs here");
            }
        }
    }
    None
}
