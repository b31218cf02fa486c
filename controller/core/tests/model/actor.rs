//! A process with an index: its watches, its dirty keys, and its requests under way.
//!
//! Every part of its life is a separate step, so that a script can interleave them: an event
//! arrives, a decision is made, a request is executed, its answer arrives or is lost, a list is
//! taken and arrives, the process restarts.

use std::collections::{BTreeMap, BTreeSet};

use argosy_core::{Failure, Priority, Reconcile, model::rerun::Fence};
use jiff::{SignedDuration, Timestamp};

use crate::{api_server::Kind, script::Space, servers::Servers, watch::Watch};

/// The parts of a process besides its index.
pub(crate) trait Process: Reconcile<Action: Clone> + Sized {
    fn start(number: usize, servers: &Servers) -> Self;
    fn watches(number: usize) -> Vec<Watch<Self>>;
    /// The space in which an action is carried out.
    fn space(action: &Self::Action) -> Space;
    /// The fence that must hold when the action is carried out, if it has one.
    fn fence(_: &Self::Action) -> Option<&Fence> {
        None
    }
    /// True if the timers of a key end. The timer of a Lease recurs for ever.
    fn comes_to_rest(_: &Self::Key) -> bool {
        true
    }
    /// The version of the ManifestWork that a key is about.
    fn work_version(_: &Self::Key, _: usize, _: &Servers) -> Option<String> {
        None
    }
    fn execute(
        key: &Self::Key,
        action: &Self::Action,
        number: usize,
        servers: &mut Servers,
    ) -> Result<Self::Input, Failure>;
    /// Carries out the first request of the action. The process is gone, so no further request
    /// follows.
    fn land(key: &Self::Key, action: &Self::Action, number: usize, servers: &mut Servers) {
        drop(Self::execute(key, action, number, servers));
    }
}

/// The state that a fenced request has read: the version of the ManifestWork, and the last renewal
/// before that read.
type Seen = (Option<String>, Option<Timestamp>);

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    None,
    /// The request never reaches the server.
    Request,
    /// The request is carried out, but its answer is lost.
    Answer,
    /// The sender gives up, and the request is carried out later.
    Late,
}

/// The longest time that a request may be on its way. It is not longer than a Lease lasts, as with
/// real API servers and Leases.
const LIFE: SignedDuration = SignedDuration::from_secs(30);

/// The error of an API server that carries nothing out.
pub(crate) fn ailment() -> Failure {
    Failure::Unreachable("failed calling webhook".to_owned())
}

/// A request that is still on its way although its sender has given up.
struct Late<R: Reconcile> {
    sent: Timestamp,
    key: R::Key,
    action: R::Action,
    /// The process that sent it does not exist any more.
    is_orphan: bool,
}

struct Request<R: Reconcile> {
    key: R::Key,
    action: R::Action,
    seen: Option<Seen>,
    outcome: Option<Result<R::Input, Failure>>,
}

pub(crate) struct Actor<R: Process> {
    number: usize,
    pub(crate) index: R,
    watches: Vec<Watch<R>>,
    dirty: BTreeSet<R::Key>,
    in_flight: Vec<Request<R>>,
    /// Keys whose last request failed.
    delayed: BTreeSet<R::Key>,
    timers: BTreeMap<R::Key, Timestamp>,
    cuts: BTreeSet<Space>,
    /// The time by which its clock is ahead.
    pub(crate) skew: SignedDuration,
    /// The last time that the process renewed a Lease.
    pub(crate) renewed: Option<Timestamp>,
    late: Vec<Late<R>>,
}

impl<R: Process> Actor<R> {
    pub(crate) fn new(number: usize, servers: &Servers) -> Self {
        let mut actor = Self {
            number,
            index: R::start(number, servers),
            watches: R::watches(number),
            dirty: BTreeSet::new(),
            in_flight: Vec::new(),
            delayed: BTreeSet::new(),
            timers: BTreeMap::new(),
            cuts: BTreeSet::new(),
            skew: SignedDuration::ZERO,
            renewed: None,
            late: Vec::new(),
        };
        actor.list_all(servers);
        actor
    }

    fn list_all(&mut self, servers: &Servers) {
        for watch in &mut self.watches {
            if !self.cuts.contains(&watch.space) {
                watch.relist(self.number, servers);
            }
        }
    }

    /// Restarts the process, which loses its memory. Its cluster, its cuts, its clock and its late
    /// requests stay.
    pub(crate) fn restart(&mut self, servers: &Servers) {
        let (cuts, skew) = (std::mem::take(&mut self.cuts), self.skew);
        let mut late = std::mem::take(&mut self.late);
        for request in &mut late {
            request.is_orphan = true;
        }
        *self = Self {
            cuts: cuts.clone(),
            skew,
            late,
            ..Self::new(self.number, servers)
        };
        for space in cuts {
            self.lose_watches(space);
        }
    }

