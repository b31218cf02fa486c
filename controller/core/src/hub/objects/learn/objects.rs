//! Inputs about the objects of the WDS, kind by kind.

use std::{collections::BTreeSet, sync::Arc};

use super::{Dirty, is_old};
use crate::{
    Change, ClusterName, OriginUid,
    hub::objects::{
        DownsyncKey, ObjectIndex, ObservedObject,
        kind::{Catalog, Kind, KindName, object_stays},
        needs::RunFacts,
        object::{ObjectView, Presence, Selection},
        policy_view::PolicyView,
        status::{is_marked, marked},
    },
    index::{fingerprint::Fingerprint, reconciler::is_gone},
    policy::{Index, Labels, ObjectAttributes, Rules},
};

impl ObjectIndex {
    pub(super) fn on_kinds(&mut self, kinds: Vec<Kind>) -> Dirty {
        let is_first = self.catalog.is_none();
        self.catalog = Some(Catalog::new(kinds));
        self.renew_wanted_kinds();
        let mut dirty: Dirty = self.policies.keys().cloned().map(DownsyncKey::Policy).collect();
        if is_first && self.is_synced() {
            dirty.extend(self.rediscover_all());
            dirty.extend(self.every_unknown_work());
        }
        dirty
    }

    pub(super) fn on_objects(&mut self, kind: &Arc<Kind>, change: Change<ObservedObject>) -> Dirty {
        match change {
            Change::Apply(object) => self.apply_object(kind, *object),
            Change::Delete(object) => {
                let known = self
                    .objects
                    .get(&object.origin)
                    .map(|known| known.resource_version.as_str());
                if is_old(object.resource_version.as_deref(), known) {
                    return Dirty::new();
                }
                self.lose_object(&object.origin)
            }
            Change::Reset(live) => {
                let name = kind.name();
                let origins: BTreeSet<OriginUid> = live.iter().map(|object| object.origin.clone()).collect();
                let known = self.by_kind.get(&name).into_iter().flatten();
                let gone: Vec<_> = known.filter(|known| !origins.contains(*known)).cloned().collect();
                let mut dirty: Dirty = gone.iter().flat_map(|origin| self.lose_object(origin)).collect();
                dirty.extend(
                    live.into_iter()
                        .flat_map(|object| self.apply_object(kind, object)),
                );
                let was_unreadable = self.unreadable.remove(&name).is_some();
                let is_first = self.listed.insert(name.clone());
                if is_first {
                    dirty.extend(self.works_of(&name));
                    dirty.extend(self.rediscover_kind(&name));
                }
                if is_first || was_unreadable {
                    dirty.extend(self.policies_for(&name));
                }
                dirty
            }
        }
    }

    fn apply_object(&mut self, kind: &Arc<Kind>, object: ObservedObject) -> Dirty {
        let (origin, version) = (object.origin.clone(), object.resource_version.clone());
        let known = self
            .objects
            .get(&origin)
            .map(|known| known.resource_version.as_str());
        let is_buried = self
            .in_flight
            .is_tombstoned(&DownsyncKey::Object(origin.clone()), Some(origin.as_str()));
        if is_buried || is_old(version.as_deref(), known) {
            return Dirty::new();
        }
        let Some(mut object) = object.into_object() else {
            return Dirty::new();
        };
        if is_gone(&object.metadata) {
            return self.delete_object(&origin);
        }
        let labels = object.metadata.labels.clone().unwrap_or_default();
        let run = kind.is_run().then(|| RunFacts::take(&mut object));
        let (mut object, fields) = ObjectView::new(kind, object);
        if object_stays(&kind.group, &kind.resource, &object.namespace, &object.name) {
            return Dirty::new();
        }
        self.index_policies(kind);
        let subject = self.subject(&object, &labels);
        let candidates = self.candidates(kind, &labels).into_iter();
        let wishes = candidates.filter_map(|(name, policy)| Some((name.clone(), policy.select(&subject)?)));
        let selection = wishes.collect();
        object.selection = self.selections.share(selection);
        object.keep(fields, self.is_used(&object));
        let mut dirty = self.replace_object(&origin, object);
        dirty.extend(match run {
            Some(run) => self.learn_run(&origin, run),
            None => self.learn_needed(&origin),
        });
        dirty.extend(self.forget_if_clean(&origin));
        dirty.insert(DownsyncKey::Object(origin));
        dirty
    }

