//! The label selectors of one list of a policy or a transform, compiled. Not here: the tests that a clause makes
//! with them (`clause`).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

/// The selectors of a list, in its order. An invalid selector matches nothing; its error is kept.
#[derive(Debug)]
pub(crate) struct Selectors(Vec<Result<Selector, String>>);

impl Selectors {
    /// Compiles `selectors`. The invalid ones are reported in `problems`, with `path`.
    pub(crate) fn compile(selectors: &[LabelSelector], path: &str, problems: &mut Vec<String>) -> Self {
        let compiled = selectors.iter().enumerate().map(|(index, selector)| {
            Selector::try_from(selector.clone()).map_err(|error| {
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

    /// The index of the first selector that passes `test`.
    pub(crate) fn position(&self, test: impl Fn(&Selector) -> bool) -> Option<usize> {
        self.0.iter().position(|one| one.as_ref().is_ok_and(&test))
    }

    /// The index of the first selector that matches `labels`.
    pub(crate) fn matching(&self, labels: &BTreeMap<String, String>) -> Option<usize> {
        self.position(|selector| selector.matches(labels))
    }

    /// All selectors: the compiled form, or the error.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<&Selector, &str>> {
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

    fn valid(&self) -> impl Iterator<Item = &Selector> {
        self.0.iter().filter_map(|one| one.as_ref().ok())
    }
}
