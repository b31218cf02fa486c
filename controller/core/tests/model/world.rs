//! The whole fleet: servers and processes, step by step, until it comes to rest.

use std::sync::Arc;

use argosy_api::names;
use argosy_core::{
    OriginUid,
    agent::workflows::RunIndex,
    hub::{
        admission::Admission,
        shadow_pods::ShadowPodIndex,
        workflows::{HubAction, WorkflowIndex},
    },
};
use jiff::SignedDuration;
use serde_json::Value;

use crate::{
    actor::{Actor, Fault},
    api_server::{Kind, is_deleting, text},
    hub_process::HUB,
    script::{Space, Step, Who},
    servers::{CLUSTERS, Servers, label},
};

pub(crate) struct World {
    pub(crate) servers: Servers,
    pub(crate) hub: Actor<WorkflowIndex>,
    /// The loop of shadow pods, in the controller's process.
    pub(crate) shadows: Actor<ShadowPodIndex>,
    /// The policies that it knows.
    pub(crate) told: Option<Arc<Admission>>,
    pub(crate) agents: Vec<Actor<RunIndex>>,
    /// A second agent for the same cluster, which may have slept.
    pub(crate) seconds: Vec<Option<Actor<RunIndex>>>,
    /// The webhook does not receive updates.
    is_stale: bool,
    /// The number of events of each WEC, and of the ITS, that were inspected.
    seen: [[usize; 2]; CLUSTERS.len()],
}

fn is_withdrawn(work: &Value) -> bool {
    let conditions = work.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Withdrawn" && one["status"] == "True")
}

/// Timers that fire within this time must fire before the fleet counts as settled. It covers late
/// requests, but not the loss of a cluster.
const SHORTLY: SignedDuration = SignedDuration::from_secs(75);

/// Calls a method of the process `who`, whatever its type. Returns the default if there is no such
/// process.
macro_rules! on {
    ($world:expr, $who:expr, $actor:ident => $call:expr) => {
        match $who % (2 * CLUSTERS.len() + 1) {
            0 => {
                let $actor = &mut $world.hub;
                $call
            }
            number if number <= CLUSTERS.len() => {
                let $actor = &mut $world.agents[number - 1];
                $call
            }
            number => match &mut $world.seconds[number - 1 - CLUSTERS.len()] {
                Some($actor) => $call,
                None => Default::default(),
            },
        }
    };
}

/// Maximum number of rounds in which all processes act before hours pass.
const HASTY_ROUNDS: usize = 10;

impl World {
    pub(crate) fn new(is_guarded: bool) -> Self {
        Self::of(Servers::new(is_guarded))
    }

    /// A fleet whose controller draws clusters: what holds for it holds for every score.
    pub(crate) fn drawing(is_guarded: bool) -> Self {
        Self::of(Servers {
            draws_clusters: true,
            ..Servers::new(is_guarded)
        })
    }

    fn of(servers: Servers) -> Self {
        let is_guarded = servers.is_guarded;
        let agents = (0..CLUSTERS.len())
            .map(|number| Actor::new(number, &servers))
            .collect();
        let mut world = Self {
            hub: Actor::new(HUB, &servers),
            shadows: Actor::new(HUB, &servers),
            told: None,
            agents,
            seconds: CLUSTERS.iter().map(|_| None).collect(),
            servers,
            is_stale: false,
            seen: [[0; 2]; CLUSTERS.len()],
        };
        if is_guarded {
            // The webhook is registered after the controller has listed everything.
            world.hub.catch_up(Fault::None, &mut world.servers);
            world.publish();
        }
        world
    }

