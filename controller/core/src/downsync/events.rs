//! How the index learns: one method for each kind of input, each returning the keys that it concerns.

mod collectors;
mod mailbox;
mod objects;
pub(super) mod unseen;
mod wishes;

use std::collections::BTreeSet;

use super::{Downsync, DownsyncAction, DownsyncInput, DownsyncKey, Object};
use crate::{Failure, OriginUid, reconcile::is_newer};

type Dirty = BTreeSet<DownsyncKey>;

impl Downsync {
    pub(super) fn learn(&mut self, input: DownsyncInput) -> Dirty {
        match input {
            DownsyncInput::Kinds(kinds) => self.learn_kinds(kinds),
            DownsyncInput::Object(kind, change) => self.learn_objects(&kind, change),
            DownsyncInput::Unwatched(kind) => self.unwatch(&kind),
            DownsyncInput::Unreadable(kind, message) => self.learn_unreadable(kind, message),
            DownsyncInput::ObjectGone(origin) => self.miss_object(&origin),
            DownsyncInput::WroteStatus(kind, wanted, object) => self.learn_written(&kind, wanted, *object),
            DownsyncInput::Policy(change) => self.learn_policies(change),
            DownsyncInput::Transform(change) => self.learn_transforms(change),
            DownsyncInput::Namespace(change) => self.learn_namespaces(change),
            DownsyncInput::Binding(change) => self.learn_bindings(change),
            DownsyncInput::Cluster(change) => self.learn_clusters(change),
            DownsyncInput::Properties(change) => self.learn_properties(change),
            DownsyncInput::Work(change) => self.learn_works(change),
            DownsyncInput::WroteWork(wanted, work) => self.learn_written_work(wanted, *work),
            DownsyncInput::WorkGone(cluster, origin) => self.delete_work(&origin, &cluster),
            DownsyncInput::Report(change) => self.learn_reports(change),
            DownsyncInput::RunReport(change) => self.learn_run_reports(change),
            DownsyncInput::RunReportsUnwatched => self.forget_run_reports(),
            DownsyncInput::Collector(change) => self.learn_collectors(change),
            DownsyncInput::Combined(change) => self.learn_combined(change),
            DownsyncInput::WroteCombined(made_of, status) => self.apply_combined(&status, Some(made_of)),
            DownsyncInput::CombinedStands(name, version, made_of) => {
                self.learn_standing(&name, &version, made_of)
            }
            DownsyncInput::CombinedGone(name) => self.delete_combined(&name),
        }
    }

    pub(super) fn learn_failure(
        &mut self,
        key: &DownsyncKey,
        action: &DownsyncAction,
        failure: &Failure,
    ) -> Dirty {
        let mut dirty = Dirty::from([key.clone()]);
        if let (DownsyncKey::Object(origin), Failure::Refused(message)) = (key, failure) {
            if self.is_leaving(origin) {
                dirty.extend(self.give_up(origin));
                return dirty;
            }
            self.object_failures.insert(origin.clone(), message.clone());
            let object = self.objects.get(origin);
            dirty.extend(object.into_iter().flat_map(Object::policy_keys));
        }
        if let (
            DownsyncKey::Copy(origin, cluster),
            DownsyncAction::CreateWork { .. } | DownsyncAction::ChangeWork { .. },
        ) = (key, action)
        {
            dirty.extend(self.learn_send_failure(origin, cluster, failure));
        }
        dirty
    }

    /// The copies of these objects, wherever they are and are to be.
    fn copies_of(&self, origins: impl IntoIterator<Item = OriginUid>) -> Dirty {
        let keys = origins.into_iter().flat_map(|origin| self.keys_of(&origin));
        keys.filter(|key| matches!(key, DownsyncKey::Copy(..))).collect()
    }
}

/// Whether what is known is newer than what comes in.
fn is_old(incoming: Option<&str>, known: Option<&str>) -> bool {
    known.is_some_and(|known| !is_newer(incoming, known))
}
