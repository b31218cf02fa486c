//! The status of a ManifestWork as OCM writes it: of each manifest whether it is applied, whether its object is there and what was
//! asked of it, and of the whole whether that is so of all.
//!
//! Written when it says something new. Conditions of other types are others', and stay.

use argosy_api::{
    conditions::{condition, manifest_work as types, reason, set_condition},
    manifest_status::{ManifestCondition, ResourceMeta, ResourceStatus, StatusFeedback},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{
    Applier, ApplyAction, ObjectKey,
    feedback::Feedback,
    item::Verdict,
    naming::Naming,
    views::{Item, Object, Work},
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
        let sums = [sum_applied(&manifests), sum_available(&manifests)];
        for (type_, status_, reason, message) in sums.into_iter().flatten() {
            let mut sum = condition(type_, status_ == "True", reason, &message, now);
            status_.clone_into(&mut sum.status);
            set(&mut status.conditions, sum, work.generation);
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
        let (is_applied, why, message) = match verdict {
            Verdict::Pending => return said,
            Verdict::Complete => (true, reason::MANIFEST_COMPLETE, "Apply manifest complete"),
            Verdict::Failed(why, message) => (false, *why, message.as_str()),
        };
        say(condition(types::APPLIED, is_applied, why, message, now));
        if key.as_ref().is_some_and(|key| !self.may_tell(name, work, key)) {
            let told = [types::AVAILABLE, Feedback::TYPE];
            said.conditions
                .retain(|known| !told.contains(&known.type_.as_str()));
            said.status_feedback = StatusFeedback::default();
            return said;
        }
        let there = key.as_ref().and_then(|key| self.observed(key));
        say(available(there.is_some(), now));
        if let Some(message) = key.as_ref().and_then(|key| self.unwatched(key)) {
            say(condition(types::WATCHED, false, reason::FORBIDDEN, message, now));
        } else {
            said.conditions.retain(|known| known.type_ != types::WATCHED);
        }
        if let (Some(there), Some(key)) = (there, &key) {
            give_feedback(work, item, key, there, &mut said, now);
        }
        said
    }

    /// The object as it was last seen, whoever's it is.
    fn observed(&self, key: &ObjectKey) -> Option<&Object> {
        let looked = self.looks.get(key).and_then(|look| look.object.as_ref());
        self.objects.get(key).or(looked)
    }
}

fn set(conditions: &mut Vec<Condition>, mut condition: Condition, generation: i64) {
    condition.observed_generation = Some(generation);
    set_condition(conditions, condition);
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
    let rules = work
        .config_of(key)
        .map_or(&[][..], |config| config.feedback_rules.as_slice());
    // Most objects are asked nothing, and need not be made JSON of.
    let object = if rules.is_empty() {
        serde_json::Value::Null
    } else {
        let mut object = serde_json::to_value(&*there.whole).unwrap_or_default();
        // Objects of a list may come without their kind.
        if let Some(fields) = object.as_object_mut() {
            fields.insert("kind".to_owned(), item.kind.clone().into());
        }
        object
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

type Sum = (&'static str, &'static str, &'static str, String);

fn said_of<'a>(manifests: &'a [ManifestCondition], type_: &str) -> Vec<&'a Condition> {
    let conditions = manifests.iter().flat_map(|manifest| &manifest.conditions);
    conditions.filter(|known| known.type_ == type_).collect()
}

/// Nothing is said of the whole before something is said of each, unless one has failed. The message is what the first that
/// failed says, because that is what is shown where the object came from.
fn sum_applied(manifests: &[ManifestCondition]) -> Option<Sum> {
    let said = said_of(manifests, types::APPLIED);
    if let Some(failed) = said.iter().find(|known| known.status == "False") {
        return Some((
            types::APPLIED,
            "False",
            reason::WORK_FAILED,
            failed.message.clone(),
        ));
    }
    let is_complete = said.len() == manifests.len();
    let message = "Apply manifest work complete".to_owned();
    is_complete.then_some((types::APPLIED, "True", reason::WORK_COMPLETE, message))
}

fn sum_available(manifests: &[ManifestCondition]) -> Option<Sum> {
    let said = said_of(manifests, types::AVAILABLE);
    let missing = said.iter().filter(|known| known.status == "False").count();
    if missing > 0 {
        let message = format!("{missing} of {} resources are not available", manifests.len());
        return Some((
            types::AVAILABLE,
            "False",
            reason::RESOURCES_NOT_AVAILABLE,
            message,
        ));
    }
    let message = "All resources are available".to_owned();
    (said.len() == manifests.len()).then_some((
        types::AVAILABLE,
        "True",
        reason::RESOURCES_AVAILABLE,
        message,
    ))
}
