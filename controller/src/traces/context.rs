//! The ids of a Workflow's trace, which whoever knows its UID knows.

use argosy_core::OriginUid;
use opentelemetry::{SpanId, TraceId};

/// Where the spans of an attempt belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The UID's 128 bits.
    pub(super) trace: TraceId,
    /// The first 64 bits of the UID, xor the number of the attempt: the span that all others of the attempt are children of.
    pub(super) first: SpanId,
    /// The first span of the attempt before this one.
    pub(super) former: Option<SpanId>,
}

impl Place {
    /// That of an attempt at the Workflow with `uid`; `None` where that is not a UUID. Before the first claim there is no attempt, and
    /// what happens belongs to the first.
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
    // Zero is no id.
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
