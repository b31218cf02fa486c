//! Selectors as CEL, so that an API server asks about selected objects only.
//!
//! The expressions read `object` as an admission request has it, name every field with `has` first, and use nothing that
//! came after Kubernetes 1.28.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde_json::Value;

/// Bytes of an expression above which it is not worth its price: an API server keeps and evaluates it for every request.
const LONGEST: usize = 64 * 1024;

/// The alternative of `expressions`, or `None` where it would be too long.
pub(super) fn any_within_limit(expressions: impl Iterator<Item = String>) -> Option<String> {
    Some(any(expressions)).filter(|joined| joined.len() <= LONGEST)
}

/// The alternative of `expressions`.
pub(super) fn any(expressions: impl Iterator<Item = String>) -> String {
    let mut expressions: Vec<String> = expressions.collect();
    expressions.sort();
    expressions.dedup();
    if expressions.is_empty() {
        return "false".to_owned();
    }
    if expressions.iter().any(|expression| expression == "true") {
        return "true".to_owned();
    }
    expressions.join(" || ")
}

/// Whether all of `expressions` hold.
pub(super) fn all(expressions: impl IntoIterator<Item = String>) -> String {
    let expressions: Vec<String> = expressions.into_iter().collect();
    match expressions.as_slice() {
        [] => "true".to_owned(),
        [one] => one.clone(),
        several => format!("({})", several.join(" && ")),
    }
}

/// Whether a metadata field is one of `names`.
pub(super) fn one_of(field: &str, names: &[String]) -> String {
    format!(
        "(has(object.metadata.{field}) && object.metadata.{field} in {})",
        list(names)
    )
}

/// The object of the request, and its namespace, which only the validations of a ValidatingAdmissionPolicy may read.
pub(super) const OBJECT: &str = "object";
pub(super) const NAMESPACE: &str = "namespaceObject";

/// Whether the labels of `of`, an object, match `selector`.
pub(super) fn matches(of: &str, selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten();
    let labels = labels.map(|(key, value)| equals(of, key, value));
    let expressions = selector.match_expressions.iter().flatten();
    all(labels.chain(expressions.map(|expression| requirement(of, expression))))
}

fn requirement(of: &str, requirement: &LabelSelectorRequirement) -> String {
    let key = &requirement.key;
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_in = || {
        all([
            exists(of, key),
            format!("{of}.metadata.labels[{}] in {}", text(key), list(values)),
        ])
    };
    match requirement.operator.as_str() {
        "In" => is_in(),
        "NotIn" => format!("!{}", is_in()),
        "Exists" => exists(of, key),
        "DoesNotExist" => format!("!{}", exists(of, key)),
        // Refused when the policy was compiled.
        _ => "false".to_owned(),
    }
}

fn equals(of: &str, key: &str, value: &str) -> String {
    all([
        exists(of, key),
        format!("{of}.metadata.labels[{}] == {}", text(key), text(value)),
    ])
}

fn exists(of: &str, key: &str) -> String {
    format!(
        "(has({of}.metadata.labels) && {} in {of}.metadata.labels)",
        text(key)
    )
}

fn list(values: &[String]) -> String {
    let values: Vec<String> = values.iter().map(|value| text(value)).collect();
    format!("[{}]", values.join(", "))
}

/// A JSON string is a CEL string.
fn text(value: &str) -> String {
    Value::from(value).to_string()
}
