//! Which object of the WEC is the run: the very one that the agent created, by its UID where anything remembers that, by its name until
//! then.
//!
//! Whatever else bears its labels is a copy, as `argo resubmit` and `kubectl create` make them there: it is neither reported nor deleted, and
//! nothing is asked of it. A copy may have our finalizer as well, for which nobody would ever let it go; that is taken off. Not here: how
//! the index learns of objects (`events`).

use argosy_api::{Workflow, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{
    Agent, AgentAction, Doubt,
    retire::without_ours,
    views::{Object, annotation, key_of, origin_of},
};
use crate::{OriginUid, WorkflowKey, claim::attempt_of, patch::JsonPatch};

/// The object that an attempt was created as, or is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sought {
    /// Its name.
    pub key: WorkflowKey,
    /// The attempt.
    pub attempt: u64,
    /// Its UID, if it was known before.
    pub uid: Option<String>,
}

impl Sought {
    /// What is to be created as `object`.
    pub fn of(object: &Workflow) -> Self {
        Self {
            key: key_of(&object.metadata),
            attempt: attempt_of(&object.metadata),
            uid: None,
        }
    }

    /// What was known as `object`.
    pub(super) fn known(object: &Object) -> Self {
        Self {
            key: object.key.clone(),
            attempt: object.attempt,
            uid: Some(object.uid.clone()),
        }
    }

    /// Whether this is what the agent of `cluster` has created of `origin`.
    pub fn is(&self, there: &ObjectMeta, origin: &OriginUid, cluster: &str) -> bool {
        let labels = there.labels.as_ref();
        let of = labels.and_then(|labels| labels.get(names::CLUSTER_LABEL));
        origin_of(there).as_ref() == Some(origin)
            && of.is_some_and(|of| of == cluster)
            && key_of(there) == self.key
            && is_born_here(there)
            && attempt_of(there) == self.attempt
            && (self.uid.is_none() || self.uid == there.uid)
    }
}

/// Whether nothing says that the object was created under another name. An agent of before has not noted any.
pub(super) fn is_born_here(metadata: &ObjectMeta) -> bool {
    let name = annotation(metadata, names::BORN_AS_ANNOTATION);
    name.is_none_or(|name| name == key_of(metadata).to_string())
}

impl Agent {
    /// UID of the object of an attempt, there or gone, as far as it is known.
    pub(super) fn run_uid(&self, origin: &OriginUid, attempt: u64) -> Option<&str> {
        let object = self.objects.get(origin);
        let object = object.filter(|object| object.attempt == attempt);
        object
            .map(|object| object.uid.as_str())
            .or_else(|| self.remembered_uid(origin, attempt))
    }

    /// UID of the object of an attempt, if anything that outlives it says so.
    fn remembered_uid(&self, origin: &OriginUid, attempt: u64) -> Option<&str> {
        let vanished = self.vanished.get(origin);
        let unlisted = match self.doubts.get(origin) {
            Some(Doubt::Unlisted(sought)) => Some(sought),
            Some(Doubt::Creation(_)) | None => None,
        };
        let seen = [vanished, unlisted].into_iter().flatten();
        let mut seen = seen.filter(|sought| sought.attempt == attempt);
        let told = self.told.get(origin).filter(|told| told.attempt == attempt);
        let record = self.records.get(origin);
        let record = record.filter(|record| record.attempt == attempt);
        seen.find_map(|sought| sought.uid.as_deref())
            .or_else(|| record?.run_uid.as_deref())
            .or_else(|| told?.run_uid.as_deref())
    }

    fn is_run(&self, origin: &OriginUid, object: &Object) -> bool {
        if let Some(uid) = self.remembered_uid(origin, object.attempt) {
            return uid == object.uid;
        }
        self.bears_name(origin, object)
    }

    /// Whether this is the object as which the run is created, as far as its name tells.
    fn bears_name(&self, origin: &OriginUid, object: &Object) -> bool {
        let manifest = self.works.get(origin).and_then(|work| work.manifest.as_ref());
        object.is_born_here && manifest.is_none_or(|manifest| manifest.key == object.key)
    }

    /// Tells the run from its copies, by what is known now.
    pub(super) fn tell_apart(&mut self, origin: &OriginUid) {
        let object = self.objects.get(origin);
        if !self.copies.contains_key(origin) && object.is_none_or(|object| self.is_run(origin, object)) {
            return;
        }
        let mut all = self.copies.remove(origin).unwrap_or_default();
        all.extend(self.objects.remove(origin).map(|object| *object));
        let runs = all.iter().enumerate();
        let run = runs
            .filter(|(_, object)| self.is_run(origin, object))
            .max_by_key(|(_, object)| (object.attempt, &object.uid))
            .map(|(at, _)| at);
        if let Some(at) = run {
            let run = Box::new(all.swap_remove(at));
            self.objects.insert(origin.clone(), run);
        }
        if !all.is_empty() {
            self.copies.insert(origin.clone(), all);
        }
    }

    /// Takes our finalizer off a copy that has it.
    pub(super) fn disown(&self, origin: &OriginUid) -> Option<AgentAction> {
        let mut copies = self.copies.get(origin)?.iter();
        let copy = copies.find(|copy| copy.is_held())?;
        Some(AgentAction::Disown {
            key: copy.key.clone(),
            patch: JsonPatch::guarded(&copy.uid, &copy.resource_version)
                .set("/metadata/finalizers", without_ours(&copy.finalizers)),
        })
    }
}
