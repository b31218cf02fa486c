//! How the index learns the objects of the WDS, kind by kind.

use std::{collections::BTreeSet, sync::Arc};

use kube::core::DynamicObject;

use super::{Dirty, is_old};
use crate::{
    Change, OriginUid,
    digest::Digest,
    downsync::{
        Downsync, DownsyncKey,
        kind::{Catalogue, Kind, KindName, object_stays},
        object::Object,
    },
    placement::{Rules, Subject},
    reconcile::is_gone,
};

impl Downsync {
    pub(super) fn learn_kinds(&mut self, kinds: Vec<Kind>) -> Dirty {
        self.catalogue = Some(Catalogue::new(kinds));
        self.renew_wanted_kinds();
        self.policies.keys().cloned().map(DownsyncKey::Policy).collect()
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
                self.delete_object(&origin)
            }
            Change::Reset(live) => {
                let name = kind.name();
                let origins: BTreeSet<OriginUid> = live.iter().map(origin_of).collect();
                let known = self.by_kind.get(&name).into_iter().flatten();
                let gone: Vec<_> = known.filter(|known| !origins.contains(*known)).cloned().collect();
                let mut dirty: Dirty = gone
                    .iter()
                    .flat_map(|origin| self.delete_object(origin))
                    .collect();
                dirty.extend(
                    live.into_iter()
                        .flat_map(|object| self.apply_object(kind, object)),
                );
                self.unreadable.remove(&name);
                if self.listed.insert(name.clone()) {
                    dirty.extend(self.works_of(&name));
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
        let mut object = Object::new(kind, object);
        if object_stays(&kind.group, &kind.resource, &object.namespace, &object.name) {
            return Dirty::new();
        }
        for (name, policy) in &self.policies {
            if let Some(wanted) = policy.rules.select(&self.subject(&object)) {
                object.selection.insert(name.clone(), wanted);
            }
        }
        if object.selection.is_empty() || kind.is_run() {
            object.content = None;
        }
        let before = self.objects.get(&origin);
        object.wrote = before.and_then(|before| before.wrote);
        let is_same = before.is_some_and(|before| {
            before.digest == object.digest
                && before.selection == object.selection
                && before.content.is_some() == object.content.is_some()
        });
        let mut dirty = if is_same {
            Dirty::new()
        } else {
            self.send_failures.retain(|(of, _), _| *of != origin);
            self.keys_of(&origin)
        };
        self.set_selected(&origin, &object);
        self.by_kind
            .entry(kind.name())
            .or_default()
            .insert(origin.clone());
        self.objects.insert(origin.clone(), object);
        if !is_same {
            dirty.extend(self.keys_of(&origin));
        }
        dirty.insert(DownsyncKey::Object(origin));
        dirty
    }

    pub(super) fn delete_object(&mut self, origin: &OriginUid) -> Dirty {
        let key = DownsyncKey::Object(origin.clone());
        self.under_way.bury(&key, Some(origin.as_str()));
        let dirty = self.keys_of(origin);
        if let Some(object) = self.objects.remove(origin) {
            for name in object.selection.keys() {
                if let Some(policy) = self.policies.get_mut(name) {
                    policy.selected.remove(origin);
                }
            }
            if let Some(of_kind) = self.by_kind.get_mut(&object.kind.name()) {
                of_kind.remove(origin);
            }
        }
        self.send_failures.retain(|(of, _), _| of != origin);
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
            object.wrote = object.status.map(|made| (wanted, made)).or(object.wrote);
        }
        dirty
    }

    pub(super) fn unwatch(&mut self, kind: &KindName) -> Dirty {
        self.listed.remove(kind);
        self.unreadable.remove(kind);
        if self.may_select(kind) {
            // The WDS does not serve it at present; what was there is still sent.
            return Dirty::new();
        }
        let origins = self.by_kind.get(kind).cloned().unwrap_or_default();
        let mut dirty: Dirty = origins
            .iter()
            .flat_map(|origin| self.delete_object(origin))
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
            .flat_map(|(name, _)| {
                [
                    DownsyncKey::Policy(name.clone()),
                    DownsyncKey::Binding(name.clone()),
                ]
            })
            .collect()
    }

    /// The copies of objects of a kind that are out there, known here or not.
    pub(super) fn works_of(&self, kind: &KindName) -> Dirty {
        let of_kind = self.works.iter().flat_map(|(origin, works)| {
            works
                .iter()
                .filter(|(_, work)| work.kind.as_ref() == Some(kind))
                .map(move |(cluster, _)| DownsyncKey::Copy(origin.clone(), cluster.clone()))
        });
        of_kind.collect()
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
        let wanted = rules.and_then(|rules| rules.select(&self.subject(object)));
        if object.selection.get(name) == wanted.as_ref() {
            return Dirty::new();
        }
        let mut dirty = self.keys_of(origin);
        if let Some(policy) = self.policies.get_mut(name) {
            match wanted {
                Some(_) => policy.selected.insert(origin.clone()),
                None => policy.selected.remove(origin),
            };
        }
        if let Some(object) = self.objects.get_mut(origin) {
            match wanted {
                Some(wanted) => drop(object.selection.insert(name.to_owned(), wanted)),
                None => drop(object.selection.remove(name)),
            }
            if object.selection.is_empty() {
                object.content = None;
            }
        }
        dirty.extend(self.keys_of(origin));
        dirty
    }

    fn subject<'a>(&'a self, object: &'a Object) -> Subject<'a> {
        Subject {
            group: &object.kind.group,
            resource: &object.kind.resource,
            namespace: &object.namespace,
            name: &object.name,
            labels: &object.labels,
            namespace_labels: self.namespaces.get(&*object.namespace).map(Arc::as_ref),
        }
    }
}

fn origin_of(object: &DynamicObject) -> OriginUid {
    object.metadata.uid.as_deref().unwrap_or_default().into()
}
