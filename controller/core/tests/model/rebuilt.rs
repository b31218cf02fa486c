//! Clusters that were replaced by others of the same name, and mailboxes that were lost and created
//! anew.
//!
//! A run that had started is not started again, and its Workflow says that it is over, or that its
//! fate is unknown. Not promised: anything about a start that no other space had recorded when both
//! the cluster and its mailbox were lost.

use std::collections::BTreeSet;

use argosy_api::{names, workflow};
use serde_json::Value;

use crate::{
    actor::Fault,
    api_server::{Kind, text},
    checks,
    ledger::{Ledger, claimed_attempt, is_ours, phase},
    run,
    script::{
        Restoration, SUSPENDED, Space,
        Step::{
            Argo, Backup, Beat, CatchUp, Cut, Decide, Deliver, Execute, Expire, Flood, Lose, NewMailbox,
            Rebuild, Restore, Settle, Skew, Tamper, User,
        },
        Tamper::DestroyObject,
        UserStep,
    },
    servers::{CLUSTERS, Servers, annotation, label, lease},
    users::PLAIN,
    world::World,
};

impl Ledger {
    /// True if the object belongs to a ManifestWork that was lost with its mailbox. No agent has seen
    /// the deletion of such a ManifestWork.
    pub(crate) fn is_of_lost_mailbox(&self, object: &Value) -> bool {
        self.new_mailboxes.contains(label(object, names::CLUSTER_LABEL))
            && self.tampered.contains(label(object, names::ORIGIN_UID_LABEL))
    }
}

impl World {
    /// Replaces a cluster by a new one whose agent uses the same mailbox.
    pub(crate) fn rebuild(&mut self, cluster: usize) {
        let name = CLUSTERS[cluster];
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
        self.agents[cluster].lose_late();
        self.agents[cluster].restart(&self.servers);
        self.forget_lost_starts(cluster);
    }

    /// If both the cluster and its mailbox are lost, starts that no other space has recorded may
    /// happen again.
    fn forget_lost_starts(&mut self, cluster: usize) {
        let ledger = &self.servers.ledger;
        let is_in = |set: &BTreeSet<&str>| set.contains(CLUSTERS[cluster]);
        if !is_in(&ledger.rebuilt) || !is_in(&ledger.new_mailboxes) {
            return;
        }
        self.forget_unheard_starts(cluster);
        let Ledger {
            starts, lost_runs, ..
        } = &mut self.servers.ledger;
        lost_runs.retain(|(origin, attempt)| starts[origin].iter().any(|(_, started)| started == attempt));
    }

    /// Replaces a mailbox by an empty one. No agent sees the deletion of its objects.
    pub(crate) fn make_mailbox_anew(&mut self, cluster: usize) {
        let name = CLUSTERS[cluster];
        self.servers.check();
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
        self.forget_lost_starts(cluster);
    }
}

pub(crate) fn says(object: &Value, reason: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| text(one, "/message").starts_with(reason))
}

/// True if the Workflow was sent to a cluster that does not exist any more and may have started it.
pub(crate) fn is_uncertain(servers: &Servers, object: &Value) -> bool {
    servers
        .ledger
        .rebuilt
        .contains(label(object, names::CLUSTER_LABEL))
        && says(object, "OtherCluster")
}

/// A run that was lost with its cluster is shown as ended, or its Workflow says why it is not.
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

/// The last day of a record does not begin while its ManifestWork exists.
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
    let create = User(0, UserStep::Create("cluster1", SUSPENDED));
    let catch_up = |who| CatchUp(who, Fault::None);
    for step in [
        catch_up(1),
        Lose(0, 7),
        catch_up(0),
        create,
        catch_up(0),
        Rebuild(0),
    ] {
        world.step(&step);
    }
    world.settle();
    assert_eq!(world.servers.ledger.starts.len(), 1);
    checks::at_rest(&world);
}

#[test]
fn what_no_cluster_may_start_yet_is_not_started_on_two_of_one_name() {
    run(
        true,
        &[
            CatchUp(1, Fault::None),
            Lose(0, 7),
            CatchUp(0, Fault::None),
            User(0, UserStep::Create("cluster1", PLAIN)),
            CatchUp(0, Fault::None),
            Cut(1, Space::Its),
            Flood(1),
            Decide(1, 0),
            Execute(1, 0, Fault::None),
            Rebuild(0),
        ],
    );
}

#[test]
fn what_has_started_on_a_cluster_that_is_lost_with_its_mailbox_does_not_start_on_the_next() {
    for lost in [[Rebuild(0), NewMailbox(0)], [NewMailbox(0), Rebuild(0)]] {
        let mut script = vec![
            User(0, UserStep::Create("cluster1", PLAIN)),
            CatchUp(0, Fault::None),
            CatchUp(1, Fault::None),
            Argo(0, 0),
            CatchUp(1, Fault::None),
            CatchUp(0, Fault::None),
        ];
        script.extend(lost);
        // The controller receives the new cluster before it sends anything.
        script.extend([Beat(1), Flood(0)]);
        run(true, &script);
    }
}

#[test]
fn a_report_keeps_what_a_backup_of_its_cluster_lacks_from_starting_again() {
    run(
        true,
        &[
            Backup(Space::Wec),
            User(0, UserStep::Create("cluster1", PLAIN)),
            CatchUp(0, Fault::None),
            Flood(1),
            Decide(1, 0),
            Execute(1, 0, Fault::None),
            Settle(1, 0),
            Argo(0, 0),
            Flood(1),
            Decide(1, 0),
            Execute(1, 0, Fault::None),
            Restore(Space::Wec, Restoration::default()),
        ],
    );
}

#[test]
fn what_was_destroyed_is_remembered_until_that_is_recorded() {
    run(
        true,
        &[
            User(0, UserStep::Create("cluster1", PLAIN)),
            CatchUp(0, Fault::None),
            CatchUp(1, Fault::None),
            Tamper(0, 0, DestroyObject),
            Flood(1),
            NewMailbox(0),
            CatchUp(0, Fault::None),
            CatchUp(1, Fault::None),
        ],
    );
}

#[test]
fn a_record_alone_keeps_a_run_from_starting_again_and_tells_its_end() {
    let mut script = vec![
        User(0, UserStep::Create("cluster1", PLAIN)),
        CatchUp(0, Fault::None),
        CatchUp(1, Fault::None),
    ];
    script.extend(std::iter::repeat_n(Argo(0, 0), 5));
    script.extend([
        CatchUp(1, Fault::None),
        Expire(0, 0),
        CatchUp(1, Fault::None),
        NewMailbox(0),
    ]);
    run(true, &script);
}

#[test]
fn a_report_that_lands_in_a_mailbox_that_was_made_anew_is_nobodys() {
    run(
        true,
        &[
            User(1, UserStep::Create("cluster2", PLAIN)),
            User(10, UserStep::Copy),
            CatchUp(0, Fault::None),
            Deliver(0, 0),
            CatchUp(2, Fault::Answer),
            Deliver(0, 0),
            Argo(13, 5),
            CatchUp(2, Fault::Late),
            NewMailbox(1),
            User(11, UserStep::Delete),
            Skew(0, 0),
        ],
    );
}
