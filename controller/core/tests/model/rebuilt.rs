//! Clusters that are no more, and others that have taken their names; mailboxes that are lost and made anew.
//!
//! What had started before is not started again, and whatever is shown of it says that it is over, or that nobody can tell. Not promised:
//! anything about a start that nobody had heard of when both the cluster and its mailbox were lost.

use argosy_api::{names, workflow};
use serde_json::Value;

use crate::{
    actor::Fault,
    api_server::{Kind, text},
    checks,
    ledger::{claimed_attempt, is_ours, phase},
    script::{SUSPENDED, Space, Step, UserStep},
    servers::{CLUSTERS, Servers, annotation, label, lease},
    world::World,
};

impl World {
    /// The agent of the new cluster dials the same mailbox.
    pub(crate) fn rebuild(&mut self, cluster: usize) {
        let name = CLUSTERS[cluster];
        if self.servers.ledger.new_mailboxes.contains(name) {
            return;
        }
        self.servers.check();
        self.servers.ledger.rebuilt.insert(name);
        self.servers.wecs[cluster].lose(|_, _| true);
        self.servers.cluster_ids[cluster].push('\'');
        let starts = self.servers.ledger.starts.clone();
        for (origin, starts) in starts {
            for (_, attempt) in starts.into_iter().filter(|(on, _)| *on == name) {
                self.servers.ledger.lost_runs.insert((origin.clone(), attempt));
                self.servers.ledger.tampered.insert(origin.clone());
            }
        }
        self.seconds[cluster] = None;
        self.agents[cluster].restart(&self.servers);
    }

    /// No agent sees the deletion of what was in it.
    pub(crate) fn make_mailbox_anew(&mut self, cluster: usize) {
        let name = CLUSTERS[cluster];
        if self.servers.ledger.rebuilt.contains(name) {
            return;
        }
        self.servers.ledger.new_mailboxes.insert(name);
        let is_in_it = |object: &Value| text(object, "/metadata/namespace") == name;
        for work in self.servers.its.list(Kind::Work).filter(|work| is_in_it(work)) {
            let origin = label(work, names::ORIGIN_UID_LABEL).to_owned();
            self.servers.ledger.tampered.insert(origin);
        }
        self.servers.its.lose(|_, object| is_in_it(object));
        let lease = lease(name, self.servers.now);
        self.servers.its.create(Kind::Lease, lease).expect("is new");
        self.hub.lose_watches(Space::Its);
        for agent in self.seconds[cluster]
            .iter_mut()
            .chain([&mut self.agents[cluster]])
        {
            agent.lose_watches(Space::Its);
        }
    }
}

fn says(object: &Value, reason: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| text(one, "/message").starts_with(reason))
}

/// Whether it was sent to a cluster that is no more, which may have started it.
pub(crate) fn is_uncertain(servers: &Servers, object: &Value) -> bool {
    servers
        .ledger
        .rebuilt
        .contains(label(object, names::CLUSTER_LABEL))
        && says(object, "OtherCluster")
}

/// What was lost with a cluster is shown as ended, or says why it is not.
pub(crate) fn check_told(servers: &Servers, object: &Value) {
    let run = (text(object, "/metadata/uid").to_owned(), claimed_attempt(object));
    if !is_ours(object) || !servers.ledger.lost_runs.contains(&run) {
        return;
    }
    assert!(
        workflow::is_final(phase(object)) || is_uncertain(servers, object),
        "its cluster is no more, and it says nothing of that: {object:#}"
    );
}

/// The last day of a record does not run while its ManifestWork is there.
pub(crate) fn check_records(servers: &Servers) {
    for (name, wec) in CLUSTERS.iter().zip(&servers.wecs) {
        let is_released = |record: &&Value| !annotation(record, names::RELEASED_ANNOTATION).is_empty();
        for record in wec.list(Kind::Record).filter(is_released) {
            let work = servers.its.get(Kind::Work, name, text(record, "/metadata/name"));
            assert!(
                servers.removed.contains_key(name) || work.is_err(),
                "its ManifestWork is there: {record:#}"
            );
        }
    }
}

#[test]
fn what_was_sent_while_its_cluster_was_away_runs_on_the_one_that_takes_its_name() {
    let mut world = World::new(true);
    let create = Step::User(0, UserStep::Create("cluster1", SUSPENDED));
    let catch_up = |who| Step::CatchUp(who, Fault::None);
    for step in [
        catch_up(1),
        Step::Lose(0, 7),
        catch_up(0),
        create,
        catch_up(0),
        Step::Rebuild(0),
    ] {
        world.step(&step);
    }
    world.settle();
    assert_eq!(world.servers.ledger.starts.len(), 1);
    checks::at_rest(&world);
}
