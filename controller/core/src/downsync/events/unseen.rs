//! Objects of which no watch tells, but which a ManifestWork or a CombinedStatus names: they were deleted or deselected while no
//! controller was there, and something of ours may still be on them.
//!
//! Each is taken for one that its watch tells of no longer, so that it is read, and rid of what is ours, before it is forgotten.

use std::sync::Arc;

use kube::core::{DynamicObject, ObjectMeta};

use super::Dirty;
use crate::{
    OriginUid,
    downsync::{
        Downsync,
        kind::KindName,
        object::{Object, Presence},
    },
};

/// Where an object was, as it is named by something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::downsync) struct Spot {
    pub(in crate::downsync) kind: KindName,
    pub(in crate::downsync) namespace: String,
    pub(in crate::downsync) name: String,
}

impl Downsync {
    /// Looks for all of them; those of a kind that is about to be listed are found when it is.
    pub(in crate::downsync) fn seek_every(&mut self) -> Dirty {
        self.seek(|_| true)
    }

    /// Looks for those of one kind.
    pub(super) fn seek_of(&mut self, kind: &KindName) -> Dirty {
        self.seek(|spot| spot.kind == *kind)
    }

    fn seek(&mut self, is_meant: impl Fn(&Spot) -> bool) -> Dirty {
        if !self.is_synced() {
            return Dirty::new();
        }
        let of_works = self.works.iter().flat_map(|(origin, works)| {
            let works = works.values().filter(|work| self.is_of_this_space(work));
            works.filter_map(move |work| Some((origin, work.marked.as_ref()?)))
        });
        let of_combined = self
            .combined
            .values()
            .filter_map(|known| known.of.as_ref().map(|(origin, spot)| (origin, spot)));
        let unseen: Vec<(OriginUid, Spot)> = of_works
            .chain(of_combined)
            .filter(|(origin, spot)| {
                !self.objects.contains_key(*origin) && is_meant(spot) && self.is_told(&spot.kind)
            })
            .map(|(origin, spot)| (origin.clone(), spot.clone()))
            .collect();
        let mut dirty = Dirty::new();
        for (origin, spot) in unseen {
            let kind = self.catalogue.as_ref().and_then(|kinds| kinds.get(&spot.kind));
            let Some(kind) = kind.map(Arc::clone) else {
                continue;
            };
            let metadata = ObjectMeta {
                namespace: Some(spot.namespace),
                name: Some(spot.name),
                ..ObjectMeta::default()
            };
            let object = DynamicObject {
                types: None,
                metadata,
                data: serde_json::Value::Null,
            };
            let (mut object, _) = Object::new(&kind, object);
            object.presence = Presence::Leaving;
            self.objects.insert(origin.clone(), object);
            dirty.extend(self.keys_of(&origin));
        }
        dirty
    }
}
