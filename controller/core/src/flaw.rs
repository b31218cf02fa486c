//! What is wrong with an object of which a part could not be read, and how deep one may be that is sent on.
//!
//! The flaw travels with the object itself, as an annotation that only memory knows, so that no way into an index loses it: a part
//! that could not be read looks like one that is not there. Whoever takes an object in takes the mark off. Not here: what can be read
//! (the shell), and what follows from a flaw (the indexes).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// The annotation. No API server has it on an object that was read: it is taken off first.
const MARK: &str = "argosy.dev/flaw";

/// Levels of lists and maps in an object that is sent on. On its way it lies in others, and a parser of JSON reads 127 at most.
pub const DEEPEST: usize = 100;

/// Marks an object, or, without a flaw, takes off a mark that somebody else has put there.
pub fn mark(metadata: &mut ObjectMeta, flaw: Option<String>) {
    match flaw {
        Some(flaw) => {
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(MARK.to_owned(), flaw);
        }
        None => drop(take(metadata)),
    }
}

/// Takes the mark off, which says what could not be read.
pub fn take(metadata: &mut ObjectMeta) -> Option<String> {
    let annotations = metadata.annotations.as_mut()?;
    let flaw = annotations.remove(MARK)?;
    if annotations.is_empty() {
        metadata.annotations = None;
    }
    Some(flaw)
}

/// That mark, without taking it off.
pub fn of(metadata: &ObjectMeta) -> Option<&str> {
    Some(metadata.annotations.as_ref()?.get(MARK)?.as_str())
}

/// Why a part of an object, which lies `around` levels deep in it, is too deep to be sent on; `None` where it is not.
pub(crate) fn too_deep(name: &str, part: &Value, around: usize) -> Option<String> {
    let levels = around + levels(part);
    (levels > DEEPEST).then(|| {
        format!(
            "{name} is nested in {levels} levels, and {DEEPEST} is the most that can be sent to a cluster"
        )
    })
}

/// Levels of lists and maps. What was parsed has at most 127.
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
