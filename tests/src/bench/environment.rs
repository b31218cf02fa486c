//! The environment that measurements run on: real API servers, a controller with its webhook, and for
//! each mode (way of copying) the stations that Workflows go to. No kubelets.
//!
//! There are two WEC servers. Each further member is an agent with a cluster name, a mailbox and a
//! namespace of its own on one of the two. The baseline has separate namespaces.

use std::sync::Arc;

use crate::testenv::{
    Fixture, Member, TestEnv,
    admission::until_held,
    binaries::Binary,
    env::Servers,
    objects::{self, create_namespace},
    proxy::Proxy,
    server::Server,
    store::Durability,
};
use anyhow::{Context, Result};
use argosy::runtime::client;
use argosy_api::Workflow;
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use tokio::{
    task::JoinSet,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

use super::{
    agents, baseline, best_cluster,
    cost::Asked,
    progress::tell,
    timeline::Timeline,
    watches::{self, Door, Watches},
};

/// The program that copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// [`baseline`].
    Baseline,
    /// Argosy with the agent in a process of its own.
    Pull,
    /// Argosy with the agent hosted by the controller.
    Push,
}

impl Mode {
    /// A short name that is valid in object names.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Pull => "pull",
            Self::Push => "push",
        }
    }
}

/// A destination of some of a mode's Workflows.
pub(super) struct Station {
    /// Namespace of its Workflows on both sides.
    pub(super) namespace: String,
    /// Number of its WEC server. A policy that chooses the cluster has the servers of all clusters.
    pub(super) server: usize,
    /// Name of the ManagedCluster, or of the policy that chooses one. The baseline has none.
    pub(super) cluster: Option<String>,
    /// Keeps its agent alive.
    member: Option<Member>,
}

/// A mode with its stations.
pub(super) struct Line {
    /// The program that copies.
    pub(super) mode: Mode,
    /// A policy chooses the cluster of each Workflow. Otherwise each Workflow names it.
    pub(super) is_best_cluster: bool,
    /// Number of its clusters.
    pub(super) clusters: usize,
    /// The destinations.
    pub(super) stations: Vec<Station>,
}

/// The parts of an environment that not every row needs.
#[derive(Clone, Copy, Default)]
pub(super) struct Shape {
    /// The connection to the first cluster can be made to hang.
    pub(super) hangs: bool,
    /// Each mode of Argosy has a second line, of a policy that chooses among the same clusters.
    pub(super) chooses: bool,
    /// With pull, the agents are in this process.
    pub(super) has_agents_here: bool,
}

/// Everything that measurements run on.
pub(super) struct Environment {
    /// The servers and the controller.
    pub(super) env: Arc<TestEnv>,
    /// The record of all sightings.
    pub(super) timeline: Arc<Timeline>,
    /// The load's client of the control cluster.
    pub(super) control: Client,
    /// The player's clients of the WEC servers.
    pub(super) wecs: Vec<Client>,
    /// Receives Workflows that arrive on the WECs.
    pub(super) door: Door,
    /// The modes.
    pub(super) lines: Vec<Line>,
    /// The proxy in front of the first cluster of a mode, if that cluster can hang.
    pub(super) proxy: Option<Proxy>,
    tasks: JoinSet<()>,
}

/// Agents that start at the same time.
const JOINING: usize = 4;

impl Environment {
    /// The processes of Argosy that serve `line`.
    pub(super) fn processes<'a>(&'a self, line: &'a Line) -> Vec<&'a Binary> {
        line.agents().chain([&self.env.controller]).collect()
    }

