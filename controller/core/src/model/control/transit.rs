//! Packs the nodes of a status for the way from an agent to the hub, and unpacks them there. An API
//! server spends about 0.2 ms on each KiB of an object that is written, and nodes compress to a
//! fifteenth.
//!
//! Not here: nodes that Argo itself has packed. They stay packed, because the object would be too
//! large otherwise.

use std::io::{self, Write};

use flate2::Compression;
use serde_json::{Map, Value, json};

use super::nodes::{PACKED_NODES, packed, packed_text, unpacked_text};
use crate::index::{decode_error::too_deep, weight::weight};

/// The length in bytes from which on nodes are packed, about 28 nodes. The hub unpacks them with
/// one more read, which costs as much as writing 5 KiB.
const LONG: usize = 16 << 10;

/// Maximum length in bytes of nodes that were packed for the way: no plain status is longer.
const LONGEST: usize = 1 << 20;

/// Maximum weight in bytes of unpacked nodes, because they are parsed into a tree. Nodes as Argo
/// writes them weigh ten to twenty times their length.
const HEAVIEST: usize = 32 << 20;

/// Packs the nodes of a status if they are long. Returns true if it has packed them.
pub(crate) fn pack(status: &mut Value) -> bool {
    let Some(fields) = status.as_object_mut() else {
        return false;
    };
    // The nodes that Argo reads are the packed ones, if there are any.
    if fields.contains_key(PACKED_NODES) {
        return false;
    }
    let Some(nodes) = fields.get("nodes").filter(|nodes| nodes.is_object()) else {
        return false;
    };
    // Most statuses are short, and are not copied to find that out.
    if !(LONG..=LONGEST).contains(&length(nodes)) {
        return false;
    }
    let text = nodes.to_string();
    // The hub would not unpack them.
    if weight(&text) > HEAVIEST || too_deep("status.nodes", nodes, 2).is_some() {
        return false;
    }
    // Writing to memory never fails.
    let Ok(packed) = packed_text(text.as_bytes(), Compression::fast()) else {
        return false;
    };
    fields.remove("nodes");
    fields.insert(PACKED_NODES.to_owned(), json!(packed));
    true
}

