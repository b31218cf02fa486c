//! Updates the agent's index. There is one table per kind, and each update returns the keys that it
//! concerns.

use std::{
    collections::{BTreeSet, HashMap},
    hash::BuildHasher,
};

use argosy_api::conditions::reason;
use jiff::Timestamp;

use super::{
    AgentAction, AgentInput, ArgoApi, Awaited, Dirty, Obstacle, Refusal, RunIndex, Sought, Table,
    Unconfirmed, observed::Observed, views::ObjectView,
};
use crate::{
    Change, Failure, OriginUid,
    index::{
        reconciler::is_newer,
        store::{Delta, Versioned},
        tracked::InFlight,
    },
    model::control::Control,
};

impl RunIndex {
    pub(super) fn learn(&mut self, input: AgentInput) -> Dirty {
        let dirty = self.on_change(input);
        for origin in &dirty {
            self.tell_apart(origin);
            if self.objects.contains_key(origin) {
                self.obstacles.remove(origin);
                self.forget_failed_creation(origin);
                // The object occupies its name and so prevents a late creation, but only as long as
                // it exists. Therefore only this kind of doubt ends.
                if let Some(Unconfirmed::Unlisted(_)) = self.unconfirmed.get(origin) {
                    self.unconfirmed.remove(origin);
                }
            }
            self.shed(origin);
            self.forget_past(origin);
        }
        dirty
    }

    /// Forgets everything that only matters together with something that exists, so that the agent
    /// does not grow with every Workflow that it ever had. If the ManifestWork is gone, an object
    /// that disappeared without a record gets a record first (`decide_without_work`).
    fn forget_past(&mut self, origin: &OriginUid) {
        if self.works.contains_key(origin) {
            return;
        }
        self.obstacles.remove(origin);
        self.refusals.remove(origin);
        self.failing.remove(origin);
        self.unnoticed.remove(origin);
        let recorded = self.records.get(origin).map(|record| record.attempt);
        let is_recorded = |gone: &Sought| recorded >= Some(gone.attempt);
        if self.vanished.get(origin).is_some_and(is_recorded) {
            self.vanished.remove(origin);
        }
        let is_of_nothing = !self.objects.contains_key(origin)
            && !self.copies.contains_key(origin)
            && !self.unconfirmed.contains_key(origin)
            && !self.vanished.contains_key(origin);
        if is_of_nothing && recorded.is_none() {
            self.gone.remove(origin);
        }
    }

    /// Drops the manifest of an attempt that was created. It may be large and is not needed,
    /// because the attempt is never created again.
    fn shed(&mut self, origin: &OriginUid) {
        let object = self.objects.get(origin).map(|object| object.attempt);
        let created = object.max(self.records.get(origin).map(|record| record.attempt));
        if let Some(work) = self.works.get_mut(origin)
            && created.is_some_and(|attempt| attempt >= work.attempt)
            && let Some(manifest) = &mut work.manifest
        {
            manifest.shed();
        }
    }

    fn on_change(&mut self, input: AgentInput) -> Dirty {
        match input {
            AgentInput::Work(change) => {
                self.synced.mark(Awaited::Works, change.is_list());
                on_into(&mut self.works, &mut self.in_flight, change.map(|seen| seen.0))
            }
            AgentInput::WorkStatus(change) => {
                self.synced.mark(Awaited::WorkStatus, change.is_list());
                on_into(
                    &mut self.work_statuses,
                    &mut self.in_flight,
                    change.map(|seen| seen.0),
                )
            }
            AgentInput::Record(change) => {
                self.synced.mark(Awaited::Records, change.is_list());
                on_into(&mut self.records, &mut self.in_flight, change.map(|seen| seen.0))
            }
            AgentInput::Object(change) => self.on_objects(change.map(|seen| seen.0)),
            AgentInput::Argo(api) => self.on_api(api),
            AgentInput::ObjectGone(origin) => self.forget_object(origin),
            // The controller may have created it again since.
            AgentInput::WorkGone(origin) if self.in_flight.has_tombstones(&origin) => [origin].into(),
            AgentInput::WorkGone(origin) => forget(&mut self.works, origin),
            AgentInput::ReportedGone(origin) => forget(&mut self.work_statuses, origin),
            AgentInput::RecordGone(origin) => forget(&mut self.records, origin),
        }
    }

    fn on_api(&mut self, api: ArgoApi) -> Dirty {
        self.argo = Some(api);
        if api == ArgoApi::Missing {
            self.synced.unmark(Awaited::Objects);
            self.copies.clear();
            for (origin, object) in self.objects.drain() {
                self.unconfirmed
                    .insert(origin, Unconfirmed::Unlisted(Sought::known(&object)));
            }
        }
        self.every_key()
    }

