//! `argosy doctor`: checks the whole way of a Workflow, and prints fixes.
//!
//! Owned here: the list of checks, their concurrent execution with a timeout each, and the output
//! of their findings. The logic of a check is in the module of its part. Nothing is written, except
//! with `--write`.

mod admission;
mod artifacts;
mod cluster;
mod definitions;
mod deployments;
pub(super) mod finding;
mod nodes;
mod policies;
mod rights;
mod schedules;
mod server;
mod waiting;
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

use self::finding::{Finding, Judgment, exit_code, summary};
use super::{
    cluster::is_removed,
    get::clusters::{Hosted, hosted_clusters},
    spaces::{Clients, Spaces},
};
use crate::runtime::{args::duration, lenient::Lenient, requests::list};

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Check only this cluster, besides the control cluster
    #[arg(long)]
    cluster: Option<String>,
    /// Write and read back an object of the artifact repository, as argosy s3 check does
    #[arg(long)]
    write: bool,
    /// Time after which a waiting ManifestWork counts as stuck
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
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A line for each finding, in the order of the way
    #[default]
    Text,
    /// A JSON list of all findings, at the end
    Json,
    /// A YAML list of all findings, at the end
    Yaml,
}

/// Timeout of one check. Each of its requests has its own, shorter timeout.
const CHECK_LIMIT: Duration = Duration::from_secs(45);

/// Maximum number of concurrent checks.
const AT_A_TIME: usize = 16;

/// Exit code if a check got no answer.
const UNASKED: u8 = 2;

type Check<'a> = BoxFuture<'a, Vec<Finding>>;

/// Runs all checks and prints the findings. Exits with 0 if everything is fine, with 1 if a check
/// failed, and with 2 if one got no answer.
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
    let server = server.unwrap_or_else(|failure| Judgment::unasked("reach the control cluster", &failure));
    report.add(found("control-cluster", None, vec![server]));
    if is_away {
        return report.end();
    }
    let (clusters, judgment) = members(&its, args.cluster.as_deref()).await;
    report.add(found("clusters", None, vec![judgment]));
    let hosted = hosted_clusters(&wds, &args.namespace).await;
    let mut checks = of_control(&wds, &its, args);
    for cluster in &clusters {
        checks.extend(of_cluster(&wds, &its, args, cluster, hosted.as_ref()));
    }
    side_by_side(checks, |found| report.add(found)).await;
    report.end()
}

/// Runs the checks concurrently, and passes on their findings in a fixed order, so that two runs
/// can be compared.
async fn side_by_side(checks: Vec<Check<'_>>, mut tell: impl FnMut(Vec<Finding>)) {
    let mut findings = stream::iter(checks).buffered(AT_A_TIME);
    while let Some(found) = findings.next().await {
        tell(found);
    }
}

/// Returns the clusters to check, and the judgment about the inventory.
async fn members(its: &Client, wanted: Option<&str>) -> (Vec<ManagedCluster>, Judgment) {
    let api: Api<Lenient<ManagedCluster>> = Api::all(its.clone());
    let mut clusters = match list(api.list(&ListParams::default())).await {
        Ok(all) => all,
        Err(failure) => return (Vec::new(), Judgment::unasked("list ManagedClusters", &failure)),
    };
    let count = clusters.len();
    clusters.retain(|cluster| wanted.is_none_or(|wanted| cluster.name_any() == wanted));
    let name = wanted.unwrap_or("NAME");
    let register = format!("argosy cluster join {name}, or add it to the value clusters of the chart argosy");
    let judgment = match (wanted, clusters.is_empty()) {
        (Some(wanted), true) => Judgment::failed(format!("there is no ManagedCluster {wanted}"), register),
        (None, true) => Judgment::failed("there is no ManagedCluster, so nothing can be sent", register),
        _ => Judgment::ok(format!("{count} ManagedClusters are in the inventory")),
    };
    (clusters, judgment)
}

