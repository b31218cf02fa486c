//! One label selector and one object's labels, in words.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Expression, SelectorExt};

/// Names that a sentence lists; of more, the rest is counted.
const LISTED: usize = 6;

/// What the first requirement of `selector` that `labels` do not meet asks for, with what `whose` labels say instead; `None` where
/// they match. A selector that cannot be used matches nothing.
pub(super) fn mismatch(
    selector: &LabelSelector,
    whose: &str,
    labels: &BTreeMap<String, String>,
) -> Option<String> {
    let requirements = match requirements(selector) {
        Ok(requirements) => requirements,
        Err(problem) => return Some(problem),
    };
    let failing = requirements.iter().find(|one| !one.matches(labels))?;
    let (key, wish) = wish(failing);
    let found = match labels.get(key) {
        Some(value) => format!("{key}={value}"),
        None => "no such label".to_owned(),
    };
    Some(format!("wants {wish}; {whose} has {found}"))
}

/// What `selector` asks for where there are no labels to look at.
pub(super) fn wishes(selector: &LabelSelector) -> String {
    match requirements(selector) {
        Ok(requirements) => {
            let all: Vec<String> = requirements.iter().map(|one| wish(one).1).collect();
            format!("wants {}", all.join(" and "))
        }
        Err(problem) => problem,
    }
}

/// Whether a selector matches everything.
pub(super) fn is_empty(selector: &LabelSelector) -> bool {
    let has_labels = selector
        .match_labels
        .as_ref()
        .is_some_and(|labels| !labels.is_empty());
    let has_expressions = selector
        .match_expressions
        .as_ref()
        .is_some_and(|all| !all.is_empty());
    !has_labels && !has_expressions
}

/// `names`, of which at most [`LISTED`] are written out.
pub(super) fn list<T: AsRef<str>>(names: &[T]) -> String {
    let shown: Vec<&str> = names.iter().take(LISTED).map(AsRef::as_ref).collect();
    let rest = names.len().saturating_sub(LISTED);
    let more = if rest == 0 {
        String::new()
    } else {
        format!(" and {rest} more")
    };
    shown.join(", ") + &more
}

/// In the order in which they are tested: equalities, then expressions.
fn requirements(selector: &LabelSelector) -> Result<Vec<Expression>, String> {
    let equalities = selector.match_labels.iter().flatten();
    let equalities = equalities.map(|(key, value)| Ok(Expression::Equal(key.clone(), value.clone())));
    let expressions = selector.match_expressions.iter().flatten().cloned();
    equalities
        .chain(expressions.map(Expression::try_from))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("cannot be used: {error}"))
}

/// The label that a requirement is about, and what it asks for.
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
