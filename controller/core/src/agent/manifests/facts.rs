//! Facts about one object or one ManifestWork, read from the index. They depend on no decision.

use super::{Dirty, ManifestIndex, ObjectKey, object_view::ObjectView};

impl ManifestIndex {
    /// The object as it was last seen, whoever owns it.
    pub(super) fn observed(&self, key: &ObjectKey) -> Option<&ObjectView> {
        let looked = self.looks.get(key).and_then(|look| look.object.as_ref());
        self.objects.get(key).or(looked)
    }

    pub(super) fn users_of(&self, key: &ObjectKey) -> Dirty {
        self.users.get(key).cloned().unwrap_or_default()
    }
}
