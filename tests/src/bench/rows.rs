//! The rows: what is sent, and what becomes a measurement.

pub(super) mod hang;
pub(super) mod live;
pub(super) mod many;
pub(super) mod single;

use anyhow::Result;

use super::{journal::tell, measurement::Measurement, table};

/// What was measured so far, printed as it comes.
#[derive(Default)]
pub(super) struct Found {
    /// The measurements.
    pub(super) measurements: Vec<Measurement>,
    /// What could not be measured, and why.
    pub(super) failures: Vec<String>,
}

impl Found {
    /// Adds one.
    #[expect(clippy::print_stdout, reason = "the table is what this program is for")]
    pub(super) fn add(&mut self, measurement: Measurement) {
        print!("{}", table::lines(&measurement));
        self.measurements.push(measurement);
    }

    /// Notes if something could not be measured; the rest goes on.
    pub(super) fn note(&mut self, outcome: Result<()>, what: &str) {
        if let Err(error) = outcome {
            let failure = format!("{what}: {error:#}");
            tell(&failure);
            self.failures.push(failure);
        }
    }
}
