//! `argosy logs`: the logs of a run's steps. Those of steps that have ended come from the shared S3,
//! those of running steps from the pods that the control cluster shows.
//!
//! A note names the running steps whose pods are not shown. Not here: the list of steps and the
//! location of their logs (`steps`), the logs of running pods (`live`), and the format of lines
//! (`lines`).

mod lines;
mod live;
mod steps;

use std::{
    collections::{HashMap, HashSet},
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::{anyhow, bail};
use argosy_api::{Workflow, names, workflow};
use argosy_core::{Failure, model::claim::Claim};
use clap::Args;
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt, pin_mut};
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    core::PartialObjectMeta,
    runtime::{WatchStreamExt, watcher},
};
use tokio::time::{Instant, interval, sleep_until};

use self::{
    lines::Lines,
    live::{Content, Live, Part, Pause},
    steps::{Step, steps, where_live, why_none},
};
use crate::{
    artifacts::{self, Bucket},
    runtime::{
        client,
        lenient::Lenient,
        requests::{list, read, with_sources},
        tunnel::CUT,
        watch::reconnect_policy,
    },
};

/// Arguments of `logs`.
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Name of the Workflow
    workflow: String,
    /// Namespace of the Workflow
    #[arg(long, short, default_value = "argo")]
    namespace: String,
    /// Only steps with this name, path, node ID or template
    #[arg(long, visible_alias = "node")]
    step: Option<String>,
    /// Name of the container
    #[arg(long, short, default_value = "main")]
    container: String,
    /// Keep running until the run has ended, and print the log of each step while it runs
    ///
    /// Asks for all running pods to be shown on the control cluster, by the annotation
    /// argosy.dev/watched-until on the Workflow. The log of a step whose pod is not shown is printed
    /// when the step has ended.
    #[arg(long, short)]
    follow: bool,
    /// Print lines without the name of their step
    #[arg(long)]
    no_prefix: bool,
    /// Namespace of Argo, where the artifact repository is configured
    #[arg(long, default_value = "argo")]
    argo_namespace: String,
    /// Kubeconfig of the control cluster; by default KUBECONFIG, the one in the home directory, or
    /// the pod's account
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
}

/// Interval between requests for the pods to be shown.
const ASK_EVERY: Duration = Duration::from_mins(1);

/// Time without a line after which a log that is read from its pod counts as ended, if the run has
/// ended.
const LAST_LINES: Duration = Duration::from_secs(10);

/// Exit code if the log of an ended step is missing or cannot be read.
const INCOMPLETE: u8 = 1;

/// Exit code if the run or the bucket cannot be read.
const UNREADABLE: u8 = 2;

/// Prints the logs. Exits with 0 if the log of every ended step was printed, with 1 if one is
/// missing, and with 2 if the Workflow or the bucket cannot be read.
#[expect(clippy::print_stderr, reason = "this is a command, not a service")]
pub(super) async fn run(args: &LogsArgs) -> ExitCode {
    match print(args).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(INCOMPLETE),
        // The reader of the pipe, such as `head`, has closed it.
        Err(error) if is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("argosy: {error:#}");
            ExitCode::from(UNREADABLE)
        }
    }
}

