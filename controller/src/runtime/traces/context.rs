//! The IDs of a Workflow's trace, which follow from its UID.

use argosy_core::OriginUid;
use opentelemetry::{SpanId, TraceId};

/// The position of an attempt's spans in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The 128 bits of the UID.
    pub(super) trace: TraceId,
    /// The first 64 bits of the UID, XOR the number of the attempt: the parent of all other spans
    /// of the attempt.
    pub(super) first: SpanId,
    /// The first span of the previous attempt.
    pub(super) former: Option<SpanId>,
}

impl Place {
    /// The place of an attempt at the Workflow with `uid`; `None` if that is not a UUID. Before the
    /// first claim there is no attempt, so spans belong to the first attempt.
    pub(super) fn of(uid: &OriginUid, attempt: u64) -> Option<Self> {
        let digits: String = uid.as_str().split('-').collect();
        if digits.len() != 32 {
            return None;
        }
        let bits = u128::from_str_radix(&digits, 16).ok()?;
        let attempt = attempt.max(1);
        Some(Self {
            trace: TraceId::from(bits),
            first: first(bits, attempt),
            former: (attempt > 1).then(|| first(bits, attempt - 1)),
        })
    }
}

fn first(bits: u128, attempt: u64) -> SpanId {
    let half = u64::try_from(bits >> 64).unwrap_or_default();
    // Zero is not a valid ID.
    SpanId::from((half ^ attempt).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "123e4567-e89b-42d3-a456-426614174000";

    #[test]
    fn the_trace_id_is_the_uid_without_its_dashes() {
        let place = Place::of(&UID.into(), 1).unwrap();
        assert_eq!(place.trace.to_string(), "123e4567e89b42d3a456426614174000");
        assert_eq!(place.first.to_string(), "123e4567e89b42d2");
        assert_eq!(place.former, None);
    }

    #[test]
    fn every_attempt_begins_with_a_span_of_its_own_below_the_one_before() {
        let [first, second] = [1, 2].map(|attempt| Place::of(&UID.into(), attempt).unwrap());
        assert_eq!(first.trace, second.trace);
        assert_ne!(first.first, second.first);
        assert_eq!(second.former, Some(first.first));
    }

    #[test]
    fn what_is_no_uuid_has_no_trace() {
        for bad in ["", "u1", "123e4567e89b42d3a45642661417400g"] {
            assert_eq!(Place::of(&bad.into(), 1), None, "{bad}");
        }
    }
}
