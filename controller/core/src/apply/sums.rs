//! What the conditions of all manifests say of the ManifestWork as a whole, as OCM adds them up.
//!
//! Not here: the conditions of each (`status`, `rules`).

use std::collections::BTreeMap;

use argosy_api::{
    conditions::{manifest_work as types, reason},
    manifest_status::ManifestCondition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// A condition of the whole.
#[derive(Debug, PartialEq)]
pub(super) struct Sum {
    pub(super) type_: String,
    /// `True`, `False` or `Unknown`.
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Sum {
    fn new(type_: &str, status: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            type_: type_.to_owned(),
            status,
            reason,
            message: message.into(),
        }
    }
}

/// Whether a condition comes of a rule.
pub(super) fn is_of_rule(condition: &Condition) -> bool {
    condition.reason.starts_with(reason::CONDITION_RULE)
}

/// All of them.
pub(super) fn sums(manifests: &[ManifestCondition]) -> Vec<Sum> {
    let own = [applied(manifests), available(manifests)];
    own.into_iter().flatten().chain(of_rules(manifests)).collect()
}

fn said_of<'a>(manifests: &'a [ManifestCondition], type_: &str) -> Vec<&'a Condition> {
    let conditions = manifests.iter().flat_map(|manifest| &manifest.conditions);
    conditions.filter(|known| known.type_ == type_).collect()
}

/// Nothing is said of the whole before something is said of each, unless one has failed. The message is what the first that
/// failed says, because that is what is shown where the object came from.
fn applied(manifests: &[ManifestCondition]) -> Option<Sum> {
    let said = said_of(manifests, types::APPLIED);
    if let Some(failed) = said.iter().find(|known| known.status == "False") {
        return Some(Sum::new(
            types::APPLIED,
            "False",
            reason::WORK_FAILED,
            failed.message.as_str(),
        ));
    }
    let is_complete = said.len() == manifests.len();
    is_complete.then(|| {
        Sum::new(
            types::APPLIED,
            "True",
            reason::WORK_COMPLETE,
            "Apply manifest work complete",
        )
    })
}

fn available(manifests: &[ManifestCondition]) -> Option<Sum> {
    let said = said_of(manifests, types::AVAILABLE);
    let count = Count::of(&said);
    let all = manifests.len();
    if count.no > 0 {
        let message = format!("{} of {all} resources are not available", count.no);
        return Some(Sum::new(
            types::AVAILABLE,
            "False",
            reason::RESOURCES_NOT_AVAILABLE,
            message,
        ));
    }
    if count.unknown > 0 {
        let message = format!("{} of {all} resources have unknown status", count.unknown);
        return Some(Sum::new(
            types::AVAILABLE,
            "Unknown",
            reason::RESOURCES_STATUS_UNKNOWN,
            message,
        ));
    }
    (said.len() == all).then(|| {
        Sum::new(
            types::AVAILABLE,
            "True",
            reason::RESOURCES_AVAILABLE,
            "All resources are available",
        )
    })
}

/// How many conditions say what.
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

/// The conditions that come of rules. Where one manifest says it, in its words.
fn of_rules(manifests: &[ManifestCondition]) -> impl Iterator<Item = Sum> {
    let mut by_type: BTreeMap<&str, Vec<&Condition>> = BTreeMap::new();
    let conditions = manifests.iter().flat_map(|manifest| &manifest.conditions);
    for condition in conditions.filter(|condition| is_of_rule(condition)) {
        by_type.entry(&condition.type_).or_default().push(condition);
    }
    by_type.remove(types::AVAILABLE);
    by_type.into_iter().map(|(type_, said)| {
        let count = Count::of(&said);
        let status = match count {
            // It goes on as long as any part does.
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
        Sum::new(type_, status, reason::CONDITION_RULES_AGGREGATED, message)
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
            [Sum::new("Complete", "True", "ConditionRulesAggregated", "True")]
        );
        let both = [
            manifest("Complete", "True", true),
            manifest("Complete", "True", true),
        ];
        assert_eq!(sums(&both)[0].message, "Aggregated from 2 manifest conditions");
    }
}
