//! Decides the next step for one WDS object: create it once, report it, record its end, answer
//! withdrawals.
//!
//! An object is created only if there is no sign of an earlier creation: no object, no record, no
//! WorkStatus, and no condition `Applied`. Each of these survives the loss of some of the others.

use std::time::Duration;

use argosy_api::{
    Outcome, Workflow,
    conditions::{condition, manifest_work as types, reason, set_condition},
    names,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{
    AgentAction, ArgoApi, RunIndex, Sought,
    report::reported,
    verbs::{begin_with, retry_at},
    views::{Manifest, ManifestWorkView, ObjectView},
};
use crate::{Decision, OriginUid, Priority, model::rerun::Fence};

/// Longest delay of the record, the finalizer and the conditions of a run that the hub has a report
/// of.
const REPORTED: Duration = Duration::from_secs(30);

/// Longest delay of the conditions of a run that the hub has no report of. If Argo does not run on
/// the cluster, only the conditions show that the Workflow has arrived. If it runs and many start at
/// once, the first report comes before them in most cases, and they can wait longer.
const UNREPORTED: Duration = Duration::from_secs(5);

impl RunIndex {
    pub(super) fn decide_key(&self, origin: &OriginUid, now: Timestamp) -> Decision<AgentAction> {
        let work = self.works.get(origin).map(Box::as_ref);
        let object = self.objects.get(origin).map(Box::as_ref);
        let mut decision = self.decide_run(origin, work, object, now);
        if decision.action.is_none() {
            decision.action = self.disown(origin);
            decision.requeue_at = decision.requeue_at.or_else(|| self.lands_until(origin, now));
        }
        decision
    }

    fn decide_run(
        &self,
        origin: &OriginUid,
        work: Option<&ManifestWorkView>,
        object: Option<&ObjectView>,
        now: Timestamp,
    ) -> Decision<AgentAction> {
        if object.is_none()
            && let Some(decision) = self.decide_doubt(origin, work, now)
        {
            return decision;
        }
        if work.is_some_and(|work| !work.is_deleting)
            && let Some(action) = self.take_back_release(origin)
        {
            return action.into();
        }
        match (work, object) {
            (None, object) => self.decide_without_work(origin, object, now),
            (Some(work), object) if work.is_deleting => {
                self.decide_withdrawn(origin, work, object, now).into()
            }
            (Some(work), Some(object)) => self.decide_present(origin, work, object, now),
            (Some(work), None) => self.decide_absent(origin, work, now).into(),
        }
    }

    /// The object exists, and a retry of it may be due.
    fn decide_present(
        &self,
        origin: &OriginUid,
        work: &ManifestWorkView,
        object: &ObjectView,
        now: Timestamp,
    ) -> Decision<AgentAction> {
        if let Some(at) = retry_at(work, object, now) {
            return Decision {
                action: self.report(origin, object, work.manifest.as_ref()),
                requeue_at: Some(at),
                ..Decision::rest()
            };
        }
        let decision = self.decide_running(origin, work, object, now);
        let refusal = self.refusals.get(origin);
        let is_refused = refusal.is_some_and(|refusal| refusal.control == *work.control);
        if decision.action.is_some() && (decision.priority == Priority::Normal || is_refused) {
            return decision;
        }
        // A stopped run does not wait for its conditions, which nobody waits for, unless the cluster
        // refuses its changes.
        let again = self.write_again(origin, object, now);
        let times = decision.requeue_at.into_iter().chain(again.requeue_at);
        let next = if decision.action.is_some() && again.action.is_none() {
            decision
        } else {
            again
        };
        Decision {
            requeue_at: times.min(),
            ..next
        }
    }

    /// The object exists: report it, and record its end after the hub has the last report.
    fn decide_running(
        &self,
        origin: &OriginUid,
        work: &ManifestWorkView,
        object: &ObjectView,
        now: Timestamp,
    ) -> Decision<AgentAction> {
        if object.attempt != work.attempt {
            let message = format!(
                "{} belongs to attempt {}, not to attempt {} of this ManifestWork; it is left unchanged",
                object.key, object.attempt, work.attempt
            );
            let wanted = [applied(false, reason::OTHER_ATTEMPT, &message, now)];
            return conditions(origin, work, wanted).into();
        }
        let rest = self.rest(origin, object, work.manifest.as_ref(), now);
        let awaited = self
            .carry_out(origin, work, object)
            .or_else(|| self.reopen_record(origin, object))
            .or_else(|| match rest {
                Some(_) => None,
                None => self.report(origin, object, work.manifest.as_ref()),
            });
        if awaited.is_some() {
            return awaited.into();
        }
        let closing = object
            .outcome()
            .and_then(|outcome| self.end(origin, object, outcome, now))
            .or_else(|| {
                // An agent that restarts takes these conditions as proof that no creation is in
                // flight.
                let is_certain = self.lands_until(origin, now).is_none();
                let is_silent = self.config.conditions_on_demand
                    && self.is_reported(origin, work)
                    && !is_awaited(work, object);
                (is_certain && !is_silent).then(|| conditions(origin, work, created(work, object, now)))?
            });
        Decision {
            priority: self.closing_priority(origin, work, object, closing.as_ref()),
            action: closing,
            requeue_at: rest,
            rule: None,
        }
    }

    /// The priority of record, finalizer and conditions. The object is evidence of the attempt until
    /// then, and the hub shows its report. The finalizer follows the record.
    fn closing_priority(
        &self,
        origin: &OriginUid,
        work: &ManifestWorkView,
        object: &ObjectView,
        closing: Option<&AgentAction>,
    ) -> Priority {
        if is_awaited(work, object) {
            return Priority::Normal;
        }
        Priority::Low(match closing {
            Some(AgentAction::RemoveFinalizer { .. }) => Duration::ZERO,
            _ if self.is_reported(origin, work) => REPORTED,
            _ => UNREPORTED,
        })
    }

    /// Decides the next step while no object exists. If there was none before, it may be created;
    /// otherwise it is never created again.
    fn decide_absent(
        &self,
        origin: &OriginUid,
        work: &ManifestWorkView,
        now: Timestamp,
    ) -> Option<AgentAction> {
        if let Some(outcome) = self.outcome(origin, work) {
            return self.decide_over(origin, work, outcome, now);
        }
        if work.withdraw == Some(work.attempt) && !self.is_of_another_cluster(work) {
            return self.promise(origin, work, now);
        }
        let explanation = self
            .obstacle(origin, work, now)
            .and_then(|(why, message)| conditions(origin, work, [applied(false, why, &message, now)]));
        explanation.or_else(|| self.create(origin, work))
    }

    /// Promises never to create the attempt, unless the object exists after all.
    fn promise(&self, origin: &OriginUid, work: &ManifestWorkView, now: Timestamp) -> Option<AgentAction> {
        let message = "this attempt was never created on this cluster and never will be";
        let promise = condition(types::WITHDRAWN, true, reason::NEVER_CREATED, message, now);
        let is_served = self.argo != Some(ArgoApi::Missing);
        let manifest = work.manifest.as_ref().filter(|_| is_served);
        let denied = manifest.map(|manifest| Sought {
            key: manifest.key.clone(),
            attempt: work.attempt,
            uid: None,
        });
        write_conditions(origin, work, [promise], denied)
    }

    /// Decides the next step after the attempt is over and its object is gone.
    fn decide_over(
        &self,
        origin: &OriginUid,
        work: &ManifestWorkView,
        outcome: Outcome,
        now: Timestamp,
    ) -> Option<AgentAction> {
        let (why, message) = match outcome {
            Outcome::Finished => (
                reason::FINISHED,
                "the run has ended and its object is gone from this cluster",
            ),
            Outcome::Deleted => (
                reason::DELETED_ON_CLUSTER,
                "the object was deleted on this cluster; it is not created again, because it may have run",
            ),
        };
        let mut wanted = vec![applied(true, why, message, now)];
        if work.withdraw == Some(work.attempt) {
            wanted.push(condition(
                types::WITHDRAWN,
                false,
                reason::ALREADY_CREATED,
                message,
                now,
            ));
        }
        self.record(origin, work.attempt, outcome, None)
            .or_else(|| self.report_again(origin, work))
            .or_else(|| conditions(origin, work, wanted))
    }

    /// True if the attempt may start here: its ManifestWork names the ID of this cluster or names
    /// no cluster, or the ID of this cluster is unknown.
    fn is_for_this_cluster(&self, work: &ManifestWorkView) -> bool {
        let ids = work.cluster_id.as_deref().zip(self.config.cluster_id.as_deref());
        ids.is_none_or(|(named, own)| named == own)
    }

    /// True if the attempt was sent to another cluster that had this name, and may have started
    /// there.
    fn is_of_another_cluster(&self, work: &ManifestWorkView) -> bool {
        !self.is_for_this_cluster(work) && work.cluster_id.as_deref() != Some("")
    }

    /// The obstacle to creating the object: reason and message.
    fn obstacle(
        &self,
        origin: &OriginUid,
        work: &ManifestWorkView,
        now: Timestamp,
    ) -> Option<(&'static str, String)> {
        if self.is_of_another_cluster(work) {
            let message = format!(
                "it was sent to another cluster that was named {} before, and may have started there; delete it and create it again",
                self.config.cluster
            );
            return Some((reason::OTHER_CLUSTER, message));
        }
        if let Some(decode_error) = &work.decode_error {
            return Some((reason::UNREADABLE, decode_error.clone()));
        }
        if work.manifest.is_none() {
            let message = "the ManifestWork must contain exactly one Argo Workflow".to_owned();
            return Some((reason::UNSUPPORTED_MANIFEST, message));
        }
        if self.argo == Some(ArgoApi::Missing) {
            let message = format!(
                "{} does not serve workflows.argoproj.io; install Argo Workflows there",
                self.config.cluster
            );
            return Some((reason::ARGO_MISSING, message));
        }
        let obstacle = self.obstacles.get(origin)?;
        obstacle
            .is_told(now)
            .then(|| (obstacle.reason, obstacle.message.clone()))
    }

    fn create(&self, origin: &OriginUid, work: &ManifestWorkView) -> Option<AgentAction> {
        if self.argo == Some(ArgoApi::Missing) || !self.is_for_this_cluster(work) {
            return None;
        }
        let mut object: Workflow = work.manifest.as_ref()?.workflow()?;
        let labels = object.metadata.labels.get_or_insert_default();
        labels.insert(names::CLUSTER_LABEL.to_owned(), self.config.cluster.to_string());
        labels.insert(names::ORIGIN_UID_LABEL.to_owned(), origin.to_string());
        if let Some(instance) = &self.config.argo_instance {
            labels.insert(names::ARGO_INSTANCE_LABEL.to_owned(), instance.clone());
        }
        let annotations = object.metadata.annotations.get_or_insert_default();
        annotations.insert(names::ATTEMPT_ANNOTATION.to_owned(), work.attempt.to_string());
        let key = work.manifest.as_ref()?.key.to_string();
        annotations.insert(names::BORN_AS_ANNOTATION.to_owned(), key);
        begin_with(&mut object, work);
        // The object is created with the finalizer, so that it remains for the agent after any
        // crash.
        object.metadata.finalizers = Some(vec![names::AGENT_FINALIZER.to_owned()]);
        let fence = work.lost_after.map(|lost_after| Fence {
            resource_version: work.resource_version.clone(),
            lost_after,
        });
        Some(AgentAction::Create {
            object: Box::new(object),
            fence,
            needs: work.needs.as_deref().cloned().unwrap_or_default(),
        })
    }

    /// Reports the end of a run again from its record if the hub has lost the last report.
    fn report_again(&self, origin: &OriginUid, work: &ManifestWorkView) -> Option<AgentAction> {
        let status = Box::new(self.remembered(origin, work)?);
        Some(AgentAction::WriteStatus { status })
    }

    /// Reports the state of the object if the hub's report is not up to date.
    pub(super) fn report(
        &self,
        origin: &OriginUid,
        object: &ObjectView,
        manifest: Option<&Manifest>,
    ) -> Option<AgentAction> {
        let (reported, digest) = reported(object, manifest)?;
        let known = self.work_statuses.get(origin);
        if known.is_some_and(|known| known.digest == Some(digest)) {
            return None;
        }
        let status = self.work_status(origin, object, reported, digest)?;
        Some(AgentAction::WriteStatus {
            status: Box::new(status),
        })
    }
}

fn applied(status: bool, why: &str, message: &str, now: Timestamp) -> Condition {
    condition(types::APPLIED, status, why, message, now)
}

fn created(work: &ManifestWorkView, object: &ObjectView, now: Timestamp) -> Vec<Condition> {
    let message = format!("{} was created", object.key);
    // A condition that is written late says since when it holds.
    let since = object.created_at.map_or(now, |created| created.min(now));
    let mut wanted = vec![
        applied(true, reason::CREATED, &message, since),
        condition(types::AVAILABLE, true, reason::CREATED, &message, since),
    ];
    if work.withdraw == Some(work.attempt) {
        wanted.push(condition(
            types::WITHDRAWN,
            false,
            reason::ALREADY_CREATED,
            &message,
            now,
        ));
    }
    wanted
}

/// True if somebody waits for the record, the finalizer or the conditions: the attempt is withdrawn,
/// the object is being deleted, or the conditions say that it cannot be created.
fn is_awaited(work: &ManifestWorkView, object: &ObjectView) -> bool {
    work.withdraw.is_some() || object.deleted_at.is_some() || work.is_obstructed
}

/// Writes the conditions unless the ManifestWork has them already.
pub(super) fn conditions(
    origin: &OriginUid,
    work: &ManifestWorkView,
    wanted: impl IntoIterator<Item = Condition>,
) -> Option<AgentAction> {
    write_conditions(origin, work, wanted, None)
}

fn write_conditions(
    origin: &OriginUid,
    work: &ManifestWorkView,
    wanted: impl IntoIterator<Item = Condition>,
    denied: Option<Sought>,
) -> Option<AgentAction> {
    let mut conditions = work.conditions();
    let mut changed = false;
    for condition in wanted {
        changed |= set_condition(&mut conditions, condition);
    }
    changed.then(|| AgentAction::Conditions {
        origin: origin.clone(),
        conditions,
        resource_version: work.resource_version.clone(),
        denied,
    })
}
