//! Errors of an evaluation as sentences: short, and identical for identical input.
//!
//! The evaluator includes whole values in its errors, and maps in random order. Here, only scalar
//! values are included; other values are replaced by their type.

use cel::{ExecutionError, Value as CelValue};

use crate::index::text::shortened;

/// Maximum length of an error in characters.
const LONGEST: usize = 512;

/// Maximum length of a value in an error, in characters.
const LONGEST_VALUE: usize = 64;

/// The sentence for an error.
pub(super) fn sentence(error: &ExecutionError) -> String {
    match error {
        ExecutionError::UnsupportedTargetType { target } => {
            format!("a value of type {} cannot be used here", target.type_of())
        }
        ExecutionError::NotSupportedAsMethod { method, target } => {
            format!("{method} is not a method of type {}", target.type_of())
        }
        ExecutionError::UnsupportedKeyType(key) => {
            format!("a value of type {} cannot be a key", key.type_of())
        }
        ExecutionError::ValuesNotComparable(one, other) => {
            format!("{} cannot be compared to {}", shown(one), shown(other))
        }
        ExecutionError::UnsupportedBinaryOperator(operator, one, other) => {
            format!(
                "{operator} is not defined for {} and {}",
                one.type_of(),
                other.type_of()
            )
        }
        ExecutionError::UnsupportedIndex(index, of) => {
            format!("a value of type {} has no index {}", of.type_of(), shown(index))
        }
        ExecutionError::DivisionByZero(of) => format!("division of {} by zero", shown(of)),
        ExecutionError::RemainderByZero(of) => format!("remainder of {} by zero", shown(of)),
        ExecutionError::Overflow(operator, one, other) => {
            format!("overflow of {operator} of {} and {}", shown(one), shown(other))
        }
        ExecutionError::IndexOutOfBounds(index) => format!("index {} is out of bounds", shown(index)),
        ExecutionError::DuplicateKey(key) => format!("duplicate key {}", shown(key)),
        other => shortened(&other.to_string(), LONGEST),
    }
}

/// The messages of parse errors, shortened.
pub(super) fn parse(errors: &cel::ParseErrors) -> String {
    shortened(&errors.to_string(), LONGEST)
}

fn shown(value: &CelValue) -> String {
    let text = match value {
        CelValue::Null => "null".to_owned(),
        CelValue::Bool(flag) => flag.to_string(),
        CelValue::Int(number) => number.to_string(),
        CelValue::UInt(number) => number.to_string(),
        CelValue::Float(number) => number.to_string(),
        CelValue::String(text) => format!("{text:?}"),
        other => format!("a value of type {}", other.type_of()),
    };
    shortened(&text, LONGEST_VALUE)
}
