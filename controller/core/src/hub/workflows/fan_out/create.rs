//! The run of a Workflow on one cluster, as it is created: it has the user's labels, annotations
//! and spec, and is held and claimed from the start.

use std::collections::BTreeMap;

use argosy_api::{Workflow, names, workflow};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use super::propagate::begin_with;
use crate::{
    ClusterName, WorkflowKey,
    hub::{
        admission::initial_metadata::{InitialMetadata, born, first_claim},
        workflows::{HubAction, WorkflowIndex, view::WorkflowView},
    },
    model::{
        claim::Claim,
        fan_out::{run_name, run_of_label},
        hold::GITOPS_ANNOTATIONS,
    },
};

/// Labels besides Argosy's that apply to the Workflow and not to its runs. For example, a
/// CronWorkflow counts the Workflows that have its label.
const NOT_OF_RUNS: [&str; 5] = [
    names::ARGO_COMPLETED_LABEL,
    names::ARGO_PHASE_LABEL,
    names::ARGO_ARCHIVING_LABEL,
    names::ARGO_CRON_LABEL,
    names::SINGLETON_STATUS_LABEL,
];

impl WorkflowIndex {
    /// Creates the next run whose creation has not been tried yet.
    pub(super) fn create_next(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
    ) -> Option<HubAction> {
        let mut missing = self.missing(view).filter(|_| view.decode_error.is_none());
        let cluster = missing.find(|cluster| !view.run_failures.contains_key(*cluster))?;
        Some(self.create_run(key, view, claim, cluster))
    }

    /// Retries the creation of the run that was tried least, and returns the number of its
    /// attempts.
    pub(super) fn create_again(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
    ) -> Option<(u32, HubAction)> {
        let times = |cluster| view.run_failures.get(cluster).map_or(0, |known| known.times);
        let missing = self
            .missing(view)
            .filter(|_| view.decode_error.is_none())
            .map(|cluster| (times(cluster), cluster));
        let (times, cluster) = missing.min_by_key(|(times, _)| *times)?;
        Some((times, self.create_run(key, view, claim, cluster)))
    }

    fn create_run(
        &self,
        key: &WorkflowKey,
        view: &WorkflowView,
        claim: &Claim,
        cluster: &ClusterName,
    ) -> HubAction {
        HubAction::CreateRun {
            cluster: cluster.clone(),
            parent: view.uid.clone(),
            run: Box::new(self.run(key, view, claim, cluster)),
        }
    }

    fn run(&self, key: &WorkflowKey, view: &WorkflowView, claim: &Claim, cluster: &ClusterName) -> Workflow {
        let name = run_name(&key.name, cluster);
        let first = first_claim(&name, cluster, &view.placement, claim.needs.clone());
        let first = Claim {
            wants_status: claim.wants_status || first.wants_status,
            is_guarded: self.config.is_guarded,
            run_of: Some(view.uid.clone()),
            ..first
        };
        let mut labels = users(view.labels.to_map(), &NOT_OF_RUNS);
        labels.insert(names::RUN_OF_LABEL.to_owned(), run_of_label(&key.name));
        labels.insert(names::RUN_ON_LABEL.to_owned(), cluster.to_string());
        let mut metadata = ObjectMeta {
            namespace: Some(key.namespace.to_string()),
            name: Some(name),
            labels: Some(labels),
            annotations: Some(users(view.annotations.to_map(), &GITOPS_ANNOTATIONS)),
            owner_references: Some(vec![OwnerReference {
                api_version: format!("{}/{}", workflow::GROUP, workflow::VERSION),
                kind: workflow::KIND.to_owned(),
                name: key.name.to_string(),
                uid: view.uid.to_string(),
                controller: Some(true),
                block_owner_deletion: None,
            }]),
            ..ObjectMeta::default()
        };
        let initial = Value::Object(view.brings_to(cluster));
        let InitialMetadata {
            labels,
            mut annotations,
            finalizers,
            status,
            takes_ticket: _,
        } = born(&metadata, Some(&initial), Some(&first));
        let mut spec = view.spec();
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("suspend");
            fields.remove("shutdown");
            if view.placement.wants_logs && !fields.contains_key("archiveLogs") {
                fields.insert("archiveLogs".to_owned(), json!(true));
            }
            if !first.is_guarded {
                // A second hold, as on any Workflow without a guard. The cluster gets the run
                // without it.
                fields.insert("suspend".to_owned(), json!(true));
            }
            begin_with(fields, &mut annotations, view, first.is_guarded);
        }
        metadata.labels = Some(labels);
        metadata.annotations = Some(annotations);
        metadata.finalizers = Some(finalizers);
        Workflow {
            api_version: format!("{}/{}", workflow::GROUP, workflow::VERSION),
            kind: workflow::KIND.to_owned(),
            metadata,
            spec,
            status: Some(status),
        }
    }
}

/// The entries that are neither Argosy's nor among `others`.
fn users(mut all: BTreeMap<String, String>, others: &[&str]) -> BTreeMap<String, String> {
    all.retain(|name, _| !name.starts_with(names::PREFIX) && !others.contains(&name.as_str()));
    all
}
