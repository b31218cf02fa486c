//! Carries out the decisions on shadow pods (`argosy_core::hub::shadow_pods`): its watches of the
//! WDS, and its loop.

use std::sync::Arc;

use argosy_api::{Workflow, names};
use argosy_core::{
    Failure,
    hub::{
        admission::Admission,
        shadow_pods::{
            ObservedShadow, ObservedWatched, PodKey, SHADOWS, ShadowPodAction, ShadowPodIndex,
            ShadowPodInput, Shown, WATCHED,
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
    task::JoinSet,
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
    watches.spawn(follow_projected(
        Api::<Projected<Workflow, ObservedWatched>>::all(wds.clone()),
        selecting(WATCHED),
        sender.clone(),
        Projected::into_view,
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
    let kubelet = metrics.kubelet();
    let observe = |index: &mut ShadowPodIndex| {
        let (shown, left_out) = index.counts();
        kubelet.shadow_pods(shown, left_out);
    };
    let driving = engine::drive(index, Executor { wds }, receiver, stop, reactions, observe);
    supervise(driving, watches).await;
}

#[derive(Clone)]
struct Executor {
    wds: Client,
}

impl Executor {
    async fn patch_status(&self, key: &PodKey, patch: &serde_json::Value) -> Result<ShadowPodInput, Failure> {
        let pods: Api<Lenient<Pod>> = Api::namespaced(self.wds.clone(), &key.namespace);
        let (params, patch) = (patching(names::CONTROLLER), Patch::Merge(patch));
        let written = found(read(pods.patch_status(&key.name, &params, &patch)).await)?;
        Ok(written.map_or_else(|| ShadowPodInput::Gone(key.clone()), ShadowPodInput::written))
    }
}

impl Execute<ShadowPodIndex> for Executor {
    fn at_once(&self) -> usize {
        8
    }

    async fn execute(&self, key: &PodKey, action: &ShadowPodAction) -> Result<ShadowPodInput, Failure> {
        let pods: Api<Lenient<Pod>> = Api::namespaced(self.wds.clone(), &key.namespace);
        match action {
            ShadowPodAction::Create(pod) => {
                let params = PostParams {
                    field_manager: Some(names::CONTROLLER.to_owned()),
                    ..PostParams::default()
                };
                let pod = Lenient::from(Pod::clone(pod));
                Ok(ShadowPodInput::written(read(pods.create(&params, &pod)).await?))
            }
            ShadowPodAction::Run(_, patch) | ShadowPodAction::End(_, patch) => {
                self.patch_status(key, patch).await
            }
            ShadowPodAction::Delete(named) => {
                let params = DeleteParams {
                    preconditions: Some(Preconditions {
                        uid: Some(named.uid.clone()),
                        resource_version: None,
                    }),
                    ..DeleteParams::default().grace_period(0)
                };
                left(pods.delete(&key.name, &params)).await?;
                Ok(ShadowPodInput::Gone(key.clone()))
            }
            ShadowPodAction::Read(workflow) => {
                let api: Api<Lenient<Workflow>> = Api::namespaced(self.wds.clone(), &workflow.namespace);
                let seen = found(read(api.get(&workflow.name)).await)?.map(ObservedWatched::from);
                Ok(ShadowPodInput::Read(workflow.clone(), seen.map(Box::new)))
            }
        }
    }
}
