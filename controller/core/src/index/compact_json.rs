//! JSON that is stored but seldom read. It is stored as text, which takes a fifth of the memory of
//! a tree of values, and long text is compressed. The nodes of a status are similar, so they
//! compress to a quarter of the text. Text that is typical of Argo's objects precedes it for the
//! compression (a dictionary), because most statuses are short.

use lz4_flex::block::{compress_prepend_size_with_dict, decompress_size_prepended_with_dict};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::weight::weight;

/// A value, stored as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompactJson(Text);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Text {
    Plain(Box<str>),
    /// An LZ4 block with [`TYPICAL`] before it, preceded by the uncompressed length.
    Compressed(Box<[u8]>),
}

/// The length in bytes from which on a text is compressed. Compressing shorter texts saves little.
const LONG: usize = 192;

/// Text that a short status repeats only once. LZ4 refers to it as to an earlier part of the text, so
/// a status of ten nodes takes a third less, and one of a single node half. It is never stored or
/// sent, so it may change.
const TYPICAL: &[u8] = include_bytes!("compact_json/typical.json");

impl CompactJson {
    /// Packs `value`.
    pub(crate) fn new(value: &impl Serialize) -> Self {
        // A value that was read from JSON can always be serialized.
        let text = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
        Self::of_text(&text)
    }

    /// Packs a value that is already JSON text.
    pub(crate) fn of_text(text: &str) -> Self {
        Self(if text.len() < LONG {
            Text::Plain(text.into())
        } else {
            Text::Compressed(compress_prepend_size_with_dict(text.as_bytes(), TYPICAL).into())
        })
    }

    /// Memory use in bytes.
    pub(crate) fn size(&self) -> usize {
        match &self.0 {
            Text::Plain(text) => text.len(),
            Text::Compressed(block) => block.len(),
        }
    }

    /// Memory in bytes that the value takes as a tree.
    pub(crate) fn weight(&self) -> usize {
        self.with_text(weight).unwrap_or_default()
    }

    /// The value. `null` if it cannot be read.
    pub(crate) fn value(&self) -> Value {
        self.read().unwrap_or_default()
    }

    /// The value, deserialized as `T`.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        self.with_text(|text| serde_json::from_str(text).ok())?
    }

    fn with_text<T>(&self, see: impl FnOnce(&str) -> T) -> Option<T> {
        match &self.0 {
            Text::Plain(text) => Some(see(text)),
            Text::Compressed(block) => {
                let text = decompress_size_prepended_with_dict(block, TYPICAL).ok()?;
                Some(see(std::str::from_utf8(&text).ok()?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_packed_comes_out_as_it_was() {
        let value = json!({"nodes": {"a": {"phase": "Running", "n": [1, 2.5, null, true]}}, "text": "\u{1F6A2} \"x\""});
        assert_eq!(CompactJson::new(&value).value(), value);
    }

    #[test]
    fn a_long_text_is_compressed_and_comes_out_as_it_was() {
        let node = |n| json!({"id": format!("wf-{n}"), "type": "Pod", "phase": "Succeeded", "templateName": "step", "message": "\u{1F6A2}"});
        let nodes: serde_json::Map<_, _> = (0..100).map(|n| (format!("wf-{n}"), node(n))).collect();
        let value = json!({ "nodes": nodes });
        let packed = CompactJson::new(&value);
        let CompactJson(Text::Compressed(block)) = &packed else {
            panic!("{packed:?} is not compressed");
        };
        assert!(block.len() < value.to_string().len() / 4);
        assert_eq!(packed.value(), value);
    }

    #[test]
    fn a_short_status_is_compressed_too() {
        let node = json!({
            "id": "w-1", "name": "w", "displayName": "w", "type": "Pod", "templateName": "main",
            "templateScope": "local/w", "phase": "Succeeded", "progress": "1/1",
            "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:04Z",
            "resourcesDuration": { "cpu": 1, "memory": 14 }, "outputs": { "exitCode": "0" },
        });
        let value = json!({ "phase": "Succeeded", "nodes": { "w-1": node } });
        let packed = CompactJson::new(&value);
        assert!(
            packed.size() < value.to_string().len() / 2,
            "{} bytes",
            packed.size()
        );
        assert_eq!(packed.value(), value);
    }

    #[test]
    fn the_same_value_is_packed_the_same_way() {
        let value = json!({"text": "x".repeat(2 * LONG)});
        assert_eq!(CompactJson::new(&value), CompactJson::new(&value.clone()));
    }
}
