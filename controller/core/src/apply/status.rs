//! The status of a ManifestWork as OCM writes it: of each manifest whether it is applied, whether its object is there and what was
//! asked of it, and what rules make of it, and of the whole what `sums` says.
//!
//! Written when it says something new. Conditions of other types are others', and stay.

use argosy_api::{
    conditions::{condition, manifest_work as types, reason, set_condition},
    manifest_status::{ManifestCondition, ResourceMeta, ResourceStatus, StatusFeedback},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::DynamicObject;
use serde_json::Value;

use super::{
    Applier, ApplyAction, GroupVersion, ObjectKey,
    feedback::Feedback,
    item::Verdict,
    naming::Naming,
    rules::{Outcome, rules_of},
    sums::{is_of_rule, sums},
    views::{Item, Object, Work, says_complete},
};
use crate::{Failure, WorkName};

impl Applier {
    /// Writes what became of the manifests, `verdicts` in their order, unless that stands there.
    pub(super) fn say(
        &self,
        name: &WorkName,
        work: &Work,
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

    /// Says of a ManifestWork that is being deleted which object the cluster's API server refuses to delete, unless that stands there.
    pub(super) fn say_kept(
        &self,
        name: &WorkName,
        work: &Work,
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
        work: &Work,
        item: &Item,
        verdict: &Verdict,
        known: &[ManifestCondition],
        now: Timestamp,
    ) -> ManifestCondition {
        let key = match self.naming(item) {
            Naming::Known(key) => Some(key),
            Naming::Unknown | Naming::Malformed(_) => None,
        };
        let resource_meta = resource_meta(item, key.as_ref());
        let is_it = |known: &&ManifestCondition| is_of_same(&known.resource_meta, &resource_meta);
        let former = known.iter().find(is_it).cloned().unwrap_or_default();
        let mut said = ManifestCondition {
            resource_meta,
            ..former
        };
        let mut say = |condition: Condition| set(&mut said.conditions, condition, work.generation);
        match verdict {
            Verdict::Pending => return said,
            Verdict::Finished => {}
            Verdict::Complete => say(condition(
                types::APPLIED,
                true,
                reason::MANIFEST_COMPLETE,
                "Apply manifest complete",
                now,
            )),
            Verdict::Failed(why, message) => say(condition(types::APPLIED, false, why, message, now)),
        }
        if key.as_ref().is_some_and(|key| !self.may_tell(name, work, key)) {
            let told = [types::AVAILABLE, Feedback::TYPE];
            said.conditions
                .retain(|known| !told.contains(&known.type_.as_str()));
            said.status_feedback = StatusFeedback::default();
            return said;
        }
        let there = key.as_ref().and_then(|key| self.observed(key));
        let evaluated = key.as_ref().and_then(|key| self.evaluated_for(name, work, key));
        let outcomes = evaluated.map(|evaluated| evaluated.outcomes.as_slice());
        // A rule may say when it is available, as long as it is there at all.
        let mut ruled = outcomes.into_iter().flatten();
        if there.is_none() || !ruled.any(|outcome| outcome.type_ == types::AVAILABLE) {
            say(available(there.is_some(), now));
        }
        if let Some(message) = key.as_ref().and_then(|key| self.unwatched(key)) {
            say(condition(types::WATCHED, false, reason::FORBIDDEN, message, now));
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

    /// The object as it was last seen, whoever's it is.
    pub(super) fn observed(&self, key: &ObjectKey) -> Option<&Object> {
        let looked = self.looks.get(key).and_then(|look| look.object.as_ref());
        self.objects.get(key).or(looked)
    }
}

/// Whether a manifest has been found to be complete.
pub(super) fn is_finished(work: &Work, item: &Item, key: &ObjectKey) -> bool {
    let wanted = resource_meta(item, Some(key));
    let known = work.status.resource_status.iter();
    let mut known = known.flat_map(|status| &status.manifests);
    known.any(|known| is_of_same(&known.resource_meta, &wanted) && says_complete(&known.conditions))
}

/// Puts the conditions that rules gave in place of those that other rules gave. As long as nothing was evaluated, and of an object
/// that is gone, what was said last stays: a Job that is complete is not made again when it was cleaned up.
fn give_outcomes(
    work: &Work,
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

/// A condition that may be unknown.
fn ternary(type_: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Condition {
    let mut said = condition(type_, status == "True", reason, message, now);
    status.clone_into(&mut said.status);
    said
}

fn set(conditions: &mut Vec<Condition>, mut condition: Condition, generation: i64) {
    condition.observed_generation = Some(generation);
    set_condition(conditions, condition);
}

/// Says of a ManifestWork that it could not be read whole, unless that stands there.
pub(super) fn say_unreadable(work: &Work, flaw: &str, now: Timestamp) -> Option<ApplyAction> {
    let mut status = work.status.clone();
    let message = format!("what is on the cluster stays as it is: {flaw}");
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
    work: &Work,
    item: &Item,
    key: &ObjectKey,
    there: &Object,
    said: &mut ManifestCondition,
    now: Timestamp,
) {
    let rules = work.feedback_rules(key);
    // Most objects are asked nothing, and need not be made JSON of.
    let object = if rules.is_empty() {
        Value::Null
    } else {
        content(&there.whole, &item.api, &item.kind)
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

/// An object as JSON, with its kind, without which objects of a list may come.
pub(super) fn content(object: &DynamicObject, api: &GroupVersion, kind: &str) -> Value {
    let mut content = serde_json::to_value(object).unwrap_or_default();
    if let Some(fields) = content.as_object_mut() {
        fields.insert("apiVersion".to_owned(), api.to_string().into());
        fields.insert("kind".to_owned(), kind.into());
    }
    content
}

fn resource_meta(item: &Item, key: Option<&ObjectKey>) -> ResourceMeta {
    ResourceMeta {
        ordinal: item.ordinal,
        group: item.api.group.to_string(),
        version: item.api.version.to_string(),
        kind: item.kind.clone(),
        resource: key.map(|key| key.resource.plural.to_string()).unwrap_or_default(),
        name: item.name.clone(),
        namespace: key.map_or_else(|| item.namespace.clone(), |key| key.namespace.to_string()),
    }
}

/// Whether both speak of the same object; the kind may not have been served before, and the place may be another.
fn is_of_same(one: &ResourceMeta, other: &ResourceMeta) -> bool {
    let identity = |meta: &ResourceMeta| {
        let ResourceMeta {
            group,
            version,
            kind,
            name,
            namespace,
            ..
        } = meta.clone();
        (group, version, kind, name, namespace)
    };
    identity(one) == identity(other)
}
