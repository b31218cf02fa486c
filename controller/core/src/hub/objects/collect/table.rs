//! Builds a table from the rows of all clusters: it selects the rows, bounds the table, and records
//! errors.

use argosy_api::{Cell, StatusCombinationRow};
use cel::Value as CelValue;
use serde_json::Value;

use super::{
    Results, Row, cell,
    compile::{Columns, Named, Plan},
    groups,
    inputs::Inputs,
    results::Table,
};
use crate::cel::Expression;

/// The column in which a filter's errors are reported.
const FILTER: &str = "filter";

impl Plan {
    /// Evaluates the plan. The caller provides a stack with room for recursion (`deep`).
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
        // All filters are evaluated first, so that no error of a row that is left out is reported.
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
                let error = format!("the value is of type {}, but must be a boolean", other.type_of());
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
