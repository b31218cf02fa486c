//! The reasons why a Workflow does not run on a cluster yet, in one `enum`, and the condition that
//! tells its user.
//!
//! `unclaimed` finds the reason for a Workflow without a claim (also for `argosy why`), `claimed`
//! the one for a Workflow that is claimed for a cluster. Not here: the reason why a run on every
//! cluster is missing (`fan_out/summary`), the reason why no cluster can be chosen (`policy`), and
//! the write of the condition (`place`, `mirror_patch`).

mod claimed;
mod unclaimed;

use argosy_api::{
    conditions::{WorkflowCondition, reason, workflow as types},
    names,
};

pub(super) use self::unclaimed::blocked;
pub(crate) use self::unclaimed::will_be_claimed;
use super::view::WorkflowView;
use crate::{ClusterName, index::text::list_roughly, model::hold, policy::Unplaced};

/// Maximum number of clusters and of policies in a message.
const NAMED: usize = 6;

/// The reason why a Workflow does not run on a cluster yet.
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
    /// It is not claimed, and the ManifestWork of an earlier claim still exists.
    Moving,
    /// It is claimed for a cluster that it no longer belongs to, and the agent there has not
    /// confirmed yet that it never started.
    Leaving {
        /// Message of the condition.
        message: String,
    },
    /// It is claimed, but not started: the controller cannot send it, or the agent cannot create
    /// it.
    NotStarted {
        /// Reason of the condition.
        reason: String,
        /// Message of the condition, which names the cluster.
        message: String,
    },
    /// It runs on every cluster, and its run on one of them is missing.
    RunMissing {
        /// Reason of the condition.
        reason: &'static str,
        /// Message of the condition.
        message: String,
    },
}

/// The condition that tells the reason. `None` if no policy selects the Workflow and it names no
/// cluster: it waits silently for a policy.
pub(super) fn condition(view: &WorkflowView, blocked: &Blocked) -> Option<WorkflowCondition> {
    let not_dispatched =
        |reason: &str, message: &str| Some(WorkflowCondition::new(types::DISPATCHED, false, reason, message));
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
        Blocked::Leaving { message } => not_dispatched(reason::MOVING, message),
        Blocked::NotStarted { reason, message } => not_dispatched(reason, message),
        Blocked::RunMissing { reason, message } => not_dispatched(reason, message),
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
    let policies = list_roughly(view.placement.policies(), NAMED);
    let clusters = list_roughly(view.placement.clusters().map(ClusterName::as_str), NAMED);
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
                "selected by {policies} for {clusters}, none of which has room now, or others wait for it first; it is {hold} and is sent in its turn"
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
