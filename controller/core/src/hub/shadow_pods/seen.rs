//! The parts of Workflows and shadow pods that are kept. Users and clusters decide how large a status
//! is, so everything is bounded here, as soon as an object arrives.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use argosy_api::{Workflow, names};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::ResourceExt;
use serde_json::Value;

use super::{
    PodKey,
    action::Named,
    templates::{CONTAINERS, Containers, Templates, is_name, text},
};
use crate::{
    WorkflowKey,
    index::store::{Incoming, Version, Versioned},
    model::{claim::Claim, control::Nodes, pod_name::PodNames},
    policy::Labels,
};

/// Maximum number of pods of one Workflow that are shown.
const MOST_OF_ONE: usize = 50;

/// Maximum number of ended nodes that are kept of one Workflow: those that ended last.
const MOST_ENDED: usize = 5000;

/// Maximum length of the ID and of the name of a node that is shown, in bytes.
const LONGEST: usize = 1024;

/// Maximum length of a name of a Workflow whose pods have it as a label.
const LONGEST_LABEL: usize = 63;

/// A Workflow of the WDS that was sent to a cluster.
#[derive(Clone, Debug)]
pub struct ObservedWatched {
    pub(super) key: WorkflowKey,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) labels: Arc<Labels>,
    /// Name of the virtual Node of its cluster.
    pub(super) node: String,
    pub(super) watched_until: Option<Timestamp>,
    /// The pods that run, the newest first, at most [`MOST_OF_ONE`].
    pub(super) running: Vec<Running>,
    /// IDs of their nodes.
    pub(super) ids: BTreeSet<String>,
    /// Number of running pods that are not among these.
    pub(super) left_out: usize,
    /// The ends of nodes that have ended, by ID.
    pub(super) ended: HashMap<String, End>,
    is_gone: bool,
}

impl Incoming for ObservedWatched {
    fn version(&self) -> Version<'_> {
        Version {
            uid: &self.uid,
            resource_version: &self.resource_version,
        }
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }
}

/// A pod that runs on a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Running {
    /// ID of its node.
    pub(super) id: String,
    /// Name of its node.
    pub(super) node: String,
    /// Name of the pod.
    pub(super) pod: String,
    pub(super) started_at: Timestamp,
    pub(super) containers: Containers,
}

impl Running {
    /// The key of the pod, in the namespace of its Workflow.
    pub(super) fn key(&self, workflow: &WorkflowKey) -> PodKey {
        PodKey {
            namespace: Arc::clone(&workflow.namespace),
            name: self.pod.as_str().into(),
        }
    }
}

/// The end of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) at: Timestamp,
    pub(super) has_succeeded: bool,
    /// Its log is an artifact, so it can be read without the pod.
    pub(super) has_log: bool,
}

impl End {
    /// The pod exists no longer, or is not to be shown.
    pub(super) const GONE: Self = Self {
        at: Timestamp::MIN,
        has_succeeded: false,
        has_log: true,
    };

    /// The same end, if it has been seen by `now`. The clock of the cluster may be fast, or its word
    /// a lie that would keep a shadow pod for ever.
    pub(super) fn seen_by(self, now: Timestamp) -> Self {
        Self {
            at: self.at.min(now),
            ..self
        }
    }
}

impl From<Workflow> for ObservedWatched {
    fn from(workflow: Workflow) -> Self {
        let metadata = &workflow.metadata;
        let claim = Claim::of(metadata).filter(|claim| !claim.is_for_every_cluster());
        let key = WorkflowKey::new(&workflow.namespace().unwrap_or_default(), &workflow.name_any());
        let mut seen = Self {
            uid: workflow.uid().unwrap_or_default(),
            resource_version: workflow.resource_version().unwrap_or_default(),
            labels: Arc::default(),
            node: claim
                .as_ref()
                .map(|claim| names::virtual_node(claim.cluster.as_str()))
                .unwrap_or_default(),
            watched_until: watched_until(metadata),
            running: Vec::new(),
            ids: BTreeSet::new(),
            left_out: 0,
            ended: HashMap::new(),
            is_gone: crate::index::reconciler::is_gone(metadata),
            key,
        };
        let nodes = workflow.status.as_ref().and_then(Nodes::of);
        if let Some(nodes) = nodes.filter(|_| claim.is_some() && seen.key.name.len() <= LONGEST_LABEL) {
            seen.read(&workflow, &nodes);
        }
        seen.labels = Arc::new(workflow.metadata.labels.unwrap_or_default());
        seen
    }
}

