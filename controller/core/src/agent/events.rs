//! How the agent's index learns: one table per kind, each change returning the keys that it concerns.

use std::{
    collections::{BTreeSet, HashMap},
    hash::BuildHasher,
};

use argosy_api::conditions::reason;

use super::{
    Agent, AgentAction, AgentInput, ArgoApi, Doubt, Refusal, Sought, Table,
    seen::{Sight, Versioned},
    views::Object,
};
use crate::{
    Change, Failure, OriginUid,
    reconcile::{UnderWay, is_newer},
};

type Dirty = BTreeSet<OriginUid>;

impl Agent {
    pub(super) fn learn(&mut self, input: AgentInput) -> Dirty {
        let dirty = self.learn_change(input);
        for origin in &dirty {
            self.tell_apart(origin);
            if self.objects.contains_key(origin) {
                self.obstacles.remove(origin);
                self.doubts.remove(origin);
            }
            self.shed(origin);
        }
        dirty
    }

    /// What was created once is not created again, so its manifest, which may be large, is not needed any more.
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

    fn learn_change(&mut self, input: AgentInput) -> Dirty {
        match input {
            AgentInput::Work(change) => {
                self.synced.works |= matches!(change, Change::Reset(_));
                learn_into(&mut self.works, &mut self.under_way, change.map(|seen| seen.0))
            }
            AgentInput::Told(change) => {
                self.synced.told |= matches!(change, Change::Reset(_));
                learn_into(&mut self.told, &mut self.under_way, change.map(|seen| seen.0))
            }
            AgentInput::Record(change) => {
                self.synced.records |= matches!(change, Change::Reset(_));
                learn_into(&mut self.records, &mut self.under_way, change.map(|seen| seen.0))
            }
            AgentInput::Object(change) => self.learn_objects(change.map(|seen| seen.0)),
            AgentInput::Argo(api) => self.learn_api(api),
            AgentInput::ObjectGone(origin) => self.forget_object(origin),
            AgentInput::WorkGone(origin) => forget(&mut self.works, origin),
            AgentInput::ToldGone(origin) => forget(&mut self.told, origin),
            AgentInput::RecordGone(origin) => forget(&mut self.records, origin),
        }
    }

    fn learn_api(&mut self, api: ArgoApi) -> Dirty {
        self.argo = Some(api);
        if api == ArgoApi::Missing {
            self.synced.objects = false;
            self.copies.clear();
            for (origin, object) in self.objects.drain() {
                self.doubts
                    .insert(origin, Doubt::Unlisted(Sought::known(&object)));
            }
        }
        self.every_key()
    }

    fn learn_objects(&mut self, change: Change<Sight<Object>>) -> Dirty {
        match change {
            Change::Apply(object) if object.is_gone => self.learn_end(&object),
            Change::Apply(object) if self.is_past(&object) => Dirty::new(),
            Change::Apply(object) => self.learn_live(*object),
            Change::Delete(object) => {
                if let Some(origin) = &object.origin {
                    self.under_way.bury(origin, object.uid());
                }
                let dirty = self.learn_end(&object);
                // It is the last that the watch tells of it.
                if self.is_past(&object)
                    && let Some(origin) = &object.origin
                {
                    self.gone.remove(origin);
                }
                dirty
            }
            Change::Reset(live) => self.learn_list(live),
        }
    }

    /// What a list lacks may be there all the same, as it may be older than our own write; of copies that does not matter.
    fn learn_list(&mut self, mut live: Vec<Sight<Object>>) -> Dirty {
        live.retain(|object| !self.is_past(object));
        let was_served = self.argo == Some(ArgoApi::Served);
        self.synced.objects = true;
        self.argo = Some(ArgoApi::Served);
        let listed: BTreeSet<_> = live.iter().map(|object| object.view.uid.clone()).collect();
        let is_unlisted = |object: &Object| !listed.contains(&object.uid);
        let unlisted = self.objects.extract_if(|_, object| is_unlisted(object));
        let mut dirty = Dirty::new();
        for (origin, object) in unlisted {
            self.under_way.bury(&origin, Some(&object.uid));
            let doubt = Doubt::Unlisted(Sought::known(&object));
            self.doubts.insert(origin.clone(), doubt);
            dirty.insert(origin);
        }
        self.copies.retain(|_, copies| {
            copies.retain(|copy| !is_unlisted(copy));
            !copies.is_empty()
        });
        for object in live {
            dirty.extend(self.learn_live(object));
        }
        if was_served { dirty } else { self.every_key() }
    }