    fn on_objects(&mut self, change: Change<Observed<ObjectView>>) -> Dirty {
        match change {
            Change::Apply(object) if object.is_gone => self.on_end(&object),
            Change::Apply(object) if self.is_past(&object) => Dirty::new(),
            Change::Apply(object) => self.on_live(*object),
            Change::Delete(object) => {
                if let Some(origin) = &object.origin {
                    self.in_flight.tombstone(origin, object.uid());
                }
                let dirty = self.on_end(&object);
                // The watch sends no more events of this object.
                if self.is_past(&object)
                    && let Some(origin) = &object.origin
                {
                    self.gone.remove(origin);
                }
                dirty
            }
            Change::Reset(live) => self.on_list(live),
        }
    }

    /// Processes a list. An object that is missing from it may still exist, because the list may be
    /// older than our own write. For copies this does not matter.
    fn on_list(&mut self, mut live: Vec<Observed<ObjectView>>) -> Dirty {
        live.retain(|object| !self.is_past(object));
        let was_served = self.argo == Some(ArgoApi::Served);
        self.synced.mark(Awaited::Objects, true);
        self.argo = Some(ArgoApi::Served);
        let listed: BTreeSet<_> = live.iter().map(|object| object.view.uid.clone()).collect();
        let is_unlisted = |object: &ObjectView| !listed.contains(&object.uid);
        let unlisted = self.objects.extract_if(|_, object| is_unlisted(object));
        let mut dirty = Dirty::new();
        for (origin, object) in unlisted {
            self.in_flight.tombstone(&origin, Some(&object.uid));
            let doubt = Unconfirmed::Unlisted(Sought::known(&object));
            self.unconfirmed.insert(origin.clone(), doubt);
            dirty.insert(origin);
        }
        self.copies.retain(|_, copies| {
            copies.retain(|copy| !is_unlisted(copy));
            !copies.is_empty()
        });
        for object in live {
            dirty.extend(self.on_live(object));
        }
        if was_served { dirty } else { self.every_key() }
    }

    /// Processes the deletion of an object.
    fn on_end(&mut self, object: &Observed<ObjectView>) -> Dirty {
        let Some(origin) = &object.origin else {
            return Dirty::new();
        };
        if let Some(copies) = self.copies.get_mut(origin) {
            copies.retain(|copy| copy.uid != object.view.uid);
            if copies.is_empty() {
                self.copies.remove(origin);
            }
        }
        let is_it = match (self.objects.get(origin), self.unconfirmed.get(origin)) {
            (Some(run), _) => run.uid == object.view.uid && !is_stale(&self.objects, origin, object),
            (None, Some(doubt)) => {
                let sought = doubt.sought();
                let is_uid = |uid: &String| *uid == object.view.uid;
                sought.key == object.view.key && sought.uid.as_ref().is_none_or(is_uid)
            }
            (None, None) => false,
        };
        if is_it {
            return self.forget_object(origin.clone());
        }
        [origin.clone()].into()
    }

    /// True if the object is known to be deleted. A UID never returns.
    fn is_past(&self, object: &Observed<ObjectView>) -> bool {
        let Some(origin) = &object.origin else {
            return false;
        };
        let known = self.gone.get(origin);
        known.is_some_and(|gone| object.uid() == Some(gone))
            || self.in_flight.is_tombstoned(origin, object.uid())
    }

    /// Processes an object that exists. If two have the same name, the older one is gone.
    fn on_live(&mut self, seen: Observed<ObjectView>) -> Dirty {
        let Observed {
            origin: Some(origin),
            view: object,
            ..
        } = seen
        else {
            return Dirty::new();
        };
        let is_place = |known: &ObjectView| known.uid == object.uid || known.key == object.key;
        let is_newer = |known: &ObjectView| is_newer(Some(&object.resource_version), &known.resource_version);
        let copies = self.copies.get_mut(&origin).into_iter().flatten();
        let run = self.objects.get_mut(&origin).map(Box::as_mut);
        let mut known = run.into_iter().chain(copies);
        match known.find(|known| is_place(known)) {
            Some(known) if !is_newer(known) => return Dirty::new(),
            Some(known) if known.uid == object.uid => *known = *object,
            known => {
                let former = known.map(|known| known.uid.clone());
                self.replace(&origin, former.as_deref(), *object);
            }
        }
        [origin].into()
    }

    /// Adds an object that is new to the index. It may have replaced one whose deletion was not
    /// seen.
    fn replace(&mut self, origin: &OriginUid, former: Option<&str>, object: ObjectView) {
        let run = self.objects.get(origin).map(|run| run.uid.as_str());
        if former.is_some() && run == former {
            self.forget_object(origin.clone());
        }
        let copies = self.copies.entry(origin.clone()).or_default();
        copies.retain(|copy| Some(copy.uid.as_str()) != former);
        copies.push(object);
    }

