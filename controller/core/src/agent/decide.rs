//! The next step for one WDS object: create it once, tell the hub, record the end, answer withdrawals.
//!
//! An object is created only if nothing says that it was before: no object, no record, no WorkStatus, no condition
//! `Applied`. Each of them outlives the loss of some of the others.

use argosy_api::{
    Outcome, Workflow,
    conditions::{condition, manifest_work as types, reason, set_condition},
    names,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{
    Agent, AgentAction, ArgoApi, Doubt, Sought,
    control::begin_with,
    report::reported,
    views::{Manifest, Object, Work},
};
use crate::{Decision, OriginUid, lost::Fence};

impl Agent {
    pub(super) fn decide_key(&self, origin: &OriginUid, now: Timestamp) -> Decision<AgentAction> {
        let work = self.works.get(origin).map(Box::as_ref);
        let object = self.objects.get(origin).map(Box::as_ref);
        let mut decision = self.decide_run(origin, work, object, now);
        if decision.action.is_none() {
            decision.action = self.disown(origin);
        }
        decision
    }

    fn decide_run(
        &self,
        origin: &OriginUid,
        work: Option<&Work>,
        object: Option<&Object>,
        now: Timestamp,
    ) -> Decision<AgentAction> {
        if object.is_none()
            && let Some(decision) = self.decide_doubt(origin, work)
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
            (Some(work), Some(object)) => self.decide_running(origin, work, object, now).into(),
            (Some(work), None) => self.decide_absent(origin, work, now).into(),
        }
    }

    /// Before anything follows from an object's absence, it is made sure of.
    fn decide_doubt(&self, origin: &OriginUid, work: Option<&Work>) -> Option<Decision<AgentAction>> {
        let attempt = work.map_or(0, |work| work.attempt);
        if self
            .records
            .get(origin)
            .is_some_and(|record| record.attempt >= attempt && record.outcome.is_some())
        {
            return None;
        }
        let doubt = self.doubts.get(origin);
        if self.argo == Some(ArgoApi::Missing) {
            // An API server that has just started does not know its custom kinds for a moment. A cluster that is really rid
            // of Argo has let go of every object before, and has its records.
            let was_here = doubt.is_some() || work.is_some_and(|work| self.was_created(origin, work));
            return was_here.then(Decision::rest);
        }
        match doubt? {
            // Only a name that is taken proves that the first request cannot land later. What may have moved on is not created
            // for a proof.
            Doubt::Creation(_) if work.is_some_and(|work| !work.is_deleting && !work.may_have_moved_on()) => {
                None
            }
            Doubt::Creation(sought) | Doubt::Unlisted(sought) => {
                Some(AgentAction::Look(sought.clone()).into())
            }
        }
    }

    /// The object exists: report it, and record its end once the hub has the last report.
    fn decide_running(
        &self,
        origin: &OriginUid,
        work: &Work,
        object: &Object,
        now: Timestamp,
    ) -> Option<AgentAction> {
        if object.attempt != work.attempt {
            let message = format!(
                "{} belongs to attempt {}, not to attempt {} of this ManifestWork; it is left as it is",
                object.key, object.attempt, work.attempt
            );
            return conditions(
                origin,
                work,
                [applied(false, reason::OTHER_ATTEMPT, &message, now)],
            );
        }
        self.carry_out(origin, work, object)
            .or_else(|| self.reopen_record(origin, object))
            .or_else(|| self.tell(origin, object, work.manifest.as_ref()))
            .or_else(|| self.end(origin, object, object.outcome()?))
            .or_else(|| conditions(origin, work, created(work, object, now)))
    }

    /// Nothing of it exists here. Either it never did, and may be created, or it was and is never made again.
    fn decide_absent(&self, origin: &OriginUid, work: &Work, now: Timestamp) -> Option<AgentAction> {
        if let Some(outcome) = self.outcome(origin, work) {
            return self.decide_over(origin, work, outcome, now);
        }
        let may_promise = !self.doubts.contains_key(origin) && !self.is_of_another_cluster(work);
        if work.withdraw == Some(work.attempt) && may_promise {
            return self.promise(origin, work, now);
        }
        let explanation = self
            .obstacle(origin, work)
            .and_then(|(why, message)| conditions(origin, work, [applied(false, why, &message, now)]));
        explanation.or_else(|| self.create(origin, work))
    }

    /// Promises never to create the attempt, unless it is there after all.
    fn promise(&self, origin: &OriginUid, work: &Work, now: Timestamp) -> Option<AgentAction> {
        let message = "this attempt was never created here and never will be";
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

    /// How the attempt ended, if anything says that it was once created.
    pub(super) fn outcome(&self, origin: &OriginUid, work: &Work) -> Option<Outcome> {
        let record = self
            .records
            .get(origin)
            .filter(|record| record.attempt >= work.attempt);
        if let Some(record) = record {
            return Some(record.outcome.unwrap_or(Outcome::Deleted));
        }
        self.was_created(origin, work).then_some(Outcome::Deleted)
    }

    /// Whether anything but a record says that the attempt was created.
    fn was_created(&self, origin: &OriginUid, work: &Work) -> bool {
        let was_applied = work
            .conditions
            .iter()
            .any(|known| known.type_ == types::APPLIED && known.status == "True");
        let was_told = self
            .told
            .get(origin)
            .is_some_and(|known| known.attempt >= work.attempt);
        let vanished = self
            .vanished
            .get(origin)
            .is_some_and(|vanished| vanished.attempt >= work.attempt);
        was_applied || was_told || vanished || work.has_started
    }

    /// The attempt is over and its object gone.
    fn decide_over(
        &self,
        origin: &OriginUid,
        work: &Work,
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
            .or_else(|| self.tell_again(origin, work))
            .or_else(|| conditions(origin, work, wanted))
    }

    /// Whether the attempt may be started here: nobody has said which cluster of the name may, or it is this one.
    fn is_for_this_cluster(&self, work: &Work) -> bool {
        let ids = work.cluster_id.as_deref().zip(self.config.cluster_id.as_deref());
        ids.is_none_or(|(named, own)| named == own)
    }

    /// Whether the attempt was sent to another cluster that had this name, and may have started there.
    fn is_of_another_cluster(&self, work: &Work) -> bool {
        !self.is_for_this_cluster(work) && work.cluster_id.as_deref() != Some("")
    }

    /// What stands in the way of creating the object.
    fn obstacle(&self, origin: &OriginUid, work: &Work) -> Option<(&'static str, String)> {
        if self.is_of_another_cluster(work) {
            let message = format!(
                "it was sent to the cluster that was {} before, and may have started there; delete it and create it anew",
                self.config.cluster
            );
            return Some((reason::OTHER_CLUSTER, message));
        }
        if let Some(flaw) = &work.flaw {
            return Some((reason::UNREADABLE, flaw.clone()));
        }
        if work.manifest.is_none() {
            let message = "this agent carries out ManifestWorks with one Argo Workflow each".to_owned();
            return Some((reason::UNSUPPORTED_MANIFEST, message));
        }
        if self.argo == Some(ArgoApi::Missing) {
            let message =
                "this cluster does not serve workflows.argoproj.io; install Argo Workflows".to_owned();
            return Some((reason::ARGO_MISSING, message));
        }
        self.obstacles.get(origin).cloned()
    }

    fn create(&self, origin: &OriginUid, work: &Work) -> Option<AgentAction> {
        if self.argo == Some(ArgoApi::Missing) || !self.is_for_this_cluster(work) {
            return None;
        }
        let mut object: Workflow = work.manifest.as_ref()?.workflow()?;
        let labels = object.metadata.labels.get_or_insert_default();
        labels.insert(names::CLUSTER_LABEL.to_owned(), self.config.cluster.to_string());
        labels.insert(names::ORIGIN_UID_LABEL.to_owned(), origin.to_string());
        let annotations = object.metadata.annotations.get_or_insert_default();
        annotations.insert(names::ATTEMPT_ANNOTATION.to_owned(), work.attempt.to_string());
        let key = work.manifest.as_ref()?.key.to_string();
        annotations.insert(names::BORN_AS_ANNOTATION.to_owned(), key);
        begin_with(&mut object, work);
        // Born with the finalizer, so that whatever crashes the object is still there to be found.
        object.metadata.finalizers = Some(vec![names::AGENT_FINALIZER.to_owned()]);
        let fence = work.lost_after.map(|lost_after| Fence {
            resource_version: work.resource_version.clone(),
            lost_after,
        });
        Some(AgentAction::Create {
            object: Box::new(object),
            fence,
        })
    }

    /// Tells the hub how a run has ended whose last report it has lost.
    fn tell_again(&self, origin: &OriginUid, work: &Work) -> Option<AgentAction> {
        let status = Box::new(self.remembered(origin, work)?);
        Some(AgentAction::Tell { status })
    }

    /// Tells the hub what it does not know yet.
    pub(super) fn tell(
        &self,
        origin: &OriginUid,
        object: &Object,
        manifest: Option<&Manifest>,
    ) -> Option<AgentAction> {
        let (reported, digest) = reported(object, manifest)?;
        let known = self.told.get(origin);
        if known.is_some_and(|known| known.digest == Some(digest)) {
            return None;
        }
        let status = self.work_status(origin, object, reported, digest)?;
        Some(AgentAction::Tell {
            status: Box::new(status),
        })
    }
}

fn applied(status: bool, why: &str, message: &str, now: Timestamp) -> Condition {
    condition(types::APPLIED, status, why, message, now)
}

fn created(work: &Work, object: &Object, now: Timestamp) -> Vec<Condition> {
    let message = format!("{} was created", object.key);
    let mut wanted = vec![
        applied(true, reason::CREATED, &message, now),
        condition(types::AVAILABLE, true, reason::CREATED, &message, now),
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

/// Writes the conditions unless they stand there already.
fn conditions(
    origin: &OriginUid,
    work: &Work,
    wanted: impl IntoIterator<Item = Condition>,
) -> Option<AgentAction> {
    write_conditions(origin, work, wanted, None)
}

fn write_conditions(
    origin: &OriginUid,
    work: &Work,
    wanted: impl IntoIterator<Item = Condition>,
    denied: Option<Sought>,
) -> Option<AgentAction> {
    let mut conditions = work.conditions.clone();
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
