//! Sampling of traces by `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`.
//!
//! The trace ID alone decides, so that every process decides alike. A Workflow's trace has no
//! parent elsewhere, so the `parentbased_` samplers equal those without the prefix. The SDK's own
//! ratio sampler reads the first bits of the second half, which are always `10` in a UUID: it would
//! take all traces or none. The last 56 bits are random, and the specification's newer sampler
//! reads them.

use opentelemetry::TraceId;

/// The selection of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sampling {
    All,
    None,
    /// Traces whose last 56 bits are not below this number.
    From(u64),
}

const RANDOM_BITS: u32 = 56;

impl Sampling {
    /// Parses the values of both variables; an error explains why they cannot be used.
    pub(super) fn parse(sampler: &str, argument: &str) -> Result<Self, String> {
        match sampler.strip_prefix("parentbased_").unwrap_or(sampler) {
            "" | "always_on" => Ok(Self::All),
            "always_off" => Ok(Self::None),
            "traceidratio" => Self::by_ratio(argument),
            other => Err(format!("{other} is not a supported sampler of traces")),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a ratio is between 0 and 1, and 56 bits are more than anybody means by it"
    )]
    fn by_ratio(argument: &str) -> Result<Self, String> {
        let ratio: f64 = if argument.is_empty() {
            1.0
        } else {
            let bad = |_| format!("{argument:?} is not a ratio between 0 and 1");
            argument.parse().map_err(bad)?
        };
        if !(0.0..=1.0).contains(&ratio) {
            return Err(format!("{argument} is not between 0 and 1"));
        }
        let all = (1_u64 << RANDOM_BITS) as f64;
        Ok(Self::From(((1.0 - ratio) * all) as u64))
    }

    /// Returns true if this trace is exported.
    pub(super) fn takes(self, trace: TraceId) -> bool {
        let random = u128::from_be_bytes(trace.to_bytes()) & ((1 << RANDOM_BITS) - 1);
        match self {
            Self::All => true,
            Self::None => false,
            Self::From(threshold) => random >= u128::from(threshold),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a UUID with version 4 and variant `10`, like the UIDs of an API server; the other
    /// bits are pseudorandom.
    fn uuid(number: u128) -> TraceId {
        let drawn = number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let fixed = (drawn & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
        TraceId::from(fixed)
    }

    #[test]
    fn a_ratio_takes_about_that_part_of_all_uuids() {
        for (argument, least, most) in [("0.25", 200, 300), ("0.5", 450, 550), ("0.9", 850, 950)] {
            let sampling = Sampling::parse("parentbased_traceidratio", argument).unwrap();
            let taken = (1..=1000).filter(|number| sampling.takes(uuid(*number))).count();
            assert!((least..=most).contains(&taken), "{argument}: {taken} of 1000");
        }
    }

    #[test]
    fn all_or_nothing_is_taken_where_that_is_asked_for() {
        for (sampler, argument, takes) in [
            ("", "", true),
            ("always_on", "", true),
            ("parentbased_always_off", "", false),
            ("traceidratio", "1", true),
            ("traceidratio", "0", false),
            ("traceidratio", "", true),
        ] {
            let sampling = Sampling::parse(sampler, argument).unwrap();
            let is_taken = |number| sampling.takes(uuid(number)) == takes;
            assert!((1..=100).all(is_taken), "{sampler} {argument}");
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (sampler, argument) in [("xray", ""), ("traceidratio", "2"), ("traceidratio", "half")] {
            assert!(
                Sampling::parse(sampler, argument).is_err(),
                "{sampler} {argument}"
            );
        }
    }
}
