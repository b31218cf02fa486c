//! A fleet at rest (k): the requests that a thousand agents with nothing to do send to the API server
//! of the control cluster, and what they cost there and in the controller.
//!
//! With pull, the agents are in this process ([`agents`]). With push, the controller hosts them. All
//! clusters are on two API servers.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{Api, Client};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::Found;
use crate::{
    bench::{
        Options,
        agents::{self, JOINING, available, until_available},
        cost::Reading,
        environment::Mode,
        fake_argo::Script,
        measurement::Measurement,
        progress::tell,
        requests::{Counts, answered},
        samples::number,
        usage::Usage,
    },
    testenv::{
        TestEnv,
        env::Servers,
        objects::{CONTROLLER_NAMESPACE, create, create_namespace, kubeconfig_secret, managed_cluster},
        server::Server,
        store::Durability,
    },
};

/// Requests a second that the API server of the control cluster answers.
pub(in crate::bench) const REQUESTS: &str = "requests a second on the control cluster";

/// Number of clusters.
const CLUSTERS: usize = 1000;

/// Time after that until the agents have nothing more to do: each looks at its cluster within a minute.
const SETTLING: Duration = Duration::from_mins(2);

/// Time over which requests are counted; each watch is renewed several times.
const COUNTED: Duration = Duration::from_mins(10);

/// Measures the row in one mode.
pub(in crate::bench) async fn measure(options: &Options, mode: Mode, found: &mut Found) -> Result<()> {
    let servers = Arc::new(Servers::start(Durability::Synced).await?);
    {
        let env = TestEnv::start_guarded(servers.clone(), "rest").await?;
        let fleet = Fleet {
            control: env.control.client().await?,
            env,
            stop: CancellationToken::new(),
            agents: JoinSet::new(),
        };
        let outcome = fleet.measure(options.count(CLUSTERS, CLUSTERS), mode).await;
        found.add(outcome?);
    }
    servers.store.discard()
}

struct Fleet {
    env: TestEnv,
    control: Client,
    stop: CancellationToken,
    agents: JoinSet<()>,
}

/// The usage of the processes.
struct Used {
    server: Usage,
    controller: Usage,
    agents: Usage,
}

impl Fleet {
    async fn measure(mut self, count: usize, mode: Mode) -> Result<Measurement> {
        let before = self.used();
        let start = Instant::now();
        self.join(count, mode).await?;
        let joined = start.elapsed().as_secs_f64();
        let seconds = (SETTLING + COUNTED).as_secs();
        tell(&format!(
            "{count} clusters have joined after {joined:.0} s; {seconds} s at rest"
        ));
        // Nothing tells when an agent has nothing more to do.
        sleep(SETTLING).await;
        let (begun, answered_before) = (self.used(), answered(&self.control).await?);
        // This is the measurement.
        sleep(COUNTED).await;
        let (ended, answered) = (self.used(), answered(&self.control).await?);
        ensure!(
            self.agents.is_empty() || self.agents.len() == count,
            "an agent has ended"
        );
        let available = available(&self.control).await?;
        ensure!(
            available == count,
            "only {available} of {count} clusters are available"
        );
        self.stop.cancel();
        while self.agents.join_next().await.is_some() {}

        let mut measured = measurement(mode, format!("{count} clusters at rest"));
        measured.figures.insert("seconds until all have joined", joined);
        measured.figures.extend(figures(&before, &begun, &ended));
        if mode == Mode::Pull {
            let grown = ended.agents.resident_mib - before.agents.resident_mib;
            measured
                .figures
                .insert("KiB of each agent", grown * 1024.0 / number(count));
        }
        let requests = each_second(answered, &answered_before);
        measured.figures.insert(REQUESTS, requests.values().sum());
        measured.requests.insert("API server", requests);
        Ok(measured)
    }

    /// Registers all clusters, and waits until all agents have joined.
    async fn join(&mut self, count: usize, mode: Mode) -> Result<()> {
        stream::iter(0..count)
            .map(|number| self.register(number, mode))
            .buffered(JOINING)
            .try_collect::<()>()
            .await?;
        if mode == Mode::Push {
            return until_available(&self.control, count).await;
        }
        let its = self.env.control.kubeconfig();
        let clusters = (0..count).map(|number| Ok((name(number), wec(&self.env, number)?.kubeconfig())));
        let clusters: Vec<_> = clusters.collect::<Result<_>>()?;
        agents::start_all(&mut self.agents, &self.control, its, &clusters, &self.stop).await
    }

    fn used(&self) -> Used {
        Used {
            server: Usage::of(&[self.env.control.pid()]),
            controller: Usage::of(&[self.env.controller.pid()]),
            agents: Usage::of(&[std::process::id()]),
        }
    }

    /// Registers a cluster. With push, the controller then hosts its agent.
    async fn register(&self, number: usize, mode: Mode) -> Result<()> {
        let cluster = name(number);
        create(&Api::all(self.control.clone()), &managed_cluster(&cluster)).await?;
        create_namespace(&self.control, &cluster).await?;
        if mode == Mode::Push {
            let kubeconfig = tokio::fs::read(wec(&self.env, number)?.kubeconfig()).await?;
            let secrets = Api::namespaced(self.control.clone(), CONTROLLER_NAMESPACE);
            create(&secrets, &kubeconfig_secret(&cluster, kubeconfig)).await?;
        }
        Ok(())
    }
}

fn wec(env: &TestEnv, number: usize) -> Result<&Server> {
    let wecs = &env.servers.wecs;
    wecs.get(number % wecs.len()).context("there are two WEC servers")
}

/// What the processes use at rest, and how much more memory than without clusters.
fn figures(before: &Used, begun: &Used, ended: &Used) -> [(&'static str, f64); 4] {
    let percent = |now: &Usage, then: &Usage| now.since(then).cpu_seconds / COUNTED.as_secs_f64() * 100.0;
    let grown = |now: &Usage, then: &Usage| now.resident_mib - then.resident_mib;
    [
        ("MiB more of the API server", grown(&ended.server, &before.server)),
        (
            "% of a processor of the API server",
            percent(&ended.server, &begun.server),
        ),
        (
            "MiB more of the controller",
            grown(&ended.controller, &before.controller),
        ),
        (
            "% of a processor of the controller",
            percent(&ended.controller, &begun.controller),
        ),
    ]
}

/// The requests of each second, without those of which there are hardly any.
fn each_second(now: Counts, then: &Counts) -> Counts {
    let rates = now.into_iter().map(|(what, count)| {
        let since = count - then.get(&what).copied().unwrap_or_default();
        (what, since / COUNTED.as_secs_f64())
    });
    rates.filter(|(_, rate)| *rate >= 0.05).collect()
}

fn name(number: usize) -> String {
    format!("rest-{number:04}")
}

fn measurement(mode: Mode, case: String) -> Measurement {
    let script = Script {
        statuses: 0,
        nodes: 0,
        ends: false,
        ..Script::ONE
    };
    Measurement::new('k', mode, script, &[], &Reading::default()).called(case)
}
