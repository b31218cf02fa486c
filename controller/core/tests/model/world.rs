//! The whole fleet: servers and processes, step by step, and how it comes to rest.

use std::sync::Arc;

use argosy_api::names;
use argosy_core::{OriginUid, agent::Agent, hub::Hub};
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
    pub(crate) hub: Actor<Hub>,
    pub(crate) agents: Vec<Actor<Agent>>,
    /// A second agent for the same cluster, which may have slept.
    pub(crate) seconds: Vec<Option<Actor<Agent>>>,
    /// The webhook gets no newer knowledge.
    is_stale: bool,
    /// How many events of each WEC, and of the ITS, were looked at.
    seen: [[usize; 2]; CLUSTERS.len()],
}

fn is_withdrawn(work: &Value) -> bool {
    let conditions = work.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Withdrawn" && one["status"] == "True")
}

/// Calls a method of the process `who`, whatever its type; of none, the default is the answer.
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

impl World {
    pub(crate) fn new(is_guarded: bool) -> Self {
        let servers = Servers::new(is_guarded);
        let agents = (0..CLUSTERS.len())
            .map(|number| Actor::new(number, &servers))
            .collect();
        let mut world = Self {
            hub: Actor::new(HUB, &servers),
            agents,
            seconds: CLUSTERS.iter().map(|_| None).collect(),
            servers,
            is_stale: false,
            seen: [[0; 2]; CLUSTERS.len()],
        };
        if is_guarded {
            // The webhook is registered when the controller has listed everything.
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
                // A process goes by a clock that cannot be set while it lives.
                on!(self, who, actor => actor.restart(&self.servers));
            }
            Step::Lose(cluster, minutes) => {
                let agent = &mut self.agents[cluster % CLUSTERS.len()];
                if agent.reaches(Space::Its) {
                    agent.cut(Space::Its);
                }
                self.servers.now += SignedDuration::from_mins(i64::from(minutes));
            }
            Step::Remove(cluster) => self.remove(cluster % CLUSTERS.len()),
            Step::Wait(minutes) => self.servers.now += SignedDuration::from_mins(i64::from(minutes)),
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
            Step::Rebuild(cluster) => self.rebuild(cluster % CLUSTERS.len()),
            Step::NewMailbox(cluster) => self.make_mailbox_anew(cluster % CLUSTERS.len()),
            Step::Backup(space) => self.back_up(space),
            Step::Restore(space, numbers_go_on) => self.restore(space, numbers_go_on),
        }
        self.after_step();
    }

    fn after_step(&mut self) {
        if !self.is_stale {
            self.publish();
        }
        self.servers.check();
        self.keep_cut_off();
        for cluster in 0..CLUSTERS.len() {
            self.wake_sleepers(cluster);
        }
    }

    /// The webhook and the policies learn what the controller knows.
    fn publish(&mut self) {
        if self.hub.index.is_synced() {
            self.servers.admission = Arc::clone(self.hub.index.admission());
        }
    }

    /// An agent that reaches both its spaces renews its Lease.
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

    /// What no two agents can agree upon: that an object came, ran and went, or was never to come, while one of them
    /// slept between its own decision and its request. Whoever sleeps so long is taken for dead before, as the chart sees to.
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
                    // The other may have a creation under way, or not know whether it had.
                    self.seconds[cluster] = None;
                    self.agents[cluster].restart(&self.servers);
                }
            }
        }
        self.seen[cluster] = seen;
    }

    /// Ends the second agent, or restarts the first, if it has not heard of the first version of `object` that `tells`.
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
            |agent: &Actor<Agent>| first.is_some_and(|event| agent.is_before(&origin, kind, space, event));
        if self.seconds[cluster].as_ref().is_some_and(sleeps) {
            self.seconds[cluster] = None;
        }
        if sleeps(&self.agents[cluster]) {
            self.agents[cluster].restart(&self.servers);
        }
    }

    /// Everything that goes wrong ends: links are mended, watches are as fast as they can be, the webhook answers.
    pub(crate) fn mend(&mut self) {
        for who in 0..=2 * CLUSTERS.len() {
            on!(self, who, actor => actor.lag_no_more());
            on!(self, who, actor => actor.heal());
            if self.servers.ledger.was_restored {
                on!(self, who, actor => actor.restart(&self.servers));
            }
        }
        self.is_stale = false;
        self.servers.is_webhook_down = false;
        self.restore_policies();
    }

    /// How much has been written, anywhere.
    fn written(&self) -> usize {
        let Servers { wds, its, wecs, .. } = &self.servers;
        let servers = wecs.iter().chain([wds, its]);
        servers.map(|server| server.log.len()).sum()
    }

    /// Runs everything, without faults, until nothing is written any more.
    pub(crate) fn settle(&mut self) {
        self.mend();
        self.finish_removals();
        let mut quiet = 0;
        for round in 0..300 {
            let before = self.written();
            // Some heartbeats, and no more, so that there is rest.
            self.servers.now += SignedDuration::from_secs(i64::from(round < 3));
            for who in 0..=2 * CLUSTERS.len() {
                self.beat(who);
                on!(self, who, actor => actor.retry());
                on!(self, who, actor => actor.catch_up(Fault::None, &mut self.servers));
                self.after_step();
            }
            for cluster in 0..CLUSTERS.len() {
                self.argo(cluster, 0);
            }
            for choice in 0..self.workflows().len() {
                self.local_argo(choice, 0);
            }
            self.collect_garbage();
            self.after_step();
            quiet = if self.written() == before { quiet + 1 } else { 0 };
            if quiet == 2 {
                return;
            }
        }
        panic!("the fleet never comes to rest");
    }

    pub(crate) fn wait(&mut self, hours: i64) {
        self.servers.now += SignedDuration::from_hours(hours);
    }

    pub(crate) fn workflows(&self) -> Vec<Value> {
        self.servers.wds.list(Kind::Workflow).cloned().collect()
    }
}
