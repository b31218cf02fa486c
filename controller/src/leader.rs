//! Leadership as the shell has it: the election of this process by a Lease, and what the parts of the process are told of it.
//!
//! A process that leads no longer ends. Its indexes, queues and requests under way are gone with it, and whoever starts it again starts a
//! follower: nothing has to be taken back part by part, and the next leader begins like any process, from listing. A standby that had
//! watched all the while could not do without that: its watches may be behind what the former leader did last, and an index that has
//! slept would start a run again that has come and gone meanwhile. What is shown by the way: the
//! [gate](gate::Gate), which holds in the moments between, and where a process was stopped and goes on. Not here: who is to lead
//! (`argosy_core::election`).

pub mod gate;

use std::{
    collections::hash_map::RandomState,
    env,
    hash::{BuildHasher, Hasher},
    pin::pin,
};

use anyhow::anyhow;
use argosy_core::{
    Change, Failure,
    election::{Candidate, Step, Terms},
};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, ResourceExt};
use prometheus_client::metrics::gauge::Gauge;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::gate::Gate;
use crate::{
    admin::Readiness,
    args::LeaderElectArgs,
    metrics::Metrics,
    outcome::{call, creating},
    tolerant::Tolerant,
    watch::{follow, selecting},
};

/// What readiness names while the election is not decided, and afterwards.
const UNDECIDED: &str = "election";
const LEADS: &str = "leads";
const FOLLOWS: &str = "follows";

/// What a process is elected for.
#[derive(Debug)]
pub struct Post {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub lease: String,
    /// Field manager that writes it.
    pub manager: &'static str,
    /// Parts of the process that must be ready once it leads.
    pub parts: &'static [&'static str],
}

/// Whether this process leads. Clones share it.
#[derive(Clone, Debug)]
pub struct Leadership {
    leads: watch::Receiver<bool>,
    gate: Gate,
}

impl Leadership {
    /// That of a process which is alone.
    pub fn always() -> Self {
        Self {
            leads: watch::channel(true).1,
            gate: Gate::open(),
        }
    }

    /// What the writes of this process go through.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Whether it leads.
    pub fn leads(&self) -> bool {
        *self.leads.borrow()
    }

    /// Until it leads.
    pub async fn begins(&self) {
        if self.leads.clone().wait_for(|leads| *leads).await.is_err() {
            // The election has ended without it, and the process with that.
            std::future::pending::<()>().await;
        }
    }
}

/// The election of this process; of a process that is alone, nothing.
pub struct Election(Option<Contest>);

struct Contest {
    api: Api<Lease>,
    watched: Api<Tolerant<Lease>>,
    post: Post,
    candidate: Candidate,
    began: Instant,
    gate: Gate,
    leads: watch::Sender<bool>,
    gauge: Gauge,
    readiness: Readiness,
    /// Whom it was said to follow.
    told: Option<String>,
}

/// Makes this process a candidate for `post`, if it is to be one. `client` writes the Lease and must not go through the gate.
///
/// # Errors
///
/// The durations do not fit each other.
pub fn stand(
    args: &LeaderElectArgs,
    post: Post,
    client: &Client,
    metrics: &Metrics,
    readiness: &Readiness,
) -> anyhow::Result<(Election, Leadership)> {
    let gauge = metrics.leader();
    if !args.leader_elect {
        gauge.set(1);
        readiness.expect(post.parts);
        return Ok((Election(None), Leadership::always()));
    }
    let terms = Terms::new(
        args.leader_elect_lease_duration,
        args.leader_elect_renew_deadline,
        args.leader_elect_retry_period,
    );
    let terms = terms.map_err(|wrong| anyhow!("--leader-elect-lease-duration and its like: {wrong}"))?;
    let identity = args.leader_elect_identity.clone().unwrap_or_else(some_identity);
    let (leads, told) = watch::channel(false);
    let gate = Gate::closed();
    readiness.expect(&[UNDECIDED]);
    let contest = Contest {
        api: Api::namespaced(client.clone(), &post.namespace),
        watched: Api::namespaced(client.clone(), &post.namespace),
        candidate: Candidate::new(&identity, &post.namespace, &post.lease, terms),
        post,
        began: Instant::now(),
        gate: gate.clone(),
        leads,
        gauge,
        readiness: readiness.clone(),
        told: None,
    };
    Ok((Election(Some(contest)), Leadership { leads: told, gate }))
}

/// The name of the host, and something that no other process has.
fn some_identity() -> String {
    let host = env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"));
    let host = host.unwrap_or_default();
    // Its keys are random.
    let random = RandomState::new().build_hasher().finish();
    format!("{}_{random:016x}", host.trim())
}

impl Election {
    /// Does `work`, which waits by itself until the process leads, and gives the Lease back when it has ended. Ends before only when the
    /// process leads no longer, and `work` with it.
    pub async fn hold(self, work: impl Future<Output = ()>) {
        let Some(contest) = self.0 else {
            return work.await;
        };
        let done = CancellationToken::new();
        let (mut contest, mut work) = (pin!(contest.run(done.clone())), pin!(work));
        let has_ended = tokio::select! {
            () = &mut work => false,
            () = &mut contest => true,
        };
        if !has_ended {
            done.cancel();
            contest.await;
        }
    }
}

