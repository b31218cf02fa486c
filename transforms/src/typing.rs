//! Type checks of the filters of a path (RFC 9535 §2.4.3), and checks for unsupported features.
//!
//! Owned here: checks for errors that the parser accepts: its own functions (`in`, `any_of`, …),
//! `length(@.a)` as a condition, `match(@.a, 'b')` in a comparison, invalid patterns, and infinite
//! numbers.

use jsonpath_rust::parser::model::{
    Comparable, Filter, FilterAtom, FnArg, Literal, Segment, Selector, Test, TestFunction,
};

use crate::pattern;

/// Checks every filter in `segments`. The error describes the problem.
pub(crate) fn check(segments: &[Segment]) -> Result<(), String> {
    segments.iter().try_for_each(check_segment)
}

/// Returns true if there is a filter, so that the selection depends on values.
pub(crate) fn has_filter(segments: &[Segment]) -> bool {
    segments.iter().any(|segment| match segment {
        Segment::Descendant(inner) => has_filter(std::slice::from_ref(inner)),
        Segment::Selector(selector) => matches!(selector, Selector::Filter(_)),
        Segment::Selectors(selectors) => selectors.iter().any(|s| matches!(s, Selector::Filter(_))),
    })
}

fn check_segment(segment: &Segment) -> Result<(), String> {
    match segment {
        Segment::Descendant(inner) => check_segment(inner),
        Segment::Selector(selector) => check_selector(selector),
        Segment::Selectors(selectors) => selectors.iter().try_for_each(check_selector),
    }
}

fn check_selector(selector: &Selector) -> Result<(), String> {
    match selector {
        Selector::Filter(filter) => check_filter(filter),
        Selector::Name(_) | Selector::Wildcard | Selector::Index(_) | Selector::Slice(..) => Ok(()),
    }
}

fn check_filter(filter: &Filter) -> Result<(), String> {
    match filter {
        Filter::Or(filters) | Filter::And(filters) => filters.iter().try_for_each(check_filter),
        Filter::Atom(FilterAtom::Filter { expr, .. }) => check_filter(expr),
        Filter::Atom(FilterAtom::Test { expr, .. }) => check_condition(expr),
        Filter::Atom(FilterAtom::Comparison(comparison)) => {
            let (left, right) = comparison.vals();
            check_comparable(left)?;
            check_comparable(right)
        }
    }
}

fn check_condition(test: &Test) -> Result<(), String> {
    match test {
        Test::RelQuery(segments) => check(segments),
        Test::AbsQuery(query) => check(&query.segments),
        Test::Function(function) => {
            check_function(function)?;
            if is_logical(function) {
                return Ok(());
            }
            Err(format!(
                "the result of {}() is a value and must be compared",
                name(function)
            ))
        }
    }
}

fn check_comparable(comparable: &Comparable) -> Result<(), String> {
    match comparable {
        Comparable::Literal(literal) => check_literal(literal),
        Comparable::SingularQuery(_) => Ok(()),
        Comparable::Function(function) => check_value_function(function),
    }
}

fn check_literal(literal: &Literal) -> Result<(), String> {
    match literal {
        Literal::Float(number) if !number.is_finite() => Err("a number is out of range".to_owned()),
        _ => Ok(()),
    }
}

fn check_function(function: &TestFunction) -> Result<(), String> {
    match function {
        TestFunction::Length(argument) => check_value_argument(function, argument),
        TestFunction::Match(text, pattern) | TestFunction::Search(text, pattern) => {
            check_value_argument(function, text)?;
            check_value_argument(function, pattern)?;
            match pattern {
                FnArg::Literal(Literal::String(text)) => pattern::check(text)
                    .map_err(|why| format!("the pattern of {}() cannot be used: {why}", name(function))),
                _ => Ok(()),
            }
        }
        TestFunction::Count(argument) | TestFunction::Value(argument) => match argument {
            FnArg::Test(test) if !matches!(test.as_ref(), Test::Function(_)) => check_condition(test),
            _ => Err(format!("the argument of {}() must be a query", name(function))),
        },
        TestFunction::Custom(..) => Err(format!("the function {}() is not supported", name(function))),
    }
}

/// Checks a function whose result is used as a value.
fn check_value_function(function: &TestFunction) -> Result<(), String> {
    check_function(function)?;
    if is_logical(function) {
        return Err(format!(
            "the result of {}() is true or false and cannot be used as a value",
            name(function)
        ));
    }
    Ok(())
}

fn is_logical(function: &TestFunction) -> bool {
    matches!(function, TestFunction::Match(..) | TestFunction::Search(..))
}

fn check_value_argument(of: &TestFunction, argument: &FnArg) -> Result<(), String> {
    let refused = || {
        Err(format!(
            "the argument of {}() must be a literal, one value or a function",
            name(of)
        ))
    };
    match argument {
        FnArg::Literal(literal) => check_literal(literal),
        FnArg::Test(test) => match test.as_ref() {
            Test::RelQuery(segments) if is_singular(segments) => Ok(()),
            Test::AbsQuery(query) if is_singular(&query.segments) => Ok(()),
            Test::RelQuery(_) | Test::AbsQuery(_) => refused(),
            Test::Function(function) => check_value_function(function),
        },
        FnArg::Filter(_) => refused(),
    }
}

fn is_singular(segments: &[Segment]) -> bool {
    segments
        .iter()
        .all(|segment| matches!(segment, Segment::Selector(Selector::Name(_) | Selector::Index(_))))
}

fn name(function: &TestFunction) -> &str {
    match function {
        TestFunction::Custom(name, _) => name,
        TestFunction::Length(_) => "length",
        TestFunction::Value(_) => "value",
        TestFunction::Count(_) => "count",
        TestFunction::Search(..) => "search",
        TestFunction::Match(..) => "match",
    }
}
