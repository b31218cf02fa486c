//! Removes a cluster from the fleet, as `argosy cluster remove` does: the cluster is first marked
//! and then cut off. Its runs are given up. Their Workflows say so, and none of them starts
//! elsewhere.

use argosy_api::{names, workflow};
use serde_json::{Value, json};

use crate::{
    api_server::{ApiServer, Kind, is_deleting, text},
    ledger::{is_ours, phase},
    script::Space,
    servers::{CLUSTERS, Servers, label},
    world::World,
};

impl World {
    /// Marks the cluster. If it is already marked, cuts it off.
    pub(crate) fn remove(&mut self, cluster: usize) {
        let name = CLUSTERS[cluster];
        if self.servers.removed.contains_key(name) {
            self.cut_off(name);
            return;
        }
        let its = &mut self.servers.its;
        let there = its.get(Kind::Cluster, "", name).expect("is there");
        let mark = |cluster: &mut Value| {
            cluster["metadata"]["annotations"][names::REMOVED_ANNOTATION] = json!("2026-11-21T10:00:00Z");
            cluster["spec"]["hubAcceptsClient"] = json!(false);
        };
        its.edit(Kind::Cluster, &there, mark).expect("is there");
        self.servers.removed.insert(name, false);
        // Of two clusters that match, one is left.
        self.servers.ledger.had_policy_changed = true;
    }

    fn cut_off(&mut self, name: &'static str) {
        if self.servers.removed.insert(name, true) == Some(false) {
            drop(
                self.servers
                    .its
                    .delete(Kind::Lease, name, names::CLUSTER_LEASE, None),
            );
        }
        self.keep_cut_off();
    }

    /// Completes every removal that has begun.
    pub(crate) fn finish_removals(&mut self) {
        for name in CLUSTERS {
            if self.servers.removed.contains_key(name) {
                self.cut_off(name);
            }
        }
    }

    /// Cuts removed clusters off again after a link was restored: their agents do not get their
    /// rights back.
    pub(crate) fn keep_cut_off(&mut self) {
        for (number, name) in CLUSTERS.iter().enumerate() {
            if self.servers.removed.get(name) != Some(&true) {
                continue;
            }
            let second = self.seconds[number].iter_mut();
            for agent in second.chain([&mut self.agents[number]]) {
                if agent.reaches(Space::Its) {
                    agent.cut(Space::Its);
                }
            }
        }
    }
}

/// True if the Workflow is claimed for a removed cluster, or is unclaimed and asks for one.
pub(crate) fn concerns(servers: &Servers, object: &Value) -> bool {
    let key = if is_ours(object) {
        names::CLUSTER_LABEL
    } else {
        names::KUBESTELLAR_CLUSTER_LABEL
    };
    servers.removed.contains_key(label(object, key))
}

/// A Workflow that was given up has its end or says that its cluster was removed. A run that goes
/// on is left alone on that cluster.
pub(crate) fn check_given_up(servers: &Servers, object: &Value) {
    let is_removed = servers.removed.contains_key(label(object, names::CLUSTER_LABEL));
    if !is_removed || !is_ours(object) || workflow::is_final(phase(object)) {
        return;
    }
    let conditions = object["status"]["conditions"].as_array();
    let says_so = |one: &Value| {
        one["type"] == "ClusterReachable"
            && one["status"] == "False"
            && text(one, "/message").starts_with("ClusterRemoved")
    };
    assert!(
        conditions.is_some_and(|list| list.iter().any(says_so)),
        "nothing says that its cluster was removed: {object:#}"
    );
    let uid = text(object, "/metadata/uid");
    let goes_on = |(_, status): &(u64, Value)| !workflow::is_final(text(status, "/phase"));
    if servers.ledger.last.get(uid).is_some_and(goes_on) {
        assert!(
            is_left_alone(servers, uid),
            "what ran on a cluster was deleted when that was removed: {object:#}"
        );
    }
}

fn is_left_alone(servers: &Servers, origin: &str) -> bool {
    let mut objects = servers.wecs.iter().flat_map(|wec| wec.list(Kind::Workflow));
    objects.any(|there| {
        label(there, names::ORIGIN_UID_LABEL) == origin && !is_deleting(there) && servers.ledger.is_run(there)
    })
}

/// The clusters that have not been removed.
pub(crate) fn served(servers: &Servers) -> impl Iterator<Item = &ApiServer> {
    let clusters = CLUSTERS.iter().zip(&servers.wecs);
    clusters.filter_map(|(name, wec)| (!servers.removed.contains_key(name)).then_some(wec))
}

/// No ManifestWork is left in the mailbox of a removed cluster, whose agent cannot release it.
pub(crate) fn check_mailboxes(servers: &Servers) {
    for work in servers.its.list(Kind::Work) {
        assert!(
            !servers.removed.contains_key(text(work, "/metadata/namespace")),
            "it was not released: {work:#}"
        );
    }
}
