//! The reason why a Workflow that is claimed for a cluster has not started there.

use argosy_api::conditions::reason;

use super::Blocked;
use crate::{
    hub::workflows::{WorkflowIndex, view::WorkflowView},
    model::claim::Claim,
    policy::Unplaced,
};

impl WorkflowIndex {
    /// The first reason why the claimed attempt has not started, in the order in which its user can
    /// do something about it.
    pub(in crate::hub::workflows) fn not_started(
        &self,
        view: &WorkflowView,
        claim: &Claim,
    ) -> Option<Blocked> {
        let not_started = |reason: &str, message: String| {
            let reason = reason.to_owned();
            Some(Blocked::NotStarted { reason, message })
        };
        if self.next_waits_for_room(view, claim) {
            return not_started(reason::NO_ROOM, waits_for_room(claim));
        }
        if let Some(failure) = &view.send_failure {
            return not_started(failure.reason, of_cluster(claim, &failure.message));
        }
        let obstacle = self.obstacle(view, claim);
        if self.is_leaving(view, claim) && obstacle.is_none_or(|(why, _)| why != reason::OTHER_CLUSTER) {
            let mut message = self.leaving(view, claim);
            if let Some((why, said)) = obstacle {
                message = format!("{message}; {}: {why}: {said}", claim.cluster);
            }
            return Some(Blocked::Leaving { message });
        }
        if self.work(view, &claim.cluster).is_none() {
            if let Some(decode_error) = &view.decode_error {
                return not_started(reason::UNREADABLE, decode_error.to_string());
            }
            let key = self.by_uid.get(&view.uid);
            if let Some((reason, errors)) = key.and_then(|key| self.unsendable(key, view, claim)) {
                return not_started(reason, format!("{}: {errors}", claim.cluster));
            }
        }
        let (reason, message) = obstacle?;
        not_started(reason, of_cluster(claim, message))
    }

    /// Reason and message of the agent that cannot create the claimed attempt, or, before it has
    /// started, of the agent whose API server does not answer.
    fn obstacle(&self, view: &WorkflowView, claim: &Claim) -> Option<(&str, &str)> {
        let work = self.work(view, &claim.cluster)?;
        let unanswered = work.unanswered.as_ref();
        let (reason, message) = unanswered
            .filter(|_| !self.has_started(view, claim))
            .or(work.obstacle.as_ref())
            .filter(|_| work.attempt == claim.attempt)?;
        Some((reason, message))
    }

    fn leaving(&self, view: &WorkflowView, claim: &Claim) -> String {
        let onward = match view.placement.choose(self.fleet()) {
            Ok(cluster) => format!("then it is sent to {}", Claim::new(&cluster, 0).destination()),
            // The name would change with the loads.
            Err(Unplaced::ByLoad) => "then it is sent to the best of its clusters".to_owned(),
            Err(_) if claim.lost.is_some() => "then it waits for a cluster that accepts it".to_owned(),
            Err(_) => "then its claim is removed".to_owned(),
        };
        format!(
            "waits until {} confirms that it never started there; {onward}",
            claim.cluster
        )
    }
}

/// The message for a Workflow that starts again as soon as it is its turn for the room of a cluster.
fn waits_for_room(claim: &Claim) -> String {
    format!(
        "waits to start again on another cluster than {}: none has room now, or others wait for it first",
        claim.cluster
    )
}

/// The message with the name of the claimed cluster, because lists do not show the cluster anywhere
/// else.
fn of_cluster(claim: &Claim, message: &str) -> String {
    if message.contains(claim.cluster.as_str()) {
        message.to_owned()
    } else {
        format!("{}: {message}", claim.cluster)
    }
}
