//! Selectors as CEL expressions, so that an API server calls the webhook only for selected objects.
//!
//! The expressions read `object` as an admission request has it, check every field with `has`
//! before reading it, and use only features of Kubernetes 1.28. A selector is a conjunction of
//! conditions. Conjunctions that differ only in the values of one condition are merged, because a
//! fleet often has one policy per cluster. Not here: the limits of an API server (`selection`).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde_json::Value;

/// A conjunction with more conditions is not merged with others, because comparing it would cost
/// more than merging saves.
const MOST_CONDITIONS: usize = 8;

/// CEL variables: the object of the request, and its namespace. Only the validations of a
/// ValidatingAdmissionPolicy may read the namespace.
pub(super) const OBJECT: &str = "object";
pub(super) const NAMESPACE: &str = "namespaceObject";

/// A conjunction of conditions. An empty one is always true.
pub(super) type Term = Vec<Condition>;

/// One condition of a [`Term`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Condition {
    /// True if the value at the place is one of these.
    In(Place, BTreeSet<String>),
    /// Any other condition, as CEL that needs no parentheses.
    Other(String),
}

/// The place of a text value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A field of the object's metadata.
    Field(&'static str),
    /// A label of the object or of its namespace.
    Label(&'static str, String),
}

/// The condition that a metadata field has one of the values `names`.
pub(super) fn one_of(field: &'static str, names: &[String]) -> Condition {
    Condition::In(Place::Field(field), names.iter().cloned().collect())
}

/// The conditions under which the labels of the object `of` match `selector`.
pub(super) fn matches(of: &'static str, selector: &LabelSelector) -> Term {
    let labels = selector.match_labels.iter().flatten();
    let labels =
        labels.map(|(key, value)| Condition::In(Place::Label(of, key.clone()), [value.clone()].into()));
    let expressions = selector.match_expressions.iter().flatten();
    labels
        .chain(expressions.map(|expression| requirement(of, expression)))
        .collect()
}

fn requirement(of: &'static str, requirement: &LabelSelectorRequirement) -> Condition {
    let key = &requirement.key;
    let values = requirement.values.iter().flatten().cloned().collect();
    let is_in = Condition::In(Place::Label(of, key.clone()), values);
    match requirement.operator.as_str() {
        "In" => is_in,
        "NotIn" => Condition::Other(format!("!{is_in}")),
        "Exists" => Condition::Other(format!("({})", exists(of, key))),
        "DoesNotExist" => Condition::Other(format!("!({})", exists(of, key))),
        // The compilation of the policy rejected any other operator.
        _ => Condition::Other("false".to_owned()),
    }
}

/// Labels of which the object has at least one if `term` is true. `None` if `term` requires no
/// labels with fixed values.
pub(super) fn required(term: &Term) -> Option<impl Iterator<Item = (&str, &str)>> {
    let lists = term.iter().filter_map(|condition| match condition {
        Condition::In(Place::Label(OBJECT, key), values) => Some((key.as_str(), values)),
        _ => None,
    });
    let (key, values) = lists.min_by_key(|(_, values)| values.len())?;
    Some(values.iter().map(move |value| (key, value.as_str())))
}

/// A conjunction that is true if any of `terms` is true.
pub(super) fn any_of(terms: Vec<Term>) -> Term {
    let mut merged = merged(terms);
    match merged.len() {
        1 => merged.swap_remove(0),
        _ => vec![Condition::Other(format!("({})", any(&merged)))],
    }
}

/// The disjunction of `terms`.
pub(super) fn any(terms: &[Term]) -> String {
    if terms.is_empty() {
        return "false".to_owned();
    }
    let terms: Vec<String> = terms.iter().map(|term| all(term)).collect();
    terms.join(" || ")
}

/// The conjunction of `conditions`.
pub(super) fn all(conditions: &[Condition]) -> String {
    match conditions {
        [] => "true".to_owned(),
        [one] => one.to_string(),
        several => {
            let several: Vec<String> = several.iter().map(ToString::to_string).collect();
            format!("({})", several.join(" && "))
        }
    }
}

/// Fewer terms with the same disjunction: terms that differ only in the values of one condition
/// become one term.
pub(super) fn merged(mut terms: Vec<Term>) -> Vec<Term> {
    if terms.iter().any(Vec::is_empty) {
        return vec![Term::new()];
    }
    for term in &mut terms {
        term.sort();
        term.dedup();
    }
    terms.sort();
    terms.dedup();
    let mut at: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
    for (index, term) in terms.iter().enumerate() {
        for place in term.iter().filter_map(Condition::place) {
            if term.len() <= MOST_CONDITIONS {
                at.entry(place.clone()).or_default().push(index);
            }
        }
    }
    let mut terms: Vec<Option<Term>> = terms.into_iter().map(Some).collect();
    for (place, indexes) in at.iter().filter(|(_, indexes)| indexes.len() > 1) {
        merge_at(place, indexes, &mut terms);
    }
    terms.into_iter().flatten().collect()
}

/// Merges those of `terms` at `indexes` that have the same other conditions. All of them have a
/// condition on `place`.
fn merge_at(place: &Place, indexes: &[usize], terms: &mut [Option<Term>]) {
    let is_here = |condition: &Condition| condition.place() == Some(place);
    let mut merged: BTreeMap<Term, (usize, BTreeSet<String>)> = BTreeMap::new();
    for &index in indexes {
        let Some(mut others) = terms.get_mut(index).and_then(Option::take) else {
            continue;
        };
        let here = others.iter().position(is_here).map(|here| others.remove(here));
        if let Some(Condition::In(_, values)) = here {
            let (_, known) = merged.entry(others).or_insert_with(|| (index, BTreeSet::new()));
            known.extend(values);
        }
    }
    for (mut term, (index, values)) in merged {
        term.push(Condition::In(place.clone(), values));
        term.sort();
        if let Some(slot) = terms.get_mut(index) {
            *slot = Some(term);
        }
    }
}

impl Condition {
    fn place(&self) -> Option<&Place> {
        match self {
            Self::In(place, _) => Some(place),
            Self::Other(_) => None,
        }
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (place, values) = match self {
            Self::In(place, values) => (place, values),
            Self::Other(expression) => return f.write_str(expression),
        };
        let is_one_of = match values.first().filter(|_| values.len() == 1) {
            Some(value) => format!("== {}", text(value)),
            None => format!("in {}", list(values)),
        };
        match place {
            Place::Field(field) => write!(
                f,
                "(has(object.metadata.{field}) && object.metadata.{field} {is_one_of})"
            ),
            Place::Label(of, key) => write!(
                f,
                "({} && {of}.metadata.labels[{}] {is_one_of})",
                exists(of, key),
                text(key)
            ),
        }
    }
}

fn exists(of: &str, key: &str) -> String {
    format!(
        "has({of}.metadata.labels) && {} in {of}.metadata.labels",
        text(key)
    )
}

fn list(values: &BTreeSet<String>) -> String {
    let values: Vec<String> = values.iter().map(|value| text(value)).collect();
    format!("[{}]", values.join(", "))
}

/// A JSON string is a CEL string.
fn text(value: &str) -> String {
    Value::from(value).to_string()
}