    /// Starts everything: the modes with their numbers of stations.
    pub(super) async fn build(modes: &[(Mode, usize)], shape: Shape) -> Result<Self> {
        let begin = Instant::now();
        let servers = Arc::new(Servers::start(Durability::Synced).await?);
        let env = Arc::new(TestEnv::start_guarded(servers.clone(), "bench").await?);
        let proxy = if shape.hangs {
            Some(Proxy::open(server(&servers, 0)?.kubeconfig()).await?)
        } else {
            None
        };
        let mut wecs = Vec::new();
        for wec in &servers.wecs {
            wecs.push(wec.client().await?);
        }
        let mut environment = Self {
            timeline: Arc::new(Timeline::new()),
            control: env.control.client().await?,
            wecs,
            door: Door::default(),
            lines: Vec::new(),
            tasks: JoinSet::new(),
            proxy,
            env,
        };
        for (mode, places) in modes {
            let line = environment.open(*mode, *places, shape).await?;
            let chosen = if shape.chooses && *mode != Mode::Baseline {
                Some(best_cluster::open(&environment.env, &line).await?)
            } else {
                None
            };
            environment.lines.push(line);
            environment.lines.extend(chosen);
        }
        environment.look().await?;
        environment.asked().until_quiet(Duration::from_secs(20)).await?;
        tell(&format!("ready after {:.0} s", begin.elapsed().as_secs_f64()));
        Ok(environment)
    }

    /// The mode with its stations.
    pub(super) fn line(&self, mode: Mode) -> Result<&Line> {
        let mut pinned = self.lines.iter().filter(|line| !line.is_best_cluster);
        let found = pinned.find(|line| line.mode == mode);
        found.with_context(|| format!("there is no {} here", mode.name()))
    }

    /// The modes that a row measures.
    pub(super) fn lines_of(&self, row: char) -> impl Iterator<Item = &Line> {
        let lines = self.lines.iter();
        lines.filter(move |line| !line.is_best_cluster || has_best_cluster(row))
    }

    /// The servers and processes whose cost is read.
    pub(super) fn asked(&self) -> Asked {
        let agents: Vec<_> = self.lines.iter().flat_map(Line::agents).collect();
        let TestEnv {
            servers: below,
            control,
            controller,
            ..
        } = self.env.as_ref();
        let mut asked = Asked {
            servers: self.wecs.iter().chain([&self.control]).cloned().collect(),
            ..Asked::default()
        };
        let api_servers = below.wecs.iter().chain([control]).map(Server::pid);
        let processes = [
            ("controller", vec![controller.pid()]),
            ("agents", agents.iter().map(|agent| agent.pid()).collect()),
            ("API servers", api_servers.collect()),
            ("etcd", vec![below.store.pid()]),
            ("benchmark", vec![std::process::id()]),
        ];
        asked.pids.extend(processes);
        asked
            .metrics
            .insert("controller", vec![controller.metrics_address()]);
        if !agents.is_empty() {
            let addresses = agents.iter().map(|agent| agent.metrics_address()).collect();
            asked.metrics.insert("agents", addresses);
        }
        asked
    }

    /// Ends everything and removes all stored data.
    pub(super) async fn clear(self) -> Result<()> {
        let Self {
            env,
            lines,
            mut tasks,
            ..
        } = self;
        tasks.shutdown().await;
        let servers = env.servers.clone();
        drop((lines, env));
        servers.store.discard()
    }

    async fn open(&mut self, mode: Mode, places: usize, shape: Shape) -> Result<Line> {
        let are_here = shape.has_agents_here && mode == Mode::Pull;
        let station = |number| self.station(mode, number, are_here);
        let stations: Vec<Station> = stream::iter(0..places)
            .map(station)
            .buffered(JOINING)
            .try_collect()
            .await?;
        if are_here {
            self.start_agents(&stations).await?;
        }
        Ok(Line {
            mode,
            is_best_cluster: false,
            clusters: places,
            stations,
        })
    }

    /// Starts the agents of these clusters in this process.
    async fn start_agents(&mut self, stations: &[Station]) -> Result<()> {
        let its = self.env.control.kubeconfig();
        let clusters = stations.iter().map(|station| {
            let wec = server(&self.env.servers, station.server)?.kubeconfig();
            Ok((station.cluster.clone().unwrap_or_default(), wec))
        });
        let clusters: Vec<_> = clusters.collect::<Result<_>>()?;
        let stop = CancellationToken::new();
        agents::start_all(&mut self.tasks, &self.control, its, &clusters, &stop).await
    }

