//! Updates the applier's index from watch events. Each update returns the ManifestWorks that it
//! concerns.

use std::collections::BTreeSet;

use argosy_api::{AppliedManifestWork, ManifestWork, WorkStatus, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{
    AppliedRecord, ApplyInput, Awaited, Dirty, Listing, ManifestIndex, ManifestWorkView, ObjectKey, Obstacle,
    ReportedStatus, Resource, object_view::ObjectView,
};
use crate::{
    Change, WorkName,
    index::{reconciler::is_newer, store::Delta},
};

impl ManifestIndex {
    pub(super) fn learn(&mut self, input: ApplyInput, now: Timestamp) -> Dirty {
        match input {
            ApplyInput::Work(change) => self.on_works(change),
            ApplyInput::WorkStatus(change) => self.on_work_status(change),
            ApplyInput::Record(change) => self.on_records(change),
            ApplyInput::Served(api, served) => {
                self.catalog.learn(api.clone(), served, now);
                self.rediscover(self.apis.get(&api).cloned().unwrap_or_default())
            }
            ApplyInput::Undiscovered(api, problem) => {
                self.catalog.on_problem(api.clone(), problem, now);
                self.apis.get(&api).cloned().unwrap_or_default()
            }
            ApplyInput::Objects(resource, change) => self.on_objects(&resource, change),
            ApplyInput::Unlisted(resource, obstacle) => self.on_obstacle(resource, obstacle),
            ApplyInput::Unwatched(resource) => self.forget_kind(&resource),
            ApplyInput::Single(key, change) => self.on_single(key, change, now),
            ApplyInput::SingleUnwatched(key) => self.unfollow(&key),
            ApplyInput::ReportedGone(name) => {
                self.work_statuses.remove(&name);
                [name].into()
            }
            ApplyInput::RecordGone(name) => {
                self.records.remove(&name);
                self.rediscover([name].into())
            }
            // These inputs are answers to requests, not events of watches.
            ApplyInput::Seen(..)
            | ApplyInput::Reviewed(..)
            | ApplyInput::Applied(..)
            | ApplyInput::Evaluated(..)
            | ApplyInput::Failed(..)
            | ApplyInput::NamespaceMade(_) => Dirty::new(),
        }
    }

    fn on_works(&mut self, change: Change<ManifestWork>) -> Dirty {
        let delta = Delta::of(
            change,
            |work: &ManifestWork| Some(name_of(&work.metadata)),
            &self.works,
            &mut self.in_flight,
            |name: &WorkName, _| Some(name.clone()),
        );
        self.synced.mark(Awaited::Works, delta.is_list);
        let mut dirty = Dirty::new();
        for name in &delta.gone {
            dirty.append(&mut self.forget_work(name));
        }
        for (name, work) in delta.live {
            dirty.append(&mut self.on_work(&name, work));
        }
        dirty
    }

    fn on_work(&mut self, name: &WorkName, work: ManifestWork) -> Dirty {
        // A ManifestWork with this annotation is a Workflow run, even without its label. The other
        // index is responsible for it.
        let annotations = work.metadata.annotations.as_ref();
        if annotations.is_some_and(|annotations| annotations.contains_key(names::ATTEMPT_ANNOTATION)) {
            return self.forget_work(name);
        }
        let known = self.works.get(name);
        let work = ManifestWorkView::new(work);
        let is_changed =
            known.is_none_or(|known| known.generation != work.generation || known.uid != work.uid);
        if is_changed {
            // The API server may accept the new manifest although it refused the old one.
            self.troubles.retain(|(of, _), _| of != name);
            self.readers.retain(|(of, _), _| of != name);
        }
        let is_new_or_ending = known.is_none_or(|known| known.is_deleting != work.is_deleting);
        self.works.insert(name.clone(), work);
        self.note_contents(name);
        let mut dirty = self.rediscover([name.clone()].into());
        if is_new_or_ending {
            dirty.append(&mut self.neighbors(name));
        }
        dirty
    }

    fn forget_work(&mut self, name: &WorkName) -> Dirty {
        let neighbors = self.neighbors(name);
        self.works.remove(name);
        self.note_contents(name);
        self.troubles.retain(|(of, _), _| of != name);
        self.readers.retain(|(of, _), _| of != name);
        self.evaluated.retain(|(of, _), _| of != name);
        let mut dirty = self.rediscover([name.clone()].into());
        dirty.extend(neighbors);
        dirty
    }

    /// The ManifestWorks that name an object which this one also names.
    fn neighbors(&self, name: &WorkName) -> Dirty {
        let named = self.named.get(name).into_iter();
        named
            .flat_map(|named| &named.keys)
            .filter_map(|key| self.users.get(key))
            .flatten()
            .cloned()
            .collect()
    }

    fn on_work_status(&mut self, change: Change<WorkStatus>) -> Dirty {
        let delta = Delta::of(
            change,
            |status: &WorkStatus| Some(name_of(&status.metadata)),
            &self.work_statuses,
            &mut self.in_flight,
            |name: &WorkName, _| Some(name.clone()),
        );
        self.synced.mark(Awaited::WorkStatus, delta.is_list);
        let mut dirty = Dirty::new();
        for name in delta.gone {
            self.work_statuses.remove(&name);
            dirty.insert(name);
        }
        for (name, status) in delta.live {
            self.work_statuses
                .insert(name.clone(), ReportedStatus::new(status));
            dirty.insert(name);
        }
        if delta.is_list { self.every_key() } else { dirty }
    }

    fn on_records(&mut self, change: Change<AppliedManifestWork>) -> Dirty {
        let hub_hash = &self.config.hub_hash;
        let delta = Delta::of(
            change,
            // Records of another hub belong to another agent on the same cluster.
            |record: &AppliedManifestWork| {
                let is_ours = record.spec.hub_hash == *hub_hash;
                is_ours.then(|| WorkName::from(record.spec.manifest_work_name.as_str()))
            },
            &self.records,
            &mut self.in_flight,
            |_, _| None,
        );
        self.synced.mark(Awaited::Records, delta.is_list);
        let mut dirty = Dirty::new();
        for name in delta.gone {
            self.records.remove(&name);
            dirty.insert(name);
        }
        for (name, record) in delta.live {
            self.records.insert(name.clone(), AppliedRecord::new(record));
            dirty.insert(name);
        }
        if delta.is_list {
            dirty = self.every_key();
        }
        self.rediscover(dirty)
    }

    fn on_objects(&mut self, resource: &Resource, change: Change<ObjectView>) -> Dirty {
        match change {
            Change::Apply(object) => self.on_object(resource, *object),
            Change::Delete(object) => {
                let key = object.key_in(resource);
                self.tombstone(&key, Some(&object.uid));
                let is_it = |known: &ObjectView| known.uid == object.uid;
                if self.objects.get(&key).is_some_and(is_it) {
                    self.objects.remove(&key);
                }
                // The object may only have lost its label, so the object under this name must be
                // read.
                self.looks.remove(&key);
                self.users_of(&key)
            }
            Change::Reset(live) => {
                self.listings.insert(resource.clone(), Listing::Listed);
                let keys: BTreeSet<_> = live.iter().map(|object| object.key_in(resource)).collect();
                // An object that is missing from a list may be newer than the list. It is read
                // before it counts as deleted.
                self.objects
                    .retain(|key, _| key.resource != *resource || keys.contains(key));
                self.looks.retain(|key, _| key.resource != *resource);
                self.drop_answers(resource, &keys);
                for object in live {
                    self.on_object(resource, object);
                }
                self.kinds.get(resource).cloned().unwrap_or_default()
            }
        }
    }

    /// Drops answers on their way about objects that are missing from a list: they may be older than the
    /// list.
    fn drop_answers(&mut self, resource: &Resource, listed: &BTreeSet<ObjectKey>) {
        for work in self.kinds.get(resource).into_iter().flatten() {
            let keys = self.named.get(work).into_iter().flat_map(|named| &named.keys);
            for key in keys.filter(|key| key.resource == *resource && !listed.contains(*key)) {
                self.in_flight.tombstone(work, Some(&key.to_string()));
            }
        }
    }

    fn on_object(&mut self, resource: &Resource, object: ObjectView) -> Dirty {
        let key = object.key_in(resource);
        // A watch may have passed it on before its ManifestWork was deleted, and dropped newer events before
        // another one named it.
        let naming = self.named_objects.naming(&key);
        if naming.is_none() || object.naming.is_some_and(|passed| naming != Some(passed)) {
            return Dirty::new();
        }
        let known = self.objects.get(&key);
        let is_old =
            known.is_some_and(|known| !is_newer(Some(&object.resource_version), &known.resource_version));
        if object.is_run() || is_old {
            return Dirty::new();
        }
        let mut dirty = self.users_of(&key);
        dirty.append(&mut self.invalidate(&key, &object));
        self.looks.remove(&key);
        self.objects.insert(key, object);
        dirty
    }

    /// Ends the back-off for a kind when its CRD becomes established.
    pub(super) fn invalidate(&mut self, key: &ObjectKey, object: &ObjectView) -> Dirty {
        if &*key.resource.plural != "customresourcedefinitions" {
            return Dirty::new();
        }
        let data = object.to_value();
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
        let apis = self.catalog.invalidate(group, kind);
        apis.iter()
            .filter_map(|api| self.apis.get(api))
            .flatten()
            .cloned()
            .collect()
    }

    fn on_obstacle(&mut self, resource: Resource, obstacle: Obstacle) -> Dirty {
        let users = self.kinds.get(&resource).cloned().unwrap_or_default();
        if obstacle == Obstacle::Missing {
            if matches!(self.listings.get(&resource), Some(Listing::Listed)) {
                self.catalog.mark_uncertain(&resource.api);
            }
            self.catalog.forget(&resource);
            self.objects.retain(|key, _| key.resource != resource);
            self.looks.retain(|key, _| key.resource != resource);
        }
        self.listings.insert(resource, Listing::Obstructed(obstacle));
        self.rediscover(users)
    }

    /// Forgets a kind whose watch has ended. If a ManifestWork names the kind again, a new watch
    /// lists it.
    fn forget_kind(&mut self, resource: &Resource) -> Dirty {
        self.listings.remove(resource);
        self.objects.retain(|key, _| key.resource != *resource);
        self.looks.retain(|key, _| key.resource != *resource);
        self.kinds.get(resource).cloned().unwrap_or_default()
    }

    fn tombstone(&mut self, key: &ObjectKey, uid: Option<&str>) {
        for work in self.users.get(key).into_iter().flatten() {
            self.in_flight.tombstone(work, uid);
        }
    }
}

fn name_of(metadata: &ObjectMeta) -> WorkName {
    metadata.name.as_deref().unwrap_or_default().into()
}
