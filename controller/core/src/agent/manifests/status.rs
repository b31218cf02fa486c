//! Writes the status of a ManifestWork as OCM does. Each manifest has conditions that it is applied
//! and that its object exists, the feedback values, and the results of condition rules. The
//! ManifestWork has the aggregates of these (`aggregate_conditions`).
//!
//! The status is written only when it changes. Conditions of other types belong to other writers
//! and stay.

use argosy_api::{
    conditions::{condition, manifest_work as types, reason, set_condition},
    manifest_status::{ManifestCondition, ResourceStatus, StatusFeedback},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use super::{
    ApplyAction, ManifestIndex, ObjectKey,
    aggregate_conditions::{is_of_rule, sums},
    condition_rules::{Outcome, rules_of},
    feedback::Feedback,
    manifest::Verdict,
    object_view::ObjectView,
    resource_status::{is_of_same, resource_meta},
    rest_mapping::RestMapping,
    views::{Item, ManifestWorkView},
};
use crate::{Failure, WorkName};

impl ManifestIndex {
    /// Writes the results of the manifests, with `verdicts` in the order of the manifests, unless
    /// the status has them already.
    pub(super) fn write_status(
        &self,
        name: &WorkName,
        work: &ManifestWorkView,
        verdicts: &[Verdict],
        now: Timestamp,
    ) -> Option<ApplyAction> {
        if !verdicts.is_empty() && verdicts.iter().all(|verdict| *verdict == Verdict::Pending) {
            return None;
        }
        let mut status = work.status.clone();
        let known = status.resource_status.take().unwrap_or_default().manifests;
        let manifests: Vec<_> = work
            .items
            .iter()
            .zip(verdicts)
            .map(|(item, verdict)| self.manifest_condition(name, work, item, verdict, &known, now))
            .collect();
        let sums = sums(&manifests);
        let stands =
            |known: &Condition| !is_of_rule(known) || sums.iter().any(|sum| sum.type_ == known.type_);
        status.conditions.retain(stands);
        for sum in sums {
            let said = ternary(&sum.type_, sum.status, sum.reason, &sum.message, now);
            set(&mut status.conditions, said, work.generation);
        }
        status.resource_status = Some(ResourceStatus { manifests });
        (status != work.status).then(|| ApplyAction::Status {
            status: Box::new(status),
            resource_version: work.resource_version.clone(),
        })
    }

    /// Writes the object of a deleted ManifestWork that the cluster's API server refuses to delete,
    /// unless the status has it already.
    pub(super) fn write_kept_status(
        &self,
        name: &WorkName,
        work: &ManifestWorkView,
        keys: &[ObjectKey],
        now: Timestamp,
    ) -> Option<ApplyAction> {
        let refusal = |key: &ObjectKey| match &self.troubles.get(&(name.clone(), key.clone()))?.failure {
            Failure::Refused(message) => Some(format!("{key} cannot be deleted: {message}")),
            _ => None,
        };
        let message = keys.iter().find_map(refusal)?;
        let mut status = work.status.clone();
        let failed = condition(types::APPLIED, false, reason::WORK_FAILED, &message, now);
        set(&mut status.conditions, failed, work.generation);
        (status != work.status).then(|| ApplyAction::Status {
            status: Box::new(status),
            resource_version: work.resource_version.clone(),
        })
    }

    fn manifest_condition(
        &self,
        name: &WorkName,
        work: &ManifestWorkView,
        item: &Item,
        verdict: &Verdict,
        known: &[ManifestCondition],
        now: Timestamp,
    ) -> ManifestCondition {
        let key = match self.naming(item) {
            RestMapping::Known(key) => Some(key),
            RestMapping::Unknown | RestMapping::Malformed(_) => None,
        };
        let resource_meta = resource_meta(item, key.as_ref());
        let is_it = |known: &&ManifestCondition| is_of_same(&known.resource_meta, &resource_meta);
        let former = known.iter().find(is_it).cloned().unwrap_or_default();
        let mut said = ManifestCondition {
            resource_meta,
            ..former
        };
        let mut write_status = |condition: Condition| set(&mut said.conditions, condition, work.generation);
        match verdict {
            Verdict::Pending => return said,
            Verdict::Finished => {}
            Verdict::Complete => write_status(condition(
                types::APPLIED,
                true,
                reason::MANIFEST_COMPLETE,
                "Apply manifest complete",
                now,
            )),
            Verdict::Failed(why, message) => {
                write_status(condition(types::APPLIED, false, why, message, now));
            }
        }
        if key.as_ref().is_some_and(|key| !self.may_tell(name, work, key)) {
            let written = [types::AVAILABLE, Feedback::TYPE];
            said.conditions
                .retain(|known| !written.contains(&known.type_.as_str()));
            said.status_feedback = StatusFeedback::default();
            return said;
        }
        let there = key.as_ref().and_then(|key| self.observed(key));
        let evaluated = key.as_ref().and_then(|key| self.evaluated_for(name, work, key));
        let outcomes = evaluated.map(|evaluated| evaluated.outcomes.as_slice());
        // A rule may set `Available` for an object that exists.
        let mut ruled = outcomes.into_iter().flatten();
        if there.is_none() || !ruled.any(|outcome| outcome.type_ == types::AVAILABLE) {
            write_status(available(there.is_some(), now));
        }
        if let Some(message) = key.as_ref().and_then(|key| self.unwatched(key)) {
            write_status(condition(types::WATCHED, false, reason::FORBIDDEN, message, now));
        } else {
            said.conditions.retain(|known| known.type_ != types::WATCHED);
        }
        if let (Some(there), Some(key)) = (there, &key) {
            give_feedback(work, item, key, there, &mut said, now);
        }
        if let Some(key) = &key {
            give_outcomes(work, key, there.is_some(), outcomes, &mut said, now);
        }
        said
    }
}

/// Replaces the conditions of earlier rule results by `outcomes`. The earlier ones stay if nothing
/// was evaluated or the object is gone, so that a complete Job is not created again after its
/// cleanup.
fn give_outcomes(
    work: &ManifestWorkView,
    key: &ObjectKey,
    is_there: bool,
    outcomes: Option<&[Outcome]>,
    said: &mut ManifestCondition,
    now: Timestamp,
) {
    if rules_of(work, key).is_empty() {
        said.conditions.retain(|known| !is_of_rule(known));
    }
    let Some(outcomes) = outcomes else {
        return;
    };
    let stands =
        |known: &Condition| !is_of_rule(known) || outcomes.iter().any(|outcome| outcome.type_ == known.type_);
    said.conditions.retain(stands);
    for outcome in outcomes {
        if outcome.type_ == types::AVAILABLE && !is_there {
            continue;
        }
        let Outcome {
            type_,
            status,
            reason,
            message,
        } = outcome;
        set(
            &mut said.conditions,
            ternary(type_, status, reason, message, now),
            work.generation,
        );
    }
}

/// A condition whose status may also be `Unknown`.
fn ternary(type_: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Condition {
    let mut said = condition(type_, status == "True", reason, message, now);
    status.clone_into(&mut said.status);
    said
}

fn set(conditions: &mut Vec<Condition>, mut condition: Condition, generation: i64) {
    condition.observed_generation = Some(generation);
    set_condition(conditions, condition);
}

/// Writes that the ManifestWork could not be decoded completely, unless the status has it already.
pub(super) fn say_unreadable(
    work: &ManifestWorkView,
    decode_error: &str,
    now: Timestamp,
) -> Option<ApplyAction> {
    let mut status = work.status.clone();
    let message = format!("the objects on the cluster are left unchanged: {decode_error}");
    let unreadable = condition(types::APPLIED, false, reason::UNREADABLE, &message, now);
    set(&mut status.conditions, unreadable, work.generation);
    (status != work.status).then(|| ApplyAction::Status {
        status: Box::new(status),
        resource_version: work.resource_version.clone(),
    })
}

fn available(is_there: bool, now: Timestamp) -> Condition {
    let (why, message) = if is_there {
        (reason::RESOURCE_AVAILABLE, "Resource is available")
    } else {
        (reason::RESOURCE_NOT_AVAILABLE, "Resource is not available")
    };
    condition(types::AVAILABLE, is_there, why, message, now)
}

fn give_feedback(
    work: &ManifestWorkView,
    item: &Item,
    key: &ObjectKey,
    there: &ObjectView,
    said: &mut ManifestCondition,
    now: Timestamp,
) {
    let rules = work.feedback_rules(key);
    // Most objects have no feedback rules, so they need not be converted to JSON.
    let object = if rules.is_empty() {
        Value::Null
    } else {
        there.to_value_of(&item.api, &item.kind)
    };
    let feedback = Feedback::of(rules, &object, &item.api);
    let synced = condition(
        Feedback::TYPE,
        feedback.is_synced,
        feedback.reason,
        &feedback.message,
        now,
    );
    set(&mut said.conditions, synced, work.generation);
    said.status_feedback = StatusFeedback {
        values: feedback.values,
    };
}
