//! The conditions of several statuses.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Status;

/// One condition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Condition<'a>(&'a Map<String, Value>);

impl<'a> Condition<'a> {
    /// True if a field has this text.
    pub(super) fn is(self, field: &str, text: &str) -> bool {
        self.text(field) == Some(text)
    }

    pub(super) fn is_true(self) -> bool {
        self.is("status", "True")
    }

    /// The time of the last transition. RFC 3339 times in UTC, as Kubernetes writes them, sort as
    /// texts.
    fn since(self) -> &'a str {
        self.text("lastTransitionTime").unwrap_or_default()
    }

    fn text(self, field: &str) -> Option<&'a str> {
        self.0.get(field)?.as_str()
    }

    fn rank(self) -> Rank {
        match self.text("status") {
            Some("True") => Rank::True,
            Some("False") => Rank::False,
            _ => Rank::Unknown,
        }
    }

    fn to_value(self) -> Value {
        Value::Object(self.0.clone())
    }
}

/// From good to bad. For conditions such as `Degraded` it is the other way round, but nothing
/// identifies these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    True,
    Unknown,
    False,
}

/// All conditions of a status.
pub(super) fn of(status: &Status) -> impl Iterator<Item = Condition<'_>> {
    let conditions = status.get("conditions").and_then(Value::as_array);
    let conditions = conditions.into_iter().flatten();
    conditions.filter_map(|condition| condition.as_object().map(Condition))
}

/// The first condition, in the order of the clusters, for which `matches` returns true.
pub(super) fn first(statuses: &[&Status], matches: impl Fn(Condition<'_>) -> bool) -> Option<Value> {
    let mut conditions = statuses.iter().flat_map(|status| of(status));
    conditions
        .find(|condition| matches(*condition))
        .map(Condition::to_value)
}

/// The newest condition of a type that is true, or the first of several that are equally new.
pub(super) fn newest(statuses: &[&Status], type_: &str) -> Option<Value> {
    let conditions = statuses.iter().flat_map(|status| of(status));
    let holding = conditions.filter(|condition| condition.is("type", type_) && condition.is_true());
    let newest = holding.reduce(|newest, next| {
        if next.since() > newest.since() {
            next
        } else {
            newest
        }
    });
    newest.map(Condition::to_value)
}

/// One condition of each type, in the order of the types: the worst one, or the newest of several
/// that are equally bad. A condition that is true wherever it is reported, but is not reported by
/// all clusters, is unknown.
pub(super) fn worst(statuses: &[&Status]) -> Vec<Value> {
    let mut by_type: BTreeMap<&str, (Condition<'_>, usize)> = BTreeMap::new();
    for condition in statuses.iter().flat_map(|status| of(status)) {
        let Some(type_) = condition.text("type") else {
            continue;
        };
        let (worst, reports) = by_type.entry(type_).or_insert((condition, 0));
        *reports += 1;
        if (worst.rank(), worst.since()) < (condition.rank(), condition.since()) {
            *worst = condition;
        }
    }
    let worst = by_type.into_values().map(|(condition, reports)| {
        let mut worst = condition.0.clone();
        if reports < statuses.len() && condition.is_true() {
            worst.insert("status".to_owned(), "Unknown".into());
        }
        Value::Object(worst)
    });
    worst.collect()
}
