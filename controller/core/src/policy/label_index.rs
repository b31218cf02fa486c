//! An index from labels to the policies that may select an object of one kind. A thousand policies for a
//! thousand clusters often differ in the value of one label, so each Workflow is compared with only
//! one of them. Not here: the selection itself (`clause`).

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use argosy_api::workflow;

use super::Rules;

/// Policies by labels of which each object of a kind that they select has at least one.
#[derive(Debug, Default)]
pub(crate) struct Index {
    by_label: HashMap<String, HashMap<String, Vec<Arc<str>>>>,
    /// Policies that may select an object with any labels.
    others: Vec<Arc<str>>,
    /// Keys of labels that decide if any policy selects a Workflow.
    keys: HashSet<String>,
}

impl Index {
    /// The index of these policies for Workflows.
    pub(crate) fn of_workflows<'a>(policies: impl Iterator<Item = (&'a Arc<str>, &'a Rules)>) -> Self {
        let policies = policies.map(|(name, rules)| (Arc::clone(name), rules));
        Self::new((workflow::GROUP, workflow::PLURAL), policies)
    }

    /// The index of these policies for objects of a kind: its group and its plural.
    pub(crate) fn new<'a>(
        (group, resource): (&str, &str),
        policies: impl Iterator<Item = (Arc<str>, &'a Rules)>,
    ) -> Self {
        let mut index = Self::default();
        for (name, rules) in policies {
            index.keys.extend(rules.named_keys().cloned());
            let Some(labels) = rules.labels(group, resource) else {
                index.others.push(name);
                continue;
            };
            for (key, value) in labels {
                let values = index.by_label.entry(key.to_owned()).or_default();
                values
                    .entry(value.to_owned())
                    .or_default()
                    .push(Arc::clone(&name));
            }
        }
        index
    }

    /// Returns true if so many of `policies` select by labels that a search by labels is faster than a
    /// comparison with all.
    pub(crate) fn is_worthwhile(&self, policies: usize) -> bool {
        2 * self.others.len() < policies
    }

    /// The policies that may select an object with these labels.
    pub(crate) fn candidates<'a>(
        &'a self,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> BTreeSet<&'a Arc<str>> {
        let by_label = labels.filter_map(|(key, value)| self.by_label.get(key)?.get(value));
        by_label.flatten().chain(&self.others).collect()
    }

    /// Returns true if any policy selects Workflows by this label.
    pub(crate) fn selects_by(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// Returns true if any policy may select an object with these labels.
    pub(crate) fn has_candidates<'a>(&self, mut labels: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
        let has = |(key, value)| {
            let values = self.by_label.get(key);
            values.is_some_and(|values| values.contains_key(value))
        };
        !self.others.is_empty() || labels.any(has)
    }
}