fn is_closed(error: &anyhow::Error) -> bool {
    let known = error.downcast_ref::<io::Error>();
    known.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

async fn print(args: &LogsArgs) -> anyhow::Result<bool> {
    let client = client::connect_as_user(args.kubeconfig.as_deref()).await?;
    let workflows: Api<Lenient<Workflow>> = Api::namespaced(client.clone(), &args.namespace);
    let found = read(workflows.get(&args.workflow)).await;
    let (namespace, name) = (&args.namespace, &args.workflow);
    let workflow = found.map_err(|failure| match failure {
        Failure::NotFound { .. } => anyhow!("there is no Workflow {namespace}/{name}"),
        failure => anyhow!("cannot read Workflow {namespace}/{name}: {failure}"),
    })?;
    if Claim::of(&workflow.metadata).is_some_and(|claim| claim.is_for_every_cluster()) {
        bail!(
            "{namespace}/{name} has a run on every cluster that matches, and each run is a separate \
            Workflow: {}",
            runs(&client, &workflow).await
        );
    }
    let mut printer = Printer {
        args,
        client,
        bucket: None,
        printed: HashSet::new(),
        written: HashMap::new(),
        paused: HashMap::new(),
        asked: Asked::Granted,
        is_complete: true,
    };
    let mut live = Live::of(&printer.client, namespace, name, &args.container);
    if args.follow && !has_ended(&workflow) {
        return printer.follow(workflows, live).await;
    }
    printer.print(&workflow, &live).await?;
    if !has_ended(&workflow) {
        live.listed().await;
        printer.print_running(&workflow, &live).await?;
    }
    printer.say_what_is_missing(&workflow);
    Ok(printer.is_complete)
}

fn has_ended(workflow: &Workflow) -> bool {
    workflow::is_final(workflow::phase(workflow.status.as_ref()))
}

/// Lists the runs of a Workflow for every cluster, as a hint in an error message. A failure to list
/// them is ignored.
async fn runs(client: &Client, workflow: &Workflow) -> String {
    let namespace = workflow.namespace().unwrap_or_default();
    let workflows: Api<Lenient<PartialObjectMeta<Workflow>>> = Api::namespaced(client.clone(), &namespace);
    let labeled = ListParams::default().labels(names::RUN_OF_LABEL);
    let listed = list(workflows.list(&labeled)).await;
    let is_own = |uid: &str| workflow.uid().as_deref() == Some(uid);
    let runs = listed.into_iter().flatten().filter(|run| {
        let claim = Claim::of(&run.metadata);
        claim.is_some_and(|claim| claim.run_of.is_some_and(|origin| is_own(origin.as_str())))
    });
    let commands: Vec<String> = runs
        .map(|run| format!("argosy logs {}", run.name_any()))
        .collect();
    if commands.is_empty() {
        "there is no run yet".to_owned()
    } else {
        commands.join(", ")
    }
}

struct Printer<'a> {
    args: &'a LogsArgs,
    client: Client,
    /// Opened for the first log.
    bucket: Option<Bucket>,
    /// IDs of the nodes that were handled.
    printed: HashSet<String>,
    /// Number of bytes of each log that were printed while its step ran, by the ID of its node.
    written: HashMap<String, u64>,
    /// IDs of the nodes whose logs have ended while they were read from their pods; true if the log
    /// was read to its end.
    paused: HashMap<String, bool>,
    asked: Asked,
    is_complete: bool,
}

/// The answer to the requests for the pods to be shown.
enum Asked {
    Granted,
    /// Refused, for this reason.
    Refused(String),
    /// Refused, and the user knows.
    Told,
}

impl Asked {
    /// Stores the answer to a request.
    fn answered(&mut self, answer: Result<(), Failure>) {
        match answer {
            Err(Failure::Refused(why)) if matches!(self, Self::Granted) => *self = Self::Refused(why),
            Err(error) => tracing::debug!(%error, "cannot ask for the pods to be shown"),
            Ok(()) => {}
        }
    }

    /// Tells the user of a refusal once. The pods of a run on the control cluster need not be asked
    /// for.
    fn tell(&mut self, workflow: &Workflow) {
        if let Self::Refused(why) = self
            && Claim::of(&workflow.metadata).is_some()
        {
            note(&format!(
                "you may not ask for the running pods to be shown, so the log of a step whose pod is not shown \
                 is printed when the step has ended: {why}"
            ));
            *self = Self::Told;
        }
    }
}

