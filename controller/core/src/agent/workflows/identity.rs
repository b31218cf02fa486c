//! Identifies the object of the WEC that is the run: the one that the agent created. It is
//! recognized by its UID if that is known, and otherwise by its name.
//!
//! Every other object with the same labels is a copy, as `argo resubmit` and `kubectl create` make
//! them. A copy is neither reported nor deleted, and no request is applied to it. If a copy has our
//! finalizer, the agent removes it, because nothing else would. Not here: the updates of the index
//! (`learn`).

use argosy_api::{Workflow, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{
    AgentAction, RunIndex, Unconfirmed,
    views::{ObjectView, is_born_here, key_of, origin_of, without_ours},
};
use crate::{
    OriginUid, WorkflowKey,
    model::{claim::attempt_of, json_patch::JsonPatch},
};

/// The object that an attempt was created as, or will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sought {
    /// Namespace and name of the object.
    pub key: WorkflowKey,
    /// Number of the attempt.
    pub attempt: u64,
    /// UID of the object, if it is known.
    pub uid: Option<String>,
}

impl Sought {
    /// The object that a creation of `object` makes.
    pub fn of(object: &Workflow) -> Self {
        Self {
            key: key_of(&object.metadata),
            attempt: attempt_of(&object.metadata),
            uid: None,
        }
    }

    /// The object that is in the index as `object`.
    pub(super) fn known(object: &ObjectView) -> Self {
        Self {
            key: object.key.clone(),
            attempt: object.attempt,
            uid: Some(object.uid.clone()),
        }
    }

    /// True if `there` is the object that the agent of `cluster` created for `origin`.
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

impl RunIndex {
    /// UID of the object of an attempt, whether the object exists or is gone, if it is known.
    pub(super) fn run_uid(&self, origin: &OriginUid, attempt: u64) -> Option<&str> {
        let object = self.objects.get(origin);
        let object = object.filter(|object| object.attempt == attempt);
        object
            .map(|object| object.uid.as_str())
            .or_else(|| self.remembered_uid(origin, attempt))
    }

    /// UID of the object of an attempt, from anything that outlives the object.
    fn remembered_uid(&self, origin: &OriginUid, attempt: u64) -> Option<&str> {
        let vanished = self.vanished.get(origin);
        let unlisted = match self.unconfirmed.get(origin) {
            Some(Unconfirmed::Unlisted(sought)) => Some(sought),
            Some(Unconfirmed::Creation(..) | Unconfirmed::Inherited(..)) | None => None,
        };
        let seen = [vanished, unlisted].into_iter().flatten();
        let mut seen = seen.filter(|sought| sought.attempt == attempt);
        let written = self
            .work_statuses
            .get(origin)
            .filter(|written| written.attempt == attempt);
        let record = self.records.get(origin);
        let record = record.filter(|record| record.attempt == attempt);
        seen.find_map(|sought| sought.uid.as_deref())
            .or_else(|| record?.run_uid.as_deref())
            .or_else(|| written?.run_uid.as_deref())
    }

    fn is_run(&self, origin: &OriginUid, object: &ObjectView) -> bool {
        if let Some(uid) = self.remembered_uid(origin, object.attempt) {
            return uid == object.uid;
        }
        self.bears_name(origin, object)
    }

    /// True if the object has the name under which the run is created.
    fn bears_name(&self, origin: &OriginUid, object: &ObjectView) -> bool {
        let manifest = self.works.get(origin).and_then(|work| work.manifest.as_ref());
        object.is_born_here && manifest.is_none_or(|manifest| manifest.key == object.key)
    }

    /// Separates the run from its copies, with the present knowledge.
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

    /// Removes our finalizer from a copy that has it.
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
