//! Updates of the controller's index: one method per kind, each of which returns the keys to
//! reconcile.
//!
//! Objects arrive from watches and from the answers to our own writes, in any order; `index::store`
//! decides which of them are news.

mod inventory;
mod mailbox;
mod policies;
mod runs;

use argosy_api::conditions::reason;
use jiff::{SignedDuration, Timestamp};

use runs::on_run_failure;

use super::{
    Awaited, Dirty, HubAction, HubInput, HubKey, ObservedWorkflow, Purpose, WorkflowIndex, WorkflowView,
    view::SendFailure,
};
use crate::{
    Change, ClusterName, Failure, WorkflowKey,
    index::{fingerprint::Fingerprint, store::Delta},
};

impl WorkflowIndex {
    pub(super) fn learn(&mut self, input: HubInput, now: Timestamp) -> Dirty {
        match input {
            HubInput::Workflow(change) => self.on_workflows(change),
            HubInput::Wrote { wanted, object } => self.on_answer(wanted, *object),
            HubInput::Policy(change) => self.on_policies(change),
            HubInput::Transform(change) => self.on_transforms(change),
            HubInput::Namespace(change) => self.on_namespaces(change),
            HubInput::Template(change) => self.on_templates(false, change),
            HubInput::ClusterTemplate(change) => self.on_templates(true, change),
            HubInput::Properties(change) => self.on_properties(change),
            HubInput::LocalArgo(config) => self.on_local_argo(config),
            HubInput::Cluster(change) => self.on_clusters(change),
            HubInput::Lease(change) => self.on_leases(change, now),
            HubInput::Work(change) => self.on_works(change),
            HubInput::RunGone(key, uid) => match self.workflows.get(&key) {
                Some(view) if view.uid == uid => self.delete_workflow(&key),
                _ => Dirty::new(),
            },
            HubInput::WorkGone(cluster, origin) => self.delete_work(&origin, &cluster),
            HubInput::LeaseRead { key, work, lease } => self.on_lease_read(&key, work, *lease, now),
            HubInput::Report(change) => self.on_reports(change),
            HubInput::ReportGone {
                cluster,
                origin,
                version,
            } => self.miss_report(&origin, &cluster, &version),
            HubInput::TemplateRead(key, template, spec) => self.on_template(&key, template, spec.as_ref()),
        }
    }

