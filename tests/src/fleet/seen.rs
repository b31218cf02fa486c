//! All objects that a cluster has had during a test. A watch misses none, however short-lived.

use std::{collections::BTreeSet, fmt::Debug, pin::pin};

use anyhow::{Result, anyhow};
use argosy_api::names;
use futures::TryStreamExt as _;
use k8s_openapi::{NamespaceResourceScope, api::core::v1::Pod};
use kube::{
    Api, Resource, ResourceExt as _,
    runtime::watcher::{self, Event, watcher},
};
use serde::de::DeserializeOwned;

use super::{Cluster, NAMESPACE};

/// The UIDs of all objects of a kind that existed or were created during a test.
pub type Seen = BTreeSet<String>;

/// Adds all objects that `config` selects to `seen`, for as long as it is polled.
async fn collect<K>(api: Api<K>, config: watcher::Config, seen: &mut Seen) -> anyhow::Error
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let mut events = pin!(watcher(api, config));
    loop {
        match events.try_next().await {
            Ok(Some(Event::Apply(object) | Event::InitApply(object))) => seen.extend(object.uid()),
            Ok(Some(_)) => {}
            Ok(None) => return anyhow!("the watch ended"),
            Err(error) => return error.into(),
        }
    }
}

/// Runs `meanwhile`, and watches until its end the Workflows with this name and their pods. Returns
/// its result and the UIDs.
pub async fn watching<T>(
    cluster: &Cluster,
    name: &str,
    meanwhile: impl Future<Output = Result<T>>,
) -> Result<(T, Seen, Seen)> {
    let (mut objects, mut seen) = (Seen::new(), Seen::new());
    let by_name = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let by_label = format!(
        "{}={name},!{}",
        names::ARGO_WORKFLOW_LABEL,
        names::SHADOW_OF_LABEL
    );
    let by_label = watcher::Config::default().labels(&by_label);
    let pods: Api<Pod> = Api::namespaced(cluster.client(), NAMESPACE);
    let done = tokio::select! {
        done = meanwhile => done?,
        error = collect(cluster.workflows(), by_name, &mut objects) => return Err(error),
        error = collect(pods, by_label, &mut seen) => return Err(error),
    };
    Ok((done, objects, seen))
}
