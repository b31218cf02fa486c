//! JSON that is kept and seldom read: as text, which takes a fifth of what the tree of values takes.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// A value as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packed(Box<str>);

impl Packed {
    /// The text of `value`.
    pub(crate) fn new(value: &impl Serialize) -> Self {
        // Nothing that came as JSON fails to become JSON.
        Self(
            serde_json::to_string(value)
                .unwrap_or_else(|_| "null".to_owned())
                .into(),
        )
    }

    /// The value.
    pub(crate) fn value(&self) -> Value {
        self.read().unwrap_or_default()
    }

    /// The value as what was packed.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(&self.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_packed_comes_out_as_it_was() {
        let value = json!({"nodes": {"a": {"phase": "Running", "n": [1, 2.5, null, true]}}, "text": "\u{1F6A2} \"x\""});
        assert_eq!(Packed::new(&value).value(), value);
    }
}
