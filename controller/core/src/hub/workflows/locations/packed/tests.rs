use std::io::Write;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use super::super::{Named, restrict, sanitize};
use crate::model::control::Nodes;

fn pack(json: &str) -> Value {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(json.as_bytes()).unwrap();
    json!({ "compressedNodes": STANDARD.encode(gzip.finish().unwrap()) })
}

/// The node `a` as it is shown if `spec` names the places, and the number of artifacts without a
/// location.
fn shown(json: &str, spec: &Value) -> (Option<Value>, u32) {
    let mut status = pack(json);
    let (elsewhere, _) = sanitize(&mut status);
    let mut named = Named::default();
    named.learn(spec);
    restrict(&mut status, &elsewhere, &named);
    let node = Nodes::of(&status).and_then(|nodes| nodes.get("a").map(std::borrow::Cow::into_owned));
    (
        node.filter(|_| status.get("compressedNodes").is_some()),
        elsewhere.withheld(&named),
    )
}

#[test]
fn nodes_without_places_stay_as_they_were_packed() {
    let json = r#"{"a":{"id":"a","message":"a: \"b\" <c>","outputs":{"artifacts":[{"name":"l","s3":{"key":"k"}}]}}}"#;
    let mut status = pack(json);
    let before = status.clone();
    let (elsewhere, has_changed) = sanitize(&mut status);
    assert!(elsewhere.is_empty() && !has_changed);
    assert_eq!(status, before);
}

#[test]
fn places_come_off_unless_all_are_named_and_what_is_left_is_packed_again() {
    let json = r#"{"a":{"id":"a","outputs":{"artifacts":[{"name":"l","gcs":{"bucket":"b","key":"k"}}]}},"b":{"id":"b"}}"#;
    let whole: Value = serde_json::from_str(json).unwrap();
    let bare = json!({ "id": "a", "outputs": { "artifacts": [{ "name": "l" }] } });
    assert_eq!(shown(json, &json!({})), (Some(bare), 1));
    let spec = json!({ "templates": [{ "archiveLocation": { "gcs": { "bucket": "b", "key": "x" } } }] });
    assert_eq!(shown(json, &spec), (Some(whole["a"].clone()), 0));
}

#[test]
fn nothing_hides_from_go_in_names_that_are_doubled_or_nearly_right() {
    let bare = json!({ "id": "a", "outputs": { "artifacts": [{ "name": "l" }] } });
    for json in [
        r#"{"a":{"id":"a","outputs":{"artifacts":[{"name":"l","http":{"url":"https://evil/"}}],"artifacts":[{"name":"l"}]}}}"#,
        r#"{"a":{"id":"a","outputs":{"artifacts":[{"name":"l"}]},"Outputs":{"artifacts":[{"name":"l","http":{"url":"https://evil/"}}]}}}"#,
        r#"{"a":{"id":"a","outputs":{"artifacts":[{"name":"l"}]},"output\u017f":{"artifacts":[]}}}"#,
        r#"{"a":{"id":"a","outputs":{"artifacts":[{"name":"l"}],"ARTIFACTS":[{"http":{"url":"https://evil/"}}]}}}"#,
        r#"{"a":{"id":"a","outputs":{"artifacts":[{"name":"l","Http":{"url":"https://evil/"}}]}}}"#,
    ] {
        let (node, _) = shown(json, &json!({}));
        assert_eq!(node, Some(bare.clone()), "{json}");
        let mut status = pack(json);
        sanitize(&mut status);
        let nodes = Nodes::of(&status).unwrap();
        assert_eq!(
            nodes.text("a").map(|text| text.matches("outputs").count()),
            Some(1)
        );
    }
}

#[test]
fn what_cannot_be_unpacked_or_read_is_not_shown_and_said() {
    let mut status = json!({ "compressedNodes": "no base64", "phase": "Running" });
    let (elsewhere, _) = sanitize(&mut status);
    assert_eq!(status, json!({ "phase": "Running" }));
    assert_eq!(elsewhere.withheld(&Named::default()), 1);
    let (node, withheld) = shown(r#"{"a":{"x":1e999},"b":{"id":"b"}}"#, &json!({}));
    assert_eq!((node, withheld), (None, 1));
}

#[test]
fn what_go_cannot_read_as_a_node_is_not_shown() {
    for node in [
        "7",
        r#"{"phase":1}"#,
        r#"{"id":"a","Phase":1}"#,
        r#"{"id":"a","PHAſE":1}"#,
        r#"{"id":"a","startedAt":"10000-01-01T00:00:00Z"}"#,
        r#"{"id":"a","children":{}}"#,
        r#"{"id":"a","outputs":{"parameters":[7]}}"#,
        r#"{"id":"a","outputs":{"parameters":[{"name":7}]}}"#,
        r#"{"id":"a","inputs":{"parameters":[{"NAME":7}]}}"#,
        r#"{"id":"a","inputs":{"Result":7}}"#,
        r#"{"id":"a","inputs":{"parameters":[{"valueFrom":{"path":7}}]}}"#,
        r#"{"id":"a","templateRef":{"name":7}}"#,
    ] {
        let (shown, withheld) = shown(&format!(r#"{{"a":{node},"b":{{"id":"b"}}}}"#), &json!({}));
        assert_eq!((shown, withheld), (None, 1), "{node}");
    }
    let good = r#"{"a":{"id":"a","later":7,"inputs":{"parameters":[{"name":"p","value":7,"enum":[1]}]}}}"#;
    let whole: Value = serde_json::from_str(good).unwrap();
    assert_eq!(shown(good, &json!({})), (Some(whole["a"].clone()), 0));
}

#[test]
fn packed_nodes_with_anything_behind_them_are_not_read() {
    let gzip = |text: &str| {
        STANDARD
            .decode(pack(text)["compressedNodes"].as_str().unwrap())
            .unwrap()
    };
    let nodes = r#"{"a":{"id":"a"}}"#;
    for (first, second) in [
        (gzip(nodes), b"garbage".to_vec()),
        (gzip(nodes), gzip(r#"{"b":{}}"#)),
        (gzip(&format!("{nodes}{nodes}")), Vec::new()),
        // Go would read these two members, but Argo packs nodes into one.
        (gzip(r#"{"a":{"id":"#), gzip(r#""a"}}"#)),
    ] {
        let mut status = json!({ "compressedNodes": STANDARD.encode([first, second].concat()) });
        let (elsewhere, has_changed) = sanitize(&mut status);
        assert!(has_changed && status == json!({}), "{status}");
        assert_eq!(elsewhere.nameless, 1);
    }
}
