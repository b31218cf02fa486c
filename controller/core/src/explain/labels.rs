//! Label selectors and the labels of one object, as text.

use std::collections::BTreeMap;

use kube::core::Expression;

use crate::{
    index::text,
    policy::{Requirements, Selectors},
};

/// Maximum number of names in a sentence; further names are only counted.
const LISTED: usize = 6;

/// The first requirement of `selector` that `labels` do not meet, with the actual value in the
/// labels of `whose`. `None` if they match.
pub(super) fn mismatch(
    selector: &Requirements,
    whose: &str,
    labels: &BTreeMap<String, String>,
) -> Option<String> {
    let (key, wish) = wish(selector.first_failing(labels)?);
    let found = match labels.get(key) {
        Some(value) => format!("{key}={value}"),
        None => "no such label".to_owned(),
    };
    Some(format!("requires {wish}; {whose} has {found}"))
}

/// The requirements of `selector`, for a case in which no labels are known.
pub(super) fn wishes(selector: &Requirements) -> String {
    let all: Vec<String> = selector.iter().map(|one| wish(one).1).collect();
    format!("requires {}", all.join(" and "))
}

/// One sentence per selector of `field`, none of which matches.
pub(super) fn none_matches(
    field: &str,
    selectors: &Selectors,
    why: impl Fn(&Requirements) -> Option<String>,
) -> Vec<String> {
    let selectors = selectors.iter().enumerate();
    let sentences = selectors.filter_map(|(index, selector)| {
        let why = match selector {
            Ok(selector) => why(selector)?,
            Err(error) => format!("cannot be used: {error}"),
        };
        Some(format!("{field}[{index}] {why}"))
    });
    sentences.collect()
}

/// `names` as text, limited to [`LISTED`] names.
pub(super) fn list<T: AsRef<str>>(names: &[T]) -> String {
    text::list(names, LISTED)
}

/// The label key of a requirement, and the requirement in words.
fn wish(requirement: &Expression) -> (&str, String) {
    let one_of = |values: &std::collections::BTreeSet<String>| {
        let values: Vec<&String> = values.iter().collect();
        list(&values)
    };
    match requirement {
        Expression::Equal(key, value) => (key, format!("{key}={value}")),
        Expression::NotEqual(key, value) => (key, format!("{key} other than {value}")),
        Expression::In(key, values) => (key, format!("{key} in ({})", one_of(values))),
        Expression::NotIn(key, values) => (key, format!("{key} not in ({})", one_of(values))),
        Expression::Exists(key) => (key, format!("a label {key}")),
        Expression::DoesNotExist(key) => (key, format!("no label {key}")),
    }
}
