//! Times, their percentiles, and the table for a fleet.

use std::{fmt::Write, time::Duration};

use serde::Serialize;

/// Times of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples(Vec<Duration>);

/// Percentiles in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    /// Number of times.
    pub(super) count: usize,
    /// Half of them are within this.
    pub(super) p50: f64,
    /// Nine in ten are within this.
    pub(super) p90: f64,
    /// 99 in a hundred are within this.
    pub(super) p99: f64,
    /// The longest.
    pub(super) max: f64,
}

impl Samples {
    /// Adds a time.
    pub(super) fn add(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    /// The time in milliseconds that at least `percent` of the samples do not exceed (nearest rank).
    pub(super) fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (percent * sorted.len()).div_ceil(100).max(1);
        sorted
            .get(rank - 1)
            .map_or(f64::NAN, |sample| sample.as_secs_f64() * 1000.0)
    }

    /// The percentiles. `None` without samples.
    pub(super) fn summary(&self) -> Option<Summary> {
        (!self.0.is_empty()).then(|| Summary {
            count: self.0.len(),
            p50: self.percentile(50),
            p90: self.percentile(90),
            p99: self.percentile(99),
            max: self.percentile(100),
        })
    }
}

impl FromIterator<Duration> for Samples {
    fn from_iter<T: IntoIterator<Item = Duration>>(samples: T) -> Self {
        Self(samples.into_iter().collect())
    }
}

/// A count as a floating-point number. No count here comes near 32 bits.
pub(super) fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

/// One row of the table of a fleet.
pub(super) struct Row {
    /// Name of the measurement.
    pub(super) name: &'static str,
    /// The times.
    pub(super) samples: Samples,
}

impl Row {
    /// A row without samples.
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            samples: Samples::default(),
        }
    }
}

/// The rows with median, p90, p99 and the slowest.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:58}{:>6}{:>10}{:>10}{:>10}{:>10}\n",
        "", "n", "median", "p90", "p99", "max"
    );
    for row in rows {
        let _ = write!(text, "{:58}{:>6}", row.name, row.samples.0.len());
        for percent in [50, 90, 99, 100] {
            let _ = write!(text, "{:>7.1} ms", row.samples.percentile(percent));
        }
        text.push('\n');
    }
    text
}

/// Distinguishable times, for tests that use a summary.
#[cfg(test)]
pub(super) const FIVE_TO_EIGHT: Summary = Summary {
    count: 1,
    p50: 5.0,
    p90: 6.0,
    p99: 7.0,
    max: 8.0,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_by_nearest_rank() {
        let samples: Samples = [4, 1, 3, 2].map(Duration::from_millis).into_iter().collect();
        let percentiles = [50, 75, 90, 100].map(|percent| format!("{}", samples.percentile(percent)));
        assert_eq!(percentiles, ["2", "3", "4", "4"]);
    }

    #[test]
    fn of_no_samples_nothing_is_said() {
        assert_eq!(Samples::default().summary(), None);
        let one: Samples = [Duration::from_millis(7)].into_iter().collect();
        let summary = one.summary().unwrap();
        assert_eq!(
            (summary.count, summary.p50.round(), summary.p99.round()),
            (1, 7.0, 7.0)
        );
    }
}
