//! Live logs (i): the cost of tunnels on which nothing is asked, the throughput of one log, and the
//! time until the first line of a log can be read.
//!
//! Logs come from a played kubelet ([`kubelet`]); everything else is on its real way: the API server
//! of the control cluster, the controller, the tunnel, an agent, and the API server of the cluster.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use argosy::runtime::tunnel::{
    dial::{Dialed, dial, through_service},
    token::Token,
};
use argosy_api::{BindingPolicy, names};
use axum::Router;
use futures::{AsyncBufReadExt, AsyncReadExt, StreamExt, TryStreamExt, pin_mut, stream};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, LogParams, Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::Found;
use crate::{
    bench::{
        Options,
        cost::Reading,
        environment::Mode,
        fake_argo::Script,
        kubelet,
        measurement::Measurement,
        progress::tell,
        samples::{Samples, number},
        usage::Usage,
    },
    testenv::{
        Fixture, Member,
        admission::{eventually, until_held},
        env::Servers,
        objects::{CONTROLLER_NAMESPACE, create, create_namespace, managed_cluster},
        served::{self, Served},
        signing::{Signing, TUNNEL_SERVICE},
        store::Durability,
        waiting::PATIENCE,
    },
};

/// Figures of idle tunnels, compared with the same clusters without tunnels.
pub(in crate::bench) const MORE_MEMORY: &str = "MiB more of the controller";
pub(in crate::bench) const MORE_PROCESSOR: &str = "% of a processor more of the controller";
/// Figures of one log.
pub(in crate::bench) const SECONDS: &str = "seconds for 100 MB";
pub(in crate::bench) const RATE: &str = "MB a second";
/// Figure of first lines: the slowest, in milliseconds after the watch event of the pod.
pub(in crate::bench) const SLOWEST_LINE: &str = "ms to the first line, slowest";

/// Number of idle tunnels.
const TUNNELS: usize = 100;

/// Time without any request, with the tunnels and before.
const IDLE: Duration = Duration::from_mins(1);

/// Duration of a Lease in seconds: the longest that the controller believes, so that no renewal
/// counts as cost of a tunnel.
const LEASE_SECONDS: u64 = 600;

/// Bytes of the log, read this many times; the median counts.
const BYTES: usize = 100_000_000;
const READS: usize = 5;

/// Logs whose first line is waited for.
const LOGS: usize = 25;

/// The processes and clusters of this row.
struct Lab {
    signing: Signing,
    fixture: Fixture,
    member: Member,
    _kubelet: Served,
}

/// Measures the row.
pub(in crate::bench) async fn measure(options: &Options, found: &mut Found) -> Result<()> {
    let servers = Arc::new(Servers::start(Durability::Synced).await?);
    {
        let lab = Lab::new(&servers).await?;
        let outcome = lab.first_lines(options.count(LOGS, LOGS), found).await;
        found.note(outcome, "row i, first lines");
        let outcome = lab.one_log(found).await;
        found.note(outcome, "row i, one log");
        let outcome = lab.idle_tunnels(options.count(TUNNELS, TUNNELS), found).await;
        found.note(outcome, "row i, idle tunnels");
    }
    servers.store.discard()
}

fn measurement(case: impl Into<String>) -> Measurement {
    let script = Script {
        statuses: 0,
        nodes: 0,
        ends: false,
        ..Script::ONE
    };
    Measurement::new('i', Mode::Pull, script, &[], &Reading::default()).called(case)
}

impl Lab {
    async fn new(servers: &Arc<Servers>) -> Result<Self> {
        let (signing, _) = Signing::with_nodes_over(servers.clone(), "logs", false).await?;
        let fixture = Fixture::on(signing.env.clone(), "logs").await?;
        let member = fixture.pull().await?;
        // Without waiting for ten seconds of each step.
        let shown = json!({ "metadata": { "annotations": { names::PODS_ANNOTATION: "all" } } });
        let policies: Api<BindingPolicy> = Api::all(fixture.control.clone());
        policies
            .patch(&member.cluster, &PatchParams::default(), &Patch::Merge(shown))
            .await?;
        until_held(&fixture, &member).await?;
        let lab = Self {
            _kubelet: kubelet::play(&member.wec).await?,
            signing,
            fixture,
            member,
        };
        let open = format!("argosy_cluster_tunnel{{cluster=\"{}\"}} 1", lab.member.cluster);
        lab.until_metrics("the agent has a tunnel", |metrics| {
            metrics.lines().any(|line| line == open)
        })
        .await?;
        Ok(lab)
    }

