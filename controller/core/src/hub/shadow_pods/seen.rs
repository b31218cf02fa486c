//! The parts of Workflows that are kept. Users and clusters decide how large a status is, so everything
//! is bounded here, as soon as an object arrives.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
    mem::size_of,
    sync::Arc,
};

use argosy_api::{Workflow, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde_json::Value;

use super::{
    PodKey,
    templates::{Containers, Templates, is_name, text},
};
use crate::{
    ClusterName, WorkflowKey,
    index::{
        budget::{Intake, Ticket},
        store::{Incoming, Version},
    },
    model::{
        claim::Claim,
        control::{Nodes, packed},
        pod_name::PodNames,
    },
    policy::Labels,
};

/// Maximum number of pods of one Workflow that are shown.
const MOST_OF_ONE: usize = 50;

/// Maximum number of ended nodes that are kept of one Workflow: those that ended last. The end of
/// another one is read when it is needed.
const MOST_ENDED: usize = 100;

/// Maximum length of the ID of a node, in bytes. Argo uses it as the name of a pod, or makes it of the
/// name of the Workflow.
const LONGEST_ID: usize = 253;

/// Maximum length of the name of a node that is shown, in bytes.
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
    /// `None` if they have to be read.
    pub(super) pods: Option<SeenPods>,
    is_gone: bool,
    /// Its place on the way from the watch to the index.
    ticket: Option<Arc<Ticket>>,
}

/// The pods of a Workflow, as its status names them.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenPods {
    /// Those that run, the newest first, at most [`MOST_OF_ONE`].
    pub(super) running: Vec<Running>,
    /// Number of running pods that are not among these.
    pub(super) left_out: usize,
    /// The ends of nodes that have ended, by ID.
    pub(super) ended: HashMap<String, End>,
    /// True if there are further ended nodes.
    pub(super) is_cut: bool,
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
    /// Its memory in bytes.
    fn size(&self) -> usize {
        let texts = [&self.id, &self.node, &self.pod, &self.containers.default];
        let containers = self.containers.init.iter().chain(&self.containers.all);
        let containers = containers.map(|name| size_of::<String>() + name.len());
        let texts = texts.into_iter().map(String::len);
        size_of::<Self>() + texts.chain(containers).sum::<usize>()
    }

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

/// For the watch of all Workflows.
impl From<Workflow> for ObservedWatched {
    fn from(workflow: Workflow) -> Self {
        Self::new(workflow, None)
    }
}

impl ObservedWatched {
    /// For a Workflow that was read separately: with the ends of the nodes with the IDs `asked`.
    pub fn read(workflow: Workflow, asked: &BTreeSet<String>) -> Self {
        Self::new(workflow, Some(asked))
    }

    fn new(workflow: Workflow, asked: Option<&BTreeSet<String>>) -> Self {
        let metadata = &workflow.metadata;
        let claim = Claim::of(metadata).filter(|claim| !claim.is_for_every_cluster());
        let key = WorkflowKey::new(&workflow.namespace().unwrap_or_default(), &workflow.name_any());
        let is_shown = claim.is_some() && key.name.len() <= LONGEST_LABEL;
        Self {
            uid: workflow.uid().unwrap_or_default(),
            resource_version: workflow.resource_version().unwrap_or_default(),
            node: claim
                .as_ref()
                .map(|claim| names::virtual_node(claim.cluster.as_str()))
                .unwrap_or_default(),
            watched_until: watched_until(metadata),
            pods: if is_shown {
                SeenPods::of(&workflow, asked)
            } else {
                Some(SeenPods::default())
            },
            is_gone: crate::index::reconciler::is_gone(metadata),
            key,
            labels: Arc::new(workflow.metadata.labels.unwrap_or_default()),
            ticket: None,
        }
    }

    /// Admits the Workflow to the way to the index. If the Workflows of its cluster take too much room
    /// there, its pods are dropped, and are read when they are needed.
    #[must_use]
    pub fn by(mut self, intake: &Intake) -> Self {
        let size = self.pods.as_ref().map_or(0, SeenPods::size);
        let ticket = intake.admit(&ClusterName::from(self.node.as_str()), size);
        self.ticket = ticket.filter(|ticket| ticket.has_room);
        if self.ticket.is_none() && size > 0 {
            self.pods = None;
        }
        self
    }
}

impl SeenPods {
    /// Reads the status of a Workflow. With `asked`, the ends are those of the nodes with these IDs.
    /// Without, packed nodes are not unpacked, because that may take as long as a thousand other
    /// statuses, and all of them wait in the same watch.
    fn of(workflow: &Workflow, asked: Option<&BTreeSet<String>>) -> Option<Self> {
        let status = workflow.status.as_ref();
        if asked.is_none() && status.and_then(packed).is_some() {
            return None;
        }
        let nodes = status.and_then(Nodes::of);
        Some(nodes.map_or_else(Self::default, |nodes| Self::in_nodes(workflow, &nodes, asked)))
    }

    /// Reads the nodes. There may be a hundred thousand, so everything that costs more than a look at
    /// one is done only for those that are shown.
    fn in_nodes(workflow: &Workflow, nodes: &Nodes<'_>, asked: Option<&BTreeSet<String>>) -> Self {
        let (mut running, mut ended) = (Vec::new(), Vec::new());
        let named = Naming::of(workflow);
        for id in nodes.ids().filter(|id| id.len() <= LONGEST_ID) {
            let Some(node) = nodes.get(id) else { continue };
            if text(&node, "type") != Some("Pod") {
                continue;
            }
            if text(&node, "phase") == Some("Running") {
                running.push((started_at(&node), id));
            } else if asked.is_none_or(|asked| asked.contains(id))
                && let Some(end) = named.end(&node)
            {
                ended.push((end, id));
            }
        }
        running.sort_by_key(|(started_at, _)| Reverse(*started_at));
        let left_out = running.len().saturating_sub(MOST_OF_ONE);
        running.truncate(MOST_OF_ONE);
        let shown = running.into_iter().filter_map(|(_, id)| {
            let node = nodes.get(id)?;
            named.running(id, &node, nodes)
        });
        let running = shown.collect();
        let is_cut = asked.is_none() && ended.len() > MOST_ENDED;
        if is_cut {
            ended.sort_by_key(|(end, _)| Reverse(end.at));
            ended.truncate(MOST_ENDED);
        }
        Self {
            running,
            left_out,
            ended: ended.into_iter().map(|(end, id)| (id.to_owned(), end)).collect(),
            is_cut,
        }
    }

    /// True if the node with this ID runs.
    pub(super) fn is_running(&self, id: &str) -> bool {
        self.running.iter().any(|running| running.id == id)
    }

    /// Memory in bytes, as far as the cluster determines it.
    fn size(&self) -> usize {
        let ended = self.ended.keys().map(|id| id.len() + size_of::<(String, End)>());
        self.running.iter().map(Running::size).chain(ended).sum()
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
