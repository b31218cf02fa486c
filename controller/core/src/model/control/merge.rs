//! JSON merge patches (RFC 7386): made here, applied by the `json-patch` library.

use serde_json::{Map, Value};

/// The merge patch that turns `before` into `after`, or `None` if they are equal.
pub(crate) fn difference(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return Some(after.clone());
    };
    let removed = before
        .keys()
        .filter(|key| !after.contains_key(*key))
        .map(|key| (key.clone(), Value::Null));
    let changed = after.iter().filter_map(|(key, value)| {
        let change = match before.get(key) {
            Some(before) => difference(before, value),
            None => (!value.is_null()).then(|| value.clone()),
        };
        Some((key.clone(), change?))
    });
    let patch: Map<String, Value> = removed.chain(changed).collect();
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Applies a merge patch.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    json_patch::merge(target, patch);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// JSON without nulls, because a merge patch cannot set a null.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i8>().prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_difference_makes_one_of_the_other(before in value(), after in value()) {
            let mut merged = before.clone();
            if let Some(patch) = difference(&before, &after) {
                merge(&mut merged, &patch);
            }
            prop_assert_eq!(merged, after);
        }
    }

    #[test]
    fn what_is_not_changed_is_not_in_the_difference() {
        let before = json!({ "a": { "phase": "Running", "id": "a" }, "b": {} });
        let after = json!({ "a": { "phase": "Succeeded", "id": "a" } });
        let expected = json!({ "a": { "phase": "Succeeded" }, "b": null });
        assert_eq!(difference(&before, &after), Some(expected));
    }
}
