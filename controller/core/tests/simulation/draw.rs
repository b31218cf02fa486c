//! Drawn fleets and Workflows: clusters of 32 to 256 CPUs of which others use up to 60 %, and
//! Workflows of one to four stages of up to eight equal pods with durations that vary widely.

use argosy_api::{ManagedCluster, names};
use argosy_core::explain::dry_run::{Choice, Demand};
use serde_json::{Value, json};

/// The arrival of the Workflows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrival {
    AtOnce,
    /// As many for each second as keep this part of the fleet busy.
    Load(f64),
}

impl Arrival {
    pub(crate) fn name(self) -> String {
        match self {
            Self::AtOnce => "at once".to_owned(),
            Self::Load(part) => format!("{:.0} % load", part * 100.0),
        }
    }
}

/// Pods of a Workflow that run at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    pub(crate) width: u32,
    pub(crate) cpu: f64,
    /// In seconds.
    pub(crate) duration: f64,
}

#[derive(Debug)]
pub(crate) struct Flow {
    /// In seconds.
    pub(crate) arrival: f64,
    pub(crate) stages: Vec<Stage>,
    pub(crate) demand: Demand,
}

/// A fleet and its Workflows.
#[derive(Debug)]
pub(crate) struct Draw {
    pub(crate) seed: u64,
    pub(crate) arrival: Arrival,
    pub(crate) clusters: Vec<ManagedCluster>,
    /// CPUs of each cluster that others do not use.
    pub(crate) free: Vec<f64>,
    pub(crate) flows: Vec<Flow>,
    /// In seconds.
    pub(crate) bound: f64,
}

/// A small generator (splitmix64), so that a seed means the same draw on each machine and with each
/// version of a library.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1, never 0.
    pub(crate) fn part(&mut self) -> f64 {
        let bits = u32::try_from(self.next() >> 32).unwrap();
        (f64::from(bits) + 1.0) / 4_294_967_297.0
    }

    pub(crate) fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::try_from(self.next() % values.len() as u64).unwrap()]
    }

    fn log_normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let (one, other) = (self.part(), self.part());
        let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos();
        (mean + deviation * normal).exp()
    }
}

/// A cluster with this number of CPUs and GPUs, and with pods of others.
pub(crate) fn cluster(number: usize, cpus: f64, foreign: f64, gpus: u32) -> ManagedCluster {
    let room = json!({ "cpu": { "node": cpus.to_string(), "foreign": foreign.to_string() } }).to_string();
    serde_json::from_value(json!({
        "metadata": { "name": format!("cluster{number:04}") }, "spec": {},
        "status": {
            "allocatable": { "cpu": cpus.to_string(), "nvidia.com/gpu": gpus.to_string() },
            "clusterClaims": [{ "name": names::ROOM_CLAIM, "value": room }],
        },
    }))
    .unwrap()
}

fn stages(random: &mut Random) -> Vec<Stage> {
    let count = random.one_of(&[1, 2, 3, 4]);
    let stage = |_| Stage {
        width: random.one_of(&[1, 1, 1, 2, 4, 8]),
        cpu: random.one_of(&[0.5, 0.5, 1.0, 1.0, 2.0, 4.0]),
        duration: random.log_normal(4.4, 0.8),
    };
    (0..count).map(stage).collect()
}

/// The Workflow as a user writes it.
fn spec(stages: &[Stage]) -> Value {
    let steps = stages.iter().enumerate().map(|(number, stage)| {
        json!([{ "name": format!("s{number}"), "template": format!("t{number}"), "withSequence": { "count": stage.width.to_string() } }])
    });
    let main = json!({ "name": "main", "steps": steps.collect::<Vec<_>>() });
    let pods = stages.iter().enumerate().map(|(number, stage)| {
        let requests = json!({ "cpu": stage.cpu.to_string() });
        json!({ "name": format!("t{number}"), "container": { "resources": { "requests": requests } } })
    });
    let templates: Vec<Value> = std::iter::once(main).chain(pods).collect();
    json!({ "entrypoint": "main", "templates": templates })
}

impl Draw {
    pub(crate) fn new(seed: u64, flows: usize, clusters: usize, arrival: Arrival) -> Self {
        let mut random = Random::new(seed);
        let sizes: Vec<(f64, f64)> = (0..clusters)
            .map(|_| {
                let cpus = random.one_of(&[32.0, 32.0, 64.0, 64.0, 128.0, 256.0]);
                (cpus, cpus * random.one_of(&[0.0, 0.0, 0.1, 0.3, 0.6]))
            })
            .collect();
        let free: Vec<f64> = sizes.iter().map(|(cpus, foreign)| cpus - foreign).collect();
        let capacity: f64 = free.iter().sum();
        let drawn: Vec<Vec<Stage>> = (0..flows).map(|_| stages(&mut random)).collect();
        let work_of = |stages: &[Stage]| -> f64 {
            stages
                .iter()
                .map(|stage| f64::from(stage.width) * stage.cpu * stage.duration)
                .sum()
        };
        let work: f64 = drawn.iter().map(|stages| work_of(stages)).sum();
        let mut now = 0.0;
        let flows: Vec<Flow> = drawn
            .into_iter()
            .map(|stages| {
                if let Arrival::Load(part) = arrival {
                    let mean = work / f64::from(u32::try_from(flows).unwrap()) / (part * capacity);
                    now -= random.part().ln() * mean;
                }
                Flow {
                    arrival: now,
                    demand: Choice::demand(&spec(&stages)),
                    stages,
                }
            })
            .collect();
        let alone = flows
            .iter()
            .map(|flow| flow.arrival + flow.stages.iter().map(|stage| stage.duration).sum::<f64>());
        let bound = alone.fold(work / capacity, f64::max);
        let clusters = sizes
            .iter()
            .enumerate()
            .map(|(number, (cpus, foreign))| cluster(number, *cpus, *foreign, 0));
        Self {
            seed,
            arrival,
            clusters: clusters.collect(),
            free,
            flows,
            bound,
        }
    }
}
