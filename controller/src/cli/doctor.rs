//! `argosy doctor`: looks at every link of the way of a Workflow, and says what to mend.
//!
//! Owned here: which checks there are, that they run side by side with a limit on each, and how their findings are printed. What a
//! check looks at and how it judges is in the module of its link. Nothing is written, but for what `--write` asks for.

mod admission;
mod artifacts;
mod cluster;
mod definitions;
mod deployments;
mod finding;
mod policies;
mod rights;
mod server;
mod works;

use std::{process::ExitCode, time::Duration};

use argosy_api::ManagedCluster;
use argosy_core::Failure;
use clap::{Args, ValueEnum};
use futures::{
    StreamExt,
    future::{BoxFuture, FutureExt},
    stream,
};
use kube::{Api, Client, ResourceExt, api::ListParams};
use tokio::time::timeout;

use self::finding::{Finding, Judgement, exit_code, summary};
use super::{
    cluster::is_removed,
    get::clusters::{Hosted, hosted_clusters},
    spaces::{Clients, Spaces},
};
use crate::{args::duration, outcome::list, tolerant::Tolerant};

/// What to look at.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Only this cluster, besides the control cluster
    #[arg(long)]
    cluster: Option<String>,
    /// Write and read back an object of the artifact repository, as argosy s3 check does
    #[arg(long)]
    write: bool,
    /// How long a ManifestWork may wait before it counts as stuck
    #[arg(long, default_value = "5m", value_parser = duration)]
    stuck_after: Duration,
    /// Namespace of the controller
    #[arg(long, short, default_value = "argosy")]
    namespace: String,
    /// Namespace of Argo
    #[arg(long, default_value = "argo")]
    argo_namespace: String,
    #[command(flatten)]
    spaces: Spaces,
    /// How the findings are printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A line for each, as they come
    #[default]
    Text,
    /// A list of objects as JSON, in the end
    Json,
    /// A list of objects as YAML, in the end
    Yaml,
}

/// For one check. Within it, each request has its own, shorter limit.
const CHECK_LIMIT: Duration = Duration::from_secs(45);

/// Checks under way at a time.
const AT_A_TIME: usize = 16;

/// Could not be asked.
const UNASKED: u8 = 2;

type Check<'a> = BoxFuture<'a, Vec<Finding>>;

/// Looks, and prints. Ends with 0 where everything holds, with 1 where a link does not, and with 2 where one could not be looked at.
#[expect(clippy::print_stderr, reason = "this is a command, not a service")]
pub(super) async fn run(args: &DoctorArgs) -> ExitCode {
    match examine(args).await {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("argosy: {error:#}");
            ExitCode::from(UNASKED)
        }
    }
}

async fn examine(args: &DoctorArgs) -> anyhow::Result<u8> {
    let Clients { wds, its } = args.spaces.connect().await?;
    let mut report = Report {
        output: args.output,
        findings: Vec::new(),
    };
    let server = server::answers(&wds).await;
    let is_away = server.is_err();
    let server = server.unwrap_or_else(|failure| Judgement::unasked("reach the control cluster", &failure));
    report.add(found("control-cluster", None, vec![server]));
    if is_away {
        return report.end();
    }
    let (clusters, judgement) = members(&its, args.cluster.as_deref()).await;
    report.add(found("clusters", None, vec![judgement]));
    let hosted = hosted_clusters(&wds, &args.namespace).await;
    let mut checks = of_control(&wds, &its, args);
    for cluster in &clusters {
        checks.extend(of_cluster(&wds, &its, args, cluster, hosted.as_ref()));
    }
    let mut findings = stream::iter(checks).buffer_unordered(AT_A_TIME);
    while let Some(found) = findings.next().await {
        report.add(found);
    }
    report.end()
}

/// The clusters to look at, and what is to be said of them as a whole.
async fn members(its: &Client, wanted: Option<&str>) -> (Vec<ManagedCluster>, Judgement) {
    let api: Api<Tolerant<ManagedCluster>> = Api::all(its.clone());
    let mut clusters = match list(api.list(&ListParams::default())).await {
        Ok(all) => all,
        Err(failure) => return (Vec::new(), Judgement::unasked("list ManagedClusters", &failure)),
    };
    let count = clusters.len();
    clusters.retain(|cluster| wanted.is_none_or(|wanted| cluster.name_any() == wanted));
    let name = wanted.unwrap_or("NAME");
    let register = format!("argosy cluster join {name}, or list it in the chart argosy (clusters)");
    let judgement = match (wanted, clusters.is_empty()) {
        (Some(wanted), true) => Judgement::failed(format!("there is no ManagedCluster {wanted}"), register),
        (None, true) => Judgement::failed(
            "there is no ManagedCluster, so that nothing can be sent",
            register,
        ),
        _ => Judgement::ok(format!("{count} ManagedClusters are in the inventory")),
    };
    (clusters, judgement)
}

