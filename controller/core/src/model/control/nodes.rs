//! The nodes of a status. Argo compresses them when the object would become too large
//! (`workflow/packer`: gzip, then base64).
//!
//! The unpacked content is untrusted, so its size is bounded while it is unpacked. Unpacked nodes
//! are kept as text, and only one node at a time is parsed into a tree.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    io::{Read, Write},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};
use serde::{
    Deserializer as _,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::{
    Deserializer, Map, Value, json,
    value::{RawValue, to_raw_value},
};

use crate::index::weight::weight;

/// Maximum size of unpacked nodes, in bytes. Argo packs into 1 MiB at most, which is 786 KiB of
/// gzip, and nodes compress to a fourteenth to a twentieth of their size.
const LONGEST: usize = 16 << 20;

/// Maximum number of packed nodes of one status. With nodes as Argo writes them, [`LONGEST`] has
/// room for half as many.
const MOST: usize = 100_000;

/// Maximum weight of one node in bytes, because it is parsed into a tree.
const HEAVIEST: usize = 4 << 20;

/// The nodes of a status by their IDs, compressed or not.
#[derive(Clone, Debug)]
pub struct Nodes<'a>(Source<'a>);

#[derive(Clone, Debug)]
enum Source<'a> {
    Plain(Cow<'a, Map<String, Value>>),
    Packed(BTreeMap<String, Box<RawValue>>),
}

/// Has no nodes.
impl Default for Nodes<'_> {
    fn default() -> Self {
        Self(Source::Plain(Cow::default()))
    }
}

impl<'a> Nodes<'a> {
    /// The nodes of `status`. `None` if they are offloaded to a database, cannot be read, or exceed
    /// the limits of Argo.
    pub fn of(status: &'a Value) -> Option<Self> {
        if text(status, "offloadNodeStatusVersion").is_some() {
            return None;
        }
        let source = match (packed(status), status.get("nodes")) {
            (Some(packed), _) => Source::Packed(unpack(packed)?),
            (None, Some(Value::Object(nodes))) => Source::Plain(Cow::Borrowed(nodes)),
            (None, _) => Source::Plain(Cow::default()),
        };
        Some(Self(source))
    }

    /// The nodes in the packed text of a status.
    pub(crate) fn unpacked(packed: &str) -> Option<Self> {
        Some(Self(Source::Packed(unpack(packed)?)))
    }

    /// The IDs of the nodes, in order.
    pub fn ids(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match &self.0 {
            Source::Plain(nodes) => Box::new(nodes.keys().map(String::as_str)),
            Source::Packed(nodes) => Box::new(nodes.keys().map(String::as_str)),
        }
    }

    /// Returns a node, or `None` if it does not exist or cannot be parsed.
    pub fn get(&self, id: &str) -> Option<Cow<'_, Value>> {
        match &self.0 {
            Source::Plain(nodes) => nodes.get(id).map(Cow::Borrowed),
            Source::Packed(nodes) => serde_json::from_str(nodes.get(id)?.get()).ok().map(Cow::Owned),
        }
    }

    /// The text of a node, if the nodes are packed.
    pub(crate) fn text(&self, id: &str) -> Option<&str> {
        match &self.0 {
            Source::Plain(_) => None,
            Source::Packed(nodes) => nodes.get(id).map(|node| node.get()),
        }
    }

    /// Returns true if a node is known to be the same in both. The comparison parses nothing.
    pub(crate) fn is_as_in(&self, other: &Self, id: &str) -> bool {
        match (&self.0, &other.0) {
            (Source::Packed(nodes), Source::Packed(others)) => {
                nodes.get(id).map(|node| node.get()) == others.get(id).map(|node| node.get())
            }
            _ => false,
        }
    }

    /// Inserts or replaces a node.
    pub(crate) fn set(&mut self, id: &str, node: Value) {
        match &mut self.0 {
            Source::Plain(nodes) => {
                nodes.to_mut().insert(id.to_owned(), node);
            }
            Source::Packed(_) => {
                // Serializing a `Value` to JSON never fails.
                if let Ok(node) = to_raw_value(&node) {
                    self.put(id, node);
                }
            }
        }
    }

    /// Inserts the text of a node, if the nodes are packed.
    pub(crate) fn put(&mut self, id: &str, node: Box<RawValue>) {
        if let Source::Packed(nodes) = &mut self.0 {
            nodes.insert(id.to_owned(), node);
        }
    }

    /// Removes a node.
    pub(crate) fn remove(&mut self, id: &str) {
        match &mut self.0 {
            Source::Plain(nodes) => {
                nodes.to_mut().remove(id);
            }
            Source::Packed(nodes) => {
                nodes.remove(id);
            }
        }
    }

    /// The packed text for a status, or `None` if the nodes were not packed.
    pub(crate) fn packed(&self) -> Option<String> {
        match &self.0 {
            Source::Plain(_) => None,
            // Writing to memory never fails.
            Source::Packed(nodes) => compress(nodes).ok(),
        }
    }

    /// Writes the nodes into a status, compressed if they were compressed in their source.
    pub(crate) fn pack(self, status: &mut Value) {
        let Some(fields) = status.as_object_mut() else {
            return;
        };
        if let Some(packed) = self.packed() {
            fields.insert(PACKED_NODES.to_owned(), json!(packed));
        } else if let Source::Plain(nodes) = self.0 {
            fields.insert("nodes".to_owned(), Value::Object(nodes.into_owned()));
        }
    }
}

