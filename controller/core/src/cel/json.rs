//! Conversion of JSON to values of an expression. Conversion costs units of the purse (`meter`).
//! Not here: the variables of an expression.

use std::collections::HashMap;

use cel::common::{
    types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt},
    value::Val,
};
use serde_json::Value;

use super::meter;

/// Converts a value. If the purse is empty, the value becomes null, because the evaluation fails
/// anyway.
pub(crate) fn convert(value: &Value) -> Box<dyn Val + '_> {
    if !meter::charge(1) {
        return null();
    }
    match value {
        Value::Null => null(),
        Value::Bool(flag) => Box::new(CelBool::from(*flag)),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Box::new(CelInt::from(int)),
            (None, Some(uint)) => Box::new(CelUInt::from(uint)),
            (None, None) => Box::new(CelDouble::from(number.as_f64().unwrap_or_default())),
        },
        Value::String(string) => text(string),
        Value::Array(items) => Box::new(CelList::from(items.iter().map(convert).collect::<Vec<_>>())),
        Value::Object(fields) => map(fields.iter().map(|(key, value)| (key.as_str(), convert(value)))),
    }
}

/// A map.
pub(crate) fn map<'b>(entries: impl IntoIterator<Item = (&'b str, Box<dyn Val + 'b>)>) -> Box<dyn Val + 'b> {
    let entries = entries.into_iter();
    let entries: HashMap<CelMapKey<'b>, _> = entries.map(|(key, value)| (key.into(), value)).collect();
    Box::new(CelMap::from(entries))
}

/// A text.
pub(crate) fn text(text: &str) -> Box<dyn Val + '_> {
    Box::new(CelString::from(text))
}

/// A null.
pub(crate) fn null<'b>() -> Box<dyn Val + 'b> {
    Box::new(CelNull)
}

/// A boolean.
pub(crate) fn truth<'b>(flag: bool) -> Box<dyn Val + 'b> {
    Box::new(CelBool::from(flag))
}
