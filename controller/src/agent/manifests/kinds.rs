//! Starts and stops watches: one for each wanted kind, of the objects with the cluster's label that a
//! ManifestWork names, and one for each object that is wanted by name.

use std::collections::{BTreeSet, HashMap};

use argosy_api::names;
use argosy_core::{
    ClusterName,
    agent::manifests::{ApplyInput, NamedObjects, ObjectKey, ObjectView, Obstacle, Resource},
};
use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject},
    runtime::watcher,
};
use tokio::{
    sync::{mpsc, watch},
    task::{AbortHandle, JoinSet},
};
use tracing::Instrument;

use crate::runtime::watch::{Projected, answer, follow_kind, selecting};

/// An API of objects of any kind, which are reduced while they are parsed.
pub(super) type Objects = Api<Projected<DynamicObject, ObjectView>>;

/// The kinds and objects to watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Kinds whose objects with the cluster's label are watched.
    pub(super) kinds: BTreeSet<Resource>,
    /// Objects that are watched by name.
    pub(super) objects: BTreeSet<ObjectKey>,
}

/// The target of one watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Target {
    Kind(Resource),
    Object(ObjectKey),
}

impl Wanted {
    fn has(&self, target: &Target) -> bool {
        match target {
            Target::Kind(kind) => self.kinds.contains(kind),
            Target::Object(key) => self.objects.contains(key),
        }
    }

    fn into_targets(self) -> impl Iterator<Item = Target> {
        let kinds = self.kinds.into_iter().map(Target::Kind);
        kinds.chain(self.objects.into_iter().map(Target::Object))
    }
}

impl Target {
    /// Returns the input that reports the end of its watch.
    fn unwatched(self) -> ApplyInput {
        match self {
            Self::Kind(kind) => ApplyInput::Unwatched(kind),
            Self::Object(key) => ApplyInput::SingleUnwatched(key),
        }
    }
}

/// Watches everything in `wanted`. Returns when a watch ends by itself, and when the sender of
/// `wanted` is dropped.
pub(super) async fn follow(
    wec: Client,
    cluster: ClusterName,
    mut wanted: watch::Receiver<Wanted>,
    named: NamedObjects,
    sender: mpsc::Sender<ApplyInput>,
) {
    let mut watches = JoinSet::new();
    let mut followed: HashMap<Target, AbortHandle> = HashMap::new();
    loop {
        let now = wanted.borrow_and_update().clone();
        for (target, watch) in &followed {
            if !now.has(target) {
                watch.abort();
            }
        }
        // A target whose old watch has not ended yet gets a new one after that end.
        for target in now.into_targets() {
            let (wec, cluster, sender) = (wec.clone(), cluster.clone(), sender.clone());
            followed.entry(target.clone()).or_insert_with(|| match target {
                Target::Kind(kind) => {
                    let following = follow_one(wec, kind, cluster, named.clone(), sender);
                    watches.spawn(following.in_current_span())
                }
                Target::Object(key) => watches.spawn(follow_single(wec, key, sender).in_current_span()),
            });
        }
        tokio::select! {
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            Some(ended) = watches.join_next_with_id() => match ended {
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // It was aborted, because it was no longer wanted.
                Err(error) => {
                    for (target, _) in followed.extract_if(|_, watch| watch.id() == error.id()) {
                        if sender.send(target.unwatched()).await.is_err() {
                            return;
                        }
                    }
                }
                Ok(_) => return,
            },
        }
    }
}

async fn follow_one(
    wec: Client,
    kind: Resource,
    cluster: ClusterName,
    named: NamedObjects,
    sender: mpsc::Sender<ApplyInput>,
) {
    let selector = format!("{}={cluster},!{}", names::CLUSTER_LABEL, names::ORIGIN_UID_LABEL);
    let api: Objects = Api::all_with(wec, &api_resource(&kind));
    let (of, by) = (kind.clone(), kind.clone());
    let resource = kind.clone();
    let see = move |seen: Projected<DynamicObject, ObjectView>| {
        let object = seen.into_view();
        let naming = named.naming(&object.key_in(&resource))?;
        Some(object.passed_on(naming))
    };
    follow_kind(
        kind.to_string(),
        api,
        selecting(&selector),
        sender,
        see,
        move |change| ApplyInput::Objects(of.clone(), change),
        move |error| Some(ApplyInput::Unlisted(by.clone(), obstacle(error)?)),
    )
    .await;
}

async fn follow_single(wec: Client, key: ObjectKey, sender: mpsc::Sender<ApplyInput>) {
    let config = selecting("").fields(&format!("metadata.name={}", key.name));
    let (of, by) = (key.clone(), key.clone());
    follow_kind(
        key.resource.to_string(),
        objects(&wec, &key),
        config,
        sender,
        Projected::into_view,
        move |change| ApplyInput::Single(of.clone(), change),
        move |error| {
            obstacle(error)?;
            Some(ApplyInput::SingleUnwatched(by.clone()))
        },
    )
    .await;
}

/// Returns the API that serves the object of a key.
pub(super) fn objects(wec: &Client, key: &ObjectKey) -> Objects {
    let kind = api_resource(&key.resource);
    if key.namespace.is_empty() {
        Api::all_with(wec.clone(), &kind)
    } else {
        Api::namespaced_with(wec.clone(), &key.namespace, &kind)
    }
}

/// Returns the permanent obstacle; `None` if the next attempt may succeed.
fn obstacle(error: &watcher::Error) -> Option<Obstacle> {
    let status = answer(error)?;
    match status.code {
        404 => Some(Obstacle::Missing),
        401 | 403 | 405 => Some(Obstacle::Refused(status.message.clone())),
        _ => None,
    }
}

/// Converts the kind for a client: the path contains the plural, and responses contain the kind.
fn api_resource(resource: &Resource) -> ApiResource {
    ApiResource {
        group: resource.api.group.to_string(),
        version: resource.api.version.to_string(),
        api_version: resource.api.to_string(),
        kind: String::new(),
        plural: resource.plural.to_string(),
    }
}
