//! The CronWorkflow of a review: its metadata and the labels of the Workflows that it creates. The
//! rest of it is skipped.
//!
//! Not here: the warning (`argosy_core::hub::admission`).

use argosy_api::workflow;
use argosy_core::{hub::admission::Schedule, index::weight::weight};
use kube::core::ObjectMeta;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The resource of a review.
#[derive(Deserialize)]
pub(super) struct Resource {
    group: String,
    resource: String,
}

impl Resource {
    /// True if the review is about a CronWorkflow.
    pub(super) fn is_schedule(&self) -> bool {
        self.group == workflow::GROUP && self.resource == workflow::CRON_PLURAL
    }
}

#[derive(Deserialize)]
struct CronWorkflow {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    workflow_metadata: Option<ObjectMeta>,
}

/// Bytes of memory that parsing the CronWorkflow may take.
pub(super) fn weight_of(object: &RawValue) -> usize {
    weight(object.get())
}

/// Parses a CronWorkflow of this namespace and name. `None` if it cannot be parsed: the API server
/// and Argo report that.
pub(super) fn read(object: &RawValue, namespace: &str, name: &str) -> Option<Schedule> {
    let CronWorkflow { metadata, spec } = serde_json::from_str(object.get()).ok()?;
    let of_workflows = spec.workflow_metadata.and_then(|metadata| metadata.labels);
    Some(Schedule {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        labels: metadata.labels.unwrap_or_default(),
        of_workflows: of_workflows.unwrap_or_default(),
    })
}
