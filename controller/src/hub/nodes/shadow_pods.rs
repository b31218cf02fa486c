//! Carries out the decisions on shadow pods (`argosy_core::hub::shadow_pods`): its watches of the
//! WDS, and its loop.

use std::{collections::BTreeSet, sync::Arc};

use argosy_api::{Workflow, names};
use argosy_core::{
    Failure, Intake, WorkflowKey,
    hub::{
        admission::Admission,
        shadow_pods::{
            ObservedShadow, ObservedWatched, PodKey, SHADOWS, ShadowPodAction, ShadowPodIndex,
            ShadowPodInput, ShadowPodKey, Shown, WATCHED,
        },
    },
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PostParams, Preconditions},
    core::PartialObjectMeta,
};
use tokio::{
    sync::{mpsc, watch},
    task::{JoinSet, spawn_blocking},
};
use tokio_util::sync::CancellationToken;

use crate::runtime::{
    engine::{self, Execute},
    lenient::Lenient,
    metrics::Metrics,
    requests::{found, left, patching, read},
    supervise::supervise,
    watch::{Projected, follow, follow_projected, selecting},
};

/// Capacity of the queue of inputs. A full queue delays the watches and loses nothing.
const QUEUE: usize = 256;

/// Name of this loop.
const ENGINE: &str = "shadow_pods";

/// Settings of the shadow pods.
pub(super) struct Settings {
    /// The pods that are shown if no policy says otherwise.
    pub(super) shown: Shown,
}

/// Runs until `stop`. `policies` brings the policies that select Workflows.
pub(super) async fn run(
    wds: Client,
    settings: Settings,
    mut policies: watch::Receiver<Option<Arc<Admission>>>,
    metrics: Metrics,
    stop: CancellationToken,
) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let mut watches = JoinSet::new();
    let intake = Intake::default();
    watches.spawn(follow_projected(
        Api::<Projected<Workflow, ObservedWatched>>::all(wds.clone()),
        selecting(WATCHED),
        sender.clone(),
        move |seen| Projected::into_view(seen).by(&intake),
        ShadowPodInput::Workflow,
    ));
    watches.spawn(follow_projected(
        Api::<Projected<Pod, ObservedShadow>>::all(wds.clone()),
        selecting(SHADOWS),
        sender.clone(),
        Projected::into_view,
        ShadowPodInput::Pod,
    ));
    let virtual_nodes = format!("{}=true", names::VIRTUAL_NODE_LABEL);
    let nodes: Api<Lenient<PartialObjectMeta<Node>>> = Api::all(wds.clone());
    watches.spawn(follow(
        nodes,
        selecting(&virtual_nodes),
        sender.clone(),
        ShadowPodInput::Node,
        |_| None,
    ));
    watches.spawn(async move {
        loop {
            let newest = policies.borrow_and_update().clone();
            if let Some(newest) = newest
                && sender.send(ShadowPodInput::Policies(newest)).await.is_err()
            {
                return;
            }
            if policies.changed().await.is_err() {
                return;
            }
        }
    });
    let index = ShadowPodIndex::new(settings.shown);
    let reactions = metrics.reactions(ENGINE);
    let executor = Executor::new(wds);
    let kubelet = metrics.kubelet();
    let observe = |index: &mut ShadowPodIndex| {
        kubelet.shadow_pods(index.counts());
    };
    let driving = engine::drive(index, executor, receiver, stop, reactions, observe);
    supervise(driving, watches).await;
}

#[derive(Clone)]
struct Executor {
    wds: Client,
}

impl Executor {
    fn new(wds: Client) -> Self {
        Self { wds }
    }

    async fn read_workflow(
        &self,
        key: &WorkflowKey,
        ids: &BTreeSet<String>,
    ) -> Result<ShadowPodInput, Failure> {
        let api: Api<Lenient<Workflow>> = Api::namespaced(self.wds.clone(), &key.namespace);
        let there = found(read(api.get(&key.name)).await)?;
        let (key, ids) = (key.clone(), ids.clone());
        // Unpacking nodes may take a second.
        let learning = spawn_blocking(move || {
            let seen = there.map(|there| Box::new(ObservedWatched::read(there, &ids)));
            ShadowPodInput::Read(key, seen)
        });
        learning
            .await
            .map_err(|error| Failure::Unreachable(format!("cannot read the Workflow: {error}")))
    }

    async fn create_pod(&self, pod: &Pod) -> Result<ShadowPodInput, Failure> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let pods: Api<Lenient<Pod>> = Api::namespaced(self.wds.clone(), namespace);
        let params = PostParams {
            field_manager: Some(names::CONTROLLER.to_owned()),
            ..PostParams::default()
        };
        let pod = Lenient::from(pod.clone());
        Ok(ShadowPodInput::written(read(pods.create(&params, &pod)).await?))
    }

    async fn patch_status(&self, key: &PodKey, patch: &serde_json::Value) -> Result<ShadowPodInput, Failure> {
        let pods: Api<Lenient<Pod>> = Api::namespaced(self.wds.clone(), &key.namespace);
        let (params, patch) = (patching(names::CONTROLLER), Patch::Merge(patch));
        let written = found(read(pods.patch_status(&key.name, &params, &patch)).await)?;
        Ok(written.map_or_else(|| ShadowPodInput::Gone(key.clone()), ShadowPodInput::written))
    }

    async fn delete_pod(&self, key: &PodKey, uid: &str) -> Result<ShadowPodInput, Failure> {
        let pods: Api<Lenient<Pod>> = Api::namespaced(self.wds.clone(), &key.namespace);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default().grace_period(0)
        };
        left(&pods, &key.name, &params).await?;
        Ok(ShadowPodInput::Gone(key.clone()))
    }
}

impl Execute<ShadowPodIndex> for Executor {
    fn at_once(&self) -> usize {
        8
    }

    /// One Workflow is read and parsed at a time: with packed nodes, it takes up to 100 MiB.
    fn lanes_at_once(&self) -> usize {
        1
    }

    async fn execute(&self, key: &ShadowPodKey, action: &ShadowPodAction) -> Result<ShadowPodInput, Failure> {
        let ShadowPodKey::Pod(key) = key else {
            return match action {
                ShadowPodAction::Read { workflow, ids, .. } => self.read_workflow(workflow, ids).await,
                action => Err(Failure::Refused(format!("{key}: cannot {action}"))),
            };
        };
        match action {
            ShadowPodAction::Create(pod) => self.create_pod(pod).await,
            ShadowPodAction::Run(_, patch) | ShadowPodAction::End(_, patch) => {
                self.patch_status(key, patch).await
            }
            ShadowPodAction::Delete(named) => self.delete_pod(key, &named.uid).await,
            ShadowPodAction::Read { workflow, ids, .. } => self.read_workflow(workflow, ids).await,
        }
    }
}
