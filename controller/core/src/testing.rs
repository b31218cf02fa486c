//! Helpers for the table tests of all indexes.

pub(crate) mod drawn;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// An object from its JSON.
pub(crate) fn read<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

/// `base`, overwritten with the fields of `more`. Unlike in a merge patch, a null is kept.
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

thread_local! {
    static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts the comparison of a policy with a cluster or an object.
pub(crate) fn look() {
    LOOKS.set(LOOKS.get() + 1);
}

/// Returns the result of `doing`, and the number of comparisons of a policy with a cluster or an
/// object that it made.
pub(crate) fn looks<T>(doing: impl FnOnce() -> T) -> (T, usize) {
    let before = LOOKS.get();
    let result = doing();
    (result, LOOKS.get() - before)
}