fn of_control<'a>(wds: &'a Client, its: &'a Client, args: &'a DoctorArgs) -> Vec<Check<'a>> {
    let (namespace, with_argo) = (args.namespace.as_str(), args.argo_namespace.as_str());
    let one =
        |name, judging: BoxFuture<'a, Judgment>| check(name, None, judging.map(|found| vec![found]).boxed());
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
        check("policies", None, policies::check(wds).boxed()),
        one("members-policy", admission::members(its).boxed()),
        one("argo", definitions::argo(wds).boxed()),
        one("local-argo", deployments::check_argo(wds, with_argo).boxed()),
        one("schedules", schedules::check(wds, with_argo).boxed()),
        one("waiting", waiting::check(wds).boxed()),
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
    let told = |check, judgment: Judgment| -> Check<'a> {
        std::future::ready(found(check, Some(name), vec![judgment])).boxed()
    };
    let accepted = told("accepted", cluster::accepted(cluster));
    if is_removed(cluster) {
        // Other findings about a removed cluster would be expected.
        return vec![accepted];
    }
    let one = |check_name, judging: BoxFuture<'a, Judgment>| {
        check(check_name, Some(name), judging.map(|found| vec![found]).boxed())
    };
    let rights = async move {
        match hosted {
            Ok(hosted) if hosted.contains(name) && args.spaces.its_kubeconfig.is_some() => Judgment::skipped(
                "the ITS is a separate API server, and the controller's user name there \
                    is unknown to this command",
            ),
            Ok(hosted) => rights::check(its, name, &args.namespace, hosted.contains(name)).await,
            Err(failure) => Judgment::unasked("check if its agent is hosted (list Secrets)", failure),
        }
    };
    vec![
        accepted,
        one("mailbox", cluster::mailbox(its, name).boxed()),
        one(
            "kubeconfig",
            cluster::kubeconfig(wds, &args.namespace, name).boxed(),
        ),
        one("rights", rights.boxed()),
        one("lease", cluster::lease(its, cluster).boxed()),
        told("agent", cluster::agent(cluster)),
        check(
            "works",
            Some(name),
            works::check(its, name, args.stuck_after).boxed(),
        ),
        told("argo", cluster::argo(cluster)),
        told("capacity", cluster::capacity(cluster)),
        told("artifacts", artifacts::member(cluster)),
        check(
            "node",
            Some(name),
            nodes::check(wds, &args.namespace, cluster).boxed(),
        ),
    ]
}

/// Adds the timeout to a check.
fn check<'a>(
    name: &'static str,
    cluster: Option<&'a str>,
    judging: BoxFuture<'a, Vec<Judgment>>,
) -> Check<'a> {
    within(CHECK_LIMIT, judging)
        .map(move |judgments| found(name, cluster, judgments))
        .boxed()
}

async fn within(limit: Duration, judging: BoxFuture<'_, Vec<Judgment>>) -> Vec<Judgment> {
    timeout(limit, judging).await.unwrap_or_else(|_| {
        let message = format!("no answer within {} s", limit.as_secs());
        vec![Judgment::skipped(message).unanswered()]
    })
}

fn found(check: &'static str, cluster: Option<&str>, judgments: Vec<Judgment>) -> Vec<Finding> {
    let about = |judgment| Finding {
        check,
        cluster: cluster.map(ToOwned::to_owned),
        judgment,
    };
    judgments.into_iter().map(about).collect()
}

/// The findings so far.
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

    /// Prints the rest and returns the exit code.
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
        let judgments = within(Duration::from_millis(1), std::future::pending().boxed()).await;
        let found = found("webhook", Some("one"), judgments);
        let [finding] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(finding.judgment.outcome, Outcome::Skipped);
        assert_eq!(exit_code(&found), UNASKED);
    }

    #[tokio::test]
    async fn findings_are_told_in_the_order_of_the_way_whichever_is_there_first() {
        let (ended, later) = tokio::sync::oneshot::channel();
        let first = later.map(|_| found("clock", None, vec![Judgment::ok("")]));
        let second = async {
            ended.send(()).unwrap();
            found("definitions", None, vec![Judgment::ok("")])
        };
        let mut told = Vec::new();
        let tell = |found: Vec<Finding>| told.extend(found.iter().map(|finding| finding.check));
        side_by_side(vec![first.boxed(), second.boxed()], tell).await;
        assert_eq!(told, ["clock", "definitions"]);
    }
}
