//! The labels that an object must have for a selector to match it, so that an API server is asked
//! only for objects with them.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// The keys of labels that every object has that one of `selectors` matches. Empty if there are no
/// selectors.
pub(super) fn required_keys(selectors: &[LabelSelector]) -> BTreeSet<String> {
    let mut of_each = selectors.iter().map(of_one);
    let first = of_each.next().unwrap_or_default();
    of_each.fold(first, |common, keys| {
        common.intersection(&keys).cloned().collect()
    })
}

/// The keys of labels that any of `selectors` refers to.
pub(super) fn named_keys(selectors: &[LabelSelector]) -> BTreeSet<String> {
    let equal = selectors
        .iter()
        .flat_map(|selector| selector.match_labels.iter().flatten());
    let expressions = selectors
        .iter()
        .flat_map(|selector| selector.match_expressions.iter().flatten());
    equal
        .map(|(key, _)| key.clone())
        .chain(expressions.map(|expression| expression.key.clone()))
        .collect()
}

fn of_one(selector: &LabelSelector) -> BTreeSet<String> {
    let equal = selector.match_labels.iter().flatten().map(|(key, _)| key.clone());
    let expressions = selector.match_expressions.iter().flatten();
    let needed = expressions.filter(|expression| ["In", "Exists"].contains(&expression.operator.as_str()));
    equal
        .chain(needed.map(|expression| expression.key.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(selectors: Value, expected: &[&str]) {
        let selectors: Vec<LabelSelector> = serde_json::from_value(selectors).unwrap();
        let keys = required_keys(&selectors);
        assert_eq!(keys.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_label_is_required_where_every_selector_requires_it() {
        check(json!([]), &[]);
        check(json!([{}]), &[]);
        check(json!([{ "matchLabels": { "a": "1", "b": "2" } }]), &["a", "b"]);
        check(
            json!([{ "matchLabels": { "a": "1", "b": "2" } }, { "matchLabels": { "a": "3" } }]),
            &["a"],
        );
        check(json!([{ "matchLabels": { "a": "1" } }, {}]), &[]);
        let of = |operator: &str| json!([{ "matchExpressions": [{ "key": "k", "operator": operator, "values": ["v"] }] }]);
        check(of("In"), &["k"]);
        check(of("Exists"), &["k"]);
        check(of("NotIn"), &[]);
        check(of("DoesNotExist"), &[]);
    }
}
