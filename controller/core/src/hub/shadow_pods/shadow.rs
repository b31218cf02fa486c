//! The parts of shadow pods that are kept.

use argosy_api::names;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::{PodKey, action::Named, seen::End, templates::CONTAINERS};
use crate::{
    WorkflowKey,
    index::store::{Incoming, Version, Versioned},
};

/// A shadow pod of the WDS.
#[derive(Clone, Debug)]
pub struct ObservedShadow {
    pub(super) key: PodKey,
    pub(super) uid: String,
    resource_version: String,
    /// The Workflow that it names.
    pub(super) workflow: WorkflowKey,
    /// UID of that Workflow.
    pub(super) origin: String,
    /// ID of the node that it shows.
    pub(super) id: String,
    /// Name of the virtual Node that it is on.
    pub(super) node: String,
    pub(super) containers: Vec<String>,
    /// Its status says that the shown pod runs, or has run.
    pub(super) has_begun: bool,
    /// Its status says that the shown pod has ended.
    pub(super) has_ended: bool,
    /// The end of the shown pod, if the Workflow is not watched any more.
    pub(super) end: Option<End>,
    is_gone: bool,
}

impl ObservedShadow {
    /// True if it belongs to the Workflow with this UID, and is on this Node.
    pub(super) fn is_of(&self, uid: &str, node: &str) -> bool {
        self.origin == uid && self.node == node
    }

    pub(super) fn named(&self) -> Named {
        Named {
            uid: self.uid.clone(),
        }
    }
}

impl Incoming for ObservedShadow {
    fn version(&self) -> Version<'_> {
        Versioned::version(self)
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }
}

impl Versioned for ObservedShadow {
    fn version(&self) -> Version<'_> {
        Version {
            uid: &self.uid,
            resource_version: &self.resource_version,
        }
    }
}

impl From<Pod> for ObservedShadow {
    fn from(pod: Pod) -> Self {
        let label = |key: &str| pod.labels().get(key).cloned().unwrap_or_default();
        let namespace = pod.namespace().unwrap_or_default();
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
        let has_ended = phase
            .as_deref()
            .is_some_and(|phase| ["Succeeded", "Failed"].contains(&phase));
        let id = pod.annotations().get(names::ARGO_NODE_ID_ANNOTATION).cloned();
        let spec = pod.spec.as_ref();
        let containers = spec.into_iter().flat_map(|spec| &spec.containers);
        Self {
            key: PodKey {
                namespace: namespace.as_str().into(),
                name: pod.name_any().as_str().into(),
            },
            uid: pod.uid().unwrap_or_default(),
            resource_version: pod.resource_version().unwrap_or_default(),
            workflow: WorkflowKey::new(&namespace, &label(names::ARGO_WORKFLOW_LABEL)),
            origin: label(names::SHADOW_OF_LABEL),
            id: id.unwrap_or_default(),
            node: spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
            containers: containers
                .map(|container| container.name.clone())
                .take(2 * CONTAINERS + 1)
                .collect(),
            has_begun: has_ended || phase.as_deref() == Some("Running"),
            has_ended,
            end: None,
            is_gone: crate::index::reconciler::is_gone(&pod.metadata),
        }
    }
}
