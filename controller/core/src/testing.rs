//! What the tables of all indexes are written with.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// An object from its JSON.
pub(crate) fn read<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

/// `base` with the fields of `more` put over it; other than in a merge patch, a null stays.
pub(crate) fn with(mut base: Value, more: Value) -> Value {
    match (&mut base, more) {
        (Value::Object(fields), Value::Object(more)) => {
            for (key, value) in more {
                let merged = with(fields.remove(&key).unwrap_or_default(), value);
                fields.insert(key, merged);
            }
            base
        }
        (_, more) => more,
    }
}