impl Printer<'_> {
    /// Prints the logs that are kept by now, were not printed before, and are not read from their
    /// pods.
    async fn print(&mut self, workflow: &Workflow, live: &Live) -> anyhow::Result<()> {
        for step in self.steps(workflow)? {
            let Some(place) = step.log.as_ref().filter(|_| !live.is_followed(&step.id)) else {
                continue;
            };
            if !self.printed.insert(step.id.clone()) {
                continue;
            }
            if place.key.is_empty() {
                self.miss(&format!(
                    "the log of {} is not in an S3 bucket; use argo logs",
                    step.shown
                ));
                continue;
            }
            let bucket = if let Some(bucket) = self.bucket.take() {
                bucket
            } else {
                let LogsArgs {
                    namespace,
                    argo_namespace,
                    ..
                } = self.args;
                artifacts::open_for(&self.client, namespace, argo_namespace).await?
            };
            let read = bucket.read(place.bucket.as_deref(), &place.key).await;
            let shown = bucket.repository().to_string();
            self.bucket = Some(bucket);
            match read? {
                Some(content) => self.copy(&step, content).await?,
                None => self.miss(&format!(
                    "the log of {} is not in {shown} any more: {}",
                    step.shown, place.key
                )),
            }
        }
        Ok(())
    }

    fn steps(&self, workflow: &Workflow) -> anyhow::Result<Vec<Step>> {
        let LogsArgs { container, step, .. } = self.args;
        steps(workflow, container, step.as_deref()).ok_or_else(|| {
            anyhow!(
                "Argo stores the steps of {} in the database of its cluster (nodeStatusOffLoad), which this \
                command cannot read",
                workflow.name_any()
            )
        })
    }

    /// Prefix of the lines of a step: its name, in a color on a terminal.
    fn prefix(&self, step: &Step) -> String {
        if self.args.no_prefix {
            return String::new();
        }
        let is_plain = !io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some();
        lines::prefix(&step.shown, &step.id, !is_plain)
    }

    /// Prints a log from S3, after the bytes that were printed already.
    async fn copy(&mut self, step: &Step, mut content: artifacts::Content) -> anyhow::Result<()> {
        let mut lines = Lines::new(io::stdout().lock(), self.prefix(step));
        let mut skipped = self.written.remove(&step.id).unwrap_or_default();
        let mut broken = None;
        loop {
            match content.next().await {
                Ok(Some(piece)) => lines.write(lines::after(&piece, &mut skipped))?,
                Ok(None) => break,
                Err(why) => {
                    broken = Some(why);
                    break;
                }
            }
        }
        lines.end()?;
        if let Some(why) = broken {
            self.miss(&format!("the log of {} is incomplete: {why}", step.shown));
        }
        Ok(())
    }

    /// Prints the logs of the running steps whose pods are shown, as far as they are written by now.
    async fn print_running(&mut self, workflow: &Workflow, live: &Live) -> anyhow::Result<()> {
        for step in self.steps(workflow)?.iter().filter(|step| !step.has_ended()) {
            let log = match live.so_far(&step.id).await {
                None => continue,
                Some(log) => log.map_err(|error| anyhow!("{}", with_sources(&error)))?,
            };
            let mut lines = Lines::new(io::stdout().lock(), self.prefix(step));
            let mut log = log.lines();
            let mut is_cut = false;
            while let Some(line) = log.try_next().await? {
                is_cut = line.starts_with(CUT);
                if live::is_of_executor(&self.args.container, line.as_bytes()) {
                    continue;
                }
                lines.write(line.as_bytes())?;
                lines.write(b"\n")?;
            }
            lines.end()?;
            self.printed.insert(step.id.clone());
            if is_cut {
                self.miss(&format!("the log of {} is cut off; read it again", step.shown));
            }
        }
        Ok(())
    }

    /// Prints logs until the run has ended.
    async fn follow(mut self, workflows: Api<Lenient<Workflow>>, mut live: Live) -> anyhow::Result<bool> {
        let name = &self.args.workflow;
        let states = watcher::watch_object(workflows.clone(), name).backoff(reconnect_policy());
        pin_mut!(states);
        let mut asks = interval(ASK_EVERY);
        let mut known: Option<Workflow> = None;
        let mut last_part = Instant::now();
        loop {
            let mut is_late = false;
            tokio::select! {
                state = states.next() => match state {
                    Some(Ok(Some(workflow))) => known = Some(workflow.into_object()),
                    Some(Ok(None)) => bail!("{name} was deleted"),
                    Some(Err(error)) => note(&format!(
                        "the watch failed and is restarted: {}",
                        with_sources(&error)
                    )),
                    None => break,
                },
                part = live.next() => if let Some(part) = part {
                    last_part = Instant::now();
                    if matches!(&part.content, Content::Pause(Pause { is_last: true, .. })) {
                        live.ended(&part.node);
                    }
                    self.print_part(part, known.as_ref())?;
                },
                _ = asks.tick() => self.asked.answered(Live::ask(&workflows, name).await),
                () = sleep_until(last_part + LAST_LINES), if known.as_ref().is_some_and(has_ended) => {
                    last_part = Instant::now();
                    is_late = true;
                }
            }
            let Some(workflow) = &known else { continue };
            self.asked.tell(workflow);
            self.choose(workflow, &mut live, is_late)?;
            self.print(workflow, &live).await?;
            if has_ended(workflow) && live.followed().next().is_none() {
                self.say_what_is_missing(workflow);
                break;
            }
        }
        Ok(self.is_complete)
    }

    /// Chooses the logs that are read from their pods: those of running steps, and, a last time, those
    /// of ended steps that are not in the bucket. If `is_late`, no log of a running step is expected to
    /// go on.
    fn choose(&self, workflow: &Workflow, live: &mut Live, is_late: bool) -> anyhow::Result<()> {
        // The log of a step may be in the bucket before the step has ended.
        let steps = self.steps(workflow)?.into_iter();
        for step in steps.filter(|step| !self.printed.contains(&step.id)) {
            let printed = self.written.get(&step.id).copied().unwrap_or_default();
            let paused = self.paused.get(&step.id);
            if !step.has_ended() {
                live.follow(&step.id, printed);
            } else if paused.is_none() && !is_late {
                // Its log goes on.
            } else if step.log.is_some() {
                live.ended(&step.id);
            } else {
                live.finish(&step.id, printed, paused == Some(&true));
            }
        }
        if is_late {
            let left = live.followed().filter(|node| !live.is_finishing(node));
            for node in left.cloned().collect::<Vec<_>>() {
                live.ended(&node);
            }
        }
        Ok(())
    }

    /// Prints a part of the log of a running step.
    fn print_part(&mut self, part: Part, workflow: Option<&Workflow>) -> anyhow::Result<()> {
        match part.content {
            Content::Bytes(bytes) => {
                let steps = workflow.map(|workflow| self.steps(workflow)).transpose()?;
                let Some(step) = steps.into_iter().flatten().find(|step| step.id == part.node) else {
                    return Ok(());
                };
                let mut lines = Lines::new(io::stdout().lock(), self.prefix(&step));
                lines.write(&bytes)?;
                lines.end()?;
                let written = self.written.entry(part.node).or_default();
                *written = written.saturating_add(u64::try_from(bytes.len())?);
                self.paused.remove(&step.id);
            }
            Content::Pause(pause) => {
                self.written.insert(part.node.clone(), pause.printed);
                self.paused.insert(part.node, pause.is_complete);
            }
        }
        Ok(())
    }

    /// Prints which logs are missing, and the reasons.
    fn say_what_is_missing(&mut self, workflow: &Workflow) {
        // The same steps were read successfully before.
        let steps = self.steps(workflow).unwrap_or_default();
        let name = workflow.name_any();
        if steps.is_empty() {
            let phase = workflow::phase(workflow.status.as_ref());
            let phase = if phase.is_empty() {
                "without a phase"
            } else {
                phase
            };
            return self.miss(&match &self.args.step {
                Some(step) => {
                    format!("{name} ({phase}) has no step named {step}; see argo get {name}")
                }
                None => format!("{name} has no steps yet ({phase}); argosy why {name} shows its cluster"),
            });
        }
        let is_unseen = |step: &&Step| !step.has_ended() && !self.printed.contains(&step.id);
        let running: Vec<&Step> = steps.iter().filter(is_unseen).collect();
        if !running.is_empty() {
            note(&where_live(workflow, &running, &self.args.container));
        }
        let missing: Vec<&Step> = steps
            .iter()
            .filter(|step| step.has_ended() && !step.was_left_out() && step.log.is_none())
            .filter(|step| !self.printed.contains(&step.id) && self.paused.get(&step.id) != Some(&true))
            .collect();
        for step in &missing {
            let others = &step.containers;
            let is_begun = self.written.get(&step.id).is_some_and(|bytes| *bytes > 0);
            let why = if is_begun {
                "is incomplete: it was cut off, and the rest cannot be read".to_owned()
            } else if others.is_empty() {
                "was not archived".to_owned()
            } else {
                format!(
                    "has no container {}; it has {}",
                    self.args.container,
                    others.join(", ")
                )
            };
            self.miss(&format!("the log of {} {why}", step.shown));
        }
        if missing.iter().any(|step| step.containers.is_empty()) {
            note(&why_none(workflow));
        }
    }

    fn miss(&mut self, what: &str) {
        self.is_complete = false;
        note(what);
    }
}

#[expect(clippy::print_stderr, reason = "this is a command, not a service")]
fn note(text: &str) {
    eprintln!("argosy: {text}");
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::{Cli, Command};

    #[test]
    fn a_step_may_be_called_a_node_and_the_container_is_main() {
        let command = Cli::try_parse_from(["argosy", "logs", "hello", "--node", "first", "-f"]);
        let Command::Logs(args) = command.unwrap().command else {
            panic!("another command");
        };
        assert_eq!(args.step.as_deref(), Some("first"));
        assert_eq!((args.container.as_str(), args.follow), ("main", true));
    }
}