impl ObservedWatched {
    /// Reads the nodes. There may be a hundred thousand, so everything that costs more than a look at
    /// one is done only for those that are shown.
    fn read(&mut self, workflow: &Workflow, nodes: &Nodes<'_>) {
        let (mut running, mut ended) = (Vec::new(), Vec::new());
        let named = Naming::of(workflow);
        for id in nodes.ids().filter(|id| id.len() <= LONGEST) {
            let Some(node) = nodes.get(id) else { continue };
            if text(&node, "type") != Some("Pod") {
                continue;
            }
            if text(&node, "phase") == Some("Running") {
                running.push((started_at(&node), id));
            } else if let Some(end) = named.end(&node) {
                ended.push((end, id));
            }
        }
        running.sort_by_key(|(started_at, _)| Reverse(*started_at));
        self.left_out = running.len().saturating_sub(MOST_OF_ONE);
        running.truncate(MOST_OF_ONE);
        let shown = running.into_iter().filter_map(|(_, id)| {
            let node = nodes.get(id)?;
            named.running(id, &node, nodes)
        });
        self.running = shown.collect();
        self.ids = self.running.iter().map(|running| running.id.clone()).collect();
        ended.sort_by_key(|(end, _)| Reverse(end.at));
        ended.truncate(MOST_ENDED);
        self.ended = ended.into_iter().map(|(end, id)| (id.to_owned(), end)).collect();
    }
}

fn watched_until(metadata: &ObjectMeta) -> Option<Timestamp> {
    let annotations = metadata.annotations.as_ref()?;
    annotations.get(names::WATCHED_UNTIL_ANNOTATION)?.parse().ok()
}

fn time(node: &Value, key: &str) -> Option<Timestamp> {
    text(node, key)?.parse().ok()
}

fn started_at(node: &Value) -> Timestamp {
    time(node, "startedAt").unwrap_or(Timestamp::MIN)
}

/// Everything of a Workflow that the names of a pod and of its containers depend on.
struct Naming<'a> {
    workflow: &'a str,
    format: PodNames,
    templates: Templates<'a>,
}

impl<'a> Naming<'a> {
    fn of(workflow: &'a Workflow) -> Self {
        Self {
            workflow: workflow.metadata.name.as_deref().unwrap_or_default(),
            format: PodNames::of(&workflow.metadata),
            templates: Templates::of(workflow),
        }
    }

    fn running(&self, id: &str, node: &Value, nodes: &Nodes<'_>) -> Option<Running> {
        let pod = self.format.name(self.workflow, id, node)?;
        let name = text(node, "name").unwrap_or_default();
        (is_name(&pod, 253) && name.len() <= LONGEST).then(|| Running {
            id: id.to_owned(),
            node: name.to_owned(),
            pod,
            started_at: started_at(node),
            containers: self.templates.containers(node, nodes),
        })
    }

    fn end(&self, node: &Value) -> Option<End> {
        let phase = text(node, "phase")?;
        if !["Succeeded", "Failed", "Error"].contains(&phase) {
            return None;
        }
        Some(End {
            at: time(node, "finishedAt").unwrap_or(Timestamp::MIN),
            has_succeeded: phase == "Succeeded",
            has_log: self.templates.has_log(node),
        })
    }
}

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
