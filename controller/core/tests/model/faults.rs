//! Faults outside of the processes: people who delete objects that are not theirs, restored
//! backups, and policies that come, go and change.

use argosy_api::names;
use serde_json::{Value, json};

use crate::{
    api_server::{Kind, is_deleting, text},
    ledger::attempt,
    script::{PolicyStep, Restoration, Space, Tamper},
    servers::{CLUSTERS, POLICIES, Servers, clusters_of, label, policy},
    world::World,
};

/// True if the conditions of a ManifestWork say that its object was created.
fn says_started(work: &Value) -> bool {
    let conditions = work.pointer("/status/conditions").and_then(Value::as_array);
    let says_so = |one: &Value| one["type"] == "Applied" && one["status"] == "True";
    conditions.into_iter().flatten().any(says_so)
}

impl World {
    /// True if the ManifestWork of this object says that the object was created, or a report does.
    fn is_noted(&self, cluster: usize, object: &Value) -> bool {
        let name = names::work_name(label(object, names::ORIGIN_UID_LABEL));
        let work = self.servers.its.get(Kind::Work, CLUSTERS[cluster], &name);
        let work = work.unwrap_or_default();
        says_started(&work) || self.is_reported(cluster, object)
    }

    pub(crate) fn tamper(&mut self, cluster: usize, choice: usize, what: Tamper) {
        let origin = match what {
            Tamper::DeleteObject | Tamper::DestroyObject => {
                let is_fit = |object: &Value| {
                    self.servers.ledger.is_run(object)
                        && (matches!(what, Tamper::DeleteObject) || self.is_noted(cluster, object))
                };
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
                let works: Vec<&Value> = self.servers.its.list(Kind::Work).filter(mine).collect();
                let Some(work) = works.get(choice % works.len().max(1)).map(|work| (*work).clone()) else {
                    return;
                };
                let name = text(&work, "/metadata/name");
                self.servers
                    .its
                    .delete(Kind::Work, CLUSTERS[cluster], name, None)
                    .expect("is there");
                work
            }
        };
        let origin = label(&origin, names::ORIGIN_UID_LABEL).to_owned();
        self.servers.ledger.tampered.insert(origin);
    }

    /// Creates a foreign object, or deletes it.
    pub(crate) fn foreign(&mut self, cluster: usize, number: usize) {
        let name = format!("workflow-{number}");
        let wec = &mut self.servers.wecs[cluster];
        match wec.get(Kind::Workflow, "argo", &name) {
            Err(_) => {
                let object = json!({ "metadata": { "namespace": "argo", "name": name }, "spec": {} });
                wec.create(Kind::Workflow, object).expect("the name is free");
            }
            Ok(there) if is_foreign(&there) => drop(wec.delete(Kind::Workflow, "argo", &name, None)),
            Ok(_) => {}
        }
    }

    pub(crate) fn remove_foreign(&mut self) {
        for cluster in 0..CLUSTERS.len() {
            for number in 0..3 {
                let there =
                    self.servers.wecs[cluster].get(Kind::Workflow, "argo", &format!("workflow-{number}"));
                if there.is_ok_and(|there| is_foreign(&there)) {
                    self.foreign(cluster, number);
                }
            }
        }
    }

    /// Kubernetes' garbage collector on the control cluster: deletes objects whose owner is gone.
    pub(crate) fn collect_garbage(&mut self) {
        let workflows = self.workflows();
        let is_there = |uid: &str| workflows.iter().any(|one| text(one, "/metadata/uid") == uid);
        for object in &workflows {
            let owner = text(object, "/metadata/ownerReferences/0/uid");
            if !owner.is_empty() && !is_there(owner) && !is_deleting(object) {
                let name = text(object, "/metadata/name");
                drop(self.servers.wds.delete(Kind::Workflow, "argo", name, None));
            }
        }
    }

    pub(crate) fn back_up(&mut self, space: Space) {
        self.servers.at_mut(space, 0).back_up();
    }

