//! The whole fleet: servers, processes, Argo and users; and the steps that a script is made of.

use argosy_api::{names, workflow};
use argosy_core::{agent::Agent, hub::Hub};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    actor::{Actor, Fault},
    api_server::{Kind, is_deleting, text},
    processes::HUB,
    servers::{CLUSTERS, Servers, label},
};

/// Which process: 0 is the controller, the others are the agents.
pub(crate) type Who = usize;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The next event of a watch arrives.
    Deliver(Who, usize),
    /// A list is taken; it arrives as the watch's next event.
    Relist(Who, usize),
    Decide(Who, usize),
    Execute(Who, usize, Fault),
    Settle(Who, usize),
    Retry(Who),
    /// The process loses its memory; its unsent requests with it.
    Restart(Who),
    /// The process does all it can, but for one fault.
    CatchUp(Who, Fault),
    /// A watch is slower than everything else from now on, or no longer.
    Lag(Who, usize),
    /// A run goes on by one phase.
    Argo(usize, usize),
    /// Argo deletes a finished object.
    Expire(usize, usize),
    User(usize, UserStep),
    Tamper(usize, usize, Tamper),
}

/// What a user does to one of three Workflows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UserStep {
    /// With the label's value.
    Create(&'static str),
    Relabel(&'static str),
    /// `argo resume`: `spec.suspend` is taken off.
    Resume,
    Delete,
}

/// What somebody does who should not.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tamper {
    DeleteObject,
    /// With its finalizers, once anything says that it was created. Before, nobody can know.
    DestroyObject,
    DeleteWork,
}

pub(crate) struct World {
    pub(crate) servers: Servers,
    pub(crate) hub: Actor<Hub>,
    pub(crate) agents: Vec<Actor<Agent>>,
}

/// Calls a method of the process `who`, whatever its type.
macro_rules! on {
    ($world:expr, $who:expr, $actor:ident => $call:expr) => {
        match $who % (CLUSTERS.len() + 1) {
            0 => {
                let $actor = &mut $world.hub;
                $call
            }
            number => {
                let $actor = &mut $world.agents[number - 1];
                $call
            }
        }
    };
}

impl World {
    pub(crate) fn new() -> Self {
        let servers = Servers::new();
        let agents = (0..CLUSTERS.len())
            .map(|number| Actor::new(number, &servers))
            .collect();
        Self {
            hub: Actor::new(HUB, &servers),
            agents,
            servers,
        }
    }

    pub(crate) fn step(&mut self, step: &Step) {
        match *step {
            Step::Deliver(who, watch) => {
                on!(self, who, actor => actor.deliver(watch, &self.servers));
            }
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
            Step::Restart(who) => match who % (CLUSTERS.len() + 1) {
                0 => self.hub = Actor::new(HUB, &self.servers),
                number => self.agents[number - 1] = Actor::new(number - 1, &self.servers),
            },
            Step::CatchUp(who, fault) => {
                on!(self, who, actor => actor.catch_up(fault, &mut self.servers));
            }
            Step::Lag(who, watch) => on!(self, who, actor => actor.lag(watch)),
            Step::Argo(cluster, choice) => {
                self.argo(cluster % CLUSTERS.len(), choice);
            }
            Step::Expire(cluster, choice) => self.expire(cluster % CLUSTERS.len(), choice),
            Step::User(number, what) => self.user(number % 3, what),
            Step::Tamper(cluster, choice, what) => self.tamper(cluster % CLUSTERS.len(), choice, what),
        }
        self.servers.check_holds();
    }

    /// Runs everything, without faults, until nothing happens any more.
    pub(crate) fn settle(&mut self) {
        for who in 0..=CLUSTERS.len() {
            on!(self, who, actor => actor.lag_no_more());
        }
        for _ in 0..200 {
            let mut worked = false;
            for who in 0..=CLUSTERS.len() {
                worked |= on!(self, who, actor => actor.retry());
                worked |= on!(self, who, actor => actor.catch_up(Fault::None, &mut self.servers));
            }
            for cluster in 0..CLUSTERS.len() {
                worked |= self.argo(cluster, 0);
            }
            self.servers.check_holds();
            if !worked {
                return;
            }
        }
        panic!("the fleet never comes to rest");
    }

    pub(crate) fn wait(&mut self, hours: i64) {
        self.servers.now += SignedDuration::from_hours(hours);
    }

    pub(crate) fn workflows(&self) -> Vec<Value> {
        self.servers.control.list(Kind::Workflow).cloned().collect()
    }

