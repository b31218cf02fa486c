//! The functions of Go's `text/template` that are useful for a map of strings.

use std::cmp::Ordering;

use super::value::{Text, Value, Writer};
use super::{Budget, Outcome, escape, format};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Function {
    And,
    Call,
    Eq,
    Ge,
    Gt,
    Html,
    Index,
    Js,
    Le,
    Len,
    Lt,
    Ne,
    Not,
    Or,
    Print,
    Printf,
    Println,
    Slice,
    Urlquery,
}

impl Function {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "and" => Self::And,
            "call" => Self::Call,
            "eq" => Self::Eq,
            "ge" => Self::Ge,
            "gt" => Self::Gt,
            "html" => Self::Html,
            "index" => Self::Index,
            "js" => Self::Js,
            "le" => Self::Le,
            "len" => Self::Len,
            "lt" => Self::Lt,
            "ne" => Self::Ne,
            "not" => Self::Not,
            "or" => Self::Or,
            "print" => Self::Print,
            "printf" => Self::Printf,
            "println" => Self::Println,
            "slice" => Self::Slice,
            "urlquery" => Self::Urlquery,
            _ => return None,
        })
    }

    /// Rejects a number of arguments that the function does not accept.
    pub(super) fn check_count(self, given: usize) -> Outcome<()> {
        let (least, most) = match self {
            Self::And | Self::Call | Self::Index | Self::Or | Self::Printf => (1, usize::MAX),
            Self::Eq => (2, usize::MAX),
            Self::Ge | Self::Gt | Self::Le | Self::Lt | Self::Ne => (2, 2),
            Self::Len | Self::Not => (1, 1),
            Self::Html | Self::Js | Self::Print | Self::Println | Self::Urlquery => (0, usize::MAX),
            Self::Slice => (1, 3),
        };
        if (least..=most).contains(&given) {
            return Ok(());
        }
        let name = format!("{self:?}").to_lowercase();
        Err(match most {
            usize::MAX => format!("{name} needs at least {least} arguments, but has {given}"),
            _ if least == most => format!("{name} needs {least} arguments, but has {given}"),
            _ => format!("{name} needs {least} to {most} arguments, but has {given}"),
        })
    }

    /// Returns true if the function returns this value regardless of later arguments.
    pub(super) fn decided_by(self, value: &Value<'_>) -> bool {
        match self {
            Self::And => !value.is_true(),
            Self::Or => value.is_true(),
            _ => false,
        }
    }
}

/// Calls a function. The number of arguments is already checked.
pub(super) fn call<'a>(
    function: Function,
    arguments: &[Value<'a>],
    budget: &mut Budget,
) -> Outcome<Value<'a>> {
    let nothing = Value::Nothing;
    let first = arguments.first().unwrap_or(&nothing);
    let second = arguments.get(1).unwrap_or(&nothing);
    let rest = arguments.get(1..).unwrap_or_default();
    let truth = match function {
        Function::And | Function::Or => return Ok(arguments.last().unwrap_or(&nothing).clone()),
        Function::Not => !first.is_true(),
        Function::Eq => is_any(first, rest, budget)?,
        Function::Ne => !is_equal(first, second, budget)?,
        Function::Lt => compare(first, second, budget)?.is_lt(),
        Function::Le => compare(first, second, budget)?.is_le(),
        Function::Gt => compare(first, second, budget)?.is_gt(),
        Function::Ge => compare(first, second, budget)?.is_ge(),
        Function::Len => return length(first).map(Value::Int),
        Function::Index if *first == Value::Nothing => return Err("nil cannot be indexed".to_owned()),
        Function::Index => {
            return rest
                .iter()
                .try_fold(first.clone(), |value, key| index(&value, key));
        }
        Function::Slice => return slice(first, rest).map(Value::Text),
        Function::Call => return Err("call cannot be used, because no property is a function".to_owned()),
        text => return build(text, arguments, budget).map(|text| Value::Text(Text::made(&text))),
    };
    Ok(Value::Bool(truth))
}

