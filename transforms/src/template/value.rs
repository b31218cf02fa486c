//! The values of a template, and their formatting as in Go.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;

use super::{Budget, Outcome};

/// A value. The only map is that of the properties.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// `nil`, and results of operations on it.
    Nothing,
    Bool(bool),
    Int(i64),
    /// A byte of a text, as returned by `index`.
    Byte(u8),
    Float(f64),
    Text(Text<'a>),
    Map(&'a BTreeMap<String, String>),
}

/// A text of the template or the properties, or a computed text. Cloning it is cheap.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Text<'a> {
    Given(&'a str),
    Made(Rc<str>),
}

impl Text<'_> {
    pub(super) fn made(text: &str) -> Self {
        Self::Made(Rc::from(text))
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Given(text) => text,
            Self::Made(text) => text,
        }
    }
}

impl Value<'_> {
    /// Returns true if an `if` treats the value as true.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Bool(truth) => *truth,
            Self::Int(number) => *number != 0,
            Self::Byte(byte) => *byte != 0,
            Self::Float(number) => *number != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::Map(map) => !map.is_empty(),
        }
    }

    /// The number, if the value is an integer of any kind.
    pub(super) fn integer(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Byte(byte) => Some(i64::from(*byte)),
            _ => None,
        }
    }

    /// The name of its type in Go.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Nothing => "nil",
            Self::Bool(_) => "a bool",
            Self::Int(_) => "an int",
            Self::Byte(_) => "a byte",
            Self::Float(_) => "a float",
            Self::Text(_) => "a string",
            Self::Map(_) => "a map",
        }
    }
}

/// A text buffer that counts against the budget.
pub(super) struct Writer<'b> {
    text: String,
    budget: &'b mut Budget,
}

impl<'b> Writer<'b> {
    pub(super) fn new(budget: &'b mut Budget) -> Self {
        Self {
            text: String::new(),
            budget,
        }
    }

    pub(super) fn write(&mut self, text: &str) -> Outcome<()> {
        self.budget.spend(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    /// Writes the value as `%v` does; `nothing` is printed for a missing value.
    pub(super) fn write_value(&mut self, value: &Value<'_>, nothing: &str) -> Outcome<()> {
        match value {
            Value::Nothing => self.write(nothing),
            Value::Bool(truth) => self.write(&truth.to_string()),
            Value::Int(number) => self.write(&number.to_string()),
            Value::Byte(byte) => self.write(&byte.to_string()),
            Value::Float(number) => self.write(&float(*number)),
            Value::Text(text) => self.write(text),
            Value::Map(map) => {
                self.write("map[")?;
                for (index, (key, text)) in map.iter().enumerate() {
                    self.write(if index > 0 { " " } else { "" })?;
                    for part in [key, ":", text] {
                        self.write(part)?;
                    }
                }
                self.write("]")
            }
        }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// The shortest decimal digits that represent the number, with an exponent from a million up and
/// below a ten-thousandth.
pub(super) fn float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => number.to_string(),
    }
}
