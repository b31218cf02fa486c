//! Uninstalls the agent: afterwards nothing on its cluster waits for it.

use argosy_api::{AppliedManifestWork, Workflow, names};
use argosy_core::{ClusterName, Failure};
use kube::{Client, Resource as _};

use crate::runtime::release::Release;

/// Releases every Workflow of a WEC that `cluster`'s agent holds, and every record of objects of
/// other kinds, and returns their number. Objects of other kinds have no finalizer of the agent.
pub(crate) async fn release_wec(wec: &Client, cluster: &ClusterName) -> Result<usize, Failure> {
    let workflows = Release {
        client: wec,
        path: |namespace| Workflow::url_path(&(), namespace),
        labels: format!("{}={cluster},{}", names::CLUSTER_LABEL, names::ORIGIN_UID_LABEL),
        finalizer: names::AGENT_FINALIZER,
        manager: names::AGENT,
        is_passing: |_| false,
    };
    let records = Release {
        client: wec,
        path: |namespace| AppliedManifestWork::url_path(&(), namespace),
        labels: format!("{}={cluster},!{}", names::CLUSTER_LABEL, names::ORIGIN_UID_LABEL),
        finalizer: names::APPLIED_MANIFEST_WORK_FINALIZER,
        manager: names::AGENT,
        is_passing: |_| false,
    };
    Ok(workflows.all().await? + records.all().await?)
}