    pub(crate) fn step(&mut self, step: &Step) {
        match *step {
            Step::Deliver(who, watch) => {
                on!(self, who, actor => actor.deliver(watch, &self.servers));
            }
            Step::Flood(who) => on!(self, who, actor => actor.flood(&self.servers)),
            Step::Relist(who, watch) => on!(self, who, actor => actor.relist(watch, &self.servers)),
            Step::Decide(who, choice) => {
                on!(self, who, actor => actor.decide(choice, &self.servers));
            }
            Step::Execute(who, choice, fault) => {
                on!(self, who, actor => actor.execute(choice, fault, &mut self.servers));
            }
            Step::Land(who, choice) => on!(self, who, actor => actor.land(choice, &mut self.servers)),
            Step::Settle(who, choice) => {
                on!(self, who, actor => actor.settle(choice, &self.servers));
            }
            Step::Retry(who) => {
                on!(self, who, actor => actor.retry());
            }
            Step::Beat(who) => self.beat(who),
            Step::Restart(who) => on!(self, who, actor => actor.restart(&self.servers)),
            Step::CatchUp(who, fault) => {
                self.beat(who);
                on!(self, who, actor => actor.catch_up(fault, &mut self.servers));
            }
            Step::Lag(who, watch) => on!(self, who, actor => actor.lag(watch)),
            Step::Cut(who, space) => on!(self, who, actor => actor.cut(space)),
            Step::Second(cluster) => self.second(cluster % CLUSTERS.len()),
            Step::Skew(who, minutes) => {
                let skew = SignedDuration::from_mins(i64::from(minutes));
                on!(self, who, actor => actor.skew = skew);
                // A process uses a clock that cannot be set while the process lives.
                on!(self, who, actor => actor.restart(&self.servers));
            }
            Step::Lose(cluster, minutes) => {
                let agent = &mut self.agents[cluster % CLUSTERS.len()];
                if agent.reaches(Space::Its) {
                    agent.cut(Space::Its);
                }
                self.pass(SignedDuration::from_mins(i64::from(minutes)));
            }
            Step::Hours(hours) => self.hours(i64::from(hours)),
            Step::Ail(which) => self.servers.ail(which),
            Step::Remove(cluster) => self.remove(cluster % CLUSTERS.len()),
            Step::Wait(minutes) => self.pass(SignedDuration::from_mins(i64::from(minutes))),
            Step::Argo(cluster, choice) => {
                self.argo(cluster % CLUSTERS.len(), choice);
            }
            Step::Expire(cluster, choice) => self.expire(cluster % CLUSTERS.len(), choice),
            Step::Local(choice, age) => self.local_argo(choice, age),
            Step::LocalExpire(choice) => self.local_expire(choice),
            Step::Foreign(cluster, number) => self.foreign(cluster % CLUSTERS.len(), number % 3),
            Step::Webhook => self.servers.is_webhook_down ^= true,
            Step::Stale => self.is_stale ^= true,
            Step::Policy(choice, what) => self.policy(choice, what),
            Step::User(number, what) => {
                self.user(number % 3, what);
            }
            Step::UserOfRun(choice, what) => self.user_of_run(choice, what),
            Step::CollectGarbage => self.collect_garbage(),
            Step::Tamper(cluster, choice, what) => self.tamper(cluster % CLUSTERS.len(), choice, what),
            Step::Copy(cluster, choice, what) => self.copy_run(cluster % CLUSTERS.len(), choice, what),
            Step::Lie(choice, what) => self.lie(choice, what),
            Step::Rebuild(cluster) => self.rebuild(cluster % CLUSTERS.len()),
            Step::NewMailbox(cluster) => self.make_mailbox_anew(cluster % CLUSTERS.len()),
            Step::Backup(space) => self.back_up(space),
            Step::Restore(space, restoration) => self.restore(space, restoration),
        }
        self.step_shadows(step);
        self.after_step();
    }

    fn after_step(&mut self) {
        if !self.is_stale {
            self.publish();
        }
        self.servers.check();
        self.keep_cut_off();
        // Not promised: a ManifestWork from a terminated controller may land only after its
        // successor has sent the same one, the run has ended, and everything is gone again. It
        // starts nothing.
        let Servers { wds, its, .. } = &self.servers;
        self.hub.drop_orphans(|action| match action {
            HubAction::CreateWork { cluster, work } => {
                let name = work.metadata.name.as_deref().unwrap_or_default();
                its.get(Kind::Work, cluster.as_str(), name).is_ok()
            }
            HubAction::CreateRun { run, .. } => {
                let name = run.metadata.name.as_deref().unwrap_or_default();
                wds.get(Kind::Workflow, "argo", name).is_ok()
            }
            _ => false,
        });
        for cluster in 0..CLUSTERS.len() {
            self.wake_sleepers(cluster);
        }
    }

