//! Objects in the form in which the index keeps them, extracted as soon as a watch delivers them.
//! Thousands of listed objects as JSON trees would take ten times as much memory.
//!
//! Not here: the processing of these objects ([`super::learn`]).

use std::sync::Arc;

use argosy_api::{ManifestWork, WorkStatus, Workflow};

use super::{
    ManifestWorkView, WorkStatusView, WorkflowView,
    work::{Address, address},
};
use crate::{
    WorkflowKey,
    index::{
        budget::Ticket,
        reconciler::is_gone,
        store::{Incoming, Version, Versioned, versioned},
    },
};

versioned!(WorkflowView, ManifestWorkView);

/// Reports are told apart by version only.
impl Versioned for WorkStatusView {
    fn version(&self) -> Version<'_> {
        Version {
            uid: "",
            resource_version: &self.resource_version,
        }
    }
}

/// A Workflow of the WDS.
#[derive(Clone, Debug)]
pub struct ObservedWorkflow {
    pub(super) key: WorkflowKey,
    /// It is deleted and has no finalizers left.
    pub(super) is_gone: bool,
    pub(super) view: Box<WorkflowView>,
    /// Its place in the queue between watch and index.
    pub(super) ticket: Option<Arc<Ticket>>,
}

/// A ManifestWork of the ITS.
#[derive(Clone, Debug)]
pub struct ObservedWork {
    /// The Workflow and cluster that it belongs to; `None` if it does not name them.
    pub(super) address: Option<Address>,
    pub(super) is_gone: bool,
    pub(super) view: Box<ManifestWorkView>,
}

/// A WorkStatus of the ITS.
#[derive(Clone, Debug)]
pub struct ObservedReport {
    pub(super) address: Option<Address>,
    pub(super) view: Box<WorkStatusView>,
    /// Its place in the queue between watch and index.
    pub(super) ticket: Option<Arc<Ticket>>,
}

impl Incoming for ObservedWorkflow {
    fn version(&self) -> Version<'_> {
        self.view.version()
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }
}

impl Incoming for ObservedWork {
    fn version(&self) -> Version<'_> {
        self.view.version()
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }
}

/// Only a deletion event or a list ends a report.
impl Incoming for ObservedReport {
    fn version(&self) -> Version<'_> {
        self.view.version()
    }

    fn is_gone(&self) -> bool {
        false
    }
}

impl From<Workflow> for ObservedWorkflow {
    fn from(object: Workflow) -> Self {
        Self {
            key: WorkflowView::key(&object),
            is_gone: is_gone(&object.metadata),
            view: Box::new(WorkflowView::new(object)),
            ticket: None,
        }
    }
}

impl From<ManifestWork> for ObservedWork {
    fn from(object: ManifestWork) -> Self {
        Self {
            address: address(&object.metadata),
            is_gone: is_gone(&object.metadata),
            view: Box::new(ManifestWorkView::new(object)),
        }
    }
}

/// For the watch of all mailboxes, which does not unpack nodes (`WorkStatusView::told`).
impl From<WorkStatus> for ObservedReport {
    fn from(object: WorkStatus) -> Self {
        Self {
            address: address(&object.metadata),
            view: Box::new(WorkStatusView::told(object)),
            ticket: None,
        }
    }
}

impl ObservedReport {
    /// For a report that was read separately, with its packed nodes.
    pub(super) fn whole(object: WorkStatus) -> Self {
        Self {
            address: address(&object.metadata),
            view: Box::new(WorkStatusView::new(object)),
            ticket: None,
        }
    }
}
