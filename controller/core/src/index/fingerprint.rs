//! A short digest of a JSON value, for comparing two states without storing both.
//!
//! FNV-1a, 64 bits, over the value with sorted object keys. It is stable across processes and
//! versions, because an agent stores it on the hub and compares it after a restart. Not suitable
//! where an adversary could benefit from collisions.

use std::fmt;

use serde_json::Value;

/// Digest of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64);

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

impl Fingerprint {
    /// The digest of `value`.
    pub fn of(value: &Value) -> Self {
        let mut digest = Self(OFFSET);
        digest.add(value);
        digest
    }

    /// The digest of the list of these values.
    pub fn of_list(values: &[&Value]) -> Self {
        let mut digest = Self(OFFSET);
        digest.list(values.iter().copied());
        digest
    }

    /// Parses a digest that was formatted with `Display`.
    pub fn parse(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().map(Self)
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Null => self.bytes(b"n"),
            Value::Bool(flag) => self.bytes(if *flag { b"t" } else { b"f" }),
            Value::Number(number) => self.text(b"#", &number.to_string()),
            Value::String(text) => self.text(b"\"", text),
            Value::Array(items) => self.list(items.iter()),
            Value::Object(map) => {
                self.bytes(b"{");
                // As a rule they are, and then nothing is allocated.
                if map.keys().is_sorted() {
                    self.fields(map.iter());
                } else {
                    let mut entries: Vec<_> = map.iter().collect();
                    entries.sort_unstable_by_key(|(key, _)| *key);
                    self.fields(entries.into_iter());
                }
                self.bytes(b"}");
            }
        }
    }

    fn list<'a>(&mut self, items: impl Iterator<Item = &'a Value>) {
        self.bytes(b"[");
        for item in items {
            self.add(item);
        }
        self.bytes(b"]");
    }

    fn fields<'a>(&mut self, fields: impl Iterator<Item = (&'a String, &'a Value)>) {
        for (key, item) in fields {
            self.text(b":", key);
            self.add(item);
        }
    }

    /// The length distinguishes `["ab"]` from `["a", "b"]`.
    fn text(&mut self, tag: &[u8], text: &str) {
        self.bytes(tag);
        self.bytes(&(text.len() as u64).to_le_bytes());
        self.bytes(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_keys_does_not_matter_and_everything_else_does() {
        let one: Value = serde_json::from_str(r#"{"a":1,"b":[true,null,"x"]}"#).unwrap();
        let two: Value = serde_json::from_str(r#"{"b":[true,null,"x"],"a":1}"#).unwrap();
        assert_eq!(Fingerprint::of(&one), Fingerprint::of(&two));
        for other in [
            json!({"a": 1, "b": [true, null, "y"]}),
            json!({"a": 1}),
            json!(["ab"]),
            json!(["a", "b"]),
        ] {
            assert_ne!(Fingerprint::of(&one), Fingerprint::of(&other));
        }
        assert_ne!(
            Fingerprint::of(&json!(["ab"])),
            Fingerprint::of(&json!(["a", "b"]))
        );
        assert_eq!(
            Fingerprint::of_list(&[&json!("a"), &json!(7)]),
            Fingerprint::of(&json!(["a", 7]))
        );
    }

    #[test]
    fn a_digest_survives_being_printed_and_is_the_same_in_every_version() {
        let digest = Fingerprint::of(&json!({"phase": "Running"}));
        assert_eq!(Fingerprint::parse(&digest.to_string()), Some(digest));
        assert_eq!(digest.to_string(), "d14a58546d49dd07");
    }
}
