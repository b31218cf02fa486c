//! The nodes of a status, which Argo compresses when the object would become too large (`workflow/packer`: gzip, then
//! base64).

use std::io::{Read, Write};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde_json::{Map, Value, json};

/// Bytes that compressed nodes may unpack to; Argo's own objects stay far below.
const LARGEST: u64 = 64 << 20;

/// The nodes of a status, whether or not they are compressed. `None` where they lie in a database or cannot be read.
pub fn unpack(status: &Value) -> Option<Map<String, Value>> {
    let text = |field: &str| {
        status
            .get(field)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    if text("offloadNodeStatusVersion").is_some() {
        return None;
    }
    let Some(packed) = text("compressedNodes") else {
        return Some(match status.get("nodes") {
            Some(Value::Object(nodes)) => nodes.clone(),
            _ => Map::new(),
        });
    };
    let bytes = STANDARD.decode(packed).ok()?;
    let mut json = Vec::new();
    GzDecoder::new(bytes.as_slice())
        .take(LARGEST)
        .read_to_end(&mut json)
        .ok()?;
    serde_json::from_slice(&json).ok()
}

/// Puts nodes into a status, compressed if they were so before.
pub(crate) fn pack(status: &mut Value, nodes: Map<String, Value>) {
    let Some(fields) = status.as_object_mut() else {
        return;
    };
    let was_packed = fields
        .get("compressedNodes")
        .and_then(Value::as_str)
        .is_some_and(|packed| !packed.is_empty());
    match was_packed.then(|| compress(&nodes)).flatten() {
        Some(packed) => fields.insert("compressedNodes".to_owned(), json!(packed)),
        None => fields.insert("nodes".to_owned(), Value::Object(nodes)),
    };
}

fn compress(nodes: &Map<String, Value>) -> Option<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(json!(nodes).to_string().as_bytes()).ok()?;
    Some(STANDARD.encode(encoder.finish().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{"a":{"phase":"Running"}}` as `gzip | base64` writes it.
    const PACKED: &str = "H4sIAAAAAAAAA6tWSlSyqlYqyEgsTlWyUgoqzcvLzEtXqq0FAAyCJxIZAAAA";

    #[test]
    fn compressed_nodes_are_read_and_written_compressed_again() {
        let mut status = json!({ "compressedNodes": PACKED });
        let mut nodes = unpack(&status).unwrap();
        assert_eq!(json!(nodes), json!({ "a": { "phase": "Running" } }));
        nodes["a"]["phase"] = json!("Succeeded");
        pack(&mut status, nodes.clone());
        assert_eq!(status.get("nodes"), None);
        assert_eq!(unpack(&status), Some(nodes));
    }

    #[test]
    fn nodes_in_a_database_cannot_be_read() {
        assert_eq!(unpack(&json!({ "offloadNodeStatusVersion": "fnv:1" })), None);
        assert_eq!(unpack(&json!({ "compressedNodes": "no base64" })), None);
    }
}