    /// Publishes the controller's state to the webhook and the policies.
    fn publish(&mut self) {
        if self.hub.index.is_synced() {
            self.servers.admission = Arc::clone(self.hub.index.admission());
            self.tell_shadows();
        }
    }

    /// Renews the Lease of an agent that reaches both its spaces.
    fn beat(&mut self, who: Who) {
        let number = who % (2 * CLUSTERS.len() + 1);
        let Some(cluster) = number.checked_sub(1).map(|number| number % CLUSTERS.len()) else {
            return;
        };
        let is_alive = on!(self, who, actor => actor.reaches(Space::Its) && actor.reaches(Space::Wec));
        if is_alive {
            on!(self, who, actor => actor.renewed = Some(self.servers.now));
            let now = self.agents[cluster].now(&self.servers);
            self.servers.renew_lease(CLUSTERS[cluster], now);
        }
    }

    fn second(&mut self, cluster: usize) {
        self.seconds[cluster] = match self.seconds[cluster] {
            None => {
                self.servers.ledger.had_two_agents = true;
                Some(Actor::new(cluster, &self.servers))
            }
            Some(_) => None,
        };
    }

    /// Excludes a case on which two agents cannot agree: an object came, ran and went, or was
    /// withdrawn, while one agent slept between its decision and its request. An agent that sleeps
    /// that long is taken for dead first; the chart ensures that.
    fn wake_sleepers(&mut self, cluster: usize) {
        let seen = [self.servers.wecs[cluster].log.len(), self.servers.its.log.len()];
        if self.seconds[cluster].is_some() {
            for event in self.seen[cluster][0]..seen[0] {
                let event = &self.servers.wecs[cluster].log[event];
                if event.kind == Kind::Workflow && event.is_deletion {
                    let object = event.object.clone();
                    self.wake(cluster, (Space::Wec, Kind::Workflow), &object, |_| true);
                }
            }
            for event in self.seen[cluster][1]..seen[1] {
                let event = &self.servers.its.log[event];
                if event.kind != Kind::Work || text(&event.object, "/metadata/namespace") != CLUSTERS[cluster]
                {
                    continue;
                }
                let object = event.object.clone();
                let from = (Space::Its, Kind::Work);
                if event.is_deletion {
                    self.wake(cluster, from, &object, is_deleting);
                } else if is_withdrawn(&object) && self.seconds[cluster].is_some() {
                    // The other agent may have a creation under way, or not know if it had one.
                    self.seconds[cluster] = None;
                    self.agents[cluster].restart(&self.servers);
                }
            }
        }
        self.seen[cluster] = seen;
    }

    /// Ends the second agent, or restarts the first, if it has not received the first version of
    /// `object` for which `tells` is true.
    fn wake(
        &mut self,
        cluster: usize,
        (space, kind): (Space, Kind),
        object: &Value,
        tells: fn(&Value) -> bool,
    ) {
        let uid = text(object, "/metadata/uid");
        let log = &self.servers.at(space, cluster).log;
        let first = log
            .iter()
            .position(|one| text(&one.object, "/metadata/uid") == uid && tells(&one.object));
        let origin: OriginUid = label(object, names::ORIGIN_UID_LABEL).into();
        let sleeps =
            |agent: &Actor<RunIndex>| first.is_some_and(|event| agent.is_before(&origin, kind, space, event));
        if self.seconds[cluster].as_ref().is_some_and(sleeps) {
            self.seconds[cluster] = None;
        }
        if sleeps(&self.agents[cluster]) {
            self.agents[cluster].restart(&self.servers);
        }
    }

    /// Ends all faults: links are restored, watches are as fast as possible, the webhook answers.
    pub(crate) fn mend(&mut self) {
        for who in 0..=2 * CLUSTERS.len() {
            on!(self, who, actor => actor.lag_no_more());
            on!(self, who, actor => actor.heal());
            if self.servers.ledger.was_restored {
                on!(self, who, actor => actor.restart(&self.servers));
            }
        }
        self.shadows.lag_no_more();
        self.shadows.heal();
        if self.servers.ledger.was_restored {
            self.restart_shadows();
        }
        for cluster in 0..CLUSTERS.len() {
            // The slower of two agents may report an older state and be ended before it reports the
            // current one.
            if self.seconds[cluster].take().is_some() {
                self.agents[cluster].restart(&self.servers);
            }
        }
        self.is_stale = false;
        self.servers.is_webhook_down = false;
        self.restore_policies();
    }

