//! How the applier's index learns from watches: each change returning the ManifestWorks that it concerns.

use std::collections::BTreeSet;

use argosy_api::{AppliedManifestWork, ManifestWork, WorkStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::Value;

use super::{Applier, ApplyInput, Listing, ObjectKey, Obstacle, Record, Resource, Told, Work, views::Object};
use crate::{
    Change, WorkName,
    reconcile::{is_gone, is_newer},
};

pub(super) type Dirty = BTreeSet<WorkName>;

impl Applier {
    pub(super) fn learn(&mut self, input: ApplyInput, now: Timestamp) -> Dirty {
        match input {
            ApplyInput::Work(change) => self.learn_works(change),
            ApplyInput::Told(change) => self.learn_told(change),
            ApplyInput::Record(change) => self.learn_records(change),
            ApplyInput::Served(api, served) => {
                self.catalogue.learn(api.clone(), served, now);
                self.name_again(self.apis.get(&api).cloned().unwrap_or_default())
            }
            ApplyInput::Undiscovered(api, problem) => {
                self.catalogue.learn_problem(api.clone(), problem, now);
                self.apis.get(&api).cloned().unwrap_or_default()
            }
            ApplyInput::Objects(resource, change) => self.learn_objects(&resource, change),
            ApplyInput::Unlisted(resource, obstacle) => self.learn_obstacle(resource, obstacle),
            ApplyInput::Unwatched(resource) => self.forget_kind(&resource),
            ApplyInput::Single(key, change) => self.learn_single(key, change, now),
            ApplyInput::SingleUnwatched(key) => self.unfollow(&key),
            ApplyInput::ToldGone(name) => {
                self.told.remove(&name);
                [name].into()
            }
            ApplyInput::RecordGone(name) => {
                self.records.remove(&name);
                self.name_again([name].into())
            }
            // Answers only.
            ApplyInput::Seen(..)
            | ApplyInput::Reviewed(..)
            | ApplyInput::Applied(..)
            | ApplyInput::Evaluated(..)
            | ApplyInput::Failed(..)
            | ApplyInput::NamespaceMade(_) => Dirty::new(),
        }
    }

    fn learn_works(&mut self, change: Change<ManifestWork>) -> Dirty {
        match change {
            Change::Apply(work) if is_gone(&work.metadata) => self.forget_work(&name_of(&work.metadata)),
            Change::Apply(work) => self.learn_work(*work),
            Change::Delete(work) => {
                let name = name_of(&work.metadata);
                self.under_way.bury(&name, work.metadata.uid.as_deref());
                let is_it = |known: &Work| Some(&known.uid) == work.metadata.uid.as_ref();
                if self.works.get(&name).is_none_or(is_it) {
                    self.forget_work(&name)
                } else {
                    Dirty::new()
                }
            }
            Change::Reset(live) => {
                self.synced.works = true;
                let names: BTreeSet<_> = live.iter().map(|work| name_of(&work.metadata)).collect();
                let missing: Vec<_> = self
                    .works
                    .keys()
                    .filter(|name| !names.contains(*name))
                    .cloned()
                    .collect();
                let mut dirty = Dirty::new();
                for name in missing {
                    dirty.append(&mut self.forget_work(&name));
                }
                for work in live {
                    dirty.append(&mut self.learn_work(work));
                }
                dirty
            }
        }
    }

    fn learn_work(&mut self, work: ManifestWork) -> Dirty {
        let name = name_of(&work.metadata);
        if self.under_way.has_buried(&name, work.metadata.uid.as_deref()) {
            return Dirty::new();
        }
        let version = work.metadata.resource_version.as_deref();
        let known = self.works.get(&name);
        if known.is_some_and(|known| !is_newer(version, &known.resource_version)) {
            return Dirty::new();
        }
        let work = Work::new(work);
        let is_changed =
            known.is_none_or(|known| known.generation != work.generation || known.uid != work.uid);
        if is_changed {
            // What was refused may not be any more.
            self.troubles.retain(|(of, _), _| *of != name);
            self.readers.retain(|(of, _), _| *of != name);
        }
        let is_new_or_ending = known.is_none_or(|known| known.is_deleting != work.is_deleting);
        self.works.insert(name.clone(), work);
        let mut dirty = self.name_again([name.clone()].into());
        if is_new_or_ending {
            dirty.append(&mut self.neighbours(&name));
        }
        dirty
    }

    fn forget_work(&mut self, name: &WorkName) -> Dirty {
        let neighbours = self.neighbours(name);
        self.works.remove(name);
        self.troubles.retain(|(of, _), _| of != name);
        self.readers.retain(|(of, _), _| of != name);
        self.evaluated.retain(|(of, _), _| of != name);
        let mut dirty = self.name_again([name.clone()].into());
        dirty.extend(neighbours);
        dirty
    }

    /// The ManifestWorks that name an object which this one names, too.
    fn neighbours(&self, name: &WorkName) -> Dirty {
        let named = self.named.get(name).into_iter();
        named
            .flat_map(|named| &named.keys)
            .filter_map(|key| self.users.get(key))
            .flatten()
            .cloned()
            .collect()
    }

    fn learn_told(&mut self, change: Change<WorkStatus>) -> Dirty {
        match change {
            Change::Apply(status) => {
                let name = name_of(&status.metadata);
                let version = status.metadata.resource_version.as_deref();
                let is_past = self.under_way.has_buried(&name, status.metadata.uid.as_deref())
                    || self
                        .told
                        .get(&name)
                        .is_some_and(|known| !is_newer(version, &known.resource_version));
                if !is_past {
                    self.told.insert(name.clone(), Told::new(*status));
                }
                [name].into()
            }
            Change::Delete(status) => {
                let name = name_of(&status.metadata);
                self.under_way.bury(&name, status.metadata.uid.as_deref());
                let is_it = |known: &Told| Some(&known.uid) == status.metadata.uid.as_ref();
                if self.told.get(&name).is_some_and(is_it) {
                    self.told.remove(&name);
                }
                [name].into()
            }
            Change::Reset(live) => {
                self.synced.told = true;
                self.told = live
                    .into_iter()
                    .map(|status| (name_of(&status.metadata), Told::new(status)))
                    .collect();
                self.every_key()
            }
        }
    }

    fn learn_records(&mut self, change: Change<AppliedManifestWork>) -> Dirty {
        match change {
            Change::Apply(record) => self.learn_record(*record).into_iter().collect(),
            Change::Delete(record) => {
                let name = WorkName::from(record.spec.manifest_work_name.as_str());
                let is_it = |known: &Record| Some(&known.uid) == record.metadata.uid.as_ref();
                if self.records.get(&name).is_some_and(is_it) {
                    self.records.remove(&name);
                }
                self.name_again([name].into())
            }
            Change::Reset(live) => {
                self.synced.records = true;
                self.records.clear();
                for record in live {
                    self.learn_record(record);
                }
                let every = self.every_key();
                self.name_again(every)
            }
        }
    }

    /// Records of another hub are another agent's, though on the same cluster.
    fn learn_record(&mut self, record: AppliedManifestWork) -> Option<WorkName> {
        if record.spec.hub_hash != self.config.hub_hash {
            return None;
        }
        let name = WorkName::from(record.spec.manifest_work_name.as_str());
        let version = record.metadata.resource_version.as_deref();
        let is_old = |known: &Record| !is_newer(version, &known.resource_version);
        if !self.records.get(&name).is_some_and(is_old) {
            self.records.insert(name.clone(), Record::new(record));
            self.name_again([name.clone()].into());
        }
        Some(name)
    }

    fn learn_objects(&mut self, resource: &Resource, change: Change<DynamicObject>) -> Dirty {
        match change {
            Change::Apply(object) => self.learn_object(resource, *object),
            Change::Delete(object) => {
                let key = key_in(resource, &object.metadata);
                self.bury(&key, object.metadata.uid.as_deref());
                let is_it = |known: &Object| Some(&known.uid) == object.metadata.uid.as_ref();
                if self.objects.get(&key).is_some_and(is_it) {
                    self.objects.remove(&key);
                }
                // It may have lost its label only, so what is there under the name is to be read.
                self.looks.remove(&key);
                self.users_of(&key)
            }
            Change::Reset(live) => {
                self.listings.insert(resource.clone(), Listing::Listed);
                let keys: BTreeSet<_> = live
                    .iter()
                    .map(|object| key_in(resource, &object.metadata))
                    .collect();
                // What a list lacks may be younger than the list: it is read before it is believed to be gone.
                self.objects
                    .retain(|key, _| key.resource != *resource || keys.contains(key));
                self.looks.retain(|key, _| key.resource != *resource);
                for object in live {
                    self.learn_object(resource, object);
                }
                self.kinds.get(resource).cloned().unwrap_or_default()
            }
        }
    }

    fn learn_object(&mut self, resource: &Resource, object: DynamicObject) -> Dirty {
        let key = key_in(resource, &object.metadata);
        let object = Object::new(object);
        let known = self.objects.get(&key);
        let is_old =
            known.is_some_and(|known| !is_newer(Some(&object.resource_version), &known.resource_version));
        if object.is_run() || is_old {
            return Dirty::new();
        }
        let mut dirty = self.users_of(&key);
        dirty.append(&mut self.hurry(&key, &object));
        self.looks.remove(&key);
        self.objects.insert(key, object);
        dirty
    }

    /// A definition that is established ends the wait for its kind.
    pub(super) fn hurry(&mut self, key: &ObjectKey, object: &Object) -> Dirty {
        if &*key.resource.plural != "customresourcedefinitions" {
            return Dirty::new();
        }
        let data = &object.whole.data;
        let text = |pointer: &str| data.pointer(pointer).and_then(Value::as_str);
        let conditions = data.pointer("/status/conditions").and_then(Value::as_array);
        let is_established = conditions.into_iter().flatten().any(|condition| {
            condition.get("type").and_then(Value::as_str) == Some("Established")
                && condition.get("status").and_then(Value::as_str) == Some("True")
        });
        let (true, Some(group), Some(kind)) = (is_established, text("/spec/group"), text("/spec/names/kind"))
        else {
            return Dirty::new();
        };
        let apis = self.catalogue.hurry(group, kind);
        apis.iter()
            .filter_map(|api| self.apis.get(api))
            .flatten()
            .cloned()
            .collect()
    }

    fn learn_obstacle(&mut self, resource: Resource, obstacle: Obstacle) -> Dirty {
        let users = self.kinds.get(&resource).cloned().unwrap_or_default();
        if obstacle == Obstacle::Missing {
            if matches!(self.listings.get(&resource), Some(Listing::Listed)) {
                self.catalogue.doubt(&resource.api);
            }
            self.catalogue.forget(&resource);
            self.objects.retain(|key, _| key.resource != resource);
            self.looks.retain(|key, _| key.resource != resource);
        }
        self.listings.insert(resource, Listing::Obstructed(obstacle));
        self.name_again(users)
    }

    /// A watch has ended. If its kind is named again meanwhile, the next one lists it.
    fn forget_kind(&mut self, resource: &Resource) -> Dirty {
        self.listings.remove(resource);
        self.objects.retain(|key, _| key.resource != *resource);
        self.looks.retain(|key, _| key.resource != *resource);
        self.kinds.get(resource).cloned().unwrap_or_default()
    }

    fn bury(&mut self, key: &ObjectKey, uid: Option<&str>) {
        for work in self.users.get(key).into_iter().flatten() {
            self.under_way.bury(work, uid);
        }
    }

    pub(super) fn users_of(&self, key: &ObjectKey) -> Dirty {
        self.users.get(key).cloned().unwrap_or_default()
    }
}

fn name_of(metadata: &ObjectMeta) -> WorkName {
    metadata.name.as_deref().unwrap_or_default().into()
}

fn key_in(resource: &Resource, metadata: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(
        resource.clone(),
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}
