//! A process with an index: its watches, its dirty keys, its requests under way.
//!
//! Every part of its life is a step of its own, so that a script can interleave them: an event arrives, a decision is
//! made, a request is executed, its answer arrives or is lost, a list is taken and arrives, the process starts anew.

use std::collections::{BTreeMap, BTreeSet};

use argosy_core::{Failure, Reconcile, lost::Fence};
use jiff::{SignedDuration, Timestamp};

use crate::{api_server::Kind, script::Space, servers::Servers, watch::Watch};

/// What a process is made of besides its index.
pub(crate) trait Process: Reconcile + Sized {
    fn start(number: usize, servers: &Servers) -> Self;
    fn watches(number: usize) -> Vec<Watch<Self>>;
    /// Where an action is carried out.
    fn space(action: &Self::Action) -> Space;
    /// What must hold in the moment of the action, besides.
    fn fence(_: &Self::Action) -> Option<&Fence> {
        None
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
}

/// What a request behind a fence has seen: the version of the ManifestWork, and the last renewal before that.
type Seen = (Option<String>, Option<Timestamp>);

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    None,
    /// It never reaches the server.
    Request,
    /// It is carried out, and nobody learns of it.
    Answer,
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
    under_way: Vec<Request<R>>,
    /// Keys whose last request failed.
    delayed: BTreeSet<R::Key>,
    timers: BTreeMap<R::Key, Timestamp>,
    cuts: BTreeSet<Space>,
    /// How far its clock is ahead.
    pub(crate) skew: SignedDuration,
    /// When the process last renewed a Lease.
    pub(crate) renewed: Option<Timestamp>,
}

impl<R: Process> Actor<R> {
    pub(crate) fn new(number: usize, servers: &Servers) -> Self {
        let mut actor = Self {
            number,
            index: R::start(number, servers),
            watches: R::watches(number),
            dirty: BTreeSet::new(),
            under_way: Vec::new(),
            delayed: BTreeSet::new(),
            timers: BTreeMap::new(),
            cuts: BTreeSet::new(),
            skew: SignedDuration::ZERO,
            renewed: None,
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

    /// The same process with its memory lost; where it runs, what it reaches and its clock stay.
    pub(crate) fn restart(&mut self, servers: &Servers) {
        let (cuts, skew) = (std::mem::take(&mut self.cuts), self.skew);
        *self = Self {
            cuts: cuts.clone(),
            skew,
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

    /// The process cannot reach a space any more, or can again.
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

    /// A space has become another one: its watches begin anew.
    pub(crate) fn lose_watches(&mut self, space: Space) {
        for watch in self.watches.iter_mut().filter(|watch| watch.space == space) {
            watch.list = None;
            watch.is_lost = true;
        }
    }

    /// Whether it may still act on a state of `key` before event `event` of a watch.
    pub(crate) fn is_before(&self, key: &R::Key, kind: Kind, space: Space, event: usize) -> bool {
        let is_behind = |watch: &Watch<R>| {
            watch.kind == kind
                && watch.space == space
                && (watch.is_lost || watch.list.is_some() || watch.cursor <= event)
        };
        let is_open = |one: &Request<R>| one.key == *key && one.outcome.is_none();
        self.watches.iter().any(is_behind) || self.under_way.iter().any(is_open)
    }

    pub(crate) fn now(&self, servers: &Servers) -> Timestamp {
        servers.now + self.skew
    }

    /// From now on, a watch is slower than everything else; or no longer.
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

    /// The next event of a watch arrives.
    pub(crate) fn deliver(&mut self, watch: usize, servers: &Servers) -> bool {
        let count = self.watches.len();
        let watch = &mut self.watches[watch % count];
        if self.cuts.contains(&watch.space) {
            return false;
        }
        let input = watch.next(self.number, servers);
        input.map(|input| self.learn(input, servers)).is_some()
    }

    /// Every event arrives that there is.
    pub(crate) fn flood(&mut self, servers: &Servers) {
        for watch in 0..self.watches.len() {
            while !self.watches[watch].is_lagging && self.deliver(watch, servers) {}
        }
    }

    fn learn(&mut self, input: R::Input, servers: &Servers) {
        self.dirty.extend(self.index.apply(input, self.now(servers)));
    }

    /// A decision is made about one of the dirty keys that have no request under way.
    pub(crate) fn decide(&mut self, choice: usize, servers: &Servers) -> bool {
        let now = self.now(servers);
        self.timers
            .extract_if(.., |_, at| *at <= now)
            .for_each(|(key, _)| {
                self.dirty.insert(key);
            });
        let is_free = |key: &&R::Key| self.under_way.iter().all(|request| request.key != **key);
        let free: Vec<&R::Key> = self.dirty.iter().filter(is_free).collect();
        let Some(key) = free.get(choice % free.len().max(1)).copied().cloned() else {
            return false;
        };
        self.dirty.remove(&key);
        let decision = self.index.decide(&key, now);
        if let Some(at) = decision.recheck_at {
            self.timers.insert(key.clone(), at);
        }
        if let Some(action) = decision.action {
            self.index.began(&key);
            self.under_way.push(Request {
                key,
                action,
                seen: None,
                outcome: None,
            });
        }
        true
    }

    /// One request reaches its server.
    pub(crate) fn execute(&mut self, choice: usize, fault: Fault, servers: &mut Servers) -> bool {
        let cuts = &self.cuts;
        let open: Vec<&mut Request<R>> = self
            .under_way
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
                if cuts.contains(&Space::Its) || fault != Fault::None {
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
        let is_cut = cuts.contains(&R::space(&request.action));
        request.outcome = Some(match fault {
            _ if is_cut => lost(),
            Fault::None => R::execute(&request.key, &request.action, number, servers),
            Fault::Request => lost(),
            Fault::Answer => R::execute(&request.key, &request.action, number, servers).and_then(|_| lost()),
        });
        true
    }

    /// One answer arrives.
    pub(crate) fn settle(&mut self, choice: usize, servers: &Servers) -> bool {
        let done: Vec<usize> = (0..self.under_way.len())
            .filter(|at| self.under_way[*at].outcome.is_some())
            .collect();
        let Some(at) = done.get(choice % done.len().max(1)) else {
            return false;
        };
        let Request {
            key, action, outcome, ..
        } = self.under_way.remove(*at);
        match outcome.expect("is done") {
            Ok(input) => {
                let now = self.now(servers);
                self.dirty.extend(self.index.answered(&key, input, now));
                self.dirty.insert(key);
            }
            Err(failure) => {
                let dirty = self.index.failed(&key, &action, &failure);
                self.dirty.extend(dirty.into_iter().filter(|other| *other != key));
                self.delayed.insert(key);
            }
        }
        true
    }

    /// The delay of failed requests is over.
    pub(crate) fn retry(&mut self) -> bool {
        let is_any = !self.delayed.is_empty();
        self.dirty.append(&mut self.delayed);
        is_any
    }

    /// Everything that is there to be done, with `fault` for the first request; whether there was anything.
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
        // What is known is newer than what is there now, until the process is restarted.
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
        self.under_way.iter().map(|request| &request.action).collect()
    }
}
