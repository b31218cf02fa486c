//! The reason why an unclaimed Workflow is not sent to a cluster. The decision and `argosy why` use
//! the same reasons, in the same order.
//!
//! Not here: the reason why no cluster can be chosen (`policy`), and the write of the condition
//! (`place`).

use argosy_api::{
    Workflow,
    conditions::{WorkflowCondition, reason, workflow as types},
    names,
};

use super::view::WorkflowView;
use crate::{
    ClusterName,
    model::{demand::Demand, hold},
    policy::{Candidate, Chosen, Fleet, Loads, Placement, Unplaced},
};

/// The reason why a Workflow is not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// No policy selects it.
    NoPolicy,
    /// It may not be sent, regardless of policies: it cannot be read, or it may have started on the
    /// control cluster.
    NotDispatchable {
        /// Reason of the condition.
        reason: &'static str,
        /// Message of the condition.
        message: String,
    },
    /// No cluster can be chosen.
    Unplaced(Unplaced),
    /// The ManifestWork of an earlier claim still exists.
    Moving,
}

/// The cluster that the Workflow is to be claimed for, or the first reason why it is not.
pub(super) fn blocked(
    view: &WorkflowView,
    placement: &Placement,
    choose: impl FnOnce() -> Result<Chosen, Unplaced>,
    has_former_work: bool,
) -> Result<Chosen, Blocked> {
    if !placement.is_selected() {
        return Err(Blocked::NoPolicy);
    }
    if let Some(blocked) = not_dispatchable(view) {
        return Err(blocked);
    }
    let chosen = choose().map_err(Blocked::Unplaced)?;
    if has_former_work {
        return Err(Blocked::Moving);
    }
    Ok(chosen)
}

/// The cluster that an unclaimed Workflow will be claimed for when no ManifestWork of it is left,
/// or the first reason why it is not.
pub(crate) fn will_be_claimed(
    run: &Workflow,
    placement: &Placement,
    fleet: &Fleet,
    loads: &Loads,
    demand: &Demand,
) -> Result<Chosen, Blocked> {
    let candidate = Candidate { demand, own: None };
    let choose = || placement.choose_by_load(fleet, loads, candidate);
    blocked(&WorkflowView::new(run.clone()), placement, choose, false)
}

fn not_dispatchable(view: &WorkflowView) -> Option<Blocked> {
    let (reason, message) = if let Some(flaw) = &view.flaw {
        (reason::UNREADABLE, &**flaw)
    } else if view.is_final() || view.has_run_here {
        (
            reason::ALREADY_STARTED,
            "it has run on the control cluster, and a Workflow runs only once; create it again with spec.suspend: true",
        )
    } else if view.hold().is_none() || view.was_free {
        (
            reason::NOT_HELD,
            "it was not suspended when Argosy first saw it, so it may have run on the control cluster; create it again with spec.suspend: true",
        )
    } else {
        return None;
    };
    Some(Blocked::NotDispatchable {
        reason,
        message: message.to_owned(),
    })
}

/// The condition for the Workflow. `None` if no policy selects it and it names no cluster: it waits
/// silently for a policy.
pub(super) fn condition(view: &WorkflowView, blocked: &Blocked) -> Option<WorkflowCondition> {
    let not_dispatched =
        |reason, message: &str| Some(WorkflowCondition::new(types::DISPATCHED, false, reason, message));
    match blocked {
        Blocked::NoPolicy => {
            let asked = view.asked_cluster().filter(|_| !view.is_final())?;
            let message = format!("{}; it is {} and waits", hold::no_policy(asked), view.hold()?);
            not_dispatched(reason::NO_POLICY, &message)
        }
        Blocked::NotDispatchable { reason, message } => Some(WorkflowCondition::new(
            types::NOT_DISPATCHABLE,
            true,
            reason,
            message,
        )),
        Blocked::Moving => not_dispatched(reason::MOVING, "waits until its former ManifestWork is gone"),
        Blocked::Unplaced(unplaced) => {
            let message = unplaced_message(view, *unplaced);
            match unplaced {
                Unplaced::NoCluster | Unplaced::Unreachable | Unplaced::ByLoad => {
                    not_dispatched(reason::NO_CLUSTER, &message)
                }
                Unplaced::Full => not_dispatched(reason::NO_ROOM, &message),
                Unplaced::Unknown => not_dispatched(reason::POLICY_UNREADABLE, &message),
                Unplaced::Unfit => not_dispatched(reason::NO_CLUSTER_FITS, &message),
                Unplaced::Cordoned => not_dispatched(reason::CLUSTER_CORDONED, &message),
                Unplaced::Ambiguous => Some(WorkflowCondition::new(
                    types::AMBIGUOUS,
                    true,
                    reason::SEVERAL_CLUSTERS,
                    &message,
                )),
            }
        }
    }
}

fn unplaced_message(view: &WorkflowView, unplaced: Unplaced) -> String {
    let hold = view.hold().unwrap_or_default();
    let policies = view.placement.policies().map(AsRef::as_ref);
    let policies = policies.collect::<Vec<&str>>().join(", ");
    let clusters = view.placement.clusters().map(ClusterName::as_str);
    let clusters = clusters.collect::<Vec<_>>().join(", ");
    match (unplaced, view.labels.get(names::RUN_ON_LABEL)) {
        (Unplaced::NoCluster, Some(only)) => format!(
            "selected by {policies}, which do not match {only}, the only cluster that the label {} allows; it is {hold} and waits",
            names::RUN_ON_LABEL
        ),
        (Unplaced::NoCluster, None) => match view.placement.only() {
            Some(only) => format!(
                "selected by {policies}, which do not match {only}, the cluster that the label {} names; it is {hold} and waits",
                names::KUBESTELLAR_CLUSTER_LABEL
            ),
            None => format!("selected by {policies}, which match no ManagedCluster; it is {hold} and waits"),
        },
        (Unplaced::Cordoned, _) => {
            format!(
                "selected by {policies} for {clusters}, which accept no new Workflows; it is {hold} and waits"
            )
        }
        (Unplaced::Unreachable | Unplaced::ByLoad, _) => {
            format!(
                "selected by {policies} for {clusters}, none of which is reachable; it is {hold} and waits"
            )
        }
        (Unplaced::Full, _) => {
            format!(
                "selected by {policies} for {clusters}, none of which has room now; it is {hold} and is sent when one has"
            )
        }
        (Unplaced::Unknown, _) => {
            format!(
                "selected by {policies}; an annotation of a policy has an unknown value, as the status of the policy says; the Workflow is {hold} and waits"
            )
        }
        (Unplaced::Unfit, _) => {
            format!(
                "selected by {policies} for {clusters}, none of which can run it: argosy why names the reasons; it is {hold} and waits"
            )
        }
        (Unplaced::Ambiguous, _) => {
            format!(
                "selected by {policies} for {clusters}; one run has one cluster, so it is {hold} and waits"
            )
        }
    }
}