    pub(crate) fn restore(&mut self, space: Space, restoration: Restoration) {
        self.servers.check();
        if !self.servers.at_mut(space, 0).restore(restoration.numbers_go_on) {
            return;
        }
        self.servers.ledger.was_restored = true;
        if space == Space::Wec {
            self.forget_unheard_starts(0);
        }
        if space != Space::Wds && restoration.is_unnoticed {
            return;
        }
        if space == Space::Wec {
            self.agents[0].lose_watches(space);
            if let Some(second) = &mut self.seconds[0] {
                second.lose_watches(space);
            }
            return;
        }
        self.hub.lose_watches(space);
        self.shadows.lose_watches(space);
        for agent in self.agents.iter_mut().chain(self.seconds.iter_mut().flatten()) {
            agent.lose_watches(space);
        }
        if space == Space::Wds {
            self.servers.ledger.forget_versions(&self.servers.wds);
        }
    }

    /// The cluster has lost its objects, so starts that no other space has recorded may happen
    /// again.
    pub(crate) fn forget_unheard_starts(&mut self, cluster: usize) {
        let Servers {
            its, wecs, ledger, ..
        } = &mut self.servers;
        let (name, wec) = (CLUSTERS[cluster], &wecs[cluster]);
        let there = wec.list(Kind::Workflow).chain(wec.list(Kind::Record));
        let there: Vec<&Value> = there.collect();
        for (origin, starts) in &mut ledger.starts {
            let key = names::work_name(origin);
            let status = its.get(Kind::Status, name, &key).ok();
            let work = its.get(Kind::Work, name, &key).ok().filter(says_started);
            let of_it = there.iter().copied();
            let of_it = of_it.filter(|one| label(one, names::ORIGIN_UID_LABEL) == origin);
            let said = status.iter().chain(&work).chain(of_it).map(attempt).max();
            let is_heard_of =
                |attempt| said >= Some(attempt) || ledger.noted_starts.contains(&(origin.clone(), attempt));
            starts.retain(|(on, attempt)| *on != name || is_heard_of(*attempt));
        }
        ledger.forget_objects(wec);
    }

    pub(crate) fn policy(&mut self, choice: usize, what: PolicyStep) {
        self.servers.ledger.had_policy_changed = true;
        let name = POLICIES[if choice == 15 {
            3
        } else if choice == 14 {
            4
        } else if choice == 13 {
            5
        } else {
            choice % 3
        }];
        let wds = &mut self.servers.wds;
        match (what, wds.get(Kind::Policy, "", name)) {
            (PolicyStep::Toggle, Ok(_)) => drop(wds.delete(Kind::Policy, "", name, None)),
            (PolicyStep::Toggle, Err(_)) => drop(wds.create(Kind::Policy, policy(name, &clusters_of(name)))),
            (PolicyStep::Turn, Ok(there)) => {
                let now = &there["spec"]["clusterSelectors"][0]["matchLabels"]["name"];
                let other = if now == "cluster1" { "cluster2" } else { "cluster1" };
                point(wds, &there, &json!({ "name": other }));
            }
            (PolicyStep::Turn, Err(_)) => {}
        }
    }

    pub(crate) fn restore_policies(&mut self) {
        for name in POLICIES {
            let wds = &mut self.servers.wds;
            match wds.get(Kind::Policy, "", name) {
                Ok(there) => point(wds, &there, &clusters_of(name)),
                Err(_) => drop(wds.create(Kind::Policy, policy(name, &clusters_of(name)))),
            }
        }
    }
}

fn point(wds: &mut crate::api_server::ApiServer, policy: &Value, clusters: &Value) {
    let change = |policy: &mut Value| policy["spec"]["clusterSelectors"][0]["matchLabels"] = clusters.clone();
    wds.edit(Kind::Policy, policy, change).expect("is there");
}

/// True if an object of a WEC is foreign.
pub(crate) fn is_foreign(object: &Value) -> bool {
    label(object, names::ORIGIN_UID_LABEL).is_empty()
}
