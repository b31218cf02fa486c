//! The rows: what is sent, and what becomes a measurement.

pub(super) mod hang;
pub(super) mod live;
pub(super) mod many;
pub(super) mod single;

use super::{measurement::Measurement, table};

/// What was measured so far, printed as it comes.
#[derive(Default)]
pub(super) struct Found(pub(super) Vec<Measurement>);

impl Found {
    /// Adds one.
    #[expect(clippy::print_stdout, reason = "the table is what this program is for")]
    pub(super) fn add(&mut self, measurement: Measurement) {
        print!("{}", table::lines(&measurement));
        self.0.push(measurement);
    }
}
