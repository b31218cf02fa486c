//! The memory that JSON takes as a tree of values, estimated from its text before the tree is
//! built.
//!
//! A list of zeros takes 16 times the length of its text, a list of objects with one short field 90
//! times. The length of an untrusted text is therefore no bound.
//!
//! `serde_json` with the feature `raw_value` replaces a map whose first field is [`RESERVED`] by the
//! JSON in the text of that field. A writer could thereby pass every measure of a text, and every
//! policy of an API server. So a text with a field of that name has no weight that fits anywhere. Not
//! here: the limit of each reader.

use argosy_api::ManifestWork;
use serde_json::Value;

/// Per byte of text: once in the tree, and once more while it is read.
const BYTE: usize = 2;

/// Size of the allocation for a short text.
const TEXT: usize = 16;

/// A list, which grows by doubling, starting with four values of 32 bytes.
const LIST: usize = 128;

/// A map: one B-tree node for up to eleven fields.
const MAP: usize = 640;

/// Per further field, at five fields per node. This also covers a further value of a list.
const NEXT: usize = 160;

/// Per value of a list that has doubled.
const ITEM: usize = 64;

/// The assumed size of an object that is being read, before its size is known.
pub(crate) const READ: usize = 1 << 20;

/// The name of a field that no text may contain.
pub const RESERVED: &str = "$serde_json::private::RawValue";

/// True if a field in a JSON text has the name [`RESERVED`], as it is or with escaped characters.
pub fn has_reserved_name(json: &str) -> bool {
    // Most texts have neither, and an escape of an ASCII character begins like this.
    if !json.contains("serde_json::private") && !json.contains("\\u00") {
        return false;
    }
    let bytes = json.as_bytes();
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        let begin = index;
        index += 1;
        if byte == b'"' {
            index = end_of_text(bytes, index);
            if is_reserved(json, begin, index) {
                return true;
            }
        }
    }
    false
}

/// True if the text from `begin` to `end`, with its quotes, is the name of a field, and says [`RESERVED`].
/// An escape takes six bytes.
fn is_reserved(json: &str, begin: usize, end: usize) -> bool {
    let (length, plain) = (end - begin, RESERVED.len() + 2);
    if length < plain || length > 6 * plain {
        return false;
    }
    let Some((quoted, rest)) = json.get(begin..).and_then(|rest| rest.split_at_checked(length)) else {
        return false;
    };
    (length == plain || quoted.contains("\\u00"))
        && serde_json::from_str::<String>(quoted).is_ok_and(|text| text == RESERVED)
        && rest.trim_ascii_start().starts_with(':')
}

/// Maximum number of bytes of memory that the tree of a well-formed text takes. [`usize::MAX`] if one of
/// its fields has the name [`RESERVED`].
pub fn weight(json: &str) -> usize {
    let bytes = json.as_bytes();
    let mut weight = bytes.len().saturating_mul(BYTE);
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        index += 1;
        let more = match byte {
            b'"' => {
                let begin = index - 1;
                index = end_of_text(bytes, index);
                if is_reserved(json, begin, index) {
                    return usize::MAX;
                }
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

/// Maximum number of bytes of memory that a tree takes.
pub(crate) fn of_tree(value: &Value) -> usize {
    match value {
        Value::String(text) => TEXT + text.len(),
        Value::Array(items) => LIST + items.iter().map(|item| ITEM + of_tree(item)).sum::<usize>(),
        Value::Object(fields) => {
            let fields = fields.iter();
            MAP + fields
                .map(|(name, field)| NEXT + TEXT + name.len() + of_tree(field))
                .sum::<usize>()
        }
        _ => 0,
    }
}

/// Maximum number of bytes of memory that the manifests of a ManifestWork take.
pub(crate) fn of_manifests(work: &ManifestWork) -> usize {
    work.spec.workload.manifests.iter().map(of_tree).sum()
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
    fn a_tree_weighs_about_what_its_text_has_said() {
        for text in [
            r#"{"a":[{"b":"c"},{"d":1.5},[],{}],"e":"f"}"#.to_owned(),
            format!("[{}0]", "0,".repeat(1000)),
            format!("[{}0]", r#"{"":0},"#.repeat(1000)),
        ] {
            let (told, there) = (weight(&text), of_tree(&serde_json::from_str(&text).unwrap()));
            assert!(
                there <= told * 2 && told <= there * 3,
                "{text:.20}: {told}, {there}"
            );
        }
    }

    #[test]
    fn a_text_that_hides_json_has_no_bound() {
        let hidden: Value = serde_json::from_str(&format!(r#"{{"{RESERVED}":"[1]"}}"#)).unwrap();
        assert_eq!(hidden, serde_json::json!([1]), "serde_json has changed");
        for text in [
            format!(r#"{{"{RESERVED}":"[1]"}}"#),
            format!(r#"{{"a":[{{"b":1,"{RESERVED}":"[1]"}}]}}"#),
            format!(r#"{{"\u0024{}":"[1]"}}"#, RESERVED.trim_start_matches('$')),
            format!(r#"{{"{}":"[1]"}}"#, RESERVED.replace('R', r"\u0052")),
            format!("{{\"{RESERVED}\"\r\n\t :\"[1]\"}}"),
        ] {
            assert!(has_reserved_name(&text), "{text}");
            assert_eq!(weight(&text), usize::MAX, "{text}");
        }
        for text in [
            format!(r#"{{"a":"about {RESERVED}"}}"#),
            format!(r#"{{"a":"{RESERVED}","b":["{RESERVED}" ]}}"#),
            format!(r#"["{RESERVED}","#),
            format!(r#"{{"a":"{{\"{RESERVED}\":1}}"}}"#),
            r#"{"a":"\u003c\u0024","b":"\\u0024serde_json::private::RawValue"}"#.to_owned(),
        ] {
            assert!(!has_reserved_name(&text), "{text}");
        }
    }

    #[test]
    fn what_stands_in_a_text_weighs_what_a_text_weighs() {
        let text = format!(r#""{}""#, r#"[{,\""#.repeat(100));
        assert_eq!(weight(&text), BYTE * text.len() + TEXT);
    }
}
