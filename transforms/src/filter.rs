//! Evaluation of the condition of a filter selector for a value.
//!
//! Owned here: comparison and the functions `length`, `count`, `match`, `search` and `value`
//! (RFC 9535 §2.3.5 and §2.4). Not here: patterns (`pattern`) and type checks. The condition is
//! already well typed (`typing`), so impossible cases evaluate to nothing.

use std::borrow::Cow;
use std::cmp::Ordering;

use jsonpath_rust::parser::model::{
    Comparable, Comparison, Filter, FilterAtom, FnArg, Literal, SingularQuery, SingularQuerySegment, Test,
    TestFunction,
};
use serde_json::{Number, Value};

use crate::evaluate::{OutOfWork, Work, element, values};
use crate::pattern::{self, Part};

/// A value, or the special result Nothing of RFC 9535 §2.4.1.
type Operand<'a> = Option<Cow<'a, Value>>;

/// Returns true if `filter` holds for `current` in the document `root`.
pub(crate) fn holds(
    filter: &Filter,
    current: &Value,
    root: &Value,
    work: &mut Work,
) -> Result<bool, OutOfWork> {
    work.spend(1)?;
    match filter {
        Filter::Or(any) => {
            for filter in any {
                if holds(filter, current, root, work)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Filter::And(all) => {
            for filter in all {
                if !holds(filter, current, root, work)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Filter::Atom(FilterAtom::Filter { expr, not }) => Ok(holds(expr, current, root, work)? != *not),
        Filter::Atom(FilterAtom::Test { expr, not }) => {
            let holds = match expr.as_ref() {
                Test::Function(function) => logical(function, current, root, work)?,
                query => !nodes(query, current, root, work)?.is_empty(),
            };
            Ok(holds != *not)
        }
        Filter::Atom(FilterAtom::Comparison(comparison)) => compare(comparison, current, root, work),
    }
}

/// The result of `match` or `search`. It is false if an argument is no text.
fn logical(
    function: &TestFunction,
    current: &Value,
    root: &Value,
    work: &mut Work,
) -> Result<bool, OutOfWork> {
    let (text, pattern, part) = match function {
        TestFunction::Match(text, pattern) => (text, pattern, Part::Whole),
        TestFunction::Search(text, pattern) => (text, pattern, Part::Any),
        _ => return Ok(false),
    };
    let text = value_argument(text, current, root, work)?;
    let pattern = value_argument(pattern, current, root, work)?;
    match (text.as_deref(), pattern.as_deref()) {
        (Some(Value::String(text)), Some(Value::String(pattern))) => {
            pattern::matches(pattern, text, part, work)
        }
        _ => Ok(false),
    }
}

/// The nodes of a query. A function has none.
fn nodes<'a>(
    test: &Test,
    current: &'a Value,
    root: &'a Value,
    work: &mut Work,
) -> Result<Vec<&'a Value>, OutOfWork> {
    match test {
        Test::RelQuery(segments) => values(segments, current, root, work),
        Test::AbsQuery(query) => values(&query.segments, root, root, work),
        Test::Function(_) => Ok(Vec::new()),
    }
}

fn compare(
    comparison: &Comparison,
    current: &Value,
    root: &Value,
    work: &mut Work,
) -> Result<bool, OutOfWork> {
    let (left, right) = comparison.vals();
    let left = operand(left, current, root, work)?;
    let right = operand(right, current, root, work)?;
    let (left, right) = (left.as_deref(), right.as_deref());
    match comparison {
        Comparison::Eq(..) => equal_operands(left, right, work),
        Comparison::Ne(..) => Ok(!equal_operands(left, right, work)?),
        Comparison::Lt(..) => less(left, right, work),
        Comparison::Gt(..) => less(right, left, work),
        Comparison::Lte(..) => Ok(less(left, right, work)? || equal_operands(left, right, work)?),
        Comparison::Gte(..) => Ok(less(right, left, work)? || equal_operands(left, right, work)?),
    }
}

fn operand<'a>(
    comparable: &Comparable,
    current: &'a Value,
    root: &'a Value,
    work: &mut Work,
) -> Result<Operand<'a>, OutOfWork> {
    match comparable {
        Comparable::Literal(literal) => Ok(literal_value(literal).map(Cow::Owned)),
        Comparable::SingularQuery(query) => {
            let (segments, start) = match query {
                SingularQuery::Current(segments) => (segments, current),
                SingularQuery::Root(segments) => (segments, root),
            };
            work.spend(segments.len())?;
            Ok(singular(segments, start).map(Cow::Borrowed))
        }
        Comparable::Function(function) => call(function, current, root, work),
    }
}

fn singular<'a>(segments: &[SingularQuerySegment], start: &'a Value) -> Option<&'a Value> {
    segments.iter().try_fold(start, |value, segment| match segment {
        SingularQuerySegment::Name(name) => value.as_object()?.get(name),
        SingularQuerySegment::Index(index) => element(value, *index).map(|(_, element)| element),
    })
}

fn literal_value(literal: &Literal) -> Option<Value> {
    match literal {
        Literal::Int(number) => Some(Value::from(*number)),
        Literal::Float(number) => Number::from_f64(*number).map(Value::Number),
        Literal::String(text) => Some(Value::from(text.as_str())),
        Literal::Bool(flag) => Some(Value::from(*flag)),
        Literal::Null => Some(Value::Null),
    }
}

