//! Leader election of this process by a Lease, and the notification of its parts.
//!
//! A process that loses its leadership exits. Its indexes, queues and running requests go with it,
//! and it is restarted as a standby. Nothing has to be undone part by part, and the next leader
//! starts like any process, from listing. A standby that had kept watches could not skip that: its
//! watches may be behind the former leader's last writes, and a stale index would start a run again
//! that has come and gone meanwhile. A leader whose API server does not answer for some seconds keeps
//! its indexes: it writes nothing until it has renewed the Lease, and exits if another one held it
//! meanwhile. Otherwise, a start with a large fleet would load a busy API server even more. The
//! [gate](gate::Gate) also covers the moments in between, and a process that was stopped and goes on.
//! Not here: the rules of the election (`argosy_core::election`).

pub mod gate;

use std::{
    collections::hash_map::RandomState,
    env,
    hash::{BuildHasher, Hasher},
    mem,
    pin::pin,
    time::Duration,
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
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::Instrument;

use self::gate::Gate;
use crate::runtime::{
    admin::Readiness,
    args::LeaderElectArgs,
    lenient::Lenient,
    metrics::Metrics,
    requests::{call, creating},
    watch::{follow, selecting},
};

/// Names of the readiness parts: before the election is decided, for the leader and for a standby.
const UNDECIDED: &str = "election";
const LEADS: &str = "leads";
const FOLLOWS: &str = "follows";

/// Longer than loops on the same thread ever take one after the other, and than a kubelet takes to
/// restart a process that hangs.
pub const LONGEST_TURN: Duration = Duration::from_mins(3);

/// The position that a process is elected for.
#[derive(Debug)]
pub struct LeaseSettings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub lease: String,
    /// Field manager of its writes.
    pub manager: &'static str,
    /// Parts of the process that must be ready if it leads.
    pub parts: &'static [&'static str],
    /// The process gives up its leadership if a loop does not make progress for this time
    /// ([`LONGEST_TURN`]).
    pub longest_turn: Duration,
}

/// The leadership of this process. Clones share it.
#[derive(Clone, Debug)]
pub struct Leadership {
    leads: watch::Receiver<bool>,
    gate: Gate,
}

impl Leadership {
    /// Leadership of a process without an election.
    pub fn always() -> Self {
        Self {
            leads: watch::channel(true).1,
            gate: Gate::open(),
        }
    }

    /// The gate for the writes of this process.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Returns true if this process leads.
    pub fn leads(&self) -> bool {
        *self.leads.borrow()
    }

    /// Waits until this process leads.
    pub async fn begins(&self) {
        if self.leads.clone().wait_for(|leads| *leads).await.is_err() {
            // The election has ended without success, and the process ends, too.
            std::future::pending::<()>().await;
        }
    }
}

/// The election of this process; empty if there is no election.
pub struct Election(Option<Contest>);

struct Contest {
    api: Api<Lease>,
    watched: Api<Lenient<Lease>>,
    post: LeaseSettings,
    candidate: Candidate,
    started: Instant,
    gate: Gate,
    leads: watch::Sender<bool>,
    gauge: Gauge,
    metrics: Metrics,
    readiness: Readiness,
    /// Holder that was last logged.
    told: Option<String>,
    /// The Lease was not renewed in time, and may still be.
    is_late: bool,
}

/// Makes this process a candidate for `post`, unless election is disabled. `client` writes the
/// Lease and must not go through the gate.
///
/// # Errors
///
/// The durations contradict each other.
pub fn start_election(
    args: &LeaderElectArgs,
    post: LeaseSettings,
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
    let terms =
        terms.map_err(|wrong| anyhow!("invalid leader election flags (--leader-elect-*): {wrong}"))?;
    let identity = args.leader_elect_identity.clone().unwrap_or_else(some_identity);
    let (leads, told) = watch::channel(false);
    let gate = Gate::closed();
    readiness.expect(&[UNDECIDED]);
    let contest = Contest {
        api: Api::namespaced(client.clone(), &post.namespace),
        watched: Api::namespaced(client.clone(), &post.namespace),
        candidate: Candidate::new(&identity, &post.namespace, &post.lease, terms),
        post,
        started: Instant::now(),
        gate: gate.clone(),
        leads,
        gauge,
        metrics: metrics.clone(),
        readiness: readiness.clone(),
        told: None,
        is_late: false,
    };
    Ok((Election(Some(contest)), Leadership { leads: told, gate }))
}

/// The host name, followed by a random number that no other process has.
fn some_identity() -> String {
    let host = env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"));
    let host = host.unwrap_or_default();
    // The keys of a `RandomState` are random.
    let random = RandomState::new().build_hasher().finish();
    format!("{}_{random:016x}", host.trim())
}

