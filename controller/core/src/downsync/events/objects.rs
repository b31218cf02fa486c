//! How the index learns the objects of the WDS, kind by kind.

use std::{collections::BTreeSet, sync::Arc};

use kube::core::DynamicObject;

use super::{Dirty, is_old};
use crate::{
    Change, ClusterName, OriginUid,
    digest::Digest,
    downsync::{
        Downsync, DownsyncKey,
        kind::{Catalogue, Kind, KindName, object_stays},
        object::{Object, Presence, Selection},
        upsync::{is_marked, marked},
    },
    placement::{Labels, Rules, Subject},
    reconcile::is_gone,
};

impl Downsync {
    pub(super) fn learn_kinds(&mut self, kinds: Vec<Kind>) -> Dirty {
        let is_first = self.catalogue.is_none();
        self.catalogue = Some(Catalogue::new(kinds));
        self.renew_wanted_kinds();
        let mut dirty: Dirty = self.policies.keys().cloned().map(DownsyncKey::Policy).collect();
        if is_first && self.is_synced() {
            dirty.extend(self.seek_every());
            dirty.extend(self.every_unknown_work());
        }
        dirty
    }

    pub(super) fn learn_objects(&mut self, kind: &Arc<Kind>, change: Change<DynamicObject>) -> Dirty {
        match change {
            Change::Apply(object) => self.apply_object(kind, *object),
            Change::Delete(object) => {
                let origin = origin_of(&object);
                let known = self
                    .objects
                    .get(&origin)
                    .map(|known| known.resource_version.as_str());
                if is_old(object.metadata.resource_version.as_deref(), known) {
                    return Dirty::new();
                }
                self.lose_object(&origin)
            }
            Change::Reset(live) => {
                let name = kind.name();
                let origins: BTreeSet<OriginUid> = live.iter().map(origin_of).collect();
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
                    dirty.extend(self.seek_of(&name));
                }
                if is_first || was_unreadable {
                    dirty.extend(self.policies_for(&name));
                }
                dirty
            }
        }
    }

    fn apply_object(&mut self, kind: &Arc<Kind>, object: DynamicObject) -> Dirty {
        let origin = origin_of(&object);
        let version = object.metadata.resource_version.clone();
        let known = self
            .objects
            .get(&origin)
            .map(|known| known.resource_version.as_str());
        let is_buried = self
            .under_way
            .has_buried(&DownsyncKey::Object(origin.clone()), Some(origin.as_str()));
        if is_buried || is_old(version.as_deref(), known) {
            return Dirty::new();
        }
        if is_gone(&object.metadata) {
            return self.delete_object(&origin);
        }
        let labels = object.metadata.labels.clone().unwrap_or_default();
        let (mut object, fields) = Object::new(kind, object);
        if object_stays(&kind.group, &kind.resource, &object.namespace, &object.name) {
            return Dirty::new();
        }
        let subject = self.subject(&object, &labels);
        let wishes = self
            .policies
            .iter()
            .filter_map(|(name, policy)| Some((name.clone(), policy.rules.select(&subject)?)));
        let selection = wishes.collect();
        object.selection = self.selections.share(selection);
        object.keep(fields);
        let before = self.objects.get(&origin);
        object.wrote = before.and_then(|before| before.wrote);
        let was_unwatched = before.is_some_and(|before| before.presence.is_unwatched());
        if was_unwatched && object.selection.is_empty() && self.under_way.is_answer() {
            object.presence = Presence::Left;
        }
        let is_reselected = before.is_none_or(|before| before.selection != object.selection);
        let is_mended = before.is_some_and(|before| before.flaw != object.flaw);
        let is_same = !is_reselected
            && !is_mended
            && before.is_some_and(|before| {
                before.digest == object.digest && before.content.is_some() == object.content.is_some()
            });
        let mut dirty = Dirty::new();
        if !is_same {
            dirty.extend(self.keys_of(&origin));
        }
        if is_reselected || is_mended || (!is_same && self.forget_failures(&origin)) {
            dirty.extend(
                self.objects
                    .get(&origin)
                    .into_iter()
                    .flat_map(Object::policy_keys),
            );
            dirty.extend(object.policy_keys());
        }
        self.set_selected(&origin, &object);
        self.by_kind
            .entry(kind.name())
            .or_default()
            .insert(origin.clone());
        self.objects.insert(origin.clone(), object);
        if !is_same {
            dirty.extend(self.keys_of(&origin));
        }
        dirty.extend(self.forget_if_clean(&origin));
        dirty.insert(DownsyncKey::Object(origin));
        dirty
    }

    /// The watch of an object tells no longer of it: it was deleted, or lost the label that the watch asks for, or nobody watches the kind
    /// any more. It is not sent any longer; if anything of ours may still be on it, it is read, cleaned, and then forgotten.
    fn lose_object(&mut self, origin: &OriginUid) -> Dirty {
        let Some(object) = self.objects.get(origin) else {
            return self.delete_object(origin);
        };
        if !self.is_leaving(origin) && !is_marked(object) && self.combined_known(origin).is_empty() {
            return self.delete_object(origin);
        }
        let mut dirty = self.keys_of(origin);
        dirty.extend(object.policy_keys());
        self.deselect(origin);
        if let Some(object) = self.objects.get_mut(origin) {
            object.content = None;
            object.presence = Presence::Leaving;
        }
        dirty
    }

    /// Whether an object is only read to be rid of what is ours, and was not read yet.
    pub(super) fn is_leaving(&self, origin: &OriginUid) -> bool {
        let object = self.objects.get(origin);
        object.is_some_and(|object| object.presence == Presence::Leaving)
    }

    /// A request found that an object is not there. Only its watch says that it is gone, where there is one.
    pub(super) fn miss_object(&mut self, origin: &OriginUid) -> Dirty {
        match self.objects.get_mut(origin) {
            Some(object) if !object.presence.is_unwatched() => {
                object.presence = Presence::Missing;
                Dirty::new()
            }
            _ => self.delete_object(origin),
        }
    }

    /// An object that leaves may not be read. Nobody waits for it, and marks that it may have are left to whoever reads it next.
    pub(super) fn give_up(&mut self, origin: &OriginUid) -> Dirty {
        if let Some(object) = self.objects.get_mut(origin) {
            object.presence = Presence::Left;
            object.labels = (&marked(object, None)).into();
        }
        self.forget_if_clean(origin)
    }

    /// Forgets an object that leaves once nothing of ours is on it.
    pub(super) fn forget_if_clean(&mut self, origin: &OriginUid) -> Dirty {
        let is_clean = |object: &Object| object.presence == Presence::Left && !is_marked(object);
        if self.objects.get(origin).is_some_and(is_clean) && self.combined_known(origin).is_empty() {
            self.delete_object(origin)
        } else {
            Dirty::new()
        }
    }

    /// Forgets why ManifestWorks of an object could not be written; whether there was anything to forget.
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
        self.under_way.bury(&key, Some(origin.as_str()));
        let mut dirty = self.keys_of(origin);
        dirty.extend(self.objects.get(origin).into_iter().flat_map(Object::policy_keys));
        self.deselect(origin);
        if let Some(object) = self.objects.remove(origin)
            && let Some(of_kind) = self.by_kind.get_mut(&object.kind.name())
        {
            of_kind.remove(origin);
        }
        self.forget_failures(origin);
        self.object_failures.remove(origin);
        dirty
    }

    /// Keeps what policies select in step with an object that is about to be known.
    fn set_selected(&mut self, origin: &OriginUid, object: &Object) {
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

    /// Learns an object as it is after our write of its status.
    pub(super) fn learn_written(&mut self, kind: &Arc<Kind>, wanted: Digest, object: DynamicObject) -> Dirty {
        let origin = origin_of(&object);
        let version = object.metadata.resource_version.clone();
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
        if self.may_select(kind) {
            // The WDS does not serve it at present; what was there is still sent.
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

    pub(super) fn learn_unreadable(&mut self, kind: KindName, message: String) -> Dirty {
        if self.unreadable.get(&kind) == Some(&message) {
            return Dirty::new();
        }
        let dirty = self.policies_for(&kind);
        self.unreadable.insert(kind, message);
        dirty
    }

    /// What policies that can select the kind say.
    fn policies_for(&self, kind: &KindName) -> Dirty {
        let policies = self.policies.iter();
        let concerned = policies.filter(|(_, policy)| policy.rules.may_select(&kind.group, &kind.resource));
        concerned
            .flat_map(|(name, _)| DownsyncKey::of_policy(name))
            .collect()
    }

    /// The copies that are out there of objects of a kind that are not known here.
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

    /// The copies that are out there of unknown objects of the kinds that `rules` can select.
    pub(super) fn works_for(&self, rules: &Rules) -> Dirty {
        let kinds = self.works_by_kind.keys();
        let selectable = kinds.filter(|kind| rules.may_select(&kind.group, &kind.resource));
        selectable.flat_map(|kind| self.works_of(kind)).collect()
    }

    /// Tests the objects that `rules` or the former rules of a policy could select, and returns what has changed with them.
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
            dirty.extend(self.test(&origin, name, Some(rules)));
        }
        dirty
    }

    /// Tests one object against one policy; without rules, the policy is gone.
    pub(super) fn test(&mut self, origin: &OriginUid, name: &str, rules: Option<&Rules>) -> Dirty {
        let Some(object) = self.objects.get(origin) else {
            return Dirty::new();
        };
        let wanted = rules.and_then(|rules| rules.select(&self.subject(object, &object.labels.to_map())));
        if object.selection.get(name) == wanted.as_ref() {
            return Dirty::new();
        }
        let mut dirty = self.keys_of(origin);
        dirty.extend(DownsyncKey::of_policy(name));
        // What the others say of it depends on what all of them want.
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
            if object.selection.is_empty() {
                object.content = None;
            }
        }
        dirty.extend(self.keys_of(origin));
        dirty
    }

    fn subject<'a>(&'a self, object: &'a Object, labels: &'a Labels) -> Subject<'a> {
        Subject {
            group: &object.kind.group,
            resource: &object.kind.resource,
            namespace: &object.namespace,
            name: &object.name,
            labels,
            namespace_labels: self.namespaces.get(&*object.namespace).map(Arc::as_ref),
        }
    }
}

fn origin_of(object: &DynamicObject) -> OriginUid {
    object.metadata.uid.as_deref().unwrap_or_default().into()
}