fn call<'a>(
    function: &TestFunction,
    current: &'a Value,
    root: &'a Value,
    work: &mut Work,
) -> Result<Operand<'a>, OutOfWork> {
    match function {
        TestFunction::Count(FnArg::Test(test)) => Ok(Some(Cow::Owned(Value::from(
            nodes(test, current, root, work)?.len(),
        )))),
        TestFunction::Value(FnArg::Test(test)) => Ok(only(&nodes(test, current, root, work)?)),
        TestFunction::Length(argument) => {
            let argument = value_argument(argument, current, root, work)?;
            spend_on_text(argument.as_deref(), work)?;
            Ok(argument
                .as_deref()
                .and_then(length)
                .map(|length| Cow::Owned(Value::from(length))))
        }
        _ => Ok(None),
    }
}

fn value_argument<'a>(
    argument: &FnArg,
    current: &'a Value,
    root: &'a Value,
    work: &mut Work,
) -> Result<Operand<'a>, OutOfWork> {
    match argument {
        FnArg::Literal(literal) => Ok(literal_value(literal).map(Cow::Owned)),
        FnArg::Test(test) => match test.as_ref() {
            Test::Function(function) => call(function, current, root, work),
            query => Ok(only(&nodes(query, current, root, work)?)),
        },
        FnArg::Filter(_) => Ok(None),
    }
}

fn only<'a>(nodes: &[&'a Value]) -> Operand<'a> {
    match nodes {
        [one] => Some(Cow::Borrowed(one)),
        _ => None,
    }
}

fn length(value: &Value) -> Option<usize> {
    match value {
        Value::String(text) => Some(text.chars().count()),
        Value::Array(elements) => Some(elements.len()),
        Value::Object(members) => Some(members.len()),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn less(left: Option<&Value>, right: Option<&Value>, work: &mut Work) -> Result<bool, OutOfWork> {
    spend_on_text(left, work)?;
    match (left, right) {
        (Some(Value::Number(left)), Some(Value::Number(right))) => {
            Ok(order(left, right) == Some(Ordering::Less))
        }
        (Some(Value::String(left)), Some(Value::String(right))) => Ok(left < right),
        _ => Ok(false),
    }
}

/// A long text is read completely, so it costs one step per 64 bytes.
fn spend_on_text(value: Option<&Value>, work: &mut Work) -> Result<(), OutOfWork> {
    work.spend(value.and_then(Value::as_str).map_or(0, |text| text.len() / 64))
}

fn equal_operands(left: Option<&Value>, right: Option<&Value>, work: &mut Work) -> Result<bool, OutOfWork> {
    match (left, right) {
        (Some(left), Some(right)) => equal(left, right, work),
        (None, None) => Ok(true),
        _ => Ok(false),
    }
}

/// Equality by value, where 1 and 1.0 are the same number. Each compared pair costs one step.
fn equal(left: &Value, right: &Value, work: &mut Work) -> Result<bool, OutOfWork> {
    work.spend(1)?;
    spend_on_text(Some(left), work)?;
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => Ok(order(left, right) == Some(Ordering::Equal)),
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (left, right) in left.iter().zip(right) {
                if !equal(left, right, work)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Object(left), Value::Object(right)) if left.len() == right.len() => {
            for (key, left) in left {
                match right.get(key) {
                    Some(right) if equal(left, right, work)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => Ok(false),
        (left, right) => Ok(left == right),
    }
}

/// Integers are compared exactly; if one number is not an integer, both are compared as
/// floating-point numbers.
fn order(left: &Number, right: &Number) -> Option<Ordering> {
    let integer = |number: &Number| {
        number
            .as_i64()
            .map(i128::from)
            .or_else(|| number.as_u64().map(i128::from))
    };
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

#[cfg(test)]
mod tests {
    use jsonpath_rust::parser::model::{Segment, Selector};
    use jsonpath_rust::parser::parse_json_path;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(condition: &str, expected: bool) {
        let root = json!({"obj": {"x": "y"}, "arr": [2, 3], "same": {"x": "y"}, "one": 1.0, "yes": true, "no": false});
        let query = parse_json_path(&format!("$[?{condition}]")).unwrap();
        let [Segment::Selector(Selector::Filter(filter))] = query.segments.as_slice() else {
            panic!("{condition} is one filter");
        };
        assert_eq!(
            holds(filter, &root, &root, &mut Work::new(1000)),
            Ok(expected),
            "{condition}"
        );
    }

    /// The examples of RFC 9535 §2.3.5.3, table 11.
    #[test]
    fn comparisons_are_those_of_the_standard() {
        for (condition, expected) in [
            ("$.absent1 == $.absent2", true),
            ("$.absent1 <= $.absent2", true),
            ("$.absent1 >= $.absent2", true),
            ("$.absent1 < $.absent2", false),
            ("$.absent == 'g'", false),
            ("$.absent1 != $.absent2", false),
            ("$.absent != 'g'", true),
            ("1 <= 2", true),
            ("1 > 2", false),
            ("13 == '13'", false),
            ("'a' <= 'b'", true),
            ("'a' > 'b'", false),
            ("$.obj == $.arr", false),
            ("$.obj != $.arr", true),
            ("$.obj == $.same", true),
            ("$.obj != $.same", false),
            ("$.arr == $.arr", true),
            ("$.obj == 17", false),
            ("$.obj <= $.arr", false),
            ("$.obj < $.same", false),
            ("$.obj <= $.same", true),
            ("1 <= $.arr", false),
            ("true <= true", true),
            ("true > true", false),
        ] {
            check(condition, expected);
        }
    }

    #[test]
    fn only_numbers_and_texts_have_an_order() {
        for condition in [
            "$.yes > $.no",
            "$.no < $.yes",
            "$.arr[1] < 'x'",
            "null < 1",
            "$.arr < $.arr",
        ] {
            check(condition, false);
        }
        check("$.one == 1 && $.one >= 1 && 0.5 < $.one", true);
    }
}