fn build(function: Function, arguments: &[Value<'_>], budget: &mut Budget) -> Outcome<String> {
    if function == Function::Printf {
        return match arguments.split_first() {
            Some((Value::Text(format), rest)) => format::format(format, rest, budget),
            _ => Err("the first argument of printf must be a string, the format".to_owned()),
        };
    }
    let mut writer = Writer::new(budget);
    match function {
        Function::Print => print(arguments, "<nil>", &mut writer)?,
        Function::Println => {
            for (index, value) in arguments.iter().enumerate() {
                writer.write(if index > 0 { " " } else { "" })?;
                writer.write_value(value, "<nil>")?;
            }
            writer.write("\n")?;
        }
        _ => print(arguments, "<no value>", &mut writer)?,
    }
    let text = writer.finish();
    let escape = match function {
        Function::Html => escape::html,
        Function::Js => escape::js,
        Function::Urlquery => escape::url_query,
        _ => return Ok(text),
    };
    // Escaping grows a text at most sixfold, so it can be done before the budget is checked.
    let escaped = escape(&text);
    budget.spend(escaped.len())?;
    Ok(escaped)
}

/// Prints the values with a blank between two values that are not strings. In a template's output,
/// the word for a missing value counts as a string.
fn print(values: &[Value<'_>], nothing: &str, writer: &mut Writer<'_>) -> Outcome<()> {
    let is_text = |value: &Value<'_>| match value {
        Value::Text(_) => true,
        Value::Nothing => nothing == "<no value>",
        _ => false,
    };
    let mut after_text = true;
    for value in values {
        if !after_text && !is_text(value) {
            writer.write(" ")?;
        }
        writer.write_value(value, nothing)?;
        after_text = is_text(value);
    }
    Ok(())
}

fn is_any(value: &Value<'_>, others: &[Value<'_>], budget: &mut Budget) -> Outcome<bool> {
    for other in others {
        if is_equal(value, other, budget)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_equal(one: &Value<'_>, other: &Value<'_>, budget: &mut Budget) -> Outcome<bool> {
    match (one, other) {
        (Value::Nothing, other) | (other, Value::Nothing) => Ok(*other == Value::Nothing),
        (Value::Bool(one), Value::Bool(other)) => Ok(one == other),
        _ => compare(one, other, budget).map(Ordering::is_eq),
    }
}

fn compare(one: &Value<'_>, other: &Value<'_>, budget: &mut Budget) -> Outcome<Ordering> {
    let incomparable = || format!("{} cannot be compared with {}", one.kind(), other.kind());
    match (one, other) {
        (Value::Text(one), Value::Text(other)) => {
            budget.spend(one.len().min(other.len()))?;
            Ok((**one).cmp(&**other))
        }
        (Value::Float(one), Value::Float(other)) => one.partial_cmp(other).ok_or_else(incomparable),
        _ => {
            let integers = one.integer().zip(other.integer());
            integers
                .map(|(one, other)| one.cmp(&other))
                .ok_or_else(incomparable)
        }
    }
}

fn length(value: &Value<'_>) -> Outcome<i64> {
    let length = match value {
        Value::Text(text) => text.len(),
        Value::Map(map) => map.len(),
        other => return Err(format!("{} has no length", other.kind())),
    };
    i64::try_from(length).map_err(|error| error.to_string())
}

fn index<'a>(value: &Value<'a>, key: &Value<'_>) -> Outcome<Value<'a>> {
    match (value, key) {
        // As in Go, `index` is the way to read a property that may be missing.
        (Value::Map(map), Value::Text(key)) => {
            let text = map.get(&**key).map_or("", String::as_str);
            Ok(Value::Text(Text::Given(text)))
        }
        (Value::Text(text), key) => {
            let place = place(key, text.len())?;
            let byte = text.as_bytes().get(place).copied();
            byte.map(Value::Byte)
                .ok_or_else(|| format!("the string has no byte {place}"))
        }
        (value, key) => Err(format!("{} cannot be indexed with {}", value.kind(), key.kind())),
    }
}

fn slice<'a>(value: &Value<'a>, bounds: &[Value<'_>]) -> Outcome<Text<'a>> {
    let Value::Text(text) = value else {
        return Err(format!("{} cannot be sliced", value.kind()));
    };
    let start = bounds.first().map_or(Ok(0), |bound| place(bound, text.len()))?;
    let end = bounds
        .get(1)
        .map_or(Ok(text.len()), |bound| place(bound, text.len()))?;
    match text {
        Text::Given(text) => text.get(start..end).map(Text::Given),
        Text::Made(text) => text.get(start..end).map(Text::made),
    }
    // Go would keep a part of a character, but JSON cannot represent it.
    .ok_or_else(|| format!("the slice from {start} to {end} is reversed or splits a character"))
}

fn place(bound: &Value<'_>, length: usize) -> Outcome<usize> {
    let number = bound
        .integer()
        .ok_or_else(|| format!("{} cannot be an index of a string", bound.kind()))?;
    usize::try_from(number)
        .ok()
        .filter(|place| *place <= length)
        .ok_or_else(|| format!("the string has no byte {number}"))
}
