//! Checks and compiles a StatusCollector. The rules for the combination of fields are
//! KubeStellar's.

use argosy_api::{NamedAggregator, NamedExpression, StatusCollectorSpec, status_collector::DEFAULT_LIMIT};

use super::inputs::DIALECT;
use crate::cel::Expression;

/// Maximum number of expressions in one collector.
const MOST_EXPRESSIONS: usize = 64;

/// Maximum number of rows in one table.
const MOST_ROWS: usize = 1000;

/// A compiled collector.
pub(super) struct Plan {
    pub(super) filter: Option<Expression>,
    pub(super) columns: Columns,
    /// At least one.
    pub(super) limit: usize,
}

/// The columns of its table.
pub(super) enum Columns {
    /// Values of each cluster.
    Select(Vec<Named<Expression>>),
    /// Aggregates over the clusters of each group.
    Aggregate {
        groups: Vec<Named<Expression>>,
        fields: Vec<Named<Field>>,
    },
}

/// A column.
pub(super) struct Named<T> {
    pub(super) name: String,
    pub(super) of: T,
}

/// An aggregate.
pub(super) enum Field {
    /// The number of clusters.
    Count,
    /// An aggregate of the values of an expression.
    Over(Function, Expression),
}

/// The function of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Sum,
    Avg,
    Min,
    Max,
}

/// Compiles a collector. Returns the plan with warnings about fields that do not work as they are
/// written, or the errors.
pub(super) fn plan(spec: &StatusCollectorSpec) -> Result<(Plan, Vec<String>), Vec<String>> {
    let mut errors = shape(spec);
    let mut warnings = Vec::new();
    let filter = spec
        .filter
        .as_ref()
        .and_then(|filter| compile("filter", filter, &mut errors));
    let columns = if spec.select.is_empty() {
        Columns::Aggregate {
            groups: named("groupBy", &spec.group_by, &mut errors),
            fields: fields(&spec.combined_fields, &mut errors),
        }
    } else {
        Columns::Select(named("select", &spec.select, &mut errors))
    };
    if spec.select.is_empty() && spec.combined_fields.is_empty() {
        warnings.push("neither select nor combinedFields is given, so nothing is collected".to_owned());
    }
    let limit = limit(spec.limit, &mut warnings);
    let plan = Plan {
        filter,
        columns,
        limit,
    };
    if errors.is_empty() {
        Ok((plan, warnings))
    } else {
        Err(errors)
    }
}

/// Errors in the combination of fields.
fn shape(spec: &StatusCollectorSpec) -> Vec<String> {
    let mut errors = Vec::new();
    let aggregates = !spec.group_by.is_empty() || !spec.combined_fields.is_empty();
    if aggregates && !spec.select.is_empty() {
        errors.push(
            "select cannot be combined with groupBy or combinedFields: remove one or the other".to_owned(),
        );
    }
    if !spec.group_by.is_empty() && spec.combined_fields.is_empty() {
        errors.push("groupBy needs combinedFields, the aggregates of each group".to_owned());
    }
    let expressions = spec.group_by.len() + spec.combined_fields.len() + spec.select.len();
    if expressions > MOST_EXPRESSIONS {
        errors.push(format!(
            "there are {expressions} columns; the limit is {MOST_EXPRESSIONS}"
        ));
    }
    errors
}

/// The maximum number of rows. KubeStellar's schema accepts any limit, so none is refused.
fn limit(limit: i64, warnings: &mut Vec<String>) -> usize {
    match usize::try_from(limit) {
        Ok(limit @ 1..=MOST_ROWS) => limit,
        Ok(0) | Err(_) => {
            warnings.push(format!("limit is {limit}; the default {DEFAULT_LIMIT} is used"));
            usize::try_from(DEFAULT_LIMIT).unwrap_or(MOST_ROWS)
        }
        Ok(_) => {
            warnings.push(format!("limit is {limit}; the maximum {MOST_ROWS} is used"));
            MOST_ROWS
        }
    }
}

fn compile(place: &str, source: &str, errors: &mut Vec<String>) -> Option<Expression> {
    let compiled =
        Expression::compile(source, &DIALECT).map_err(|error| errors.push(format!("{place} {error}")));
    compiled.ok()
}

fn named(field: &str, expressions: &[NamedExpression], errors: &mut Vec<String>) -> Vec<Named<Expression>> {
    // Expressions beyond the limit are not compiled, because `shape` has refused the collector.
    let expressions = expressions.iter().take(MOST_EXPRESSIONS).enumerate();
    let compiled = expressions.filter_map(|(index, expression)| {
        let place = format!("{field}[{index}] ({})", expression.name);
        let of = compile(&place, &expression.def, errors)?;
        Some(Named {
            name: expression.name.clone(),
            of,
        })
    });
    compiled.collect()
}

fn fields(fields: &[NamedAggregator], errors: &mut Vec<String>) -> Vec<Named<Field>> {
    let fields = fields.iter().take(MOST_EXPRESSIONS).enumerate();
    let compiled = fields.filter_map(|(index, field)| {
        let place = format!("combinedFields[{index}] ({})", field.name);
        let of = aggregate(&place, field, errors)?;
        Some(Named {
            name: field.name.clone(),
            of,
        })
    });
    compiled.collect()
}

fn aggregate(place: &str, field: &NamedAggregator, errors: &mut Vec<String>) -> Option<Field> {
    let function = match field.type_.as_str() {
        "COUNT" => None,
        "SUM" => Some(Function::Sum),
        "AVG" => Some(Function::Avg),
        "MIN" => Some(Function::Min),
        "MAX" => Some(Function::Max),
        other => {
            errors.push(format!(
                "{place} has the unknown type {other}; use COUNT, SUM, AVG, MIN or MAX"
            ));
            return None;
        }
    };
    match (function, &field.subject) {
        (None, None) => Some(Field::Count),
        (Some(function), Some(subject)) => {
            compile(place, subject, errors).map(|subject| Field::Over(function, subject))
        }
        (None, Some(_)) => {
            errors.push(format!("{place} has a subject, but COUNT counts clusters"));
            None
        }
        (Some(_), None) => {
            errors.push(format!("{place} has no subject, but {} needs one", field.type_));
            None
        }
    }
}
