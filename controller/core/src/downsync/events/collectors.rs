//! How the index learns StatusCollectors and CombinedStatuses.

use std::collections::BTreeSet;

use argosy_api::{CombinedStatus, StatusCollector};
use kube::ResourceExt;

use super::{Dirty, is_old};
use crate::{
    Change,
    digest::Digest,
    downsync::{
        Downsync, DownsyncKey,
        collectors::{Entry, Known, combined_key},
    },
};

impl Downsync {
    pub(super) fn learn_collectors(&mut self, change: Change<StatusCollector>) -> Dirty {
        let (live, gone) = match change {
            Change::Apply(collector) => (vec![*collector], Vec::new()),
            Change::Delete(collector) => {
                let name = collector.name_any();
                let known = self.collectors.get(&name).map(|known| known.uid.as_str());
                if known.is_some() && known != collector.metadata.uid.as_deref() {
                    return Dirty::new();
                }
                (Vec::new(), vec![name])
            }
            Change::Reset(live) => {
                self.synced.collectors = true;
                let names: BTreeSet<String> = live.iter().map(ResourceExt::name_any).collect();
                let known = self.collectors.keys();
                let gone = known.filter(|name| !names.contains(*name)).cloned().collect();
                (live, gone)
            }
        };
        let mut touched = BTreeSet::new();
        let mut dirty = Dirty::new();
        for name in gone {
            let known = self.collectors.remove(&name);
            let key = DownsyncKey::Collector(name.clone());
            self.under_way
                .bury(&key, known.as_ref().map(|known| known.uid.as_str()));
            touched.insert(name);
        }
        for collector in live {
            let name = collector.name_any();
            let key = DownsyncKey::Collector(name.clone());
            if self.under_way.has_buried(&key, collector.metadata.uid.as_deref()) {
                continue;
            }
            let known = self.collectors.get_mut(&name);
            let version = known.as_ref().map(|known| known.resource_version.as_str());
            if is_old(collector.metadata.resource_version.as_deref(), version) {
                continue;
            }
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

    /// The policies that name these collectors, and the CombinedStatuses of what they select.
    fn using(&self, collectors: &BTreeSet<String>) -> Dirty {
        let policies = self.policies.iter();
        let using =
            policies.filter(|(_, policy)| policy.rules.collectors().any(|name| collectors.contains(name)));
        using
            .flat_map(|(name, policy)| {
                let combined = policy
                    .selected
                    .iter()
                    .map(|origin| DownsyncKey::Combined(origin.clone(), policy.uid.clone()));
                [DownsyncKey::Policy(name.clone())].into_iter().chain(combined)
            })
            .collect()
    }

    pub(super) fn learn_combined(&mut self, change: Change<CombinedStatus>) -> Dirty {
        match change {
            Change::Apply(status) => self.apply_combined(&status, None),
            Change::Delete(status) => {
                let name = status.name_any();
                let known = self
                    .combined
                    .get(&name)
                    .map(|known| known.resource_version.as_str());
                if is_old(status.metadata.resource_version.as_deref(), known) {
                    return Dirty::new();
                }
                self.delete_combined(&name)
            }
            Change::Reset(live) => {
                self.synced.combined = true;
                let names: BTreeSet<String> = live.iter().map(ResourceExt::name_any).collect();
                let known = self.combined.keys();
                let gone: Vec<_> = known.filter(|name| !names.contains(*name)).cloned().collect();
                let mut dirty: Dirty = gone.iter().flat_map(|name| self.delete_combined(name)).collect();
                for status in &live {
                    dirty.extend(self.apply_combined(status, None));
                }
                dirty
            }
        }
    }

    /// Learns a CombinedStatus; `made_of` where it is our own, as it is now.
    pub(super) fn apply_combined(&mut self, status: &CombinedStatus, made_of: Option<Digest>) -> Dirty {
        let name = status.name_any();
        let uid = status.metadata.uid.as_deref();
        if combined_key(&name).is_some_and(|key| self.under_way.has_buried(&key, uid)) {
            return combined_key(&name).into_iter().collect();
        }
        let known = self.combined.get(&name);
        let version = known.map(|known| known.resource_version.as_str());
        if is_old(status.metadata.resource_version.as_deref(), version) {
            return Dirty::new();
        }
        let mut view = Known::new(status, known);
        view.made_of = made_of.or(view.made_of);
        self.combined.insert(name.clone(), view);
        combined_key(&name).into_iter().collect()
    }

    pub(super) fn learn_standing(&mut self, name: &str, version: &str, made_of: Digest) -> Dirty {
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
            self.under_way
                .bury(&key, known.as_ref().map(|known| known.uid.as_str()));
            if let DownsyncKey::Combined(origin, _) = &key {
                dirty.extend(self.forget_if_clean(origin));
            }
        }
        dirty
    }
}
