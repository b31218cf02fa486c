//! The parts of objects, ManifestWorks and WorkStatuses that are kept. They are extracted as soon
//! as a watch event arrives, because a list of JSON trees would take many times the memory. Not
//! here: the use of them in the index (`learn/objects`, `learn/mailbox`).

use std::sync::Arc;

use argosy_api::{ManifestWork, WorkStatus, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;

use super::work::{ManifestWorkView, WorkStatusView, address};
use crate::{
    ClusterName, Intake, OriginUid,
    index::{
        budget::Ticket,
        compact_json::CompactJson,
        reconciler::is_gone,
        store::{Incoming, Version, Versioned, versioned},
    },
    model::mailbox,
};

/// An object of the WDS on its way to the index, as text.
#[derive(Clone, Debug)]
pub struct ObservedObject {
    pub(super) origin: OriginUid,
    pub(super) resource_version: Option<String>,
    whole: CompactJson,
}

impl ObservedObject {
    /// The object, read from the text.
    pub(super) fn into_object(self) -> Option<DynamicObject> {
        self.whole.read()
    }
}

impl From<DynamicObject> for ObservedObject {
    fn from(mut object: DynamicObject) -> Self {
        // Managed fields are not needed, and may be larger than all the rest.
        object.metadata.managed_fields = None;
        Self {
            origin: object.metadata.uid.as_deref().unwrap_or_default().into(),
            resource_version: object.metadata.resource_version.clone(),
            whole: CompactJson::new(&object),
        }
    }
}

/// A ManifestWork.
#[derive(Clone, Debug)]
pub struct ObservedWork {
    /// The object and the cluster that it is for; `None` if its labels do not name them.
    pub(super) address: Option<(OriginUid, ClusterName)>,
    pub(super) is_gone: bool,
    pub(super) view: Box<ManifestWorkView>,
}

/// A WorkStatus, of a Workflow or of another object.
#[derive(Clone, Debug)]
pub struct ObservedReport {
    of_object: Option<(OriginUid, ClusterName)>,
    of_run: Option<(OriginUid, ClusterName)>,
    pub(super) view: Box<WorkStatusView>,
    /// Its share of the memory for reports that are on their way.
    ticket: Option<Arc<Ticket>>,
}

versioned!(ManifestWorkView);

/// Reports are told apart by version only.
impl Versioned for WorkStatusView {
    fn version(&self) -> Version<'_> {
        Version {
            uid: "",
            resource_version: &self.resource_version,
        }
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

impl ObservedReport {
    /// The object and the cluster that it is about; `None` if it is not a report of that sort.
    pub(super) fn address(&self, is_of_run: bool) -> Option<&(OriginUid, ClusterName)> {
        if is_of_run {
            self.of_run.as_ref()
        } else {
            self.of_object.as_ref()
        }
    }

    /// Admits the report by `intake`. If the memory for reports of its cluster is used up, it loses
    /// its content. `None` if as many reports of that cluster are on their way as are ever kept, or
    /// if it is about no object.
    #[must_use]
    pub fn by(mut self, intake: &Intake) -> Option<Self> {
        let (_, cluster) = self.of_object.as_ref().or(self.of_run.as_ref())?;
        let ticket = intake.admit(cluster, self.view.bytes)?;
        if !ticket.has_room {
            self.view.shed();
        }
        self.ticket = Some(ticket);
        Some(self)
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

impl From<WorkStatus> for ObservedReport {
    fn from(object: WorkStatus) -> Self {
        let of = |metadata: &ObjectMeta, label| mailbox::address(metadata, label);
        Self {
            of_object: of(&object.metadata, names::OBJECT_UID_LABEL),
            of_run: of(&object.metadata, names::ORIGIN_UID_LABEL),
            view: Box::new(WorkStatusView::new(object)),
            ticket: None,
        }
    }
}