/// The length in bytes of a value as JSON.
fn length(value: &Value) -> usize {
    struct Length(usize);

    impl Write for Length {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut length = Length(0);
    // Counting never fails.
    let _ = serde_json::to_writer(&mut length, value);
    length.0
}

/// Unpacks the nodes of a status that [`pack`] has packed.
///
/// # Errors
///
/// The status has no packed nodes, or none that can be unpacked within the limits.
pub(crate) fn unpack(status: &mut Value) -> Result<(), String> {
    let text = packed(status)
        .and_then(|packed| unpacked_text(packed, LONGEST))
        .filter(|text| weight(text) <= HEAVIEST);
    let nodes: Option<Map<String, Value>> = text.and_then(|text| serde_json::from_str(&text).ok());
    let (Some(nodes), Some(fields)) = (nodes, status.as_object_mut()) else {
        return Err("its packed nodes cannot be unpacked".to_owned());
    };
    let nodes = Value::Object(nodes);
    if let Some(decode_error) = too_deep("status.nodes", &nodes, 2) {
        return Err(decode_error);
    }
    fields.remove(PACKED_NODES);
    fields.insert("nodes".to_owned(), nodes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use proptest::{collection::vec, option, prelude::*, sample::Index};

    use super::*;

    fn with_nodes(count: usize) -> Value {
        let node = |number| json!({ "id": number, "type": "Pod", "phase": "Succeeded", "displayName": "x".repeat(100) });
        let nodes: Map<String, Value> = (0..count)
            .map(|number| (number.to_string(), node(number)))
            .collect();
        json!({ "phase": "Running", "nodes": nodes })
    }

    fn of_text(nodes: &str) -> Value {
        json!({ "compressedNodes": packed_text(nodes.as_bytes(), Compression::fast()).unwrap() })
    }

    #[test]
    fn long_nodes_travel_packed_and_arrive_as_they_were() {
        let status = with_nodes(200);
        let mut sent = status.clone();
        assert!(pack(&mut sent));
        assert_eq!(sent.get("nodes"), None);
        assert!(sent.to_string().len() * 5 < status.to_string().len());
        assert_eq!(
            super::super::Nodes::of(&sent).map(|nodes| nodes.ids().count()),
            Some(200)
        );
        unpack(&mut sent).unwrap();
        assert_eq!(sent, status);
    }

    #[test]
    fn the_same_nodes_are_always_packed_the_same_way() {
        let (mut one, mut other) = (with_nodes(200), with_nodes(200));
        assert!(pack(&mut one) && pack(&mut other));
        assert_eq!(one, other);
    }

    #[test]
    fn short_nodes_and_those_that_argo_has_packed_travel_as_they_are() {
        for status in [
            with_nodes(10),
            json!({ "nodes": null }),
            json!({ "nodes": [] }),
            json!({}),
            json!(7),
            of_text("{}"),
            // The hub reads these plain, and would not unpack them.
            json!({ "nodes": { "a": vec![json!([0]); 200_000] } }),
            json!({ "nodes": { "a": (0..100).fold(json!("x".repeat(LONG)), |inner, _| json!([inner])) } }),
        ] {
            let mut sent = status.clone();
            assert!(!pack(&mut sent), "{status}");
            assert_eq!(sent, status);
        }
        let mut both = with_nodes(200);
        both["compressedNodes"] = json!("H4sI");
        assert!(!pack(&mut both));
    }

    #[test]
    fn nodes_beyond_the_limits_are_not_unpacked() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100), "]".repeat(100));
        let deeper_than_a_parser = format!("{{\"a\":{}1{}}}", "[".repeat(1000), "]".repeat(1000));
        let heavy = format!("{{\"a\":[{}0]}}", "[0],".repeat(200_000));
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(LONGEST));
        for (name, mut status) in [
            ("deep", of_text(&deep)),
            ("deeper", of_text(&deeper_than_a_parser)),
            ("heavy", of_text(&heavy)),
            ("long", of_text(&long)),
            ("a list", of_text("[]")),
            ("no JSON", of_text("{")),
            ("two values", of_text("{}{}")),
            ("no gzip", json!({ "compressedNodes": "H4sI" })),
            ("no text", json!({ "compressedNodes": 7 })),
            ("nothing packed", json!({ "nodes": {} })),
            ("no object", json!([])),
        ] {
            let before = status.clone();
            assert!(unpack(&mut status).is_err(), "{name}");
            assert_eq!(status, before, "{name}");
        }
    }

    /// Any text, number, list or object.
    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<String>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..6).prop_map(Value::from),
                vec((any::<String>(), inner), 0..6).prop_map(|fields| fields.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_is_packed_arrives_as_it_was(
            nodes in vec((any::<String>(), json()), 0..8), long in 0..3 * LONG,
        ) {
            let nodes = nodes.into_iter().chain([("long".to_owned(), json!("x".repeat(long)))]);
            let status = json!({ "phase": "Running", "nodes": nodes.collect::<Value>() });
            let mut sent = status.clone();
            let is_long = status["nodes"].to_string().len() >= LONG;
            prop_assert_eq!(pack(&mut sent), is_long);
            if is_long {
                prop_assert!(sent.get("nodes").is_none());
                unpack(&mut sent).unwrap();
            }
            prop_assert_eq!(sent, status);
        }

        /// A member may write anything, such as gzip that is damaged or unpacks to more than it says.
        #[test]
        fn damaged_nodes_are_unpacked_within_the_limits_or_left_as_they_are(
            count in 0_usize..60,
            damage in vec((any::<Index>(), any::<u8>()), 0..6),
            cut in option::weighted(0.2, any::<Index>()),
        ) {
            let packed = of_text(&with_nodes(count)["nodes"].to_string());
            let mut gzip = STANDARD.decode(packed["compressedNodes"].as_str().unwrap()).unwrap();
            for (place, byte) in &damage {
                *place.get_mut(&mut gzip) = *byte;
            }
            if let Some(cut) = cut {
                gzip.truncate(cut.index(gzip.len()));
            }
            let mut status = json!({ "compressedNodes": STANDARD.encode(&gzip) });
            let before = status.clone();
            if unpack(&mut status).is_ok() {
                let nodes = status["nodes"].to_string();
                prop_assert!(nodes.len() <= LONGEST && weight(&nodes) <= HEAVIEST);
                prop_assert!(status.get(PACKED_NODES).is_none());
            } else {
                prop_assert_eq!(&status, &before);
                prop_assert!(!damage.is_empty() || cut.is_some());
            }
        }
    }
}
