//! What the index is told of an object: the view that is kept of it, and by what it is put where it belongs. Made where the object is
//! read, so that a list does not lie in memory as trees of JSON. Not here: what a view holds (`views`).

use argosy_api::{AppliedManifestWork, ManifestWork, WorkStatus, Workflow};
use kube::{Resource, core::PartialObjectMeta};

use super::views::{Known, Object, Record, Work, origin_of};
use crate::{OriginUid, reconcile::is_gone};

/// A view that knows what object, and which version of it, it was taken of.
pub(super) trait Versioned {
    fn uid(&self) -> &str;
    fn resource_version(&self) -> &str;
}

macro_rules! versioned {
    ($($view:ty),*) => {
        $(impl Versioned for $view {
            fn uid(&self) -> &str {
                &self.uid
            }

            fn resource_version(&self) -> &str {
                &self.resource_version
            }
        })*
    };
}

versioned!(Work, Known, Object, Record);

/// An object as it was seen.
#[derive(Clone, Debug)]
pub(super) struct Sight<V> {
    /// Whose it is; `None` where it does not say.
    pub(super) origin: Option<OriginUid>,
    /// Nothing keeps it from going any more.
    pub(super) is_gone: bool,
    pub(super) view: Box<V>,
}

impl<V: Versioned> Sight<V> {
    fn of<K: Resource>(object: K, view: impl FnOnce(K) -> V) -> Self {
        let metadata = object.meta();
        Self {
            origin: origin_of(metadata),
            is_gone: is_gone(metadata),
            view: Box::new(view(object)),
        }
    }

    /// UID of the object.
    pub(super) fn uid(&self) -> Option<&str> {
        Some(self.view.uid()).filter(|uid| !uid.is_empty())
    }
}

macro_rules! seen {
    ($($(#[$doc:meta])* $name:ident, of $object:ty as $view:ty;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name(pub(super) Sight<$view>);

        impl From<$object> for $name {
            fn from(object: $object) -> Self {
                Self(Sight::of(object, <$view>::new))
            }
        })*
    };
}

seen! {
    /// A ManifestWork of the mailbox.
    SeenWork, of ManifestWork as Work;
    /// A WorkStatus of the mailbox.
    SeenTold, of WorkStatus as Known;
    /// A Workflow of the WEC.
    SeenObject, of Workflow as Object;
    /// A record of the WEC.
    SeenRecord, of AppliedManifestWork as Record;
}

impl From<PartialObjectMeta<WorkStatus>> for SeenTold {
    fn from(object: PartialObjectMeta<WorkStatus>) -> Self {
        let metadata = object.metadata;
        Self::from(WorkStatus {
            metadata,
            ..WorkStatus::default()
        })
    }
}