    fn index_policies(&mut self, kind: &Kind) {
        let policies = &self.policies;
        self.policies_by_label.entry(kind.name()).or_insert_with(|| {
            let rules = policies.iter();
            let rules = rules.map(|(name, policy)| (Arc::from(name.as_str()), policy.rules().as_ref()));
            Index::new((&kind.group, &kind.resource), rules)
        });
    }

    /// The policies that may select an object of the kind with these labels.
    fn candidates(&self, kind: &Kind, labels: &Labels) -> Vec<(&String, &PolicyView)> {
        let index = self.policies_by_label.get(&kind.name());
        let index = index.filter(|index| index.is_worthwhile(self.policies.len()));
        let Some(index) = index else {
            return self.policies.iter().collect();
        };
        let labels = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let names = index.candidates(labels).into_iter();
        names
            .filter_map(|name| self.policies.get_key_value(&**name))
            .collect()
    }

    /// Stores an object in place of its former version, and returns what differs.
    fn replace_object(&mut self, origin: &OriginUid, mut object: ObjectView) -> Dirty {
        let before = self.objects.get(origin);
        object.wrote = before.and_then(|before| before.wrote);
        let was_unwatched = before.is_some_and(|before| before.presence.is_unwatched());
        if was_unwatched && object.selection.is_empty() && self.in_flight.is_answer() {
            object.presence = Presence::Left;
        }
        let is_reselected = before.is_none_or(|before| before.selection != object.selection);
        let is_corrected = before.is_some_and(|before| {
            before.decode_error != object.decode_error || before.fires_here != object.fires_here
        });
        let is_same = !is_reselected
            && !is_corrected
            && before.is_some_and(|before| {
                before.digest == object.digest && before.content.is_some() == object.content.is_some()
            });
        let mut dirty = Dirty::new();
        if !is_same {
            dirty.extend(self.keys_of(origin));
        }
        if is_reselected || is_corrected || (!is_same && self.forget_failures(origin)) {
            dirty.extend(self.concerned_policies(origin));
            dirty.extend(self.concerned_by(&object));
        }
        self.set_selected(origin, &object);
        self.by_kind
            .entry(object.kind.name())
            .or_default()
            .insert(origin.clone());
        self.objects.insert(origin.clone(), Box::new(object));
        if !is_same {
            dirty.extend(self.keys_of(origin));
        }
        dirty
    }

    /// The watch of an object no longer reports it: the object was deleted, or it lost the label
    /// that the watch asks for, or its kind is no longer watched. It is no longer sent. If a label,
    /// a status or a CombinedStatus of Argosy may be left, the object is read, cleaned, and then
    /// forgotten.
    fn lose_object(&mut self, origin: &OriginUid) -> Dirty {
        let Some(object) = self.objects.get(origin) else {
            return self.delete_object(origin);
        };
        if !self.is_leaving(origin) && !is_marked(object) && self.combined_known(origin).is_empty() {
            return self.delete_object(origin);
        }
        let mut dirty = self.keys_of(origin);
        dirty.extend(self.concerned_policies(origin));
        self.deselect(origin);
        dirty.extend(self.lose_needed(origin));
        if let Some(object) = self.objects.get_mut(origin) {
            object.content = None;
            object.presence = Presence::Leaving;
        }
        dirty
    }

    /// True if an object is only read to be cleaned, and has not been read yet.
    pub(super) fn is_leaving(&self, origin: &OriginUid) -> bool {
        let object = self.objects.get(origin);
        object.is_some_and(|object| object.presence == Presence::Leaving)
    }

    /// A request found that an object does not exist. If a watch reports the object, only the watch
    /// decides that it is gone.
    pub(super) fn miss_object(&mut self, origin: &OriginUid) -> Dirty {
        match self.objects.get_mut(origin) {
            Some(object) if !object.presence.is_unwatched() => {
                object.presence = Presence::Missing;
                Dirty::new()
            }
            _ => self.delete_object(origin),
        }
    }

