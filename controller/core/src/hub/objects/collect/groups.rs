//! The rows of a table that aggregates: one for each group of clusters, or one for all of them.
//!
//! A cluster for which any expression fails is left out of its group, with an error for each column
//! that failed. Without `groupBy` there is a row even for no cluster: then COUNT and SUM are 0, MIN
//! is `+Inf`, MAX is `-Inf` and AVG is `NaN`, as in KubeStellar.

use std::collections::BTreeMap;

use argosy_api::{Cell, StatusCombinationRow};
use cel::Value as CelValue;

use super::{
    cell::{self, Atom},
    compile::{Field, Function, Named},
    inputs::Inputs,
    results::Table,
};
use crate::cel::{Expression, to_json::printed};

/// The rows, in the order of the groups.
pub(super) fn rows(
    groups: &[Named<Expression>],
    fields: &[Named<Field>],
    counted: &[Inputs<'_>],
    table: &mut Table,
) -> Vec<StatusCombinationRow> {
    if fields.is_empty() {
        return Vec::new();
    }
    let mut totals: BTreeMap<Vec<Atom>, Totals> = BTreeMap::new();
    if groups.is_empty() {
        totals.insert(Vec::new(), Totals::new(fields));
    }
    for inputs in counted {
        let group = values(groups, |column| Some(&column.of), Atom::of, inputs, table);
        let numbers = values(fields, |column| subject(&column.of), cell::number, inputs, table);
        if let (Some(group), Some(numbers)) = (group, numbers) {
            totals
                .entry(group)
                .or_insert_with(|| Totals::new(fields))
                .add(&numbers);
        }
    }
    let rows = totals.into_iter().map(|(group, totals)| StatusCombinationRow {
        columns: group
            .into_iter()
            .map(Atom::into_cell)
            .chain(totals.cells(fields))
            .collect(),
    });
    rows.collect()
}

fn subject(field: &Field) -> Option<&Expression> {
    match field {
        Field::Count => None,
        Field::Over(_, subject) => Some(subject),
    }
}

/// The values of all columns that have an expression, converted by `read`. If any of them fails,
/// each failure is reported and there are no values.
fn values<T, V>(
    columns: &[Named<T>],
    expression: impl Fn(&Named<T>) -> Option<&Expression>,
    read: impl Fn(&CelValue) -> Result<V, String>,
    inputs: &Inputs<'_>,
    table: &mut Table,
) -> Option<Vec<V>> {
    let mut values = Some(Vec::with_capacity(columns.len()));
    for column in columns {
        let Some(expression) = expression(column) else {
            continue;
        };
        match table.value(expression, inputs).and_then(|value| read(&value)) {
            Ok(value) => {
                if let Some(values) = &mut values {
                    values.push(value);
                }
            }
            Err(error) => {
                table.report(inputs.cluster, &column.name, error);
                values = None;
            }
        }
    }
    values
}

/// The totals of one group.
struct Totals {
    count: u64,
    /// One for each field that has a subject.
    over: Vec<Total>,
}

#[derive(Clone, Copy)]
struct Total {
    sum: f64,
    min: f64,
    max: f64,
}

impl Totals {
    fn new(fields: &[Named<Field>]) -> Self {
        let none = Total {
            sum: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        };
        let subjects = fields.iter().filter_map(|field| subject(&field.of));
        Self {
            count: 0,
            over: subjects.map(|_| none).collect(),
        }
    }

    fn add(&mut self, numbers: &[f64]) {
        self.count += 1;
        for (total, number) in self.over.iter_mut().zip(numbers) {
            total.sum += number;
            total.min = total.min.min(*number);
            total.max = total.max.max(*number);
        }
    }

    fn cells(self, fields: &[Named<Field>]) -> impl Iterator<Item = Cell> {
        let mut over = self.over.into_iter();
        fields.iter().filter_map(move |field| match &field.of {
            Field::Count => Some(Cell::number(self.count.to_string())),
            Field::Over(function, _) => over.next().map(|total| total.cell(*function, self.count)),
        })
    }
}

impl Total {
    fn cell(self, function: Function, count: u64) -> Cell {
        #[expect(clippy::cast_precision_loss, reason = "there are not that many clusters")]
        let number = match function {
            Function::Sum => self.sum,
            Function::Avg => self.sum / count as f64,
            Function::Min => self.min,
            Function::Max => self.max,
        };
        Cell::number(printed(number))
    }
}