/// The status field for compressed nodes.
pub(crate) const PACKED_NODES: &str = "compressedNodes";

fn text<'a>(status: &'a Value, field: &str) -> Option<&'a str> {
    let text = status.get(field).and_then(Value::as_str);
    text.filter(|text| !text.is_empty())
}

/// The compressed nodes of a status, still packed.
pub fn packed(status: &Value) -> Option<&str> {
    text(status, PACKED_NODES)
}

/// Maximum number of bytes of memory that reading packed nodes takes. They are unpacked into a text
/// that grows by doubling, and then split into nodes.
pub fn unpacked_weight(packed: &str) -> usize {
    length(packed).map_or(0, |length| length.saturating_mul(3))
}

/// The unpacked size in bytes that packed nodes declare (RFC 1952, `ISIZE`), if it does not exceed
/// [`LONGEST`]. The compression ratio is not checked: many nodes with equal inputs compress to a
/// three-hundredth.
fn length(packed: &str) -> Option<usize> {
    let end = packed.get(packed.len().checked_sub(8)?..)?;
    let end = STANDARD.decode(end).ok()?;
    let length = usize::try_from(u32::from_le_bytes(*end.last_chunk()?)).ok()?;
    (length <= LONGEST).then_some(length)
}

fn unpack(packed: &str) -> Option<BTreeMap<String, Box<RawValue>>> {
    let json = unpacked_text(packed, LONGEST)?;
    let mut reader = Deserializer::from_str(&json);
    let nodes = reader.deserialize_map(Bounded).ok()?;
    // Go rejects all nodes if anything follows them.
    reader.end().ok()?;
    Some(nodes)
}

/// The text of packed nodes, of at most `longest` bytes and at most [`LONGEST`].
pub(super) fn unpacked_text(packed: &str, longest: usize) -> Option<String> {
    let most = length(packed).filter(|most| *most <= longest)?;
    let gzip = STANDARD.decode(packed).ok()?;
    let mut json = String::new();
    // Reading one byte more detects content beyond the declared size.
    let mut unpacked = MultiGzDecoder::new(gzip.as_slice()).take(u64::try_from(most).ok()?.saturating_add(1));
    unpacked.read_to_string(&mut json).ok()?;
    (json.len() <= most).then_some(json)
}

/// Reads up to [`MOST`] nodes of up to [`HEAVIEST`] bytes each, as text.
struct Bounded;

impl<'de> Visitor<'de> for Bounded {
    type Value = BTreeMap<String, Box<RawValue>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("nodes by their IDs")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut nodes = BTreeMap::new();
        while let Some((id, node)) = map.next_entry::<String, Box<RawValue>>()? {
            if nodes.len() == MOST || weight(node.get()) > HEAVIEST {
                return Err(A::Error::custom("these are not nodes that Argo writes"));
            }
            nodes.insert(id, node);
        }
        Ok(nodes)
    }
}

fn compress(nodes: &BTreeMap<String, Box<RawValue>>) -> std::io::Result<String> {
    packed_text(&serde_json::to_vec(nodes)?, Compression::default())
}

