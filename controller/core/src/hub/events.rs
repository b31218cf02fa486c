//! How the controller's index learns: one method per kind, each returning the keys that it concerns.
//!
//! Objects come from watches and from the answers to our own writes, in any order, so an older version never
//! replaces a newer one. A re-list is treated as its difference to what is known.

mod inventory;
mod mailbox;
mod runs;
mod wishes;

use std::collections::BTreeSet;

use argosy_api::{Workflow, conditions::reason};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use runs::learn_run_failure;

use super::{
    Hub, HubAction, HubInput, HubKey, Purpose, SeenWorkflow, WorkflowView, workflow_view::SendFailure,
};
use crate::{
    Change, ClusterName, Failure, OriginUid, WorkflowKey, digest::Digest, patch::JsonPatch,
    reconcile::is_newer,
};

type Dirty = BTreeSet<HubKey>;

impl Hub {
    pub(super) fn learn(&mut self, input: HubInput, now: Timestamp) -> Dirty {
        match input {
            HubInput::Workflow(change) => self.learn_workflows(change),
            HubInput::Wrote { patch, object } => self.learn_answer(&patch, *object),
            HubInput::Policy(change) => self.learn_policies(change),
            HubInput::Transform(change) => self.learn_transforms(change),
            HubInput::Namespace(change) => self.learn_namespaces(change),
            HubInput::Properties(change) => self.learn_properties(change),
            HubInput::LocalArgo(config) => self.learn_local_argo(config),
            HubInput::Cluster(change) => self.learn_clusters(change),
            HubInput::Lease(change) => self.learn_leases(change, now),
            HubInput::Work(change) => self.learn_works(change),
            HubInput::RunGone(key, uid) => match self.workflows.get(&key) {
                Some(view) if view.uid == uid => self.delete_workflow(&key),
                _ => Dirty::new(),
            },
            HubInput::WorkGone(cluster, origin) => self.delete_work(&origin, &cluster),
            HubInput::LeaseRead(key, lease) => self.learn_lease_read(&key, *lease, now),
            HubInput::Report(change) => self.learn_reports(change),
        }
    }

    pub(super) fn learn_failure(&mut self, key: &HubKey, action: &HubAction, failure: &Failure) -> Dirty {
        let mut dirty = Dirty::new();
        match (key, action, failure) {
            (HubKey::Workflow(key), HubAction::CreateWork { cluster, .. }, _) => {
                if let Some(view) = self.workflows.get_mut(key) {
                    learn_send_failure(view, cluster, failure);
                }
            }
            (HubKey::Workflow(key), HubAction::CreateRun { cluster, .. }, _) => {
                if let Some(view) = self.workflows.get_mut(key) {
                    learn_run_failure(view, cluster, failure);
                }
            }
            // The answer to an earlier write can arrive after the event of the deletion, and brings the object back.
            (_, HubAction::PatchWorkflow { key, patch, .. }, Failure::NotFound { .. }) => {
                let version = patch
                    .value_at("/metadata/resourceVersion")
                    .and_then(serde_json::Value::as_str);
                if self
                    .workflows
                    .get(key)
                    .is_some_and(|view| version == Some(&view.resource_version))
                {
                    dirty = self.delete_workflow(key);
                }
            }
            (
                _,
                HubAction::PatchWorkflow {
                    key: run,
                    purpose: Purpose::PassOn,
                    ..
                }
                | HubAction::DeleteRun { key: run, .. },
                _,
            ) => {
                if let Some(run) = self.workflows.get_mut(run) {
                    run.ask_failure.count(failure);
                }
            }
            _ => {}
        }
        dirty.insert(key.clone());
        dirty
    }

    /// Learns a Workflow as it is after our patch, and what the API server has made of the status in it.
    fn learn_answer(&mut self, patch: &JsonPatch, object: Workflow) -> Dirty {
        let wanted = patch.value_at("/status").map(Digest::of);
        let key = WorkflowView::key(&object);
        let version = object.metadata.resource_version.clone();
        let dirty = self.apply_workflow(object.into());
        if let Some(view) = self.workflows.get_mut(&key)
            && version.as_ref() == Some(&view.resource_version)
        {
            view.wrote = wanted.zip(view.status.digest).or(view.wrote);
        }
        dirty
    }

