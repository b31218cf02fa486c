//! The rows: the Workflows that each sends, and the measurement that results.

pub(super) mod hang;
pub(super) mod live;
pub(super) mod logs;
pub(super) mod many;
pub(super) mod rest;
pub(super) mod single;

use anyhow::Result;

use super::{
    measurement::Measurement,
    progress::{clear, is_verbose, tell},
    table,
};

/// The results so far, printed as they come.
#[derive(Default)]
pub(super) struct Found {
    /// The measurements.
    pub(super) measurements: Vec<Measurement>,
    /// Failed measurements, with the reason.
    pub(super) failures: Vec<String>,
}

impl Found {
    /// Adds a measurement. The baseline of a row is printed in the lines of the other modes.
    #[expect(clippy::print_stdout, reason = "the table is what this program is for")]
    pub(super) fn add(&mut self, measurement: Measurement) {
        clear();
        if is_verbose() {
            print!("{}", table::lines(&measurement));
        } else if measurement.mode != "baseline" {
            let same = |one: &&Measurement| {
                one.row == measurement.row && one.case == measurement.case && one.mode == "baseline"
            };
            let baseline = self.measurements.iter().rev().find(same);
            println!("{}", table::line(&measurement, baseline));
        }
        self.measurements.push(measurement);
    }

    /// Records a failed measurement; the rest continues.
    pub(super) fn note(&mut self, outcome: Result<()>, what: &str) {
        if let Err(error) = outcome {
            let failure = format!("{what}: {error:#}");
            clear();
            tell(&failure);
            self.failures.push(failure);
        }
    }
}
