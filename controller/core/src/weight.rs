//! How much memory JSON takes as a tree of values, told from its text before anybody builds the tree.
//!
//! A list of zeros takes 16 times its text, a list of objects with one short field 90 times. So the length of a text that somebody
//! else chooses bounds nothing. Not here: how much each reader allows.

/// A text: its bytes in the tree, and once more while it is read.
const BYTE: usize = 2;

/// What an allocation of its own rounds a short text up to.
const TEXT: usize = 16;

/// A list, which grows by doubling, from four values of 32 bytes.
const LIST: usize = 128;

/// A map: one node of a B-tree for up to eleven fields.
const MAP: usize = 640;

/// One more field, at five fields to a node, which is also more than one more value of a list.
const NEXT: usize = 160;

/// Bytes of memory that the tree of a well-formed text takes at most.
pub fn weight(json: &str) -> usize {
    let bytes = json.as_bytes();
    let mut weight = bytes.len().saturating_mul(BYTE);
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        index += 1;
        let more = match byte {
            b'"' => {
                index = end_of_text(bytes, index);
                TEXT
            }
            b',' => NEXT,
            b'[' if bytes.get(index) != Some(&b']') => LIST,
            b'{' if bytes.get(index) != Some(&b'}') => MAP,
            _ => 0,
        };
        weight = weight.saturating_add(more);
    }
    weight
}

/// The index after the closing quote of a text that begins at `index`.
fn end_of_text(bytes: &[u8], mut index: usize) -> usize {
    while let Some(&byte) = bytes.get(index) {
        index += 1;
        match byte {
            b'"' => break,
            b'\\' => index += 1,
            _ => {}
        }
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_argo_writes_weighs_some_fifteen_times_its_text() {
        let node = r#"{"id":"w-1","name":"w.a","displayName":"a","type":"Pod","templateName":"step","templateScope":"local/w","phase":"Succeeded","boundaryID":"w","startedAt":"2026-01-01T00:00:00Z","finishedAt":"2026-01-01T00:00:10Z","progress":"1/1","resourcesDuration":{"cpu":0,"memory":4},"children":["w-2"],"hostNodeName":"node-1"}"#;
        assert!(weight(node) < 20 * node.len(), "{}", weight(node));
    }

    #[test]
    fn what_stands_in_a_text_weighs_what_a_text_weighs() {
        let text = format!(r#""{}""#, r#"[{,\""#.repeat(100));
        assert_eq!(weight(&text), BYTE * text.len() + TEXT);
    }
}
