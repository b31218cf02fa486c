//! A table under construction: its rows and errors, within limits of size and cost.

use argosy_api::{NamedStatusCombination, RowError, StatusCombinationRow, Wec};
use cel::Value as CelValue;

use super::{Results, compile::Named, inputs::Inputs};
use crate::cel::Expression;

/// Limits of cost, see `expression`: for one expression and one cluster, and for a table. Ten
/// clusters that use up their limits use up the limit of a table of any length. An ordinary
/// expression costs less than a hundred.
const EXPRESSION: u64 = 500_000;
const TABLE: u64 = 5_000_000;

/// Maximum size of all rows of a table, in bytes of JSON.
const LARGEST: usize = 256 * 1024;

/// Maximum number of row errors in a table. One error has at most a few hundred bytes.
const MOST_ERRORS: usize = 100;

/// A table under construction.
pub(super) struct Table {
    pub(super) results: Results,
    /// The cost that may still be spent.
    purse: u64,
    /// Bytes of its rows.
    bytes: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            results: Results::default(),
            purse: TABLE,
            bytes: 0,
        }
    }
}

impl Table {
    /// The value of an expression.
    pub(super) fn value(&mut self, expression: &Expression, inputs: &Inputs<'_>) -> Result<CelValue, String> {
        let purse = EXPRESSION.min(self.purse);
        if purse == 0 {
            return Err("the collector costs too much: it was not evaluated for all clusters".to_owned());
        }
        let (value, left) = expression.evaluate(inputs, purse);
        self.purse -= purse - left;
        value
    }

    /// Reports that an expression failed for a cluster.
    pub(super) fn report(&mut self, cluster: &str, column: &str, error: String) {
        if self.combination().row_errors.len() == MOST_ERRORS {
            self.results.errors_left_out += 1;
            return;
        }
        let error = RowError {
            wec: Wec {
                cluster_id: cluster.to_owned(),
            },
            column_name: column.to_owned(),
            error,
        };
        self.combination().row_errors.push(error);
    }

    pub(super) fn names<T>(&mut self, columns: &[Named<T>]) {
        let names = columns.iter().map(|column| column.name.clone());
        self.combination().column_names.extend(names);
    }

    pub(super) fn has_room(&mut self, limit: usize) -> bool {
        self.bytes < LARGEST && self.combination().rows.len() < limit
    }

    pub(super) fn push(&mut self, row: StatusCombinationRow, limit: usize) {
        // The size of the row as it is written. Writing a row cannot fail.
        let bytes = serde_json::to_string(&row).map_or(LARGEST, |text| text.len());
        if self.has_room(limit) && self.bytes + bytes <= LARGEST {
            self.bytes += bytes;
            self.combination().rows.push(row);
        } else {
            self.results.rows_left_out += 1;
        }
    }

    fn combination(&mut self) -> &mut NamedStatusCombination {
        &mut self.results.combination
    }
}
