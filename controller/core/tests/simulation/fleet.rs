//! The course of a fleet: each cluster starts waiting pods in the order of their creation as far as
//! they fit, and smaller ones pass, as with the kube-scheduler. There are no failures.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use crate::{choosers::Chooser, draw::Draw};

/// Maximum number of waiting stages that a cluster looks at for one event.
const LOOKED_AT: usize = 200;

/// The least that a pod asks for.
const LEAST: f64 = 0.5;

/// Maximum number of Workflows that are looked at again when a pod ends.
const DRAINED: usize = 8;

/// The state of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Member {
    /// CPUs that pods of our Workflows use.
    pub(crate) used: f64,
    /// Number of unfinished Workflows.
    pub(crate) runs: u32,
    waiting: VecDeque<Waiting>,
}

/// Pods of a stage that have not started.
#[derive(Debug)]
struct Waiting {
    flow: usize,
    pods: u32,
}

#[derive(Debug, Default, Clone)]
struct Course {
    cluster: usize,
    stage: usize,
    left: u32,
    first: Option<f64>,
    end: Option<f64>,
}

/// Times in seconds.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) end: f64,
    pub(crate) mean_turnaround: f64,
    /// From the arrival to the first pod.
    pub p95_wait: f64,
}

/// A time in nanoseconds, so that events have an order.
type Nanos = u64;

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times are positive and small"
)]
fn nanos(seconds: f64) -> Nanos {
    (seconds * 1e9) as Nanos
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival(usize),
    /// So many pods of the current stage have ended.
    Pods(usize, u32),
}

struct Run<'a> {
    draw: &'a Draw,
    chooser: &'a mut dyn Chooser,
    members: Vec<Member>,
    courses: Vec<Course>,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    numbers: u64,
    held: VecDeque<usize>,
}

/// Plays the course with a chooser.
pub(crate) fn run(draw: &Draw, chooser: &mut dyn Chooser) -> Outcome {
    let mut run = Run {
        draw,
        chooser,
        members: draw.clusters.iter().map(|_| Member::default()).collect(),
        courses: vec![Course::default(); draw.flows.len()],
        events: BinaryHeap::new(),
        numbers: 0,
        held: VecDeque::new(),
    };
    for (number, flow) in draw.flows.iter().enumerate() {
        let at = flow.arrival + run.chooser.delay(number);
        run.push(at, Event::Arrival(number));
    }
    while let Some(Reverse((at, _, event))) = run.events.pop() {
        run.happens(std::time::Duration::from_nanos(at).as_secs_f64(), event);
    }
    run.outcome()
}

impl Run<'_> {
    fn push(&mut self, at: f64, event: Event) {
        self.numbers += 1;
        self.events.push(Reverse((nanos(at), self.numbers, event)));
    }

    fn happens(&mut self, now: f64, event: Event) {
        match event {
            Event::Arrival(flow) => {
                if !self.place(now, flow) {
                    self.held.push_back(flow);
                }
            }
            Event::Pods(flow, pods) => {
                let course = &mut self.courses[flow];
                let stage = self.draw.flows[flow].stages[course.stage];
                let cluster = course.cluster;
                course.left -= pods;
                let is_over = course.left == 0;
                self.members[cluster].used -= f64::from(pods) * stage.cpu;
                if is_over {
                    self.courses[flow].stage += 1;
                    self.advance(now, flow);
                }
                self.start(now, cluster);
                for _ in 0..DRAINED {
                    let Some(held) = self.held.front().copied() else {
                        break;
                    };
                    if !self.place(now, held) {
                        break;
                    }
                    self.held.pop_front();
                }
            }
        }
    }

    fn place(&mut self, now: f64, flow: usize) -> bool {
        let Some(cluster) = self.chooser.choose(self.draw, &self.members, now, flow) else {
            return false;
        };
        self.courses[flow].cluster = cluster;
        self.members[cluster].runs += 1;
        self.advance(now, flow);
        self.start(now, cluster);
        true
    }

    /// Begins the current stage, or ends the Workflow.
    fn advance(&mut self, now: f64, flow: usize) {
        let course = &mut self.courses[flow];
        let Some(stage) = self.draw.flows[flow].stages.get(course.stage) else {
            course.end = Some(now);
            let cluster = course.cluster;
            self.members[cluster].runs -= 1;
            self.chooser.ended(flow, cluster);
            return;
        };
        course.left = stage.width;
        let cpus = f64::from(stage.width) * stage.cpu;
        self.chooser.runs(flow, course.cluster, cpus);
        let waiting = Waiting {
            flow,
            pods: stage.width,
        };
        self.members[course.cluster].waiting.push_back(waiting);
    }

    /// Starts the pods that fit.
    fn start(&mut self, now: f64, cluster: usize) {
        let mut started = Vec::new();
        let member = &mut self.members[cluster];
        let mut free = self.draw.free[cluster] - member.used;
        for waiting in member.waiting.iter_mut().take(LOOKED_AT) {
            if free < LEAST {
                break;
            }
            let course = &mut self.courses[waiting.flow];
            let stage = self.draw.flows[waiting.flow].stages[course.stage];
            let mut pods = 0;
            while pods < waiting.pods && stage.cpu <= free {
                free -= stage.cpu;
                pods += 1;
            }
            if pods > 0 {
                course.first.get_or_insert(now);
                waiting.pods -= pods;
                member.used += f64::from(pods) * stage.cpu;
                started.push((now + stage.duration, Event::Pods(waiting.flow, pods)));
            }
        }
        if !started.is_empty() {
            member.waiting.retain(|waiting| waiting.pods > 0);
        }
        for (at, event) in started {
            self.push(at, event);
        }
    }

    fn outcome(&self) -> Outcome {
        let arrivals = self.draw.flows.iter().map(|flow| flow.arrival);
        let ended: Vec<(f64, f64, f64)> = arrivals
            .zip(&self.courses)
            .map(|(arrival, course)| (arrival, course.first.unwrap(), course.end.unwrap()))
            .collect();
        let mut waits: Vec<f64> = ended
            .iter()
            .map(|(arrival, first, _)| (first - arrival).max(0.0))
            .collect();
        waits.sort_by(f64::total_cmp);
        let turnarounds: f64 = ended.iter().map(|(arrival, _, end)| end - arrival).sum();
        Outcome {
            end: ended.iter().map(|(.., end)| *end).fold(0.0, f64::max),
            mean_turnaround: turnarounds / f64::from(u32::try_from(ended.len()).unwrap()),
            p95_wait: waits[waits.len() * 95 / 100],
        }
    }
}