    async fn until_metrics(&self, what: &str, is_wanted: impl Fn(&str) -> bool) -> Result<()> {
        let controller = &self.signing.env.controller;
        eventually(what, async || Ok(is_wanted(&controller.metrics().await?))).await
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.fixture.control.clone(), &self.fixture.namespace)
    }

    /// A Workflow with one pod on the played Node, which has the Workflow's name. Its status is not
    /// reported yet.
    async fn run(&self, name: &str) -> Result<()> {
        let (_, object) = self.fixture.dispatch(name, &self.member).await?;
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": name, "ownerReferences": [{
                "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": name, "uid": object.uid(),
                "controller": true,
            }] },
            "spec": { "nodeName": kubelet::NODE, "containers": [{ "name": "main", "image": "busybox:1.36" }] },
        }))?;
        let pods: Api<Pod> = Api::namespaced(self.member.wec.clone(), &self.fixture.namespace);
        create(&pods, &pod).await.map(|_| ())
    }

    /// Reports that the pod of the Workflow runs.
    async fn report(&self, name: &str) -> Result<()> {
        let node = json!({
            "id": name, "name": name, "displayName": name, "type": "Pod", "phase": "Running", "templateName": "main",
        });
        let status = json!({ "phase": "Running", "nodes": { name: node } });
        self.member.argo().report(name, status).await.map(|_| ())
    }

    async fn first_lines(&self, count: usize, found: &mut Found) -> Result<()> {
        let pods = self.pods();
        let config = watcher::Config::default().labels(names::SHADOW_OF_LABEL);
        let seen = watcher(pods.clone(), config).default_backoff().applied_objects();
        pin_mut!(seen);
        let mut samples = Samples::default();
        for number in 0..count {
            let name = format!("line-{number}");
            self.run(&name).await?;
            self.report(&name).await?;
            let is_shown = async {
                while let Some(pod) = seen.try_next().await? {
                    if pod.name_any() == name {
                        return anyhow::Ok(());
                    }
                }
                anyhow::bail!("the watch of pods has ended")
            };
            timeout(PATIENCE, is_shown).await.context("no shadow pod")??;
            let begin = Instant::now();
            timeout(PATIENCE, first_line(&pods, &name))
                .await
                .context("no line")??;
            samples.add(begin.elapsed());
            self.member.argo().finish(&name, "Succeeded").await?;
        }
        let times = samples.summary().context("no log was read")?;
        let mut measured = measurement(format!("first line of {count} logs"));
        measured.figures.insert("ms to the first line, p50", times.p50);
        measured.figures.insert(SLOWEST_LINE, times.max);
        found.add(measured);
        Ok(())
    }

    async fn one_log(&self, found: &mut Found) -> Result<()> {
        self.run("long").await?;
        self.report("long").await?;
        let pods = self.pods();
        eventually("the pod is shown", async || {
            Ok(pods.get_opt("long").await?.is_some())
        })
        .await?;
        let params = LogParams {
            container: Some("main".to_owned()),
            limit_bytes: Some(i64::try_from(BYTES)?),
            ..LogParams::default()
        };
        let mut samples = Samples::default();
        for _ in 0..READS {
            let begin = Instant::now();
            let read = timeout(PATIENCE, read_all(&pods, "long", &params)).await;
            let read = read.context("the log does not end")??;
            ensure!(read == BYTES, "the log has {read} bytes instead of {BYTES}");
            samples.add(begin.elapsed());
        }
        let seconds = samples.percentile(50) / 1000.0;
        let mut measured = measurement("one log");
        measured.figures.insert(SECONDS, seconds);
        measured.figures.insert(RATE, number(BYTES / 1_000_000) / seconds);
        found.add(measured);
        Ok(())
    }

    async fn idle_tunnels(&self, count: usize, found: &mut Found) -> Result<()> {
        let control = &self.fixture.control;
        let agents = stream::iter(0..count).map(|number| IdleAgent::register(control, number));
        let agents: Vec<IdleAgent> = agents.buffered(JOINING).try_collect().await?;
        let nodes: Api<Node> = Api::all(control.clone());
        let virtual_nodes = ListParams::default().labels(names::VIRTUAL_NODE_LABEL);
        eventually("every cluster is a Node", async || {
            Ok(nodes.list_metadata(&virtual_nodes).await?.items.len() > count)
        })
        .await?;
        let without = self.idle("without tunnels").await;
        let mut tunnels = JoinSet::new();
        for agent in &agents {
            let dialed = agent.dial(control).await?;
            tunnels.spawn(async move { dialed.serve(Router::new(), &CancellationToken::new()).await });
        }
        // And the one of the real agent.
        let open = format!("argosy_tunnels {}", count + 1);
        let are_open = |metrics: &str| metrics.lines().any(|line| line == open);
        self.until_metrics("all tunnels are open", are_open).await?;
        let with = self.idle("with tunnels").await;
        self.until_metrics("all tunnels are still open", are_open).await?;
        ensure!(tunnels.try_join_next().is_none(), "a tunnel has ended");
        let mut measured = measurement(format!("{count} idle tunnels"));
        let percent = |usage: &Usage| usage.cpu_seconds / IDLE.as_secs_f64() * 100.0;
        let figures = [
            ("MiB of the controller without", without.resident_mib),
            (MORE_MEMORY, with.resident_mib - without.resident_mib),
            ("% of a processor of the controller without", percent(&without)),
            (MORE_PROCESSOR, percent(&with) - percent(&without)),
        ];
        measured.figures.extend(figures);
        measured.usage.insert("controller", with);
        found.add(measured);
        Ok(())
    }

    /// The usage of the controller while nothing is asked.
    async fn idle(&self, what: &str) -> Usage {
        tell(&format!("{} s {what}", IDLE.as_secs()));
        let pids = [self.signing.env.controller.pid()];
        let begin = Usage::of(&pids);
        // This is the measurement.
        sleep(IDLE).await;
        Usage::of(&pids).since(&begin)
    }
}

