//! `argosy cluster cordon` and `uncordon`: write a taint, whose effect the controller implements.

use std::process::ExitCode;

use argosy_api::{managed_cluster::Taint, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::{Clients, Named};

/// The wanted state of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cordon {
    /// Takes Workflows.
    Off,
    /// Takes no new Workflows.
    On,
    /// Takes no new Workflows, and those that have not started are taken back.
    Drain,
}

#[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
pub(super) async fn run(args: &Named, cordon: Cordon) -> anyhow::Result<ExitCode> {
    let clients = args.spaces.connect().await?;
    set(&clients, &args.name, cordon).await?;
    match cordon {
        Cordon::Off => println!("{}: takes Workflows", args.name),
        Cordon::On | Cordon::Drain => {
            println!(
                "{}: takes no new Workflows; Workflows that were sent there stay",
                args.name
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes or removes the taint.
pub(super) async fn set(clients: &Clients, name: &str, cordon: Cordon) -> anyhow::Result<()> {
    let now = Timestamp::now();
    let tainted = |taints: &[Taint]| json!({ "spec": { "taints": tainted(taints, cordon, now) } });
    clients
        .change(name, |cluster| tainted(&cluster.spec.taints))
        .await
        .map(|_| ())
}

/// Returns the taints of a cluster with the change of `cordon`. A cluster that is cordoned already
/// keeps its time.
pub(super) fn tainted(known: &[Taint], cordon: Cordon, now: Timestamp) -> Vec<Taint> {
    let is_cordon = |taint: &&Taint| taint.key == names::CORDONED_TAINT;
    let since = known
        .iter()
        .find(is_cordon)
        .and_then(|taint| taint.time_added.clone());
    let mut taints: Vec<Taint> = known.iter().filter(|taint| !is_cordon(taint)).cloned().collect();
    let value = match cordon {
        Cordon::Off => return taints,
        Cordon::On => "",
        Cordon::Drain => names::DRAIN,
    };
    taints.push(Taint {
        key: names::CORDONED_TAINT.to_owned(),
        value: value.to_owned(),
        effect: "NoSelect".to_owned(),
        time_added: Some(since.unwrap_or(Time(now))),
    });
    taints
}
