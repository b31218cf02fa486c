//! What the admission webhook answers: it holds a selected Workflow from its first moment, and keeps a held one held.
//!
//! A [`Admission`] is an immutable snapshot, so that a request waits for nothing. Not here: the certificate and the server,
//! the registration at the API server, and the admission policies that guard while no webhook answers (the shell).

mod creation;
mod update;
mod verbs;

use argosy_api::Workflow;
use serde_json::Value;

use crate::placement::Table;

pub(crate) use update::is_asked_to_suspend;

/// What a review needs to know of policies and clusters.
#[derive(Debug)]
pub struct Admission {
    table: Table,
    selection: Option<String>,
    exact_selection: Option<String>,
}

/// A Workflow that is about to be written by somebody else than Argosy.
#[derive(Debug)]
pub struct Request {
    /// Its namespace.
    pub namespace: String,
    /// Its name; empty while the API server has yet to generate it.
    pub name: String,
    /// What stands there; `None` for a creation.
    pub old: Option<Workflow>,
    /// What is to stand there.
    pub new: Workflow,
}

/// What becomes of a request. None is refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Operations of a JSON patch (RFC 6902) of the new object; none leaves it as it is.
    pub patch: Vec<Value>,
    /// What the user is told, as `kubectl` shows it.
    pub warnings: Vec<String>,
}

impl Default for Admission {
    fn default() -> Self {
        Self::new(Table::default())
    }
}

impl Admission {
    pub(crate) fn new(table: Table) -> Self {
        Self {
            selection: table.selection(),
            exact_selection: table.exact_selection(),
            table,
        }
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// A CEL expression over `object` that is true for every Workflow that a policy selects, and for all where it would be
    /// too long to say which: a review looks again.
    pub fn selection(&self) -> &str {
        self.selection.as_deref().unwrap_or("true")
    }

    /// The same for who refuses what it selects without looking again, over `namespaceObject` too: false for all where it would be
    /// too long.
    pub fn exact_selection(&self) -> &str {
        self.exact_selection.as_deref().unwrap_or("false")
    }

    /// What becomes of a request.
    pub fn review(&self, request: &Request) -> Answer {
        match &request.old {
            None => self.review_creation(request),
            Some(old) => update::review(old, &request.new),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