impl Election {
    /// Runs `work`, which itself waits for leadership, and releases the Lease when it has ended. If
    /// the process loses its leadership, this returns earlier and drops `work`.
    pub async fn hold(self, work: impl Future<Output = ()>) {
        let Some(contest) = self.0 else {
            return work.await;
        };
        let done = CancellationToken::new();
        // In a task of its own: while a loop learns a long list, nothing else of its task goes on. An agent
        // has one thread for all tasks, and much shorter lists.
        let contest = tokio::spawn(contest.run(done.clone()).in_current_span());
        let (mut contest, mut work) = (AbortOnDropHandle::new(contest), pin!(work));
        let ended = tokio::select! {
            () = &mut work => None,
            ended = &mut contest => Some(ended),
        };
        let ended = if let Some(ended) = ended {
            ended
        } else {
            done.cancel();
            contest.await
        };
        if let Err(error) = ended
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
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
            let step = self.candidate.decide(self.started.elapsed(), Timestamp::now());
            if step != Step::Lost {
                if let Some(engine) = self.hung() {
                    tracing::error!(
                        engine,
                        "a loop makes no progress; this process no longer leads and ends"
                    );
                    return self.resign();
                }
                self.notice_lateness();
            }
            let until = match step {
                Step::Write(lease) => {
                    self.write(&lease).await;
                    continue;
                }
                Step::Wait(until) => until.map(|until| self.started + until),
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

    /// A loop that has made no progress for longer than it may. As the election has its own task, such
    /// a process would keep others from leading.
    fn hung(&self) -> Option<&'static str> {
        let late = self.metrics.overdue(self.post.longest_turn, Instant::now());
        late.first().map(|(engine, _)| *engine)
    }

    /// Logs once that the process has stopped writing.
    fn notice_lateness(&mut self) {
        let led_until = self.candidate.leads_until();
        if self.is_late || led_until.is_none_or(|end| self.started.elapsed() < end) {
            return;
        }
        self.is_late = true;
        self.gauge.set(0);
        let LeaseSettings { namespace, lease, .. } = &self.post;
        tracing::warn!(
            kind = "Lease",
            namespace,
            name = lease,
            "the Lease was not renewed in time; this process writes nothing until it has renewed it"
        );
    }

    fn learn(&mut self, change: Change<Lease>) {
        self.candidate.learn(change, self.started.elapsed());
        let holder = self.candidate.holder().filter(|_| !*self.leads.borrow());
        if let Some(holder) = holder
            && self.told.as_deref() != Some(holder)
        {
            let LeaseSettings { namespace, lease, .. } = &self.post;
            tracing::info!(kind = "Lease", namespace, name = lease, holder, "follows");
            self.told = Some(holder.to_owned());
            self.readiness.forget(UNDECIDED);
            self.readiness.tell(FOLLOWS, Vec::new());
        }
    }

    async fn write(&mut self, lease: &Lease) {
        let terms = self.candidate.terms();
        let started = Instant::now();
        // A third of the deadline, so that several attempts fit into it.
        let answer = match timeout(terms.renew_deadline() / 3, put(&self.api, &self.post, lease)).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure::Unreachable(
                "the API server did not answer in time".to_owned(),
            )),
        };
        let now = self.started.elapsed();
        let failure = match answer {
            Ok(lease) => {
                self.candidate.wrote(lease, started - self.started, now);
                self.gate.extend(
                    started + terms.renew_deadline(),
                    started + terms.answer_deadline(),
                );
                self.lead();
                return;
            }
            Err(failure) => failure,
        };
        self.candidate.failed(now);
        let LeaseSettings { namespace, lease, .. } = &self.post;
        match failure {
            // Another candidate was faster, or the watch is behind.
            Failure::Conflict | Failure::Foreign(_) | Failure::NotFound { namespace: false, .. } => {
                self.read().await;
            }
            failure => {
                tracing::warn!(
                    kind = "Lease",
                    namespace,
                    name = lease,
                    error = %failure,
                    "cannot write the Lease of the leader election"
                );
            }
        }
    }

    async fn read(&mut self) {
        let limit = self.candidate.terms().renew_deadline() / 3;
        if let Ok(Ok(there)) = timeout(limit, call(self.api.get_opt(&self.post.lease))).await {
            self.learn(Change::Reset(there.into_iter().collect()));
        }
    }

    fn lead(&mut self) {
        let was_late = mem::take(&mut self.is_late);
        let has_led = *self.leads.borrow();
        if has_led && !was_late {
            return;
        }
        let LeaseSettings { namespace, lease, .. } = &self.post;
        tracing::info!(kind = "Lease", namespace, name = lease, "leads");
        self.gauge.set(1);
        if has_led {
            return;
        }
        self.readiness.expect(self.post.parts);
        for part in [UNDECIDED, FOLLOWS] {
            self.readiness.forget(part);
        }
        self.readiness.tell(LEADS, Vec::new());
        self.leads.send_replace(true);
    }

    /// Begins no write any more. The Lease stays as it is.
    fn resign(&self) {
        self.gate.close();
        self.gauge.set(0);
    }

    fn lose(&self) {
        self.resign();
        let LeaseSettings { namespace, lease, .. } = &self.post;
        let holder = self.candidate.holder();
        tracing::error!(
            kind = "Lease",
            namespace,
            name = lease,
            holder,
            "the Lease was not renewed in time, or another replica holds it; this process no longer leads \
            and ends"
        );
    }

    /// Releases the Lease after all work: only when each write was answered, or was given up long
    /// enough ago.
    async fn give_back(self) {
        self.resign();
        let terms = self.candidate.terms();
        self.gate.settle(terms.arrival()).await;
        let Some(lease) = self.candidate.release(Timestamp::now()) else {
            return;
        };
        let LeaseSettings {
            namespace,
            lease: name,
            ..
        } = &self.post;
        match call(self.api.replace(name, &creating(self.post.manager), &lease)).await {
            Ok(_) => tracing::info!(
                kind = "Lease",
                namespace,
                name,
                "released the Lease of the leader election"
            ),
            Err(failure) => {
                tracing::warn!(
                    kind = "Lease",
                    namespace,
                    name,
                    error = %failure,
                    "cannot release the Lease of the leader election"
                );
            }
        }
    }
}

async fn put(api: &Api<Lease>, post: &LeaseSettings, lease: &Lease) -> Result<Lease, Failure> {
    let params = creating(post.manager);
    match lease.resource_version() {
        Some(_) => call(api.replace(&post.lease, &params, lease)).await,
        None => call(api.create(&params, lease)).await,
    }
}
