//! The rows: what is sent, and what becomes a measurement.

pub(super) mod hang;
pub(super) mod live;
pub(super) mod many;
pub(super) mod single;

use anyhow::Result;

use super::{
    measurement::Measurement,
    progress::{clear, is_verbose, tell},
    table,
};

/// What was measured so far, printed as it comes.
#[derive(Default)]
pub(super) struct Found {
    /// The measurements.
    pub(super) measurements: Vec<Measurement>,
    /// What could not be measured, and why.
    pub(super) failures: Vec<String>,
}

impl Found {
    /// Adds one. The floor of a row is shown with what is measured beside it.
    #[expect(clippy::print_stdout, reason = "the table is what this program is for")]
    pub(super) fn add(&mut self, measurement: Measurement) {
        clear();
        if is_verbose() {
            print!("{}", table::lines(&measurement));
        } else if measurement.lane != "floor" {
            let same = |one: &&Measurement| {
                one.row == measurement.row && one.case == measurement.case && one.lane == "floor"
            };
            let floor = self.measurements.iter().rev().find(same);
            println!("{}", table::line(&measurement, floor));
        }
        self.measurements.push(measurement);
    }

    /// Notes if something could not be measured; the rest goes on.
    pub(super) fn note(&mut self, outcome: Result<()>, what: &str) {
        if let Err(error) = outcome {
            let failure = format!("{what}: {error:#}");
            clear();
            tell(&failure);
            self.failures.push(failure);
        }
    }
}