    /// A round without faults, `time` after the last one.
    pub(crate) fn round(&mut self, time: SignedDuration) {
        self.pass(time);
        for who in 0..=2 * CLUSTERS.len() {
            self.beat(who);
            on!(self, who, actor => actor.retry());
            on!(self, who, actor => actor.catch_up(Fault::None, &mut self.servers));
            self.after_step();
        }
        self.shadows.retry();
        self.shadows.catch_up(Fault::None, &mut self.servers);
        for cluster in 0..CLUSTERS.len() {
            self.argo(cluster, 0);
        }
        for choice in 0..self.workflows().len() {
            self.local_argo(choice, 0);
        }
        self.collect_garbage();
        self.after_step();
    }

    /// Lets time pass. Every request that is on its way for too long lands.
    fn pass(&mut self, time: SignedDuration) {
        let now = self.servers.now + time;
        for who in 0..=2 * CLUSTERS.len() {
            on!(self, who, actor => actor.land_before(now, &mut self.servers));
        }
        self.shadows.land_before(now, &mut self.servers);
        self.servers.now = now;
    }

    /// Lets hours pass. No watch and no decision is that late, and the controller is not cut off for
    /// that long: what an agent remembers of a run, it remembers for a day.
    fn hours(&mut self, hours: i64) {
        self.pass(SignedDuration::from_mins(1));
        for who in 0..=2 * CLUSTERS.len() {
            on!(self, who, actor => actor.lag_no_more());
            on!(self, who, actor => actor.flood(&self.servers));
        }
        on!(self, 0, actor => actor.heal());
        // Two agents of one cluster may write in turns for ever.
        for _ in 0..HASTY_ROUNDS {
            let written = self.written();
            for who in 0..=2 * CLUSTERS.len() {
                on!(self, who, actor => actor.retry());
                on!(self, who, actor => actor.catch_up(Fault::None, &mut self.servers));
                self.after_step();
            }
            if self.written() == written {
                break;
            }
        }
        self.shadows.lag_no_more();
        self.shadows.flood(&self.servers);
        self.wait(hours);
    }

    /// True if a process waits until earlier requests cannot land any more.
    fn waits_shortly(&self) -> bool {
        let end = self.servers.now + SHORTLY;
        let agents = self.agents.iter().chain(self.seconds.iter().flatten());
        self.hub.waits(end + self.hub.skew)
            || self.shadows.waits(end + self.shadows.skew)
            || agents.into_iter().any(|agent| agent.waits(end + agent.skew))
    }

    /// The number of writes on all servers.
    fn written(&self) -> usize {
        let Servers { wds, its, wecs, .. } = &self.servers;
        let servers = wecs.iter().chain([wds, its]);
        servers.map(|server| server.log.len()).sum()
    }

    /// Runs everything without faults until nothing is written any more.
    pub(crate) fn settle(&mut self) {
        self.mend();
        self.servers.ailing.clear();
        self.finish_removals();
        let mut quiet = 0;
        for round in 0..300 {
            let before = self.written();
            // A few heartbeats and no more, so that the fleet can come to rest.
            self.round(SignedDuration::from_secs(i64::from(round < 3)));
            quiet = if self.written() == before { quiet + 1 } else { 0 };
            if quiet == 2 && self.waits_shortly() {
                self.pass(SignedDuration::from_secs(20));
                quiet = 0;
            } else if quiet == 2 {
                return;
            }
        }
        panic!("the fleet never comes to rest");
    }

    pub(crate) fn wait(&mut self, hours: i64) {
        self.pass(SignedDuration::from_hours(hours));
    }

    pub(crate) fn workflows(&self) -> Vec<Value> {
        self.servers.wds.list(Kind::Workflow).cloned().collect()
    }
}
