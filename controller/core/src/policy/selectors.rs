//! The label selectors of one list of a policy or a transform, compiled. Not here: the tests that a
//! clause makes with them (`clause`), and a requirement as text (`explain`).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Expression, Selector, SelectorExt};

/// The selectors of a list, in its order. An invalid selector matches nothing; its error is kept.
#[derive(Debug)]
pub(crate) struct Selectors(Vec<Result<Requirements, String>>);

/// The requirements of one selector. It matches labels that meet all of them.
#[derive(Debug)]
pub(crate) struct Requirements(Vec<Expression>);

impl Requirements {
    /// The first requirement that `labels` do not meet, or `None` if the selector matches.
    pub(crate) fn first_failing(&self, labels: &BTreeMap<String, String>) -> Option<&Expression> {
        self.0.iter().find(|one| !one.matches(labels))
    }

    /// All requirements.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Expression> {
        self.0.iter()
    }
}

impl Selectors {
    /// Compiles `selectors`. The invalid ones are reported in `problems`, with `path`.
    pub(crate) fn compile(selectors: &[LabelSelector], path: &str, problems: &mut Vec<String>) -> Self {
        let compiled = selectors.iter().enumerate().map(|(index, selector)| {
            let selector = Selector::try_from(selector.clone());
            let requirements = selector.map(|selector| Requirements(selector.into_iter().collect()));
            requirements.map_err(|error| {
                problems.push(format!("{path}[{index}] cannot be used: {error}"));
                error.to_string()
            })
        });
        Self(compiled.collect())
    }

    /// Returns true if there is no selector.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if there are selectors and all of them are invalid.
    pub(super) fn is_invalid(&self) -> bool {
        !self.is_empty() && self.valid().next().is_none()
    }

    /// The index of the first selector that matches `labels`. Without labels, only a selector without
    /// requirements matches.
    pub(crate) fn matching(&self, labels: Option<&BTreeMap<String, String>>) -> Option<usize> {
        let matches = |one: &Requirements| match labels {
            Some(labels) => one.first_failing(labels).is_none(),
            None => one.0.is_empty(),
        };
        self.0.iter().position(|one| one.as_ref().is_ok_and(matches))
    }

    /// All selectors: the compiled form, or the error.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<&Requirements, &str>> {
        self.0.iter().map(|one| one.as_ref().map_err(String::as_str))
    }

    /// The selectors of `source`, from which this was compiled, that are valid.
    pub(super) fn valid_of<'a>(
        &'a self,
        source: &'a [LabelSelector],
    ) -> impl Iterator<Item = &'a LabelSelector> {
        let both = self.0.iter().zip(source);
        both.filter(|(one, _)| one.is_ok()).map(|(_, source)| source)
    }

    fn valid(&self) -> impl Iterator<Item = &Requirements> {
        self.0.iter().filter_map(|one| one.as_ref().ok())
    }
}
