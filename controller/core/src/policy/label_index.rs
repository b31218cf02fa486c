//! An index from labels to the policies that may select a Workflow. A thousand policies for a
//! thousand clusters often differ in the value of one label, so each Workflow is compared with only
//! one of them. Not here: the selection itself (`clause`).

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::Rules;

/// Policies by labels of which each Workflow that they select has at least one.
#[derive(Debug, Default)]
pub(crate) struct Index {
    by_label: HashMap<String, HashMap<String, Vec<Arc<str>>>>,
    /// Policies that may select a Workflow with any labels.
    others: Vec<Arc<str>>,
    /// Keys of labels that decide if any policy selects a Workflow.
    keys: HashSet<String>,
}

impl Index {
    /// The index of these policies.
    pub(crate) fn new<'a>(policies: impl Iterator<Item = (&'a Arc<str>, &'a Rules)>) -> Self {
        let mut index = Self::default();
        for (name, rules) in policies {
            index.keys.extend(rules.named_keys().cloned());
            let Some(labels) = rules.labels() else {
                index.others.push(Arc::clone(name));
                continue;
            };
            for (key, value) in labels {
                let values = index.by_label.entry(key.to_owned()).or_default();
                values.entry(value.to_owned()).or_default().push(Arc::clone(name));
            }
        }
        index
    }

    /// The policies that may select a Workflow with these labels.
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

    /// Returns true if any policy may select a Workflow with these labels.
    pub(crate) fn has_candidates<'a>(&self, mut labels: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
        let has = |(key, value)| {
            let values = self.by_label.get(key);
            values.is_some_and(|values| values.contains_key(value))
        };
        !self.others.is_empty() || labels.any(has)
    }
}