    /// The API server refuses a request for an object that is only to be cleaned. Nobody waits for
    /// the object, so it is treated as clean, and any marks are left to its next reader.
    pub(super) fn abandon(&mut self, origin: &OriginUid) -> Dirty {
        if let Some(object) = self.objects.get_mut(origin) {
            object.presence = Presence::Left;
            object.labels = (&marked(object, None)).into();
        }
        self.forget_if_clean(origin)
    }

    /// Forgets an object that is being cleaned, once nothing of Argosy is left on it.
    pub(super) fn forget_if_clean(&mut self, origin: &OriginUid) -> Dirty {
        let is_clean = |object: &ObjectView| object.presence == Presence::Left && !is_marked(object);
        if self.objects.get(origin).is_some_and(|object| is_clean(object))
            && self.combined_known(origin).is_empty()
        {
            self.delete_object(origin)
        } else {
            Dirty::new()
        }
    }

    /// Forgets the reasons why ManifestWorks of an object could not be written. Returns true if
    /// there were any.
    fn forget_failures(&mut self, origin: &OriginUid) -> bool {
        let first = (origin.clone(), ClusterName::from(""));
        let known = self.send_failures.range(first..);
        let addresses: Vec<_> = known
            .take_while(|((of, _), _)| of == origin)
            .map(|(address, _)| address.clone())
            .collect();
        for address in &addresses {
            self.send_failures.remove(address);
        }
        !addresses.is_empty()
    }

    fn deselect(&mut self, origin: &OriginUid) {
        let Some(object) = self.objects.get_mut(origin) else {
            return;
        };
        for name in std::mem::take(&mut object.selection).keys() {
            if let Some(policy) = self.policies.get_mut(name) {
                policy.selected.remove(origin);
            }
        }
    }

    pub(super) fn delete_object(&mut self, origin: &OriginUid) -> Dirty {
        let key = DownsyncKey::Object(origin.clone());
        self.in_flight.tombstone(&key, Some(origin.as_str()));
        let mut dirty = self.keys_of(origin);
        dirty.extend(self.concerned_policies(origin));
        self.deselect(origin);
        dirty.extend(self.lose_needed(origin));
        if let Some(object) = self.objects.remove(origin)
            && let Some(of_kind) = self.by_kind.get_mut(&object.kind.name())
        {
            of_kind.remove(origin);
        }
        self.forget_failures(origin);
        self.object_failures.remove(origin);
        dirty
    }

    /// Adapts the objects that policies select to an object that is about to be stored.
    fn set_selected(&mut self, origin: &OriginUid, object: &ObjectView) {
        let before = self.objects.get(origin);
        let former = before.into_iter().flat_map(|before| before.selection.keys());
        for name in former {
            if let Some(policy) = self.policies.get_mut(name)
                && !object.selection.contains_key(name)
            {
                policy.selected.remove(origin);
            }
        }
        for name in object.selection.keys() {
            if let Some(policy) = self.policies.get_mut(name) {
                policy.selected.insert(origin.clone());
            }
        }
    }

    /// Learns an object after the controller's own write of its status.
    pub(super) fn on_written(
        &mut self,
        kind: &Arc<Kind>,
        wanted: Fingerprint,
        object: ObservedObject,
    ) -> Dirty {
        let (origin, version) = (object.origin.clone(), object.resource_version.clone());
        let dirty = self.apply_object(kind, object);
        if let Some(object) = self.objects.get_mut(&origin)
            && version.as_ref() == Some(&object.resource_version)
        {
            object.wrote = Some((wanted, object.status));
        }
        dirty
    }

    pub(super) fn unwatch(&mut self, kind: &KindName) -> Dirty {
        self.listed.remove(kind);
        if self.may_send(kind) {
            // The WDS does not serve the kind at present. Its objects are still sent.
            return Dirty::new();
        }
        self.unreadable.remove(kind);
        let origins = self.by_kind.get(kind).cloned().unwrap_or_default();
        let mut dirty: Dirty = origins
            .iter()
            .flat_map(|origin| self.lose_object(origin))
            .collect();
        dirty.extend(self.works_of(kind));
        dirty
    }

    pub(super) fn on_unreadable(&mut self, kind: KindName, message: String) -> Dirty {
        if self.unreadable.get(&kind) == Some(&message) {
            return Dirty::new();
        }
        let dirty = self.policies_for(&kind);
        self.unreadable.insert(kind, message);
        dirty
    }

