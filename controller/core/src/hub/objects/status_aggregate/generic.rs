//! Kinds without rules of their own.

use serde_json::Value;

use super::{Status, conditions};

const CONDITIONS: &str = "conditions";

/// The generation that a controller has seen.
pub(super) const OBSERVED_GENERATION: &str = "observedGeneration";

/// The fields that are the same in all clusters, the minimum `observedGeneration`, and the worst of
/// each condition. Nested fields are not compared, because a part of a field may violate its
/// schema.
pub(super) fn status(statuses: &[&Status]) -> Status {
    let Some((first, others)) = statuses.split_first() else {
        return Status::new();
    };
    let same = first.iter().filter(|(name, _)| common(statuses, name).is_some());
    let mut status: Status = same.map(|(name, value)| (name.clone(), value.clone())).collect();
    if first.contains_key(OBSERVED_GENERATION)
        || others.iter().any(|other| other.contains_key(OBSERVED_GENERATION))
    {
        let least = statuses
            .iter()
            .map(|status| counter(status, OBSERVED_GENERATION))
            .min();
        status.insert(OBSERVED_GENERATION.to_owned(), least.unwrap_or_default().into());
    }
    if statuses
        .iter()
        .any(|status| status.get(CONDITIONS).is_some_and(Value::is_array))
    {
        status.insert(CONDITIONS.to_owned(), conditions::worst(statuses).into());
    }
    status
}

/// The value of a field that is the same in all statuses.
pub(super) fn common<'a>(statuses: &[&'a Status], field: &str) -> Option<&'a Value> {
    let (first, others) = statuses.split_first()?;
    let value = first.get(field)?;
    others
        .iter()
        .all(|other| other.get(field) == Some(value))
        .then_some(value)
}

/// A counter. Kubernetes omits a counter that is zero.
pub(super) fn counter(status: &Status, name: &str) -> i64 {
    status.get(name).and_then(Value::as_i64).unwrap_or_default()
}
