//! A table made of the rows of all clusters: which of them count, what of it there is room for, what went wrong.

use argosy_api::{Cell, NamedStatusCombination, RowError, StatusCombinationRow, Wec};
use cel::Value as CelValue;
use serde_json::Value;

use super::{
    Results, Row, cell,
    compile::{Columns, Named, Plan},
    groups,
    inputs::Inputs,
};
use crate::expression::Expression;

/// Units of cost, see `expression`: for one expression and one cluster, and for a table. Ten clusters that each take all they may have
/// used up what there is for a table of any length; an ordinary expression takes less than a hundred.
const EXPRESSION: u64 = 500_000;
const TABLE: u64 = 5_000_000;

/// Bytes of all rows of a table.
const LARGEST: usize = 256 * 1024;

/// Errors of rows that are told. One of them has at most a few hundred bytes.
const MOST_ERRORS: usize = 100;

/// The column in which a filter's errors are told.
const FILTER: &str = "filter";

impl Plan {
    /// Evaluates; to be called where there is room for recursion (`deep`).
    pub(super) fn evaluate(&self, object: &Value, rows: &[Row<'_>]) -> Results {
        let mut rows: Vec<&Row<'_>> = rows.iter().collect();
        rows.sort_by_key(|row| row.cluster);
        let mut table = Table::default();
        let inputs = rows.into_iter().map(|row| Inputs {
            object,
            status: row.status,
            cluster: row.cluster.as_str(),
            last_returned: row.last_returned,
        });
        // Which clusters count is found first, so that an error of a row that is left out is not told.
        let counted = inputs
            .filter(|inputs| self.counts(inputs, &mut table))
            .collect::<Vec<_>>();
        match &self.columns {
            Columns::Select(columns) => self.select(columns, &counted, &mut table),
            Columns::Aggregate { groups, fields } => {
                table.names(groups);
                table.names(fields);
                for row in groups::rows(groups, fields, &counted, &mut table) {
                    table.push(row, self.limit);
                }
            }
        }
        table.results
    }

    fn counts(&self, inputs: &Inputs<'_>, table: &mut Table) -> bool {
        let Some(filter) = &self.filter else {
            return true;
        };
        match table.value(filter, inputs) {
            Ok(CelValue::Bool(counts)) => counts,
            Ok(CelValue::Null) => false,
            Ok(other) => {
                let error = format!("the value is of type {}, which is no boolean", other.type_of());
                table.report(inputs.cluster, FILTER, error);
                false
            }
            Err(error) => {
                table.report(inputs.cluster, FILTER, error);
                false
            }
        }
    }

    fn select(&self, columns: &[Named<Expression>], counted: &[Inputs<'_>], table: &mut Table) {
        table.names(columns);
        for inputs in counted {
            if !table.has_room(self.limit) {
                table.results.rows_left_out += 1;
                continue;
            }
            let mut row = StatusCombinationRow::default();
            for column in columns {
                let value = table
                    .value(&column.of, inputs)
                    .and_then(|value| cell::cell(&value));
                row.columns.push(value.unwrap_or_else(|error| {
                    table.report(inputs.cluster, &column.name, error.clone());
                    Cell::text(error)
                }));
            }
            table.push(row, self.limit);
        }
    }
}

/// A table in the making.
pub(super) struct Table {
    results: Results,
    /// What may still be spent.
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

    /// Tells that an expression failed for a cluster.
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

    fn names<T>(&mut self, columns: &[Named<T>]) {
        let names = columns.iter().map(|column| column.name.clone());
        self.combination().column_names.extend(names);
    }

    fn has_room(&mut self, limit: usize) -> bool {
        self.bytes < LARGEST && self.combination().rows.len() < limit
    }

    fn push(&mut self, row: StatusCombinationRow, limit: usize) {
        // The size of what is written; a row cannot fail to be written.
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
