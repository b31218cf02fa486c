//! Inputs of the index: the view of an object, and the key that it belongs to. The view is made at
//! the point where the object is received, so that a list is not kept in memory as JSON trees. Not
//! here: the contents of a view (`views`).

use argosy_api::{AppliedManifestWork, ManifestWork, WorkStatus, Workflow, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, core::PartialObjectMeta};

use super::views::{ManifestWorkView, ObjectView, ReportedStatus, RunRecord, origin_of};
use crate::{
    OriginUid,
    index::{
        reconciler::is_gone,
        store::{Incoming, Version, Versioned, versioned},
    },
    model::mailbox,
};

versioned!(ManifestWorkView, ReportedStatus, ObjectView, RunRecord);

/// The function that determines the WDS object of an object.
type Origin = fn(&ObjectMeta) -> Option<OriginUid>;

/// The WDS object that an object belongs to, according to its label and its name.
fn by_name(metadata: &ObjectMeta) -> Option<OriginUid> {
    mailbox::origin(metadata, names::ORIGIN_UID_LABEL)
}

/// An object as it was received.
#[derive(Clone, Debug)]
pub(super) struct Observed<V> {
    /// The WDS object that it belongs to; `None` if it has no mark of one.
    pub(super) origin: Option<OriginUid>,
    /// True if the object is being deleted and has no finalizer left.
    pub(super) is_gone: bool,
    pub(super) view: Box<V>,
}

impl<V: Versioned> Observed<V> {
    fn of<K: Resource>(object: K, origin: Origin, view: impl FnOnce(K) -> V) -> Self {
        let metadata = object.meta();
        Self {
            origin: origin(metadata),
            is_gone: is_gone(metadata),
            view: Box::new(view(object)),
        }
    }

    /// UID of the object.
    pub(super) fn uid(&self) -> Option<&str> {
        Some(self.view.version().uid).filter(|uid| !uid.is_empty())
    }
}

impl<V: Versioned> Incoming for Observed<V> {
    fn version(&self) -> Version<'_> {
        self.view.version()
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }
}

macro_rules! seen {
    ($($(#[$doc:meta])* $name:ident, of $object:ty as $view:ty, $origin:ident;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name(pub(super) Observed<$view>);

        impl From<$object> for $name {
            fn from(object: $object) -> Self {
                Self(Observed::of(object, $origin, <$view>::new))
            }
        })*
    };
}

seen! {
    /// A ManifestWork of the mailbox.
    ObservedWork, of ManifestWork as ManifestWorkView, by_name;
    /// A WorkStatus of the mailbox.
    ObservedReported, of WorkStatus as ReportedStatus, by_name;
    /// A Workflow of the WEC.
    ObservedObject, of Workflow as ObjectView, origin_of;
    /// A record of the WEC.
    ObservedRecord, of AppliedManifestWork as RunRecord, by_name;
}

impl ObservedObject {
    /// UID of the object, if it is no copy of a run.
    pub(in crate::agent) fn run(&self) -> Option<&str> {
        self.0.uid().filter(|_| self.0.view.is_born_here)
    }
}

impl From<PartialObjectMeta<WorkStatus>> for ObservedReported {
    fn from(object: PartialObjectMeta<WorkStatus>) -> Self {
        let metadata = object.metadata;
        Self::from(WorkStatus {
            metadata,
            ..WorkStatus::default()
        })
    }
}
