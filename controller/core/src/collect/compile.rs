//! A StatusCollector, checked and compiled: KubeStellar's rules about which fields go together.

use argosy_api::{NamedAggregator, NamedExpression, StatusCollectorSpec, status_collector::DEFAULT_LIMIT};

use super::inputs::DIALECT;
use crate::expression::Expression;

/// Expressions of one collector.
const MOST_EXPRESSIONS: usize = 64;

/// Rows of one table.
const MOST_ROWS: usize = 1000;

/// What a collector does.
pub(super) struct Plan {
    pub(super) filter: Option<Expression>,
    pub(super) columns: Columns,
    /// At least one.
    pub(super) limit: usize,
}

/// What its columns are.
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
    /// Something of the values of an expression.
    Over(Function, Expression),
}

/// What of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Sum,
    Avg,
    Min,
    Max,
}

/// Compiles; with what works otherwise than it is written, or what is wrong.
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

/// What is wrong with the fields that are given.
fn shape(spec: &StatusCollectorSpec) -> Vec<String> {
    let mut errors = Vec::new();
    let aggregates = !spec.group_by.is_empty() || !spec.combined_fields.is_empty();
    if aggregates && !spec.select.is_empty() {
        errors.push("select excludes groupBy and combinedFields: leave one or the other out".to_owned());
    }
    if !spec.group_by.is_empty() && spec.combined_fields.is_empty() {
        errors.push("groupBy needs combinedFields, which say what to aggregate in each group".to_owned());
    }
    let expressions = spec.group_by.len() + spec.combined_fields.len() + spec.select.len();
    if expressions > MOST_EXPRESSIONS {
        errors.push(format!(
            "there are {expressions} columns; {MOST_EXPRESSIONS} is the most"
        ));
    }
    errors
}

/// KubeStellar's schema takes any limit, so none is refused.
fn limit(limit: i64, warnings: &mut Vec<String>) -> usize {
    match usize::try_from(limit) {
        Ok(limit @ 1..=MOST_ROWS) => limit,
        Ok(0) | Err(_) => {
            warnings.push(format!("limit is {limit}, which counts as {DEFAULT_LIMIT}"));
            usize::try_from(DEFAULT_LIMIT).unwrap_or(MOST_ROWS)
        }
        Ok(_) => {
            warnings.push(format!("limit is {limit}, which counts as {MOST_ROWS}, the most"));
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
    // Beyond the limit nothing is worth compiling; `shape` has refused the collector.
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
                "{place} has type {other}; there are COUNT, SUM, AVG, MIN and MAX"
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