/// Clusters that are registered at the same time.
const JOINING: usize = 8;

/// The end of a tunnel at a cluster that has nothing else: Argosy's own code, in this process.
struct IdleAgent {
    cluster: String,
    token: Token,
}

impl IdleAgent {
    /// Registers a cluster, with the Lease of its agent.
    async fn register(control: &Client, number: usize) -> Result<Self> {
        let (cluster, token) = (format!("idle-{number}"), Token::generate()?);
        create(&Api::all(control.clone()), &managed_cluster(&cluster)).await?;
        create_namespace(control, &cluster).await?;
        let lease: Lease = serde_json::from_value(json!({
            "metadata": {
                "name": names::CLUSTER_LEASE,
                "annotations": { names::TUNNEL_ANNOTATION: token.digest().to_string() },
            },
            "spec": { "leaseDurationSeconds": LEASE_SECONDS },
        }))?;
        create(&Api::namespaced(control.clone(), &cluster), &lease).await?;
        Ok(Self { cluster, token })
    }

    async fn dial(&self, control: &Client) -> Result<Dialed> {
        let path = through_service(CONTROLLER_NAMESPACE, TUNNEL_SERVICE, served::PORT);
        let dialed = dial(control, &path, &self.cluster, &self.token).await;
        dialed.with_context(|| format!("the tunnel of {}", self.cluster))
    }
}

/// Waits for the first line of a log that goes on.
async fn first_line(pods: &Api<Pod>, name: &str) -> Result<()> {
    let params = LogParams {
        container: Some("main".to_owned()),
        follow: true,
        ..LogParams::default()
    };
    let mut lines = pods.log_stream(name, &params).await?.lines();
    lines.try_next().await?.context("the log is empty")?;
    Ok(())
}

/// Reads a log to its end. Returns the number of its bytes.
async fn read_all(pods: &Api<Pod>, name: &str, params: &LogParams) -> Result<usize> {
    let mut log = pods.log_stream(name, params).await?;
    let mut part = vec![0; 64 << 10];
    let mut bytes = 0;
    loop {
        match log.read(&mut part).await? {
            0 => return Ok(bytes),
            read => bytes += read,
        }
    }
}