    pub(crate) fn relist(&mut self, watch: usize, servers: &Servers) {
        let count = self.watches.len();
        let watch = &mut self.watches[watch % count];
        if !self.cuts.contains(&watch.space) {
            watch.relist(self.number, servers);
        }
    }

    /// Cuts the process off from a space, or reconnects it.
    pub(crate) fn cut(&mut self, space: Space) {
        if !self.cuts.remove(&space) {
            self.cuts.insert(space);
        }
    }

    pub(crate) fn heal(&mut self) {
        self.cuts.clear();
    }

    pub(crate) fn reaches(&self, space: Space) -> bool {
        !self.cuts.contains(&space)
    }

    /// The space was replaced by another one, so its watches start again with a list.
    pub(crate) fn lose_watches(&mut self, space: Space) {
        for watch in self.watches.iter_mut().filter(|watch| watch.space == space) {
            watch.list = None;
            watch.is_lost = true;
        }
    }

    /// True if the process may still act on a state of `key` from before event `event` of a watch.
    pub(crate) fn is_before(&self, key: &R::Key, kind: Kind, space: Space, event: usize) -> bool {
        let is_behind = |watch: &Watch<R>| {
            watch.kind == kind
                && watch.space == space
                && (watch.is_lost || watch.list.is_some() || watch.cursor <= event)
        };
        let is_open = |one: &Request<R>| one.key == *key && one.outcome.is_none();
        self.watches.iter().any(is_behind) || self.in_flight.iter().any(is_open)
    }

    pub(crate) fn now(&self, servers: &Servers) -> Timestamp {
        servers.now + self.skew
    }

    /// Makes a watch slower than everything else from now on, or ends that.
    pub(crate) fn lag(&mut self, watch: usize) {
        let count = self.watches.len();
        let watch = &mut self.watches[watch % count];
        watch.is_lagging = !watch.is_lagging;
    }

    pub(crate) fn lag_no_more(&mut self) {
        for watch in &mut self.watches {
            watch.is_lagging = false;
        }
    }

    /// Delivers the next event of a watch.
    pub(crate) fn deliver(&mut self, watch: usize, servers: &Servers) -> bool {
        let count = self.watches.len();
        let watch = &mut self.watches[watch % count];
        if self.cuts.contains(&watch.space) {
            return false;
        }
        let input = watch.next(self.number, servers);
        input.map(|input| self.learn(input, servers)).is_some()
    }

    /// Delivers all events that are pending.
    pub(crate) fn flood(&mut self, servers: &Servers) {
        for watch in 0..self.watches.len() {
            while !self.watches[watch].is_lagging && self.deliver(watch, servers) {}
        }
    }

    pub(crate) fn learn(&mut self, input: R::Input, servers: &Servers) {
        self.dirty.extend(self.index.apply(input, self.now(servers)));
        self.dirty.extend(self.index.due());
    }

    /// Makes a decision about one of the dirty keys that have no request under way.
    pub(crate) fn decide(&mut self, choice: usize, servers: &Servers) -> bool {
        let now = self.now(servers);
        self.timers
            .extract_if(.., |_, at| *at <= now)
            .for_each(|(key, _)| {
                self.dirty.insert(key);
            });
        let is_free = |key: &&R::Key| self.in_flight.iter().all(|request| request.key != **key);
        let free: Vec<&R::Key> = self.dirty.iter().filter(is_free).collect();
        let Some(key) = free.get(choice % free.len().max(1)).copied().cloned() else {
            let has_due = self.index.has_due();
            if has_due {
                self.dirty.extend(self.index.due());
            }
            return has_due;
        };
        self.dirty.remove(&key);
        let decision = self.index.decide(&key, now);
        if let Some(at) = decision.requeue_at {
            self.timers.insert(key.clone(), at);
        }
        // Nobody waits for the action, so the engine may put it off.
        if decision.action.is_some() && decision.priority != Priority::Normal && !choice.is_multiple_of(3) {
            self.dirty.insert(key);
            return true;
        }
        if let Some(action) = decision.action {
            self.index.requested(&key, &action, now);
            self.in_flight.push(Request {
                key,
                action,
                seen: None,
                outcome: None,
            });
        }
        true
    }