/// Packs the text of nodes.
pub(super) fn packed_text(nodes: &[u8], level: Compression) -> std::io::Result<String> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    encoder.write_all(nodes)?;
    Ok(STANDARD.encode(encoder.finish()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of `gzip | base64` for `{"a":{"phase":"Running"}}`.
    const PACKED: &str = "H4sIAAAAAAAAA6tWSlSyqlYqyEgsTlWyUgoqzcvLzEtXqq0FAAyCJxIZAAAA";

    fn packed(json: &str) -> Value {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(json.as_bytes()).unwrap();
        json!({ "compressedNodes": STANDARD.encode(encoder.finish().unwrap()) })
    }

    #[test]
    fn compressed_nodes_are_read_and_written_compressed_again() {
        let before = json!({ "compressedNodes": PACKED });
        let mut nodes = Nodes::of(&before).unwrap();
        assert_eq!(
            nodes.get("a").map(Cow::into_owned),
            Some(json!({ "phase": "Running" }))
        );
        nodes.set("a", json!({ "phase": "Succeeded" }));
        nodes.set("b", json!({}));
        let mut status = before.clone();
        nodes.pack(&mut status);
        assert_eq!(status.get("nodes"), None);
        let nodes = Nodes::of(&status).unwrap();
        assert_eq!(nodes.ids().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(nodes.get("a").unwrap()["phase"], "Succeeded");
    }

    #[test]
    fn nodes_in_a_database_cannot_be_read() {
        assert!(Nodes::of(&json!({ "offloadNodeStatusVersion": "fnv:1" })).is_none());
        assert!(Nodes::of(&json!({ "compressedNodes": "no base64" })).is_none());
    }

    #[test]
    fn as_many_nodes_as_argo_packs_into_its_limit_are_read() {
        let node = |number: u32| {
            let hash = number.wrapping_mul(2_654_435_761);
            json!({
                "id": format!("my-workflow-{hash}"), "name": format!("my-workflow[0].process({number}:item-{number})"),
                "displayName": format!("process({number}:item-{number})"), "type": "Pod", "templateName": "process",
                "templateScope": "local/my-workflow", "phase": "Succeeded", "boundaryID": "my-workflow",
                "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:10Z", "progress": "1/1",
                "resourcesDuration": { "cpu": 0, "memory": 4 }, "hostNodeName": format!("node-{}", number % 20),
            })
        };
        let nodes: Map<String, Value> = (0..25_000)
            .map(|number| (number.to_string(), node(number)))
            .collect();
        let text = json!(nodes).to_string();
        let status = packed(&text);
        let length = status["compressedNodes"].as_str().unwrap().len();
        assert!(
            text.len() > 8 << 20 && length < 1 << 20,
            "{} in {length}",
            text.len()
        );
        assert_eq!(Nodes::of(&status).map(|nodes| nodes.ids().count()), Some(25_000));
    }

    #[test]
    fn nodes_with_equal_long_inputs_are_read() {
        let node =
            json!({ "inputs": { "parameters": [{ "name": "long", "value": "long ".repeat(2_000) }] } });
        let nodes: Map<String, Value> = (0..120)
            .map(|number| (number.to_string(), node.clone()))
            .collect();
        let status = packed(&json!(nodes).to_string());
        let text = status["compressedNodes"].as_str().unwrap();
        assert!(text.len() < 16 << 10, "{} bytes", text.len());
        assert_eq!(Nodes::of(&status).map(|nodes| nodes.ids().count()), Some(120));
        assert!(unpacked_weight(text) > 3 * 1_200_000);
    }

    #[test]
    fn what_unpacks_to_more_than_it_says_is_not_read() {
        let honest = STANDARD.decode(PACKED).unwrap();
        for length in [0, 1, 24, 26, 1 << 20, u32::MAX] {
            let mut lying = honest.clone();
            let at = lying.len() - 4;
            lying[at..].copy_from_slice(&u32::to_le_bytes(length));
            let lying = STANDARD.encode(lying);
            assert!(Nodes::unpacked(&lying).is_none(), "{length}");
            assert!(unpacked_weight(&lying) <= 3 * LONGEST);
        }
        assert_eq!(unpacked_weight(PACKED), 3 * 25);
        assert_eq!(unpacked_weight(""), 0);
    }

    #[test]
    fn what_unpacks_to_more_than_argo_packs_is_not_read() {
        let zeros = "0,".repeat(1 << 20);
        let empty: Vec<String> = (0..400_000)
            .map(|number| format!(r#""{number}":{{"a":0}}"#))
            .collect();
        for (what, json) in [
            ("a list of zeros", format!(r#"{{"a":[{zeros}0]}}"#)),
            ("spaces", format!("{{{}}}", " ".repeat(LONGEST))),
            ("too many nodes", format!("{{{}}}", empty.join(","))),
        ] {
            assert!(Nodes::of(&packed(&json)).is_none(), "{what}");
        }
        let heavy = format!(
            r#"{{"a":[{}0]}}"#,
            (0..60_000)
                .map(|number| number.to_string())
                .collect::<Vec<_>>()
                .join(",")
                + ","
        );
        assert!(Nodes::of(&packed(&heavy)).is_none(), "one heavy node");
    }
}
