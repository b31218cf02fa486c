//! JSON that is kept and seldom read: as text, which takes a fifth of what the tree of values takes, and compressed where it is
//! long. Nodes of a status are much alike, so that a quarter of the text is left.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// A value as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packed(Text);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Text {
    Plain(Box<str>),
    /// An LZ4 block after the length of what is in it.
    Compressed(Box<[u8]>),
}

/// Bytes from which on a text is compressed. Below, little would be won.
const LONG: usize = 512;

impl Packed {
    /// The text of `value`.
    pub(crate) fn new(value: &impl Serialize) -> Self {
        // Nothing that came as JSON fails to become JSON.
        let text = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
        Self::of_text(&text)
    }

    /// The same of a value that is JSON already.
    pub(crate) fn of_text(text: &str) -> Self {
        Self(if text.len() < LONG {
            Text::Plain(text.into())
        } else {
            Text::Compressed(lz4_flex::compress_prepend_size(text.as_bytes()).into())
        })
    }

    /// The value.
    pub(crate) fn value(&self) -> Value {
        self.read().unwrap_or_default()
    }

    /// The value as what was packed.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        match &self.0 {
            Text::Plain(text) => serde_json::from_str(text).ok(),
            Text::Compressed(block) => {
                let text = lz4_flex::decompress_size_prepended(block).ok()?;
                serde_json::from_slice(&text).ok()
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
        assert_eq!(Packed::new(&value).value(), value);
    }

    #[test]
    fn a_long_text_is_compressed_and_comes_out_as_it_was() {
        let node = |n| json!({"id": format!("wf-{n}"), "type": "Pod", "phase": "Succeeded", "templateName": "step", "message": "\u{1F6A2}"});
        let nodes: serde_json::Map<_, _> = (0..100).map(|n| (format!("wf-{n}"), node(n))).collect();
        let value = json!({ "nodes": nodes });
        let packed = Packed::new(&value);
        let Packed(Text::Compressed(block)) = &packed else {
            panic!("{packed:?} is not compressed");
        };
        assert!(block.len() < value.to_string().len() / 4);
        assert_eq!(packed.value(), value);
    }

    #[test]
    fn the_same_value_is_packed_the_same_way() {
        let value = json!({"text": "x".repeat(2 * LONG)});
        assert_eq!(Packed::new(&value), Packed::new(&value.clone()));
    }
}
