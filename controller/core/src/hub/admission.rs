//! The answers of the admission webhook. It holds a selected Workflow from its creation, and keeps
//! a held Workflow held.
//!
//! An [`Admission`] is an immutable snapshot, so a request waits for nothing. Not here: the
//! certificate and the server, the registration at the API server, and the admission policies that
//! guard while no webhook answers (the shell).

mod create;
pub(crate) mod initial_metadata;
mod schedule;
mod update;
mod verbs;

use std::collections::BTreeSet;

use argosy_api::{BindingPolicy, Workflow};
use kube::ResourceExt;
use serde_json::Value;

use crate::{
    hub::template_demand::TemplateDemands,
    policy::{Rules, Selection, Table},
};

pub use schedule::Schedule;
pub(crate) use update::is_asked_to_suspend;

/// A snapshot of the policies, clusters and templates, as far as a review needs them.
#[derive(Clone, Debug, Default)]
pub struct Admission {
    table: Table,
    templates: TemplateDemands,
}

/// The content of the admission policy `argosy-create` for a set of BindingPolicies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarding {
    /// See [`Admission::exact_selection`].
    pub expressions: Vec<String>,
    /// The BindingPolicies whose Workflows it does not guard.
    pub unguarded: BTreeSet<String>,
}

impl Guarding {
    /// The content for `policies`.
    pub fn of(policies: &[BindingPolicy]) -> Self {
        let compile = |policy: &BindingPolicy| (policy.name_any(), Rules::compile(policy, &mut Vec::new()));
        let rules: Vec<_> = policies.iter().map(compile).collect();
        let selection = Selection::of(rules.iter().map(|(name, rules)| (name.as_str(), rules)));
        Self {
            expressions: selection.exact,
            unguarded: selection.unguarded,
        }
    }
}

/// A write of a Workflow by anybody but Argosy, before the API server stores it.
#[derive(Debug)]
pub struct Request {
    /// Its namespace.
    pub namespace: String,
    /// Its name; empty if the API server has yet to generate it.
    pub name: String,
    /// The stored object; `None` for a creation.
    pub old: Option<Workflow>,
    /// The object to store.
    pub new: Workflow,
    /// True if the specifications also differ in fields that are not read.
    pub is_edited: bool,
}

/// The answer to a request. No request is refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Operations of a JSON patch (RFC 6902) on the new object; empty to leave it unchanged.
    pub patch: Vec<Value>,
    /// Warnings to the user, as `kubectl` prints them.
    pub warnings: Vec<String>,
}

impl Admission {
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    pub(crate) fn table_mut(&mut self) -> &mut Table {
        &mut self.table
    }

    pub(crate) fn templates(&self) -> &TemplateDemands {
        &self.templates
    }

    pub(crate) fn templates_mut(&mut self) -> &mut TemplateDemands {
        &mut self.templates
    }

    /// A CEL expression over `object` that is true for every Workflow that a policy selects. It may
    /// be true for others, and is true for all if the exact expression would be too long, because a
    /// review checks again.
    pub fn selection(&self) -> &str {
        &self.table.selection().broad
    }

    /// CEL expressions over `object` and `namespaceObject`, for an admission policy that refuses
    /// without checking again. One of them is true for each Workflow that a policy selects, unless
    /// the policy is one of [`Guarding::unguarded`].
    pub fn exact_selection(&self) -> &[String] {
        &self.table.selection().exact
    }

    /// Answers a request.
    pub fn review(&self, request: &Request) -> Answer {
        match &request.old {
            None => self.review_creation(request),
            Some(old) => update::review(old, &request.new, request.is_edited),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