impl Contest {
    async fn run(mut self, done: CancellationToken) {
        let (sender, mut news) = mpsc::channel(16);
        let selection = selecting("").fields(&format!("metadata.name={}", self.post.lease));
        let mut watching = pin!(follow(
            self.watched.clone(),
            selection,
            sender,
            |change| change,
            |_| None
        ));
        loop {
            let until = match self.candidate.decide(self.began.elapsed(), Timestamp::now()) {
                Step::Write(lease) => {
                    self.write(&lease).await;
                    continue;
                }
                Step::Wait(until) => until.map(|until| self.began + until),
                Step::Lost => return self.lose(),
            };
            tokio::select! {
                () = done.cancelled() => return self.give_back().await,
                () = &mut watching => return,
                Some(change) = news.recv() => self.learn(change),
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {}
            }
        }
    }

    fn learn(&mut self, change: Change<Lease>) {
        self.candidate.learn(change, self.began.elapsed());
        let holder = self.candidate.holder().filter(|_| !*self.leads.borrow());
        if let Some(holder) = holder
            && self.told.as_deref() != Some(holder)
        {
            let Post { namespace, lease, .. } = &self.post;
            tracing::info!(kind = "Lease", namespace, name = lease, holder, "follows");
            self.told = Some(holder.to_owned());
            self.readiness.forget(UNDECIDED);
            self.readiness.tell(FOLLOWS, Vec::new());
        }
    }

    async fn write(&mut self, lease: &Lease) {
        let terms = self.candidate.terms();
        let began = Instant::now();
        // Several fit into the deadline.
        let answer = match timeout(terms.renew_deadline() / 3, put(&self.api, &self.post, lease)).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure::Unreachable("it was not answered in time".to_owned())),
        };
        let now = self.began.elapsed();
        let failure = match answer {
            Ok(lease) => {
                self.candidate.wrote(lease, began - self.began, now);
                self.gate
                    .extend(began + terms.renew_deadline(), began + terms.answer_deadline());
                self.lead();
                return;
            }
            Err(failure) => failure,
        };
        self.candidate.failed(now);
        let Post { namespace, lease, .. } = &self.post;
        match failure {
            // Somebody else was faster, or the watch is behind.
            Failure::Conflict | Failure::Foreign(_) | Failure::NotFound { namespace: false, .. } => {
                self.read().await;
            }
            failure => {
                tracing::warn!(kind = "Lease", namespace, name = lease, error = %failure, "cannot write the Lease of the election");
            }
        }
    }

    async fn read(&mut self) {
        let limit = self.candidate.terms().renew_deadline() / 3;
        if let Ok(Ok(there)) = timeout(limit, call(self.api.get_opt(&self.post.lease))).await {
            self.learn(Change::Reset(there.into_iter().collect()));
        }
    }

    fn lead(&self) {
        if *self.leads.borrow() {
            return;
        }
        let Post { namespace, lease, .. } = &self.post;
        tracing::info!(kind = "Lease", namespace, name = lease, "leads");
        self.gauge.set(1);
        self.readiness.expect(self.post.parts);
        for part in [UNDECIDED, FOLLOWS] {
            self.readiness.forget(part);
        }
        self.readiness.tell(LEADS, Vec::new());
        self.leads.send_replace(true);
    }

    fn lose(&self) {
        self.gate.close();
        self.gauge.set(0);
        let Post { namespace, lease, .. } = &self.post;
        let holder = self.candidate.holder();
        tracing::error!(
            kind = "Lease",
            namespace,
            name = lease,
            holder,
            "the Lease was not renewed in time, or was taken; this process leads no longer and ends"
        );
    }

    /// When all work has ended: not before each write was answered, or has been given up for long enough.
    async fn give_back(self) {
        self.gate.close();
        self.gauge.set(0);
        let terms = self.candidate.terms();
        self.gate.settle(terms.arrival()).await;
        let Some(lease) = self.candidate.release(Timestamp::now()) else {
            return;
        };
        let Post {
            namespace,
            lease: name,
            ..
        } = &self.post;
        match call(self.api.replace(name, &creating(self.post.manager), &lease)).await {
            Ok(_) => tracing::info!(kind = "Lease", namespace, name, "gave the Lease back"),
            Err(failure) => {
                tracing::warn!(kind = "Lease", namespace, name, error = %failure, "cannot give the Lease back");
            }
        }
    }
}

async fn put(api: &Api<Lease>, post: &Post, lease: &Lease) -> Result<Lease, Failure> {
    let params = creating(post.manager);
    match lease.resource_version() {
        Some(_) => call(api.replace(&post.lease, &params, lease)).await,
        None => call(api.create(&params, lease)).await,
    }
}