    /// Executes one request on its server.
    pub(crate) fn execute(&mut self, choice: usize, fault: Fault, servers: &mut Servers) -> bool {
        let cuts = &self.cuts;
        let open: Vec<&mut Request<R>> = self
            .in_flight
            .iter_mut()
            .filter(|one| one.outcome.is_none())
            .collect();
        let count = open.len();
        let Some(request) = open.into_iter().nth(choice % count.max(1)) else {
            return false;
        };
        let lost = || Err(Failure::Unreachable("no answer".to_owned()));
        let (number, renewed) = (self.number, self.renewed);
        if let Some(fence) = R::fence(&request.action) {
            let Some((version, renewed)) = request.seen.take() else {
                if cuts.contains(&Space::Its) || servers.ails(Space::Its, number) || fault != Fault::None {
                    request.outcome = Some(lost());
                } else {
                    request.seen = Some((R::work_version(&request.key, number, servers), renewed));
                }
                return true;
            };
            let age = renewed.map(|renewed| servers.now.duration_since(renewed));
            if let Err(failure) = fence.check(version.as_deref(), age) {
                request.outcome = Some(Err(failure));
                return true;
            }
        }
        let space = R::space(&request.action);
        request.outcome = Some(match fault {
            _ if cuts.contains(&space) => lost(),
            _ if servers.ails(space, number) => Err(ailment()),
            Fault::None => R::execute(&request.key, &request.action, number, servers),
            Fault::Request => lost(),
            Fault::Late => {
                self.late.push(Late {
                    sent: servers.now,
                    key: request.key.clone(),
                    action: request.action.clone(),
                    is_orphan: false,
                });
                lost()
            }
            Fault::Answer => R::execute(&request.key, &request.action, number, servers).and_then(|_| lost()),
        });
        true
    }

    /// Carries out one request whose sender has given up.
    pub(crate) fn land(&mut self, choice: usize, servers: &mut Servers) {
        if !self.late.is_empty() {
            let Late { key, action, .. } = self.late.remove(choice % self.late.len());
            R::land(&key, &action, self.number, servers);
        }
    }

    /// Drops all late requests, because their server does not exist any more.
    pub(crate) fn lose_late(&mut self) {
        self.late.clear();
    }

    /// Drops the late requests of a terminated process whose action matches `so`: they are taken as
    /// already answered.
    pub(crate) fn drop_orphans(&mut self, so: impl Fn(&R::Action) -> bool) {
        self.late.retain(|late| !late.is_orphan || !so(&late.action));
    }

    /// Carries out the requests that cannot be on their way any more at `now`.
    pub(crate) fn land_before(&mut self, now: Timestamp, servers: &mut Servers) {
        while let Some(at) = self.late.iter().position(|late| late.sent + LIFE <= now) {
            self.land(at, servers);
        }
    }

    /// True if a decision waits for a time that comes before `end`.
    pub(crate) fn waits(&self, end: Timestamp) -> bool {
        let mut timers = self.timers.iter();
        timers.any(|(key, at)| *at <= end && R::comes_to_rest(key))
    }

    /// Delivers one answer.
    pub(crate) fn settle(&mut self, choice: usize, servers: &Servers) -> bool {
        let done: Vec<usize> = (0..self.in_flight.len())
            .filter(|at| self.in_flight[*at].outcome.is_some())
            .collect();
        let Some(at) = done.get(choice % done.len().max(1)) else {
            return false;
        };
        let Request {
            key, action, outcome, ..
        } = self.in_flight.remove(*at);
        match outcome.expect("is done") {
            Ok(input) => {
                let now = self.now(servers);
                self.dirty.extend(self.index.succeeded(&key, input, now));
                self.dirty.extend(self.index.due());
                self.dirty.insert(key);
            }
            Err(failure) => {
                let now = self.now(servers);
                let dirty = self.index.failed(&key, &action, &failure, now);
                let dirty = dirty.into_iter().chain(self.index.due());
                self.dirty.extend(dirty.filter(|other| *other != key));
                self.delayed.insert(key);
            }
        }
        true
    }

    /// Ends the back-off of failed requests.
    pub(crate) fn retry(&mut self) -> bool {
        let is_any = !self.delayed.is_empty();
        self.dirty.append(&mut self.delayed);
        is_any
    }

    /// Does all work that is pending, with `fault` for the first request. Returns true if there was
    /// any.
    pub(crate) fn catch_up(&mut self, mut fault: Fault, servers: &mut Servers) -> bool {
        let mut worked = false;
        for _ in 0..2_000 {
            let mut arrived = false;
            for watch in 0..self.watches.len() {
                arrived |= !self.watches[watch].is_lagging && self.deliver(watch, servers);
            }
            let settled = self.settle(0, servers);
            let executed = !settled && self.execute(0, fault, servers);
            if executed {
                fault = Fault::None;
            }
            let went_on = settled || executed || self.decide(0, servers);
            if !arrived && !went_on {
                return worked;
            }
            worked = true;
        }
        // After a restore, the index holds newer versions than the server until the process
        // restarts.
        if servers.ledger.was_restored {
            return worked;
        }
        panic!(
            "process {} never comes to rest; its requests: {:?}",
            self.number,
            self.requests()
        );
    }

    fn requests(&self) -> Vec<&R::Action> {
        self.in_flight.iter().map(|request| &request.action).collect()
    }
}