    pub(crate) fn user(&mut self, number: usize, what: UserStep) {
        let name = format!("workflow-{number}");
        let control = &mut self.servers.control;
        let there = control.get(Kind::Workflow, "argo", &name).ok();
        match (what, there) {
            (UserStep::Create(value), None) => {
                let labels = json!({ names::KUBESTELLAR_CLUSTER_LABEL: value });
                let object = json!({
                    "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
                    "metadata": { "namespace": "argo", "name": name, "labels": labels },
                    "spec": { "suspend": true, "entrypoint": "main" },
                });
                control.create(Kind::Workflow, object).expect("the name is free");
            }
            (UserStep::Relabel(value), Some(there)) => {
                let change = |object: &mut Value| {
                    object["metadata"]["labels"][names::KUBESTELLAR_CLUSTER_LABEL] = json!(value);
                };
                control.edit(Kind::Workflow, &there, change).expect("is there");
            }
            // Before it is claimed, this starts it here, and it is none of ours.
            (UserStep::Resume, Some(there)) if !label(&there, names::CLUSTER_LABEL).is_empty() => {
                let change = |object: &mut Value| {
                    drop(object["spec"].as_object_mut().expect("a spec").remove("suspend"));
                };
                control.edit(Kind::Workflow, &there, change).expect("is there");
            }
            (UserStep::Delete, Some(_)) => drop(
                control
                    .delete(Kind::Workflow, "argo", &name, None)
                    .expect("is there"),
            ),
            _ => {}
        }
    }

    fn pick(&self, cluster: usize, choice: usize, is_fit: impl Fn(&Value) -> bool) -> Option<Value> {
        let fit: Vec<&Value> = self.servers.wecs[cluster]
            .list(Kind::Workflow)
            .filter(|object| is_fit(object))
            .collect();
        fit.get(choice % fit.len().max(1)).map(|object| (*object).clone())
    }

    fn argo(&mut self, cluster: usize, choice: usize) -> bool {
        let is_going =
            |object: &Value| !workflow::is_final(text(object, "/status/phase")) && !is_deleting(object);
        let Some(object) = self.pick(cluster, choice, is_going) else {
            return false;
        };
        let phase = match text(&object, "/status/phase") {
            "" => "Pending",
            "Pending" => "Running",
            _ => "Succeeded",
        };
        let status = json!({
            "phase": phase, "nodes": { "n": { "type": "Pod", "phase": phase } },
            "conditions": [{ "type": "PodRunning", "status": "True" }], "synchronization": { "mutex": {} },
        });
        let change = |object: &mut Value| {
            object["status"] = status;
            object["metadata"]["labels"][names::ARGO_PHASE_LABEL] = json!(phase);
        };
        self.servers.wecs[cluster]
            .edit(Kind::Workflow, &object, change)
            .is_ok()
    }

    fn expire(&mut self, cluster: usize, choice: usize) {
        let is_over = |object: &Value| workflow::is_final(text(object, "/status/phase"));
        if let Some(object) = self.pick(cluster, choice, is_over) {
            self.delete_object(cluster, &object);
        }
    }

    fn delete_object(&mut self, cluster: usize, object: &Value) {
        let wec = &mut self.servers.wecs[cluster];
        wec.delete(Kind::Workflow, "argo", text(object, "/metadata/name"), None)
            .expect("is there");
    }

    /// Whether the ManifestWork says that the object was created.
    fn is_noted(&self, cluster: usize, object: &Value) -> bool {
        let name = names::work_name(label(object, names::ORIGIN_UID_LABEL));
        let work = self
            .servers
            .control
            .get(Kind::Work, CLUSTERS[cluster], &name)
            .unwrap_or_default();
        let conditions = work.pointer("/status/conditions").and_then(Value::as_array);
        conditions
            .into_iter()
            .flatten()
            .any(|one| one["type"] == "Applied" && one["status"] == "True")
    }

    fn tamper(&mut self, cluster: usize, choice: usize, what: Tamper) {
        let origin = match what {
            Tamper::DeleteObject | Tamper::DestroyObject => {
                let is_fit =
                    |object: &Value| matches!(what, Tamper::DeleteObject) || self.is_noted(cluster, object);
                let Some(object) = self.pick(cluster, choice, is_fit) else {
                    return;
                };
                if matches!(what, Tamper::DestroyObject) {
                    let change = |object: &mut Value| object["metadata"]["finalizers"] = json!([]);
                    self.servers.wecs[cluster]
                        .edit(Kind::Workflow, &object, change)
                        .expect("is there");
                }
                if !is_deleting(&object) {
                    self.delete_object(cluster, &object);
                }
                object
            }
            Tamper::DeleteWork => {
                let mine = |work: &&Value| text(work, "/metadata/namespace") == CLUSTERS[cluster];
                let works: Vec<&Value> = self.servers.control.list(Kind::Work).filter(mine).collect();
                let Some(work) = works.get(choice % works.len().max(1)).map(|work| (*work).clone()) else {
                    return;
                };
                let name = text(&work, "/metadata/name");
                self.servers
                    .control
                    .delete(Kind::Work, CLUSTERS[cluster], name, None)
                    .expect("is there");
                work
            }
        };
        self.servers
            .tampered
            .insert(label(&origin, names::ORIGIN_UID_LABEL).to_owned());
    }
}
