//! What an evaluation failed with, as a sentence: short, and the same for the same input.
//!
//! The evaluator puts whole values into its errors, maps in an order that is never the same; here only plain values are told, and
//! of others their type.

use cel::{ExecutionError, Value as CelValue};

/// Characters of an error that are told.
const LONGEST: usize = 512;

/// Characters of a value in an error that are told.
const LONGEST_VALUE: usize = 64;

/// The sentence for an error.
pub(super) fn sentence(error: &ExecutionError) -> String {
    match error {
        ExecutionError::UnsupportedTargetType { target } => {
            format!("a value of type {} cannot be used here", target.type_of())
        }
        ExecutionError::NotSupportedAsMethod { method, target } => {
            format!("{method} is no method of type {}", target.type_of())
        }
        ExecutionError::UnsupportedKeyType(key) => format!("a value of type {} is no key", key.type_of()),
        ExecutionError::ValuesNotComparable(one, other) => {
            format!("{} cannot be compared to {}", shown(one), shown(other))
        }
        ExecutionError::UnsupportedBinaryOperator(operator, one, other) => {
            format!(
                "there is no {operator} of {} and {}",
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
        ExecutionError::DuplicateKey(key) => format!("key {} is there twice", shown(key)),
        other => shortened(&other.to_string(), LONGEST),
    }
}

/// The texts of parse errors, as much as is told.
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

fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{} …", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
