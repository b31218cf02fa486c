//! The real choice, and rules of other systems.

use argosy_core::explain::dry_run::{Choice, Claimed};

use crate::{
    draw::{Draw, Random, Stage},
    fleet::Member,
};

/// A rule that chooses clusters.
pub(crate) trait Chooser {
    /// The cluster for a Workflow; `None` if it waits on the control cluster.
    fn choose(&mut self, draw: &Draw, members: &[Member], now: f64, flow: usize) -> Option<usize>;

    /// The pods of a stage were created, which request so many CPUs together.
    fn runs(&mut self, _flow: usize, _cluster: usize, _cpus: f64) {}

    /// A Workflow has ended.
    fn ended(&mut self, _flow: usize, _cluster: usize) {}

    /// The time at which a Workflow that arrives at once is looked at, in seconds.
    fn delay(&self, _flow: usize) -> f64 {
        0.0
    }
}

/// Argosy's own choice.
pub(crate) struct BestCluster {
    choice: Choice,
    claims: Vec<Option<Claimed>>,
}

impl BestCluster {
    pub(crate) fn new(draw: &Draw) -> Self {
        Self {
            choice: Choice::new(&draw.clusters),
            claims: draw.flows.iter().map(|_| None).collect(),
        }
    }
}

impl Chooser for BestCluster {
    fn choose(&mut self, draw: &Draw, _: &[Member], _: f64, flow: usize) -> Option<usize> {
        let demand = &draw.flows[flow].demand;
        let chosen = self.choice.choose(demand)?;
        self.claims[flow] = Some(self.choice.claim(chosen, demand));
        Some(chosen)
    }

    fn runs(&mut self, flow: usize, cluster: usize, cpus: f64) {
        if let Some(claim) = &mut self.claims[flow] {
            self.choice
                .run(cluster, claim, &format!("cpu={:.0}m", cpus * 1000.0));
        }
    }

    fn ended(&mut self, flow: usize, cluster: usize) {
        if let Some(claim) = self.claims[flow].take() {
            self.choice.end(cluster, &claim);
        }
    }
}

/// The clusters in turn.
#[derive(Default)]
pub(crate) struct RoundRobin(usize);

impl Chooser for RoundRobin {
    fn choose(&mut self, _: &Draw, members: &[Member], _: f64, _: usize) -> Option<usize> {
        self.0 += 1;
        Some((self.0 - 1) % members.len())
    }
}

/// The cluster with the fewest unfinished runs, as OCM's prioritizer `Balance` would choose if it
/// counted runs (ocm `pkg/placement/plugins/balance`).
pub(crate) struct FewestRuns;

impl Chooser for FewestRuns {
    fn choose(&mut self, _: &Draw, members: &[Member], _: f64, _: usize) -> Option<usize> {
        (0..members.len()).min_by_key(|member| members[*member].runs)
    }
}

/// The cluster that had the most free CPU when it last reported, without a reservation for what was
/// sent since (karmada `pkg/scheduler/core/util.go` calAvailableReplicas, and the status of a Cluster
/// every 10 s; the gate `SchedulingOvercommitProtection` is off by default).
#[derive(Default)]
pub(crate) struct Karmada {
    seen: Vec<f64>,
    seen_at: f64,
}

impl Chooser for Karmada {
    fn choose(&mut self, draw: &Draw, members: &[Member], now: f64, _: usize) -> Option<usize> {
        if self.seen.is_empty() || now - self.seen_at >= 10.0 {
            self.seen = draw
                .free
                .iter()
                .zip(members)
                .map(|(free, member)| free - member.used)
                .collect();
            self.seen_at = now;
        }
        (0..members.len()).max_by(|one, other| self.seen[*one].total_cmp(&self.seen[*other]))
    }
}

/// Any of twenty clusters with enough quota for the widest stage, 45 admissions each second (kueue
/// `pkg/controller/workloaddispatcher`: all workers are nominated, the first that admits wins).
pub(crate) struct MultiKueue {
    random: Random,
    reserved: Vec<f64>,
    peaks: Vec<f64>,
}

impl MultiKueue {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            reserved: Vec::new(),
            peaks: Vec::new(),
        }
    }
}

const WORKERS: usize = 20;

impl Chooser for MultiKueue {
    fn choose(&mut self, draw: &Draw, members: &[Member], _: f64, flow: usize) -> Option<usize> {
        if self.reserved.is_empty() {
            self.reserved = vec![0.0; members.len()];
            let peak = |stages: &[Stage]| {
                stages
                    .iter()
                    .map(|stage| f64::from(stage.width) * stage.cpu)
                    .fold(0.0, f64::max)
            };
            self.peaks = draw.flows.iter().map(|flow| peak(&flow.stages)).collect();
        }
        let first = (flow % (members.len() / WORKERS)) * WORKERS;
        let has_quota = |member: &usize| {
            members[*member].runs == 0 || self.reserved[*member] + self.peaks[flow] <= draw.free[*member]
        };
        let workers: Vec<usize> = (first..first + WORKERS).filter(has_quota).collect();
        if workers.is_empty() {
            return None;
        }
        let chosen = self.random.one_of(&workers);
        self.reserved[chosen] += self.peaks[flow];
        Some(chosen)
    }

    fn ended(&mut self, flow: usize, cluster: usize) {
        self.reserved[cluster] -= self.peaks[flow];
    }

    fn delay(&self, flow: usize) -> f64 {
        f64::from(u32::try_from(flow).unwrap()) / 45.0
    }
}
