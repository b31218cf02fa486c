//! Objects as the index keeps them, taken of what a watch tells at once: thousands of listed objects as trees of JSON would take ten
//! times the memory of what is kept of them. Not here: what is learnt of them ([`super::events`]).

use argosy_api::{ManifestWork, WorkStatus, Workflow};

use super::{
    Report, Work, WorkflowView,
    work::{Address, address},
};
use crate::{WorkflowKey, reconcile::is_gone};

/// A Workflow of the WDS.
#[derive(Clone, Debug)]
pub struct SeenWorkflow {
    pub(super) key: WorkflowKey,
    /// Nothing keeps it from going any more.
    pub(super) is_gone: bool,
    pub(super) view: Box<WorkflowView>,
}

/// A ManifestWork of the ITS.
#[derive(Clone, Debug)]
pub struct SeenWork {
    /// Whose it is; `None` where it does not say.
    pub(super) address: Option<Address>,
    pub(super) is_gone: bool,
    pub(super) view: Box<Work>,
}

/// A WorkStatus of the ITS.
#[derive(Clone, Debug)]
pub struct SeenReport {
    pub(super) address: Option<Address>,
    pub(super) view: Box<Report>,
}

impl From<Workflow> for SeenWorkflow {
    fn from(object: Workflow) -> Self {
        Self {
            key: WorkflowView::key(&object),
            is_gone: is_gone(&object.metadata),
            view: Box::new(WorkflowView::new(object)),
        }
    }
}

impl From<ManifestWork> for SeenWork {
    fn from(object: ManifestWork) -> Self {
        Self {
            address: address(&object.metadata),
            is_gone: is_gone(&object.metadata),
            view: Box::new(Work::new(object)),
        }
    }
}

impl From<WorkStatus> for SeenReport {
    fn from(object: WorkStatus) -> Self {
        Self {
            address: address(&object.metadata),
            view: Box::new(Report::new(object)),
        }
    }
}