    /// The keys of the policies that can select the kind, or ask for it as a dependency.
    fn policies_for(&self, kind: &KindName) -> Dirty {
        let policies = self.policies.iter();
        let concerned = policies.filter(|(_, policy)| policy.concerns(kind));
        concerned
            .flat_map(|(name, _)| DownsyncKey::of_policy(name))
            .collect()
    }

    /// The existing copies of those objects of a kind that are unknown here.
    pub(super) fn works_of(&self, kind: &KindName) -> Dirty {
        let of_kind = self.works_by_kind.get(kind).into_iter().flatten();
        of_kind
            .filter(|(origin, _)| !self.objects.contains_key(origin))
            .map(|(origin, cluster)| DownsyncKey::Copy(origin.clone(), cluster.clone()))
            .collect()
    }

    fn every_unknown_work(&self) -> Dirty {
        let kinds = self.works_by_kind.keys();
        kinds.flat_map(|kind| self.works_of(kind)).collect()
    }

    /// The existing copies of unknown objects of the kinds that `rules` can select.
    pub(super) fn works_for(&self, rules: &Rules) -> Dirty {
        let kinds = self.works_by_kind.keys();
        let selectable = kinds.filter(|kind| rules.may_select(&kind.group, &kind.resource));
        selectable.flat_map(|kind| self.works_of(kind)).collect()
    }

    /// Tests the objects that `rules` or the former rules of a policy can select, and returns the
    /// affected keys.
    pub(super) fn select_anew(&mut self, name: &str, rules: &Rules) -> Dirty {
        let former = self.policies.get(name).map(|policy| policy.selected.clone());
        let selectable = self
            .by_kind
            .iter()
            .filter(|(kind, _)| rules.may_select(&kind.group, &kind.resource))
            .flat_map(|(_, origins)| origins.iter().cloned());
        let origins: BTreeSet<OriginUid> = selectable.chain(former.into_iter().flatten()).collect();
        let mut dirty = Dirty::new();
        for origin in origins {
            dirty.extend(self.test(&origin, name, true));
        }
        dirty
    }

    /// Tests one object against one policy. `stays` is false if the policy is about to be removed.
    pub(super) fn test(&mut self, origin: &OriginUid, name: &str, stays: bool) -> Dirty {
        let Some(object) = self.objects.get(origin) else {
            return Dirty::new();
        };
        let policy = self.policies.get(name).filter(|_| stays);
        let wanted = policy.and_then(|policy| policy.select(&self.subject(object, &object.labels.to_map())));
        if object.selection.get(name) == wanted.as_ref() {
            return Dirty::new();
        }
        let mut dirty = self.keys_of(origin);
        dirty.extend(DownsyncKey::of_policy(name));
        // The statuses of the other policies depend on the wishes of all of them.
        dirty.extend(object.policy_keys());
        if let Some(policy) = self.policies.get_mut(name) {
            match wanted {
                Some(_) => policy.selected.insert(origin.clone()),
                None => policy.selected.remove(origin),
            };
        }
        if let Some(object) = self.objects.get_mut(origin) {
            let mut selection = Selection::clone(&object.selection);
            match wanted {
                Some(wanted) => drop(selection.insert(name.to_owned(), wanted)),
                None => drop(selection.remove(name)),
            }
            object.selection = self.selections.share(selection);
        }
        let is_used = self
            .objects
            .get(origin)
            .is_some_and(|object| self.is_used(object));
        if let Some(object) = self.objects.get_mut(origin)
            && object.selection.is_empty()
            && !is_used
        {
            object.content = None;
        }
        dirty.extend(self.renew_run(origin));
        dirty.extend(self.keys_of(origin));
        dirty
    }

    fn subject<'a>(&'a self, object: &'a ObjectView, labels: &'a Labels) -> ObjectAttributes<'a> {
        ObjectAttributes {
            group: &object.kind.group,
            resource: &object.kind.resource,
            namespace: &object.namespace,
            name: &object.name,
            labels,
            namespace_labels: self.namespaces.labels(&object.namespace).map(Arc::as_ref),
        }
    }
}
