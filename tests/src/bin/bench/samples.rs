//! Times and the table of them.

use std::{fmt::Write, time::Duration};

/// One row of the table.
pub(crate) struct Row {
    /// What was measured.
    pub(crate) name: &'static str,
    /// Whether the median has to be within the target.
    pub(crate) is_promised: bool,
    samples: Vec<Duration>,
}

impl Row {
    /// A row without samples.
    pub(crate) fn new(name: &'static str, is_promised: bool) -> Self {
        Self {
            name,
            is_promised,
            samples: Vec::new(),
        }
    }

    /// Adds a sample.
    pub(crate) fn add(&mut self, sample: Duration) {
        self.samples.push(sample);
    }

    /// The time, in milliseconds, within which at least `percent` of the samples are (nearest rank).
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        let rank = (percent * sorted.len()).div_ceil(100).max(1);
        sorted
            .get(rank - 1)
            .map_or(f64::NAN, |sample| sample.as_secs_f64() * 1000.0)
    }
}

/// The rows with median, p90, p99 and the slowest.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:58}{:>6}{:>10}{:>10}{:>10}{:>10}\n",
        "", "n", "median", "p90", "p99", "max"
    );
    for row in rows {
        let _ = write!(text, "{:58}{:>6}", row.name, row.samples.len());
        for percent in [50, 90, 99, 100] {
            let _ = write!(text, "{:>7.1} ms", row.percentile(percent));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_by_nearest_rank() {
        let mut row = Row::new("", false);
        for milliseconds in [4, 1, 3, 2] {
            row.add(Duration::from_millis(milliseconds));
        }
        let percentiles = [50, 75, 90, 100].map(|percent| format!("{}", row.percentile(percent)));
        assert_eq!(percentiles, ["2", "3", "4", "4"]);
    }
}
