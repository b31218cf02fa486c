//! How the agent's index learns: one table per kind, each change returning the keys that it concerns.

use std::{
    collections::{BTreeSet, HashMap},
    hash::BuildHasher,
};

use argosy_api::{ManifestWork, Workflow, conditions::reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::{
    Agent, AgentAction, AgentInput, ArgoApi, Doubt, Known, Object, Record, Refusal, Work, views::origin_of,
};
use crate::{
    Change, Failure, OriginUid, WorkflowKey,
    reconcile::{UnderWay, is_gone, is_newer},
};

type Dirty = BTreeSet<OriginUid>;

/// A view that knows what object, and which version of it, it was taken of.
trait Versioned {
    fn uid(&self) -> &str;
    fn resource_version(&self) -> &str;
}

macro_rules! versioned {
    ($($view:ty),*) => {
        $(impl Versioned for $view {
            fn uid(&self) -> &str {
                &self.uid
            }

            fn resource_version(&self) -> &str {
                &self.resource_version
            }
        })*
    };
}

versioned!(Work, Known, Object, Record);

impl Agent {
    pub(super) fn learn(&mut self, input: AgentInput) -> Dirty {
        match input {
            AgentInput::Work(change) => {
                self.synced.works |= matches!(change, Change::Reset(_));
                learn_into(
                    &mut self.works,
                    &mut self.under_way,
                    change,
                    |work: ManifestWork| Work::new(work),
                )
            }
            AgentInput::Told(change) => {
                self.synced.told |= matches!(change, Change::Reset(_));
                learn_into(&mut self.told, &mut self.under_way, change, Known::new)
            }
            AgentInput::Record(change) => {
                self.synced.records |= matches!(change, Change::Reset(_));
                learn_into(&mut self.records, &mut self.under_way, change, Record::new)
            }
            AgentInput::Object(change) => self.learn_objects(change),
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
            for (origin, object) in self.objects.drain() {
                self.doubts
                    .insert(origin, Doubt::Unlisted(object.key, object.attempt));
            }
        }
        self.every_key()
    }

    fn learn_objects(&mut self, change: Change<Workflow>) -> Dirty {
        match change {
            Change::Apply(object) if is_gone(&object.metadata) => self.learn_end(&object.metadata),
            Change::Apply(object) if self.is_past(&object.metadata) => Dirty::new(),
            Change::Apply(_) => self.learn_live(change),
            Change::Delete(object) => {
                if let Some(origin) = origin_of(&object.metadata) {
                    self.under_way.bury(&origin, object.metadata.uid.as_deref());
                }
                let dirty = self.learn_end(&object.metadata);
                // It is the last that the watch tells of it.
                if self.is_past(&object.metadata)
                    && let Some(origin) = origin_of(&object.metadata)
                {
                    self.gone.remove(&origin);
                }
                dirty
            }
            Change::Reset(mut live) => {
                live.retain(|object| !self.is_past(&object.metadata));
                let was_served = self.argo == Some(ArgoApi::Served);
                self.synced.objects = true;
                self.argo = Some(ArgoApi::Served);
                let origins: BTreeSet<_> = live
                    .iter()
                    .filter_map(|object| origin_of(&object.metadata))
                    .collect();
                let unlisted = self
                    .objects
                    .iter()
                    .filter(|(origin, _)| !origins.contains(*origin));
                let doubts = unlisted.map(|(origin, object)| {
                    (
                        origin.clone(),
                        Doubt::Unlisted(object.key.clone(), object.attempt),
                    )
                });
                self.doubts.extend(doubts);
                let dirty = self.learn_live(Change::Reset(live));
                if was_served { dirty } else { self.every_key() }
            }
        }
    }

    /// The object is gone.
    fn learn_end(&mut self, metadata: &ObjectMeta) -> Dirty {
        match origin_of(metadata) {
            Some(origin) if !is_stale(&self.objects, &origin, metadata) => self.forget_object(origin),
            _ => Dirty::new(),
        }
    }

    /// Whether this is of an object that is known to be gone. A UID never comes back.
    fn is_past(&self, metadata: &ObjectMeta) -> bool {
        let Some(origin) = origin_of(metadata) else {
            return false;
        };
        let uid = metadata.uid.as_ref();
        self.gone.get(&origin).is_some_and(|gone| Some(gone) == uid)
            || self.under_way.has_buried(&origin, uid.map(String::as_str))
    }

    fn learn_live(&mut self, change: Change<Workflow>) -> Dirty {
        let dirty = learn_into(&mut self.objects, &mut self.under_way, change, Object::new);
        for origin in dirty.iter().filter(|origin| self.objects.contains_key(*origin)) {
            self.obstacles.remove(origin);
            self.doubts.remove(origin);
        }
        dirty
    }

    /// Remembers an object that went without a record: somebody took our finalizer off.
    fn forget_object(&mut self, origin: OriginUid) -> Dirty {
        let object = self.objects.remove(&origin);
        let known = object.as_ref().map(|object| object.attempt);
        if let Some(object) = object {
            self.gone.insert(origin.clone(), object.uid);
        }
        let unlisted = match self.doubts.remove(&origin) {
            Some(Doubt::Unlisted(_, attempt)) => Some(attempt),
            Some(Doubt::Creation(_)) | None => None,
        };
        let recorded = self.records.get(&origin).map(|record| record.attempt);
        if let Some(attempt) = known.max(unlisted).filter(|attempt| recorded < Some(*attempt)) {
            self.vanished.insert(origin.clone(), attempt);
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
                    let doubt = Doubt::Creation(WorkflowKey::new(
                        namespace,
                        object.metadata.name.as_deref().unwrap_or_default(),
                    ));
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

/// Whether something newer than `metadata` is known.
fn is_stale<V: Versioned, S: BuildHasher>(
    table: &HashMap<OriginUid, V, S>,
    origin: &OriginUid,
    metadata: &ObjectMeta,
) -> bool {
    let known = table.get(origin).map(Versioned::resource_version);
    known.is_some_and(|known| !is_newer(metadata.resource_version.as_deref(), known))
}

fn is_buried(under_way: &UnderWay<OriginUid>, metadata: &ObjectMeta) -> bool {
    origin_of(metadata).is_some_and(|origin| under_way.has_buried(&origin, metadata.uid.as_deref()))
}

/// Applies a change to a table. An older version never replaces a newer one; a re-list removes what it lacks.
fn learn_into<K: Resource, V: Versioned>(
    table: &mut HashMap<OriginUid, V>,
    under_way: &mut UnderWay<OriginUid>,
    change: Change<K>,
    view: impl Fn(K) -> V,
) -> Dirty {
    let mut dirty = Dirty::new();
    let live = match change {
        Change::Apply(object) if is_buried(under_way, object.meta()) => return dirty,
        Change::Apply(object) if !is_gone(object.meta()) => vec![*object],
        Change::Apply(object) | Change::Delete(object) => {
            let origin = origin_of(object.meta());
            if let Some(origin) = &origin {
                under_way.bury(origin, object.meta().uid.as_deref());
            }
            return match origin {
                Some(origin) if !is_stale(table, &origin, object.meta()) => forget(table, origin),
                _ => dirty,
            };
        }
        Change::Reset(live) => {
            let origins: BTreeSet<_> = live
                .iter()
                .filter_map(|object| origin_of(object.meta()))
                .collect();
            let gone: Vec<_> = table
                .keys()
                .filter(|origin| !origins.contains(*origin))
                .cloned()
                .collect();
            for origin in gone {
                let known = table.remove(&origin);
                under_way.bury(&origin, known.as_ref().map(Versioned::uid));
                dirty.insert(origin);
            }
            live
        }
    };
    for object in live {
        let Some(origin) = origin_of(object.meta()) else {
            continue;
        };
        if !is_stale(table, &origin, object.meta()) {
            table.insert(origin.clone(), view(object));
            dirty.insert(origin);
        }
    }
    dirty
}
