//! Inputs about StatusCollectors and CombinedStatuses.

use std::collections::BTreeSet;

use argosy_api::{CombinedStatus, StatusCollector};
use kube::ResourceExt;

use super::Dirty;
use crate::{
    Change,
    hub::objects::{
        Awaited, DownsyncKey, ObjectIndex,
        collectors::{Entry, Known, combined_key},
    },
    index::{fingerprint::Fingerprint, store::Delta},
};

impl ObjectIndex {
    pub(super) fn on_collectors(&mut self, change: Change<StatusCollector>) -> Dirty {
        let delta = Delta::of(
            change,
            |collector: &StatusCollector| Some(collector.name_any()),
            &self.collectors,
            &mut self.in_flight,
            |name: &String, _| Some(DownsyncKey::Collector(name.clone())),
        );
        self.synced.mark(Awaited::Collectors, delta.is_list);
        let mut touched = BTreeSet::new();
        let mut dirty = Dirty::new();
        for name in delta.gone {
            self.collectors.remove(&name);
            touched.insert(name);
        }
        for (name, collector) in delta.live {
            let known = self.collectors.get_mut(&name);
            dirty.insert(DownsyncKey::Collector(name.clone()));
            let is_same = |known: &Entry| {
                Some(known.generation) == collector.metadata.generation
                    && Some(&known.uid) == collector.metadata.uid.as_ref()
            };
            match known {
                Some(known) if is_same(known) => known.told(collector),
                _ => {
                    self.collectors.insert(name.clone(), Entry::compile(collector));
                    touched.insert(name);
                }
            }
        }
        dirty.extend(self.using(&touched));
        dirty
    }

    /// The keys of the policies that name these collectors, and of the CombinedStatuses of their
    /// objects.
    fn using(&self, collectors: &BTreeSet<String>) -> Dirty {
        let policies = self.policies.iter();
        let using =
            policies.filter(|(_, policy)| policy.rules().collectors().any(|name| collectors.contains(name)));
        using
            .flat_map(|(name, policy)| {
                let combined = policy
                    .selected
                    .iter()
                    .map(|origin| DownsyncKey::Combined(origin.clone(), policy.uid().to_owned()));
                [DownsyncKey::Policy(name.clone())].into_iter().chain(combined)
            })
            .collect()
    }

    pub(super) fn on_combined(&mut self, change: Change<CombinedStatus>) -> Dirty {
        let delta = self.combined_delta(change);
        self.synced.mark(Awaited::Combined, delta.is_list);
        let mut dirty = Dirty::new();
        for name in &delta.gone {
            dirty.extend(self.delete_combined(name));
        }
        for (name, status) in delta.live {
            dirty.extend(self.apply_combined(name, &status, None));
        }
        dirty
    }

    /// Learns a CombinedStatus that the controller has just written. `made_of` is the digest of its
    /// inputs.
    pub(super) fn on_written_combined(&mut self, made_of: Fingerprint, status: CombinedStatus) -> Dirty {
        let mut dirty: Dirty = combined_key(&status.name_any()).into_iter().collect();
        let delta = self.combined_delta(Change::Apply(Box::new(status)));
        for (name, status) in delta.live {
            dirty.extend(self.apply_combined(name, &status, Some(made_of)));
        }
        dirty
    }

    fn combined_delta(&mut self, change: Change<CombinedStatus>) -> Delta<String, CombinedStatus> {
        Delta::of(
            change,
            |status: &CombinedStatus| Some(status.name_any()),
            &self.combined,
            &mut self.in_flight,
            |name: &String, _| combined_key(name),
        )
    }

    fn apply_combined(
        &mut self,
        name: String,
        status: &CombinedStatus,
        made_of: Option<Fingerprint>,
    ) -> Dirty {
        let mut view = Known::new(status, self.combined.get(&name));
        view.made_of = made_of.or(view.made_of);
        let dirty = combined_key(&name).into_iter().collect();
        self.combined.insert(name, view);
        dirty
    }

    pub(super) fn on_standing(&mut self, name: &str, version: &str, made_of: Fingerprint) -> Dirty {
        if let Some(known) = self
            .combined
            .get_mut(name)
            .filter(|known| known.resource_version == version)
        {
            known.made_of = Some(made_of);
        }
        Dirty::new()
    }

    pub(super) fn delete_combined(&mut self, name: &str) -> Dirty {
        let known = self.combined.remove(name);
        let mut dirty: Dirty = combined_key(name).into_iter().collect();
        for key in dirty.clone() {
            // The answer to our own deletion, too, may come before an earlier answer.
            self.in_flight
                .tombstone(&key, known.as_ref().map(|known| known.uid.as_str()));
            if let DownsyncKey::Combined(origin, _) = &key {
                dirty.extend(self.forget_if_clean(origin));
            }
        }
        dirty
    }
}
