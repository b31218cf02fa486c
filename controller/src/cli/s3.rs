//! `argosy s3 check`: one line per cluster with the state of its artifact repository, or one about
//! the repository of a namespace.

use std::{path::PathBuf, process::ExitCode};

use anyhow::anyhow;
use argosy_api::{ManagedCluster, conditions::managed_cluster as types};
use kube::{Api, ResourceExt, api::ListParams};

use crate::{
    artifacts::{self, Problem, Repository, watchdog::CONTROL_CLUSTER},
    runtime::{client, lenient::Lenient, requests},
};

/// Runs the check and prints the result; succeeds only if all is well.
pub(super) async fn check(kubeconfig: Option<PathBuf>, namespace: &str) -> anyhow::Result<ExitCode> {
    let client = client::connect_as_user(kubeconfig.as_deref()).await?;
    let own = artifacts::check(&client, namespace, CONTROL_CLUSTER).await;
    let mut well = print(CONTROL_CLUSTER, checked(own));
    let clusters: Api<Lenient<ManagedCluster>> = Api::all(client);
    let list = requests::list(clusters.list(&ListParams::default())).await;
    for cluster in list
        .map_err(|failure| anyhow!("cannot list ManagedClusters ({failure}); is this the control cluster?"))?
    {
        well &= print(&cluster.name_any(), verdict(&cluster));
    }
    Ok(exit_code(well))
}

/// Checks the repository of the Workflows in a namespace, and prints the result.
pub(super) async fn check_namespace(
    kubeconfig: Option<PathBuf>,
    namespace: &str,
    argo_namespace: &str,
) -> anyhow::Result<ExitCode> {
    let client = client::connect_as_user(kubeconfig.as_deref()).await?;
    let own = artifacts::check_namespace(&client, namespace, argo_namespace).await;
    Ok(exit_code(print(namespace, checked(own))))
}

fn checked(result: Result<Repository, Problem>) -> Result<String, String> {
    result
        .map(|repository| format!("{repository} was written and read back"))
        .map_err(|problem| problem.to_string())
}

/// Prints a line, and returns true if all is well.
#[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
fn print(subject: &str, verdict: Result<String, String>) -> bool {
    let is_well = verdict.is_ok();
    let mark = if is_well { "ok" } else { "wrong" };
    let text = verdict.unwrap_or_else(|text| text);
    println!("{subject:<16} {mark:<6} {text}");
    is_well
}

fn exit_code(is_well: bool) -> ExitCode {
    if is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Returns the state of a cluster's artifacts from the conditions of its ManagedCluster.
pub(super) fn verdict(cluster: &ManagedCluster) -> Result<String, String> {
    let conditions = cluster
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let mut last = Err("its agent has not reported yet".to_owned());
    for type_ in [
        types::ARTIFACT_REPOSITORY_READY,
        types::ARTIFACT_REPOSITORY_SHARED,
    ] {
        let Some(condition) = conditions.iter().find(|known| known.type_ == type_) else {
            continue;
        };
        if condition.status != "True" {
            return Err(format!("{}: {}", condition.reason, condition.message));
        }
        last = Ok(condition.message.clone());
    }
    last
}