fn of_control<'a>(wds: &'a Client, its: &'a Client, args: &'a DoctorArgs) -> Vec<Check<'a>> {
    let (namespace, with_argo) = (args.namespace.as_str(), args.argo_namespace.as_str());
    let one =
        |name, judging: BoxFuture<'a, Judgement>| check(name, None, judging.map(|found| vec![found]).boxed());
    vec![
        one("clock", server::clock(wds).boxed()),
        check("definitions", None, definitions::check(wds, its).boxed()),
        one(
            "controller",
            deployments::check_controller(wds, namespace).boxed(),
        ),
        one("webhook", admission::webhook(wds, namespace).boxed()),
        one("webhook-answers", admission::answers(wds, with_argo).boxed()),
        check("admission-policies", None, admission::policies(wds).boxed()),
        one("argo", definitions::argo(wds).boxed()),
        one("local-argo", deployments::check_argo(wds, with_argo).boxed()),
        check("policies", None, policies::check(wds).boxed()),
        one(
            "artifacts",
            artifacts::control(wds, with_argo, args.write).boxed(),
        ),
    ]
}

fn of_cluster<'a>(
    wds: &'a Client,
    its: &'a Client,
    args: &'a DoctorArgs,
    cluster: &'a ManagedCluster,
    hosted: Result<&'a Hosted, &'a Failure>,
) -> Vec<Check<'a>> {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    if is_removed(cluster) {
        // What it lacks besides, it is to lack.
        let told = found("accepted", Some(name), vec![cluster::accepted(cluster)]);
        return vec![std::future::ready(told).boxed()];
    }
    let told = [
        ("accepted", cluster::accepted(cluster)),
        ("agent", cluster::agent(cluster)),
        ("argo", cluster::argo(cluster)),
        ("capacity", cluster::capacity(cluster)),
        ("artifacts", artifacts::member(cluster)),
    ];
    let told = told
        .into_iter()
        .flat_map(move |(check, judgement)| found(check, Some(name), vec![judgement]));
    let told: Check<'a> = std::future::ready(told.collect()).boxed();
    let one = |check_name, judging: BoxFuture<'a, Judgement>| {
        check(check_name, Some(name), judging.map(|found| vec![found]).boxed())
    };
    let rights = async move {
        match hosted {
            Ok(hosted) if hosted.contains(name) && args.spaces.its_kubeconfig.is_some() => {
                Judgement::skipped("who the controller is to an ITS of its own is not known here")
            }
            Ok(hosted) => rights::check(its, name, &args.namespace, hosted.contains(name)).await,
            Err(failure) => Judgement::unasked("see whether its agent is hosted (Secrets)", failure),
        }
    };
    vec![
        told,
        one("lease", cluster::lease(its, cluster).boxed()),
        one("mailbox", cluster::mailbox(its, name).boxed()),
        one(
            "kubeconfig",
            cluster::kubeconfig(wds, &args.namespace, name).boxed(),
        ),
        one("rights", rights.boxed()),
        check(
            "works",
            Some(name),
            works::check(its, name, args.stuck_after).boxed(),
        ),
    ]
}

/// A check with its limit.
fn check<'a>(
    name: &'static str,
    cluster: Option<&'a str>,
    judging: BoxFuture<'a, Vec<Judgement>>,
) -> Check<'a> {
    within(CHECK_LIMIT, judging)
        .map(move |judgements| found(name, cluster, judgements))
        .boxed()
}

async fn within(limit: Duration, judging: BoxFuture<'_, Vec<Judgement>>) -> Vec<Judgement> {
    timeout(limit, judging).await.unwrap_or_else(|_| {
        let message = format!("no answer within {} s", limit.as_secs());
        vec![Judgement::skipped(message).unanswered()]
    })
}

fn found(check: &'static str, cluster: Option<&str>, judgements: Vec<Judgement>) -> Vec<Finding> {
    let about = |judgement| Finding {
        check,
        cluster: cluster.map(ToOwned::to_owned),
        judgement,
    };
    judgements.into_iter().map(about).collect()
}

/// What was found so far.
struct Report {
    output: Output,
    findings: Vec<Finding>,
}

#[expect(clippy::print_stdout, reason = "standard output is what this command is for")]
impl Report {
    fn add(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            if self.output == Output::Text {
                print!("{}", finding.lines());
            }
            self.findings.push(finding);
        }
    }

    /// Prints the rest, and returns the exit code.
    fn end(self) -> anyhow::Result<u8> {
        match self.output {
            Output::Text => print!("{}", summary(&self.findings)),
            Output::Json => println!("{}", serde_json::to_string_pretty(&self.findings)?),
            Output::Yaml => print!("{}", serde_saphyr::to_string(&self.findings)?),
        }
        Ok(exit_code(&self.findings))
    }
}

#[cfg(test)]
mod tests {
    use super::{finding::Outcome, *};

    #[tokio::test]
    async fn a_check_that_is_not_answered_ends_by_itself() {
        let judgements = within(Duration::from_millis(1), std::future::pending().boxed()).await;
        let found = found("webhook", Some("one"), judgements);
        let [finding] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(finding.judgement.outcome, Outcome::Skipped);
        assert_eq!(exit_code(&found), UNASKED);
    }
}
