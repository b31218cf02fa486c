//! `argosy s3 check`: one line per cluster with the state of its artifact repository.

use std::{path::PathBuf, process::ExitCode};

use anyhow::anyhow;
use argosy_api::{ManagedCluster, conditions::managed_cluster as types};
use kube::{Api, ResourceExt, api::ListParams};

use crate::{
    artifacts::{self, watchdog::CONTROL_CLUSTER},
    runtime::{client, lenient::Lenient, requests},
};

/// Runs the check and prints the result; succeeds only if all is well.
#[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
pub(super) async fn check(kubeconfig: Option<PathBuf>, namespace: &str) -> anyhow::Result<ExitCode> {
    let client = client::connect_as_user(kubeconfig.as_deref()).await?;
    let mut well = true;
    let mut say = |cluster: &str, verdict: Result<String, String>| {
        let (mark, text) = match verdict {
            Ok(text) => ("ok", text),
            Err(text) => {
                well = false;
                ("wrong", text)
            }
        };
        println!("{cluster:<16} {mark:<6} {text}");
    };
    let own = artifacts::check(&client, namespace, CONTROL_CLUSTER).await;
    let own = own.map(|repository| format!("{repository} was written and read back"));
    say(CONTROL_CLUSTER, own.map_err(|problem| problem.to_string()));
    let clusters: Api<Lenient<ManagedCluster>> = Api::all(client);
    let list = requests::list(clusters.list(&ListParams::default())).await;
    for cluster in list
        .map_err(|failure| anyhow!("cannot list ManagedClusters ({failure}); is this the control cluster?"))?
    {
        say(&cluster.name_any(), verdict(&cluster));
    }
    Ok(if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
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