    /// Removes an object from the index. If it has no record, because somebody removed our
    /// finalizer, it is remembered as vanished.
    fn forget_object(&mut self, origin: OriginUid) -> Dirty {
        let object = self.objects.remove(&origin);
        let known = object.as_ref().map(|object| Sought::known(object));
        if let Some(object) = object {
            self.gone.insert(origin.clone(), object.uid);
        }
        let unlisted = match self.unconfirmed.remove(&origin) {
            Some(Unconfirmed::Unlisted(sought)) => Some(sought),
            Some(Unconfirmed::Creation(..) | Unconfirmed::Inherited(..)) | None => None,
        };
        let recorded = self.records.get(&origin).map(|record| record.attempt);
        let gone = known.or(unlisted);
        if let Some(gone) = gone.filter(|gone| recorded < Some(gone.attempt)) {
            self.vanished.insert(origin.clone(), gone);
        }
        [origin].into()
    }

    pub(super) fn on_failure(
        &mut self,
        key: &OriginUid,
        action: &AgentAction,
        failure: &Failure,
        now: Timestamp,
    ) -> Dirty {
        if let (AgentAction::Control { .. }, Failure::Refused(message)) = (action, failure)
            && let Some(work) = self.works.get(key)
        {
            let known = self.refusals.get(key);
            let refusal = Refusal {
                is_again: known.is_some_and(|known| known.control == *work.control),
                control: Control::clone(&work.control),
                message: message.clone(),
            };
            self.refusals.insert(key.clone(), refusal);
        }
        if let AgentAction::Create { object, needs, .. } = action {
            let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
            let cluster = &self.config.cluster;
            let obstacle = match failure {
                Failure::Foreign(message) => Some((reason::FOREIGN_OBJECT, message.clone())),
                Failure::NotFound { namespace: true, .. } => Some((
                    reason::NAMESPACE_MISSING,
                    format!("namespace {namespace} is not on {cluster}; create it there, and the run starts"),
                )),
                Failure::NotFound {
                    namespace: false,
                    message,
                }
                | Failure::Unserved(message) => Some((reason::ARGO_MISSING, message.clone())),
                Failure::Refused(message) => Some((reason::REFUSED, message.clone())),
                Failure::Missing(message) if needs.is_empty() => {
                    Some((reason::TEMPLATE_MISSING, message.clone()))
                }
                Failure::Missing(message) => Some((reason::DEPENDENCY_MISSING, message.clone())),
                Failure::Conflict | Failure::Fenced(_) | Failure::Unreachable(_) => None,
            };
            match (obstacle, failure) {
                // An earlier creation may still be carried out, so a doubt about it stays.
                (Some((reason, message)), _) => {
                    if self.works.contains_key(key) {
                        let known = self.obstacles.get(key);
                        let obstacle = Obstacle::new(reason, message, known, !needs.is_empty(), now);
                        self.obstacles.insert(key.clone(), obstacle);
                    }
                }
                (None, Failure::Unreachable(_)) => {
                    let lifetime = self.config.request_lifetime;
                    let until = now.saturating_add(lifetime).unwrap_or(Timestamp::MAX);
                    let doubt = Unconfirmed::Creation(Sought::of(object), until);
                    self.unconfirmed.insert(key.clone(), doubt);
                }
                (None, _) => {}
            }
        }
        [key.clone()].into()
    }
}

fn forget<V, S: BuildHasher>(table: &mut HashMap<OriginUid, V, S>, origin: OriginUid) -> Dirty {
    table.remove(&origin);
    [origin].into()
}

/// True if the index has a version that is as new or newer.
fn is_stale<V: Versioned, S: BuildHasher>(
    table: &HashMap<OriginUid, Box<V>, S>,
    origin: &OriginUid,
    seen: &Observed<V>,
) -> bool {
    let known = table.get(origin).map(|known| known.version().resource_version);
    known.is_some_and(|known| !is_newer(Some(seen.view.version().resource_version), known))
}

/// Applies a change to a table.
fn on_into<V: Versioned>(
    table: &mut Table<V>,
    in_flight: &mut InFlight<OriginUid>,
    change: Change<Observed<V>>,
) -> Dirty {
    let delta = Delta::of(
        change,
        |seen: &Observed<V>| seen.origin.clone(),
        &*table,
        in_flight,
        |origin: &OriginUid, _| Some(origin.clone()),
    );
    let mut dirty = Dirty::new();
    for origin in delta.gone {
        dirty.extend(forget(table, origin));
    }
    for (origin, seen) in delta.live {
        table.insert(origin.clone(), seen.view);
        dirty.insert(origin);
    }
    dirty
}
