//! Aggregates the conditions of all manifests into the conditions of the ManifestWork, as OCM does.
//!
//! Not here: the conditions of a single manifest (`status`, `condition_rules`).

use std::collections::BTreeMap;

use argosy_api::{
    conditions::{manifest_work as types, reason},
    manifest_status::ManifestCondition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// An aggregated condition of the ManifestWork.
#[derive(Debug, PartialEq)]
pub(super) struct AggregateConditions {
    pub(super) type_: String,
    /// `True`, `False` or `Unknown`.
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl AggregateConditions {
    fn new(type_: &str, status: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            type_: type_.to_owned(),
            status,
            reason,
            message: message.into(),
        }
    }
}

/// True if a condition rule produced the condition.
pub(super) fn is_of_rule(condition: &Condition) -> bool {
    condition.reason.starts_with(reason::CONDITION_RULE)
}

/// All aggregated conditions of a ManifestWork.
pub(super) fn sums(manifests: &[ManifestCondition]) -> Vec<AggregateConditions> {
    let own = [applied(manifests), available(manifests)];
    own.into_iter().flatten().chain(of_rules(manifests)).collect()
}

fn said_of<'a>(manifests: &'a [ManifestCondition], type_: &str) -> Vec<&'a Condition> {
    let conditions = manifests.iter().flat_map(|manifest| &manifest.conditions);
    conditions.filter(|known| known.type_ == type_).collect()
}

/// `Applied` is aggregated only when every manifest has it, or at least one has failed. The message
/// is that of the first failed manifest, because it is shown on the object that the manifest was
/// made from.
fn applied(manifests: &[ManifestCondition]) -> Option<AggregateConditions> {
    let said = said_of(manifests, types::APPLIED);
    if let Some(failed) = said.iter().find(|known| known.status == "False") {
        return Some(AggregateConditions::new(
            types::APPLIED,
            "False",
            reason::WORK_FAILED,
            failed.message.as_str(),
        ));
    }
    let is_complete = said.len() == manifests.len();
    is_complete.then(|| {
        AggregateConditions::new(
            types::APPLIED,
            "True",
            reason::WORK_COMPLETE,
            "Apply manifest work complete",
        )
    })
}

fn available(manifests: &[ManifestCondition]) -> Option<AggregateConditions> {
    let said = said_of(manifests, types::AVAILABLE);
    let count = Count::of(&said);
    let all = manifests.len();
    if count.no > 0 {
        let message = format!("{} of {all} resources are not available", count.no);
        return Some(AggregateConditions::new(
            types::AVAILABLE,
            "False",
            reason::RESOURCES_NOT_AVAILABLE,
            message,
        ));
    }
    if count.unknown > 0 {
        let message = format!("{} of {all} resources have unknown status", count.unknown);
        return Some(AggregateConditions::new(
            types::AVAILABLE,
            "Unknown",
            reason::RESOURCES_STATUS_UNKNOWN,
            message,
        ));
    }
    (said.len() == all).then(|| {
        AggregateConditions::new(
            types::AVAILABLE,
            "True",
            reason::RESOURCES_AVAILABLE,
            "All resources are available",
        )
    })
}

/// Numbers of conditions with status `True`, `False`, and anything else.
#[derive(Debug, Default)]
struct Count {
    yes: usize,
    no: usize,
    unknown: usize,
}

impl Count {
    fn of(conditions: &[&Condition]) -> Self {
        let mut count = Self::default();
        for condition in conditions {
            match condition.status.as_str() {
                "True" => count.yes += 1,
                "False" => count.no += 1,
                _ => count.unknown += 1,
            }
        }
        count
    }
}

/// Aggregates the conditions that rules produced. If only one manifest has a condition, its message
/// is kept.
fn of_rules(manifests: &[ManifestCondition]) -> impl Iterator<Item = AggregateConditions> {
    let mut by_type: BTreeMap<&str, Vec<&Condition>> = BTreeMap::new();
    let conditions = manifests.iter().flat_map(|manifest| &manifest.conditions);
    for condition in conditions.filter(|condition| is_of_rule(condition)) {
        by_type.entry(&condition.type_).or_default().push(condition);
    }
    by_type.remove(types::AVAILABLE);
    by_type.into_iter().map(|(type_, said)| {
        let count = Count::of(&said);
        let status = match count {
            // The ManifestWork is progressing as long as one of its manifests is.
            Count { yes: 1.., .. } if type_ == types::PROGRESSING => "True",
            Count { unknown: 1.., .. } if type_ == types::PROGRESSING => "Unknown",
            Count { no: 1.., .. } => "False",
            Count { unknown: 1.., .. } => "Unknown",
            Count { .. } => "True",
        };
        let message = match said.as_slice() {
            [only] if !only.message.is_empty() => only.message.clone(),
            several => format!("Aggregated from {} manifest conditions", several.len()),
        };
        AggregateConditions::new(type_, status, reason::CONDITION_RULES_AGGREGATED, message)
    })
}

#[cfg(test)]
mod tests {
    use argosy_api::conditions::condition;
    use jiff::Timestamp;

    use super::*;

    fn manifest(type_: &str, status: &str, of_rule: bool) -> ManifestCondition {
        let why = if of_rule {
            reason::CONDITION_RULE_EVALUATED
        } else {
            "Other"
        };
        let mut said = condition(type_, true, why, status, Timestamp::UNIX_EPOCH);
        status.clone_into(&mut said.status);
        ManifestCondition {
            conditions: vec![said],
            ..ManifestCondition::default()
        }
    }

    #[test]
    fn conditions_of_rules_are_added_up_as_ocm_does() {
        for (type_, statuses, expected) in [
            ("Complete", &["True", "True"][..], "True"),
            ("Complete", &["True", "False", "Unknown"], "False"),
            ("Complete", &["True", "Unknown"], "Unknown"),
            ("Progressing", &["False", "True", "Unknown"], "True"),
            ("Progressing", &["False", "Unknown"], "Unknown"),
            ("Progressing", &["False", "False"], "False"),
            ("Available", &["True", "Unknown"], "Unknown"),
            ("Available", &["Unknown", "False"], "False"),
        ] {
            let manifests: Vec<_> = statuses
                .iter()
                .map(|status| manifest(type_, status, true))
                .collect();
            let sums = sums(&manifests);
            assert_eq!(
                (sums.len(), sums[0].type_.as_str(), sums[0].status),
                (1, type_, expected),
                "{statuses:?}"
            );
        }
    }

    #[test]
    fn what_one_manifest_says_is_said_in_its_words_and_what_no_rule_says_is_not_added() {
        let manifests = [
            manifest("Complete", "True", true),
            manifest("Complete", "False", false),
        ];
        assert_eq!(
            sums(&manifests),
            [AggregateConditions::new(
                "Complete",
                "True",
                "ConditionRulesAggregated",
                "True"
            )]
        );
        let both = [
            manifest("Complete", "True", true),
            manifest("Complete", "True", true),
        ];
        assert_eq!(sums(&both)[0].message, "Aggregated from 2 manifest conditions");
    }
}
