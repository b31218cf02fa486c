//! Workflows that run on every cluster: one run per cluster, ever, and their sum.

use argosy_api::{names, workflow};
use serde_json::Value;

use crate::{
    actor::Fault,
    api_server::{is_deleting, text},
    ledger::{Ledger, is_ours, is_own, noted, phase},
    run,
    script::{
        Step::{CatchUp, User, UserOfRun},
        UserStep,
    },
    servers::{CLUSTERS, label},
    users::PLAIN,
    world::World,
};

/// The UID of the Workflow that this one is a run of, if it is a run.
pub(crate) fn parent_of(object: &Value) -> Option<String> {
    let claim = noted(object, names::CLAIM_ANNOTATION);
    let parent = claim["runOf"].as_str().filter(|_| is_own(&claim, object))?;
    Some(parent.to_owned())
}

pub(crate) fn is_run(object: &Value) -> bool {
    parent_of(object).is_some()
}

/// True if the Workflow is claimed for every cluster.
pub(crate) fn is_for_all(object: &Value) -> bool {
    is_ours(object) && label(object, names::CLUSTER_LABEL) == names::EVERY_CLUSTER
}

impl Ledger {
    /// A Workflow has one run on each cluster, whatever happens to it, and is itself sent nowhere.
    pub(crate) fn note_run(&mut self, uid: &str, object: &Value) {
        if let Some(parent) = parent_of(object) {
            let place = (parent, label(object, names::CLUSTER_LABEL).to_owned());
            let runs = self.runs.entry(place).or_default();
            runs.insert(uid.to_owned());
            assert!(
                self.was_restored || runs.len() == 1,
                "a second run was created: {object:#}"
            );
        }
        assert!(
            self.was_restored || !is_for_all(object) || !self.starts.contains_key(uid),
            "it runs on every cluster, and was itself started: {object:#}"
        );
    }
}

/// The status of a Workflow that runs on every cluster is the sum of its runs, and its requests are
/// passed on to the runs.
pub(crate) fn check_sum(world: &World, object: &Value) {
    let uid = text(object, "/metadata/uid");
    let workflows = world.workflows();
    let runs = workflows
        .iter()
        .filter(|run| parent_of(run).as_deref() == Some(uid));
    let runs: Vec<&Value> = runs.collect();
    let on = noted(object, names::RUNS_ON_ANNOTATION);
    let record = on["runs"].clone();
    let has_ended = workflow::is_final(phase(object))
        || on["ended"] == true
        || !text(object, "/spec/shutdown").is_empty();
    if label(object, names::KUBESTELLAR_CLUSTER_LABEL) == "every" && !has_ended {
        let has_all = CLUSTERS.iter().all(|cluster| record.get(*cluster).is_some());
        assert!(has_all, "it has no run on some cluster: {object:#}");
    }
    let mut phases = Vec::new();
    for (cluster, noted) in record.as_object().into_iter().flatten() {
        let run = runs.iter().find(|run| {
            label(run, names::CLUSTER_LABEL) == cluster && run["metadata"]["uid"] == noted["uid"]
        });
        phases.extend(run.map_or_else(|| noted["phase"].as_str(), |run| Some(phase(run))));
    }
    let is_any = |phase: &str| phases.contains(&phase);
    let sum = match () {
        // All runs are gone, or there never was one.
        () if phases.is_empty() => phase(object),
        () if phases.iter().any(|phase| !workflow::is_final(phase)) => {
            if phases.iter().all(|phase| *phase == "Pending") {
                "Pending"
            } else {
                "Running"
            }
        }
        () if is_any("Error") => "Error",
        () if is_any("Failed") => "Failed",
        () => "Succeeded",
    };
    assert_eq!(phase(object), sum, "not the sum of {phases:?}: {object:#}");
    for run in runs {
        assert!(
            record.get(label(run, names::CLUSTER_LABEL)).is_some(),
            "the record lacks {run:#}: {object:#}"
        );
        let is_open = !workflow::is_final(phase(run)) && !is_deleting(run);
        // Somebody has retried this one run since.
        let is_retried = world
            .servers
            .ledger
            .retries
            .contains_key(text(run, "/metadata/uid"));
        assert!(
            !is_open || is_retried || text(object, "/spec/shutdown").is_empty(),
            "it was ended, and this run was not: {run:#}"
        );
    }
}

#[test]
fn a_copy_of_a_run_whose_user_names_another_cluster_waits() {
    run(
        true,
        &[
            User(0, UserStep::Create("every", PLAIN)),
            User(3, UserStep::Copy),
            User(0, UserStep::Delete),
            CatchUp(0, Fault::None),
            UserOfRun(6, UserStep::Relabel("cluster2")),
            UserOfRun(14, UserStep::Copy),
        ],
    );
}
