//! Decoding errors of objects that are partly unreadable, and the maximum nesting depth of objects
//! that are sent to a cluster.
//!
//! The error is stored in the object itself, as an annotation that exists only in memory. It
//! therefore cannot get lost on the way to an index, where an unreadable part would look like a
//! missing one. The index removes the mark when it receives the object. Not here: decoding
//! (`argosy`), and the consequences of an error (the indexes).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// The annotation. If an object from an API server has it, it is removed first.
const MARK: &str = "argosy.dev/flaw";

/// Maximum nesting depth of lists and maps in an object that is sent to a cluster. The object is
/// embedded in others on the way, and a JSON parser accepts 127 levels at most.
pub const DEEPEST: usize = 100;

/// Marks an object with an error. Without an error, removes a mark that a user has put there.
pub fn mark(metadata: &mut ObjectMeta, decode_error: Option<String>) {
    match decode_error {
        Some(decode_error) => {
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(MARK.to_owned(), decode_error);
        }
        None => drop(take(metadata)),
    }
}

/// Removes the mark and returns the error in it.
pub fn take(metadata: &mut ObjectMeta) -> Option<String> {
    let annotations = metadata.annotations.as_mut()?;
    let decode_error = annotations.remove(MARK)?;
    if annotations.is_empty() {
        metadata.annotations = None;
    }
    Some(decode_error)
}

/// Returns the error in the mark without removing it.
pub fn of(metadata: &ObjectMeta) -> Option<&str> {
    Some(metadata.annotations.as_ref()?.get(MARK)?.as_str())
}

/// The reason why a part of an object is nested too deeply to be sent to a cluster, or `None` if it
/// is not. The part is `around` levels deep in the object.
pub(crate) fn too_deep(name: &str, part: &Value, around: usize) -> Option<String> {
    let levels = around + levels(part);
    (levels > DEEPEST)
        .then(|| format!("{name} is nested in {levels} levels; at most {DEEPEST} can be sent to a cluster"))
}

/// The nesting depth of lists and maps. A parsed value has at most 127 levels.
fn levels(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(levels).max(),
        Value::Object(fields) => fields.values().map(levels).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_flaw_travels_with_the_object_and_is_taken_off_it() {
        let mut metadata = ObjectMeta::default();
        assert_eq!(take(&mut metadata), None);
        mark(&mut metadata, Some("no".to_owned()));
        assert_eq!(of(&metadata), Some("no"));
        assert_eq!(take(&mut metadata), Some("no".to_owned()));
        assert_eq!(metadata, ObjectMeta::default());
    }

    #[test]
    fn a_mark_that_somebody_has_written_is_taken_off() {
        let written = BTreeMap::from([
            (MARK.to_owned(), "no".to_owned()),
            ("a".to_owned(), "b".to_owned()),
        ]);
        let mut metadata = ObjectMeta {
            annotations: Some(written),
            ..ObjectMeta::default()
        };
        mark(&mut metadata, None);
        let kept = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        assert_eq!(metadata.annotations, Some(kept));
    }

    #[test]
    fn levels_are_those_of_the_deepest_part() {
        for (value, expected) in [
            (json!(1), 0),
            (json!([]), 1),
            (json!({ "a": {}, "b": [[1]] }), 3),
            (json!([1, [2], { "a": [3] }]), 3),
        ] {
            assert_eq!(levels(&value), expected, "{value}");
        }
        let deep = (0..DEEPEST).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(too_deep("spec", &deep, 0), None);
        assert!(
            too_deep("spec", &deep, 1)
                .unwrap()
                .starts_with("spec is nested in 101 levels")
        );
    }
}