    async fn station(&self, mode: Mode, number: usize, is_agent_here: bool) -> Result<Station> {
        let server = number % self.wecs.len();
        let namespace = format!("{}-{number}", mode.name());
        if mode == Mode::Baseline {
            for client in self.wecs.iter().chain([&self.control]) {
                create_namespace(client, &namespace).await?;
            }
            return Ok(Station {
                namespace,
                server,
                cluster: None,
                member: None,
            });
        }
        let fixture = Fixture::on(self.env.clone(), &namespace).await?;
        let direct = self::server(&self.env.servers, server)?.kubeconfig();
        let kubeconfig = match &self.proxy {
            Some(proxy) if number == 0 => proxy.kubeconfig(),
            _ => direct,
        };
        let member = match mode {
            Mode::Push => fixture.join_push_through("wec", kubeconfig).await?,
            _ if is_agent_here => {
                fixture
                    .join("wec", self::server(&self.env.servers, server)?)
                    .await?
            }
            _ => {
                fixture
                    .join_pull_through("wec", kubeconfig, LEASE_SECONDS)
                    .await?
            }
        };
        until_held(&fixture, &member).await?;
        Ok(Station {
            namespace,
            server,
            cluster: Some(member.cluster.clone()),
            member: Some(member),
        })
    }

    /// Starts the watches and the baseline.
    async fn look(&mut self) -> Result<()> {
        let control = &self.env.control;
        let mut watches = vec![
            (control, Watches::Control),
            (control, Watches::Works),
            (control, Watches::Reports),
            (control, Watches::Policies),
            (control, Watches::Bindings),
        ];
        for (number, wec) in self.env.servers.wecs.iter().enumerate() {
            watches.push((wec, Watches::Cluster(number)));
            watches.push((wec, Watches::Records));
        }
        for (server, what) in watches {
            let client = server.client().await?;
            watches::watch(
                &mut self.tasks,
                client,
                what,
                self.timeline.clone(),
                self.door.clone(),
            )
            .await?;
        }
        if self.lines.iter().any(|line| line.mode == Mode::Baseline) {
            let mut wecs = Vec::new();
            for wec in &self.env.servers.wecs {
                wecs.push(client::connect(Some(wec.kubeconfig())).await?);
            }
            let control = client::connect(Some(control.kubeconfig())).await?;
            baseline::start(&mut self.tasks, &control, &wecs);
        }
        Ok(())
    }
}

/// Seconds of a Lease, equal to the default.
const LEASE_SECONDS: u64 = 30;

/// True if a row is also measured with a policy that chooses the cluster of each Workflow.
pub(super) fn has_best_cluster(row: char) -> bool {
    matches!(row, 'a' | 'c' | 'g')
}

impl Line {
    /// A short name that is valid in object names.
    pub(super) fn name(&self) -> String {
        let chosen = if self.is_best_cluster { "-best" } else { "" };
        format!("{}{chosen}", self.mode.name())
    }

    /// The station of the Workflow with this number: round-robin.
    pub(super) fn station(&self, number: usize) -> Result<&Station> {
        let at = number % self.stations.len().max(1);
        self.stations.get(at).context("a mode has places")
    }

    /// The processes of its agents.
    pub(super) fn agents(&self) -> impl Iterator<Item = &Binary> {
        let members = self.stations.iter().filter_map(|station| station.member.as_ref());
        // A hosted agent has no process.
        members.filter_map(|member| member.agent().ok())
    }
}

impl Station {
    /// The station of a policy that chooses the cluster, with its namespace of the same name.
    pub(super) fn of_policy(name: String) -> Self {
        Self {
            namespace: name.clone(),
            server: 0,
            cluster: Some(name),
            member: None,
        }
    }

    /// A Workflow for this station.
    pub(super) fn workflow(&self, name: &str) -> Workflow {
        let mut workflow = objects::workflow(name, self.cluster.as_deref().unwrap_or_default());
        workflow.metadata.namespace = Some(self.namespace.clone());
        if self.cluster.is_none() {
            baseline::claim(&mut workflow, self.server);
        }
        workflow
    }
}

fn server(servers: &Servers, number: usize) -> Result<&Server> {
    servers.wecs.get(number).context("there are two WEC servers")
}