    fn learn_workflows(&mut self, change: Change<SeenWorkflow>) -> Dirty {
        match change {
            Change::Apply(object) => self.apply_workflow(*object),
            Change::Delete(object) => {
                let SeenWorkflow { key, view, .. } = *object;
                let known = self.workflows.get(&key);
                if known.is_some_and(|known| !is_newer(Some(&view.resource_version), &known.resource_version))
                {
                    return Dirty::new();
                }
                self.bury_workflow(&key, Some(view.uid.as_str()));
                self.delete_workflow(&key)
            }
            Change::Reset(live) => {
                self.synced.workflows = true;
                let keys: BTreeSet<WorkflowKey> = live.iter().map(|object| object.key.clone()).collect();
                let gone: Vec<_> = self
                    .workflows
                    .keys()
                    .filter(|key| !keys.contains(*key))
                    .cloned()
                    .collect();
                let mut dirty = Dirty::new();
                for key in &gone {
                    let uid = self.workflows.get(key).map(|view| view.uid.clone());
                    self.bury_workflow(key, uid.as_ref().map(OriginUid::as_str));
                    dirty.extend(self.delete_workflow(key));
                }
                dirty.extend(live.into_iter().flat_map(|object| self.apply_workflow(object)));
                dirty
            }
        }
    }

    fn apply_workflow(&mut self, object: SeenWorkflow) -> Dirty {
        let SeenWorkflow {
            key,
            is_gone,
            mut view,
        } = object;
        if self.has_buried_workflow(&key, &view) {
            return Dirty::new();
        }
        if is_gone {
            self.bury_workflow(&key, Some(view.uid.as_str()));
        }
        if let Some(known) = self.workflows.get(&key) {
            if !is_newer(Some(&view.resource_version), &known.resource_version) {
                return Dirty::new();
            }
            if is_gone {
                return self.delete_workflow(&key);
            }
            view.keep_of(known);
        } else if is_gone {
            return Dirty::new();
        }
        let before = self.unlist(&key);
        let of_same = before.as_ref().filter(|before| before.uid == view.uid);
        self.notice(&key, of_same.map(Box::as_ref), &view);
        let mut dirty = self.concerned(&key, before.as_deref(), Some(&view));
        self.list(&key, &view);
        self.place_and_insert(key.clone(), view);
        dirty.insert(HubKey::Workflow(key));
        dirty
    }

    fn delete_workflow(&mut self, key: &WorkflowKey) -> Dirty {
        let before = self.unlist(key);
        self.concerned(key, before.as_deref(), None)
    }

    /// Takes a Workflow out of the index.
    fn unlist(&mut self, key: &WorkflowKey) -> Option<Box<WorkflowView>> {
        let view = self.workflows.remove(key)?;
        self.by_uid.remove(&view.uid);
        self.census.remove(&view);
        self.unlist_claim(key, view.claim.as_ref().map(|claim| &claim.cluster));
        self.unlist_run(key, &view);
        Some(view)
    }

    /// Puts what is looked up of a Workflow into the index, but not the Workflow.
    fn list(&mut self, key: &WorkflowKey, view: &WorkflowView) {
        if let Some(claim) = view
            .claim
            .as_ref()
            .filter(|_| !view.is_final() || view.is_deleting)
        {
            let claimed = self.claimed.entry(claim.cluster.clone()).or_default();
            claimed.insert(key.clone());
        }
        self.by_uid.insert(view.uid.clone(), key.clone());
        self.census.add(view);
        self.list_run(key, view);
    }

    /// Whether this is of an object that is known to be gone.
    fn is_past(&self, key: &HubKey, metadata: &ObjectMeta) -> bool {
        self.under_way.has_buried(key, metadata.uid.as_deref())
    }

    fn unlist_claim(&mut self, key: &WorkflowKey, cluster: Option<&ClusterName>) {
        let Some(cluster) = cluster else { return };
        if let Some(keys) = self.claimed.get_mut(cluster) {
            keys.remove(key);
            if keys.is_empty() {
                self.claimed.remove(cluster);
            }
        }
    }
}

fn learn_send_failure(view: &mut WorkflowView, cluster: &ClusterName, failure: &Failure) {
    let (reason, message) = match failure {
        Failure::NotFound { namespace: true, .. } => (
            reason::MAILBOX_MISSING,
            format!(
                "namespace {cluster}, the cluster's mailbox, does not exist in the ITS; has the cluster joined?"
            ),
        ),
        Failure::Refused(message) | Failure::NotFound { message, .. } | Failure::Unserved(message) => (
            reason::REFUSED,
            format!("the ITS refused the ManifestWork: {message}"),
        ),
        Failure::Conflict | Failure::Foreign(_) | Failure::Missing(_) | Failure::Fenced(_) => return,
        Failure::Unreachable(_) => {
            view.unsure_of = Some(cluster.clone());
            return;
        }
    };
    view.unsure_of = None;
    view.send_failure = Some(SendFailure { reason, message });
}
