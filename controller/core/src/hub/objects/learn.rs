//! The inputs of the index: one method for each kind of input, each returning the affected keys.

mod collectors;
pub(super) mod leftovers;
mod mailbox;
mod objects;
mod policies;

use jiff::Timestamp;

use super::{Dirty, DownsyncAction, DownsyncInput, DownsyncKey, ObjectIndex};
use crate::{Failure, OriginUid, index::reconciler::is_newer};

impl ObjectIndex {
    pub(super) fn learn(&mut self, input: DownsyncInput) -> Dirty {
        match input {
            DownsyncInput::Kinds(kinds) => self.on_kinds(kinds),
            DownsyncInput::Object(kind, change) => self.on_objects(&kind, change),
            DownsyncInput::Unwatched(kind) => self.unwatch(&kind),
            DownsyncInput::Unreadable(kind, message) => self.on_unreadable(kind, message),
            DownsyncInput::ObjectGone(origin) => self.miss_object(&origin),
            DownsyncInput::WroteStatus(kind, wanted, object) => self.on_written(&kind, wanted, *object),
            DownsyncInput::Policy(change) => self.on_policies(change),
            DownsyncInput::Transform(change) => self.on_transforms(change),
            DownsyncInput::Namespace(change) => self.on_namespaces(change),
            DownsyncInput::Binding(change) => self.on_bindings(change),
            DownsyncInput::Cluster(change) => self.on_clusters(change),
            DownsyncInput::Properties(change) => self.on_properties(change),
            DownsyncInput::SecretProperties(change) => self.on_secret_properties(change),
            DownsyncInput::Work(change) => self.on_works(change),
            DownsyncInput::WroteWork(wanted, work) => self.on_written_work(wanted, *work),
            DownsyncInput::WorkGone(cluster, origin) => self.delete_work(&origin, &cluster),
            DownsyncInput::Report(change) => self.on_reports(change),
            DownsyncInput::ReportGone {
                cluster,
                origin,
                version,
            } => self.miss_report(&origin, &cluster, &version),
            DownsyncInput::RunReport(change) => self.on_run_reports(change),
            DownsyncInput::RunReportsUnwatched => self.forget_run_reports(),
            DownsyncInput::Collector(change) => self.on_collectors(change),
            DownsyncInput::Combined(change) => self.on_combined(change),
            DownsyncInput::WroteCombined(made_of, status) => self.on_written_combined(made_of, *status),
            DownsyncInput::CombinedStands(name, version, made_of) => {
                self.on_standing(&name, &version, made_of)
            }
            DownsyncInput::CombinedGone(name) => self.delete_combined(&name),
        }
    }

    pub(super) fn on_failure(
        &mut self,
        key: &DownsyncKey,
        action: &DownsyncAction,
        failure: &Failure,
    ) -> Dirty {
        let mut dirty = Dirty::from([key.clone()]);
        if let (DownsyncKey::Object(origin), Failure::Refused(message)) = (key, failure) {
            if self.is_leaving(origin) {
                dirty.extend(self.abandon(origin));
                return dirty;
            }
            self.object_failures.insert(origin.clone(), message.clone());
            dirty.extend(self.concerned_policies(origin));
        }
        let pace = match key {
            DownsyncKey::Policy(name) => self.policies.get(name).map(|policy| &policy.status_pace),
            DownsyncKey::Binding(name) => self.policies.get(name).map(|policy| &policy.binding_pace),
            _ => None,
        };
        if let Some(pace) = pace {
            pace.failed();
        }
        if let (
            DownsyncKey::Copy(origin, cluster),
            DownsyncAction::CreateWork { .. } | DownsyncAction::ChangeWork { .. },
        ) = (key, action)
        {
            dirty.extend(self.on_send_failure(origin, cluster, failure));
        }
        dirty
    }

    /// Forgets the failures about those of the keys for which there is nothing to do any more, such as
    /// after a policy was changed back. Returns the policies that tell them.
    pub(super) fn forget_failures_without_action<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a DownsyncKey>,
        now: Timestamp,
    ) -> Dirty {
        if self.object_failures.is_empty() && self.send_failures.is_empty() {
            return Dirty::new();
        }
        let mut policies = Dirty::new();
        for key in keys {
            let (origin, had_failed) = match key {
                DownsyncKey::Object(origin)
                    if self.object_failures.contains_key(origin) && self.decide_object(origin).is_none() =>
                {
                    (origin, self.object_failures.remove(origin).is_some())
                }
                DownsyncKey::Copy(origin, cluster) => {
                    let address = (origin.clone(), cluster.clone());
                    let is_over = self.send_failures.contains_key(&address)
                        && self.decide_copy(origin, cluster, now).action.is_none();
                    (origin, is_over && self.send_failures.remove(&address).is_some())
                }
                _ => continue,
            };
            if had_failed {
                policies.extend(self.concerned_policies(origin));
            }
        }
        policies
    }

    /// The keys of the copies of these objects, both existing and wanted ones.
    fn copies_of(&self, origins: impl IntoIterator<Item = OriginUid>) -> Dirty {
        let keys = origins.into_iter().flat_map(|origin| self.keys_of(&origin));
        keys.filter(|key| matches!(key, DownsyncKey::Copy(..))).collect()
    }
}

/// True if the known version is newer than the incoming one.
fn is_old(incoming: Option<&str>, known: Option<&str>) -> bool {
    known.is_some_and(|known| !is_newer(incoming, known))
}
