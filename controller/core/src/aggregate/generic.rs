//! Kinds that nothing more is known of.

use serde_json::Value;

use super::{
    Status, conditions,
    counters::{OBSERVED_GENERATION, counter},
};

const CONDITIONS: &str = "conditions";

/// What is the same in all clusters, the least `observedGeneration`, and the worst of each condition. Fields of fields are
/// not looked at, because half a field may not be what its schema asks for.
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

/// The value of a field, where it is the same in all.
pub(super) fn common<'a>(statuses: &[&'a Status], field: &str) -> Option<&'a Value> {
    let (first, others) = statuses.split_first()?;
    let value = first.get(field)?;
    others
        .iter()
        .all(|other| other.get(field) == Some(value))
        .then_some(value)
}
