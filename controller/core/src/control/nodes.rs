//! The nodes of a status, which Argo compresses when the object would become too large (`workflow/packer`: gzip, then
//! base64).
//!
//! Somebody else chooses what they unpack to, so they are bounded while they are unpacked, and kept as texts: a tree is built of one
//! node at a time.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    io::{Read, Write},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::{
    Deserializer as _,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::{
    Deserializer, Map, Value, json,
    value::{RawValue, to_raw_value},
};

use crate::weight::weight;

/// Bytes that compressed nodes may unpack to. Argo packs into 1 MiB at most, which is 786 KiB of gzip, and nodes pack to a
/// fourteenth to a twentieth.
const LONGEST: usize = 16 << 20;

/// The most that they may unpack to for each byte of gzip; zeros come to a thousand.
const RATIO: usize = 32;

/// Bytes that may be unpacked whatever the ratio.
const ALWAYS: usize = 64 << 10;

/// Packed nodes of one status; [`LONGEST`] has room for half of that as Argo writes them.
const MOST: usize = 100_000;

/// What one node may weigh: its tree is built.
const HEAVIEST: usize = 4 << 20;

/// The nodes of a status by their IDs, whether or not they are compressed there.
#[derive(Clone, Debug)]
pub struct Nodes<'a>(Source<'a>);

#[derive(Clone, Debug)]
enum Source<'a> {
    Plain(Cow<'a, Map<String, Value>>),
    Packed(BTreeMap<String, Box<RawValue>>),
}

/// No nodes.
impl Default for Nodes<'_> {
    fn default() -> Self {
        Self(Source::Plain(Cow::default()))
    }
}

impl<'a> Nodes<'a> {
    /// The nodes of `status`. `None` where they lie in a database, cannot be read, or are more than Argo writes.
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

    /// Their IDs, in order.
    pub fn ids(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match &self.0 {
            Source::Plain(nodes) => Box::new(nodes.keys().map(String::as_str)),
            Source::Packed(nodes) => Box::new(nodes.keys().map(String::as_str)),
        }
    }

    /// A node; one that nobody can read is none.
    pub fn get(&self, id: &str) -> Option<Cow<'_, Value>> {
        match &self.0 {
            Source::Plain(nodes) => nodes.get(id).map(Cow::Borrowed),
            Source::Packed(nodes) => serde_json::from_str(nodes.get(id)?.get()).ok().map(Cow::Owned),
        }
    }

    /// Whether a node is known to be the same in both, which costs nothing.
    pub(crate) fn is_as_in(&self, other: &Self, id: &str) -> bool {
        match (&self.0, &other.0) {
            (Source::Packed(nodes), Source::Packed(others)) => {
                nodes.get(id).map(|node| node.get()) == others.get(id).map(|node| node.get())
            }
            _ => false,
        }
    }

    /// Puts a node there.
    pub(crate) fn set(&mut self, id: &str, node: Value) {
        match &mut self.0 {
            Source::Plain(nodes) => {
                nodes.to_mut().insert(id.to_owned(), node);
            }
            Source::Packed(nodes) => {
                // Values always become JSON.
                if let Ok(node) = to_raw_value(&node) {
                    nodes.insert(id.to_owned(), node);
                }
            }
        }
    }

    /// Takes a node out.
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

    /// Puts them into a status, compressed if they were so where they come from.
    pub(crate) fn pack(self, status: &mut Value) {
        let Some(fields) = status.as_object_mut() else {
            return;
        };
        match self.0 {
            Source::Plain(nodes) => {
                fields.insert("nodes".to_owned(), Value::Object(nodes.into_owned()));
            }
            Source::Packed(nodes) => {
                // Nothing fails to be written to memory.
                if let Ok(packed) = compress(&nodes) {
                    fields.insert("compressedNodes".to_owned(), json!(packed));
                }
            }
        }
    }
}

fn text<'a>(status: &'a Value, field: &str) -> Option<&'a str> {
    let text = status.get(field).and_then(Value::as_str);
    text.filter(|text| !text.is_empty())
}

/// The compressed nodes of a status, as they stand there.
pub(crate) fn packed(status: &Value) -> Option<&str> {
    text(status, "compressedNodes")
}

/// Bytes of memory that reading packed nodes takes at most: they are unpacked into a text that grows by doubling, and then taken
/// apart.
pub fn unpacked_weight(packed: &str) -> usize {
    most(packed.len() / 4 * 3).saturating_mul(3)
}

/// Bytes that so much gzip may unpack to.
fn most(gzip: usize) -> usize {
    gzip.saturating_mul(RATIO).clamp(ALWAYS, LONGEST)
}

fn unpack(packed: &str) -> Option<BTreeMap<String, Box<RawValue>>> {
    let gzip = STANDARD.decode(packed).ok()?;
    let most = most(gzip.len());
    let mut json = String::new();
    // One more byte says that there is more.
    let mut unpacked = GzDecoder::new(gzip.as_slice()).take(u64::try_from(most).ok()?.saturating_add(1));
    unpacked.read_to_string(&mut json).ok()?;
    if json.len() > most {
        return None;
    }
    Deserializer::from_str(&json).deserialize_map(Bounded).ok()
}

/// Reads so many nodes of such a weight, each as text.
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
                return Err(A::Error::custom("these are no nodes that Argo writes"));
            }
            nodes.insert(id, node);
        }
        Ok(nodes)
    }
}

fn compress(nodes: &BTreeMap<String, Box<RawValue>>) -> std::io::Result<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    serde_json::to_writer(&mut encoder, nodes)?;
    encoder.flush()?;
    Ok(STANDARD.encode(encoder.finish()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{"a":{"phase":"Running"}}` as `gzip | base64` writes it.
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