    /// The object is gone.
    fn learn_end(&mut self, object: &Sight<Object>) -> Dirty {
        let Some(origin) = &object.origin else {
            return Dirty::new();
        };
        if let Some(copies) = self.copies.get_mut(origin) {
            copies.retain(|copy| copy.uid != object.view.uid);
            if copies.is_empty() {
                self.copies.remove(origin);
            }
        }
        let is_it = match (self.objects.get(origin), self.doubts.get(origin)) {
            (Some(run), _) => run.uid == object.view.uid && !is_stale(&self.objects, origin, object),
            (None, Some(Doubt::Unlisted(sought) | Doubt::Creation(sought))) => {
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

    /// Whether this is of an object that is known to be gone. A UID never comes back.
    fn is_past(&self, object: &Sight<Object>) -> bool {
        let Some(origin) = &object.origin else {
            return false;
        };
        let known = self.gone.get(origin);
        known.is_some_and(|gone| object.uid() == Some(gone))
            || self.under_way.has_buried(origin, object.uid())
    }

    /// An object is there. Of two that bear one name, the older one is gone.
    fn learn_live(&mut self, seen: Sight<Object>) -> Dirty {
        let Sight {
            origin: Some(origin),
            view: object,
            ..
        } = seen
        else {
            return Dirty::new();
        };
        let is_place = |known: &Object| known.uid == object.uid || known.key == object.key;
        let is_newer = |known: &Object| is_newer(Some(&object.resource_version), &known.resource_version);
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

    /// An object is there that was not, perhaps in the place of one that must have gone unseen.
    fn replace(&mut self, origin: &OriginUid, former: Option<&str>, object: Object) {
        let run = self.objects.get(origin).map(|run| run.uid.as_str());
        if former.is_some() && run == former {
            self.forget_object(origin.clone());
        }
        let copies = self.copies.entry(origin.clone()).or_default();
        copies.retain(|copy| Some(copy.uid.as_str()) != former);
        copies.push(object);
    }

    /// Remembers an object that went without a record: somebody took our finalizer off.
    fn forget_object(&mut self, origin: OriginUid) -> Dirty {
        let object = self.objects.remove(&origin);
        let known = object.as_ref().map(|object| Sought::known(object));
        if let Some(object) = object {
            self.gone.insert(origin.clone(), object.uid);
        }
        let unlisted = match self.doubts.remove(&origin) {
            Some(Doubt::Unlisted(sought)) => Some(sought),
            Some(Doubt::Creation(_)) | None => None,
        };
        let recorded = self.records.get(&origin).map(|record| record.attempt);
        let gone = known.or(unlisted);
        if let Some(gone) = gone.filter(|gone| recorded < Some(gone.attempt)) {
            self.vanished.insert(origin.clone(), gone);
        }
        [origin].into()
    }

    pub(super) fn learn_failure(
        &mut self,
        key: &OriginUid,
        action: &AgentAction,
        failure: &Failure,
    ) -> Dirty {
        if let (AgentAction::Control { .. }, Failure::Refused(message)) = (action, failure)
            && let Some(work) = self.works.get(key)
        {
            let known = self.refusals.get(key);
            let refusal = Refusal {
                is_again: known.is_some_and(|known| known.control == work.control),
                control: work.control.clone(),
                message: message.clone(),
            };
            self.refusals.insert(key.clone(), refusal);
        }
        if let AgentAction::Create { object, .. } = action {
            let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
            let obstacle = match failure {
                Failure::Foreign(message) => Some((reason::FOREIGN_OBJECT, message.clone())),
                Failure::NotFound { namespace: true, .. } => Some((
                    reason::NAMESPACE_MISSING,
                    format!("namespace {namespace} does not exist on this cluster; create it"),
                )),
                Failure::NotFound {
                    namespace: false,
                    message,
                }
                | Failure::Unserved(message) => Some((reason::ARGO_MISSING, message.clone())),
                Failure::Refused(message) => Some((reason::REFUSED, message.clone())),
                Failure::Missing(message) => Some((reason::TEMPLATE_MISSING, message.clone())),
                Failure::Conflict | Failure::Fenced(_) | Failure::Unreachable(_) => None,
            };
            match (obstacle, failure) {
                // Nothing was asked of the API server, so this tells nothing about a creation before.
                (Some(obstacle), Failure::Missing(_)) => {
                    self.obstacles.insert(key.clone(), obstacle);
                }
                (Some(obstacle), _) => {
                    self.doubts.remove(key);
                    self.obstacles.insert(key.clone(), obstacle);
                }
                (None, Failure::Unreachable(_)) => {
                    let doubt = Doubt::Creation(Sought::of(object));
                    self.doubts.insert(key.clone(), doubt);
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

/// Whether something newer is known.
fn is_stale<V: Versioned, S: BuildHasher>(
    table: &HashMap<OriginUid, Box<V>, S>,
    origin: &OriginUid,
    seen: &Sight<V>,
) -> bool {
    let known = table.get(origin).map(|known| known.resource_version());
    known.is_some_and(|known| !is_newer(Some(seen.view.resource_version()), known))
}

fn is_buried<V: Versioned>(under_way: &UnderWay<OriginUid>, seen: &Sight<V>) -> bool {
    let origin = seen.origin.as_ref();
    origin.is_some_and(|origin| under_way.has_buried(origin, seen.uid()))
}

/// Applies a change to a table. An older version never replaces a newer one; a re-list removes what it lacks.
fn learn_into<V: Versioned>(
    table: &mut Table<V>,
    under_way: &mut UnderWay<OriginUid>,
    change: Change<Sight<V>>,
) -> Dirty {
    let mut dirty = Dirty::new();
    let live = match change {
        Change::Apply(seen) if is_buried(under_way, &seen) => return dirty,
        Change::Apply(seen) if !seen.is_gone => vec![*seen],
        Change::Apply(seen) | Change::Delete(seen) => {
            if let Some(origin) = &seen.origin {
                under_way.bury(origin, seen.uid());
            }
            return match &seen.origin {
                Some(origin) if !is_stale(table, origin, &seen) => forget(table, origin.clone()),
                _ => dirty,
            };
        }
        Change::Reset(live) => {
            let origins: BTreeSet<_> = live.iter().filter_map(|seen| seen.origin.as_ref()).collect();
            let gone: Vec<_> = table
                .keys()
                .filter(|origin| !origins.contains(origin))
                .cloned()
                .collect();
            for origin in gone {
                let known = table.remove(&origin);
                under_way.bury(&origin, known.as_ref().map(|known| known.uid()));
                dirty.insert(origin);
            }
            live
        }
    };
    for seen in live {
        let Some(origin) = seen.origin.clone() else {
            continue;
        };
        if !is_stale(table, &origin, &seen) {
            table.insert(origin.clone(), seen.view);
            dirty.insert(origin);
        }
    }
    dirty
}