    pub(super) fn on_failure(
        &mut self,
        key: &HubKey,
        action: &HubAction,
        failure: &Failure,
        now: Timestamp,
    ) -> Dirty {
        let mut dirty = Dirty::new();
        let lifetime = self.config.request_lifetime;
        match (key, action, failure) {
            (HubKey::Workflow(key), HubAction::CreateWork { cluster, .. }, _) => {
                if let Some(view) = self.workflows.get_mut(key) {
                    on_send_failure(view, cluster, failure, lifetime, now);
                }
            }
            (HubKey::Workflow(key), HubAction::CreateRun { cluster, .. }, _) => {
                if let Some(view) = self.workflows.get_mut(key) {
                    on_run_failure(view, cluster, failure, lifetime, now);
                }
            }
            // The answer to an earlier write can arrive after the deletion event, and put the
            // object back into the index.
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
            (_, HubAction::PatchWorkflow { key, .. }, Failure::Refused(message)) if !is_passed_on(action) => {
                self.record_refusal(key, message);
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

    /// Stores the Workflow from the answer to our patch, and the status that the API server made of
    /// ours.
    fn on_answer(&mut self, wanted: Option<Fingerprint>, object: ObservedWorkflow) -> Dirty {
        let key = object.key.clone();
        let version = object.view.resource_version.clone();
        let dirty = self.on_workflows(Change::Apply(Box::new(object)));
        if let Some(view) = self.workflows.get_mut(&key)
            && version == view.resource_version
        {
            view.wrote = wanted.zip(view.status.digest).or(view.wrote);
        }
        dirty
    }

    fn on_workflows(&mut self, change: Change<ObservedWorkflow>) -> Dirty {
        let delta = {
            let workflows = &self.workflows;
            // Answers about a run may also belong to a request about its parent.
            let concerned = |key: &WorkflowKey, object: Option<&ObservedWorkflow>| {
                let known = workflows.get(key).map(Box::as_ref);
                let views = [object.map(|object| object.view.as_ref()), known];
                let parents = views
                    .into_iter()
                    .flatten()
                    .filter_map(|view| view.run_of.as_ref()?.key.clone());
                let keys: Vec<HubKey> = [key.clone()]
                    .into_iter()
                    .chain(parents)
                    .map(HubKey::Workflow)
                    .collect();
                keys
            };
            let key = |object: &ObservedWorkflow| Some(object.key.clone());
            Delta::of(change, key, workflows, &mut self.in_flight, concerned)
        };
        self.synced.mark(Awaited::Workflows, delta.is_list);
        let mut dirty = Dirty::new();
        for key in &delta.gone {
            dirty.extend(self.delete_workflow(key));
        }
        for (_, object) in delta.live {
            dirty.extend(self.apply_workflow(object));
        }
        if delta.is_list {
            self.shed_strange_reports();
        }
        dirty
    }

    fn apply_workflow(&mut self, object: ObservedWorkflow) -> Dirty {
        let ObservedWorkflow { key, mut view, .. } = object;
        if let Some(known) = self.workflows.get(&key) {
            view.keep_of(known);
        }
        let mut before = self.unlist(&key);
        view.reservation = before.as_mut().and_then(|before| before.reservation.take());
        self.place(&key, &mut view, before.as_deref());
        let of_same = before.as_ref().filter(|before| before.uid == view.uid);
        self.record_event(&key, of_same.map(Box::as_ref), &view);
        let mut dirty = self.concerned(&key, before.as_deref(), Some(&view));
        self.list(&key, &view);
        self.requeue(&key, before.as_deref(), Some(&view));
        self.note_demand(&key, &mut view);
        let bytes = view.size();
        self.workflows.insert(key.clone(), view);
        self.reserve(&key);
        self.record_local_end(&key, before.as_deref());
        self.keep_workflows(&key, bytes);
        dirty.insert(HubKey::Workflow(key));
        dirty
    }

    fn delete_workflow(&mut self, key: &WorkflowKey) -> Dirty {
        let before = self.unlist(key);
        self.release(before.as_ref().and_then(|before| before.reservation.as_deref()));
        self.reselect(key, before.as_deref(), None);
        self.requeue(key, before.as_deref(), None);
        self.concerned(key, before.as_deref(), None)
    }

    /// Removes a Workflow from the index.
    fn unlist(&mut self, key: &WorkflowKey) -> Option<Box<WorkflowView>> {
        let view = self.workflows.remove(key)?;
        self.by_uid.remove(&view.uid);
        self.workflow_bytes = self.workflow_bytes.saturating_sub(view.size());
        self.counts.remove(&view);
        self.unplaced.remove(key);
        self.unlist_claim(key, view.claim.as_ref().map(|claim| &claim.cluster));
        self.unlist_run(key, &view);
        Some(view)
    }

    /// Adds the lookup entries of a Workflow to the index, but not the Workflow itself.
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
        self.counts.add(view);
        let is_unplaced = view.claim.is_none() && view.hold().is_some() && !view.is_final();
        if is_unplaced && view.queued().is_none() {
            self.unplaced.insert(key.clone());
        }
        self.list_run(key, view);
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

fn is_passed_on(action: &HubAction) -> bool {
    matches!(
        action,
        HubAction::PatchWorkflow {
            purpose: Purpose::PassOn,
            ..
        }
    )
}

fn on_send_failure(
    view: &mut WorkflowView,
    cluster: &ClusterName,
    failure: &Failure,
    lifetime: SignedDuration,
    now: Timestamp,
) {
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
        // It may still be ours, without its label.
        Failure::Foreign(message) => {
            let (reason, message) = (reason::FOREIGN_OBJECT, message.clone());
            view.send_failure = Some(SendFailure { reason, message });
            view.unconfirmed_on = Some(cluster.clone());
            return;
        }
        Failure::Conflict | Failure::Missing(_) | Failure::Fenced(_) => return,
        Failure::Unreachable(message) => return view.on_unanswered(cluster, message, lifetime, now),
    };
    view.unconfirmed_on = None;
    if reason == reason::MAILBOX_MISSING {
        // Without its namespace, no object can be created.
        view.unanswered.retain(|known| known.cluster != *cluster);
    }
    view.send_failure = Some(SendFailure { reason, message });
}
