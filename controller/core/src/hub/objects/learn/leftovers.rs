//! Objects that no watch reports, but that a ManifestWork or a CombinedStatus names. They were
//! deleted or deselected while no controller was running, and a label, a status or a CombinedStatus
//! of Argosy may be left.
//!
//! Each is treated like an object that its watch no longer reports: it is read, cleaned, and then
//! forgotten.

use std::sync::Arc;

use kube::core::{DynamicObject, ObjectMeta};

use super::Dirty;
use crate::{
    OriginUid,
    hub::objects::{
        ObjectIndex,
        kind::KindName,
        object::{ObjectView, Presence},
        object_ref::ObjectRef,
    },
};

impl ObjectIndex {
    /// Looks for all leftovers. Those of a kind that has yet to be listed are found when it is
    /// listed.
    pub(in crate::hub::objects) fn rediscover_all(&mut self) -> Dirty {
        self.rediscover(|_| true)
    }

    /// Looks for the leftovers of one kind.
    pub(super) fn rediscover_kind(&mut self, kind: &KindName) -> Dirty {
        self.rediscover(|spot| spot.kind == *kind)
    }

    fn rediscover(&mut self, is_meant: impl Fn(&ObjectRef) -> bool) -> Dirty {
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
        let unseen: Vec<(OriginUid, ObjectRef)> = of_works
            .chain(of_combined)
            .filter(|(origin, spot)| {
                !self.objects.contains_key(*origin) && is_meant(spot) && self.is_told(&spot.kind)
            })
            .map(|(origin, spot)| (origin.clone(), spot.clone()))
            .collect();
        let mut dirty = Dirty::new();
        for (origin, spot) in unseen {
            let kind = self.catalog.as_ref().and_then(|kinds| kinds.get(&spot.kind));
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
            let (mut object, _) = ObjectView::new(&kind, object);
            object.presence = Presence::Leaving;
            self.objects.insert(origin.clone(), Box::new(object));
            dirty.extend(self.keys_of(&origin));
        }
        dirty
    }
}
