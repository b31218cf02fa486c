//! One watch for each kind that is wanted, of the objects with the cluster's label, and one for each object that is wanted by its
//! name, from when it is wanted until it is not.

use std::collections::{BTreeSet, HashMap};

use argosy_api::names;
use argosy_core::{
    ClusterName,
    apply::{ApplyInput, ObjectKey, Obstacle, Resource},
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

use crate::{
    tolerant::Tolerant,
    watch::{answer, follow_kind, selecting},
};

/// What is to be watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// With the cluster's label.
    pub(super) kinds: BTreeSet<Resource>,
    /// By their names.
    pub(super) objects: BTreeSet<ObjectKey>,
}

/// What one watch tells of.
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
    /// What is told when its watch has ended.
    fn unwatched(self) -> ApplyInput {
        match self {
            Self::Kind(kind) => ApplyInput::Unwatched(kind),
            Self::Object(key) => ApplyInput::SingleUnwatched(key),
        }
    }
}

/// Follows whatever is `wanted`. Ends when a watch ends by itself, and when nobody wants anything any more.
pub(super) async fn follow(
    wec: Client,
    cluster: ClusterName,
    mut wanted: watch::Receiver<Wanted>,
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
        // One that has not ended yet is begun anew when it has.
        for target in now.into_targets() {
            let (wec, cluster, sender) = (wec.clone(), cluster.clone(), sender.clone());
            followed.entry(target.clone()).or_insert_with(|| match target {
                Target::Kind(kind) => watches.spawn(follow_one(wec, kind, cluster, sender).in_current_span()),
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
                // It was not wanted any more.
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

async fn follow_one(wec: Client, kind: Resource, cluster: ClusterName, sender: mpsc::Sender<ApplyInput>) {
    let selector = format!("{}={cluster},!{}", names::CLUSTER_LABEL, names::ORIGIN_UID_LABEL);
    let api: Api<Tolerant<DynamicObject>> = Api::all_with(wec, &api_resource(&kind));
    let (of, by) = (kind.clone(), kind.clone());
    follow_kind(
        kind.to_string(),
        api,
        selecting(&selector),
        sender,
        Tolerant::into_object,
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
        Tolerant::into_object,
        move |change| ApplyInput::Single(of.clone(), change),
        move |error| {
            obstacle(error)?;
            Some(ApplyInput::SingleUnwatched(by.clone()))
        },
    )
    .await;
}

/// The objects among which that of a key is.
pub(super) fn objects(wec: &Client, key: &ObjectKey) -> Api<Tolerant<DynamicObject>> {
    let kind = api_resource(&key.resource);
    if key.namespace.is_empty() {
        Api::all_with(wec.clone(), &kind)
    } else {
        Api::namespaced_with(wec.clone(), &key.namespace, &kind)
    }
}

/// `None` where the next try may succeed.
fn obstacle(error: &watcher::Error) -> Option<Obstacle> {
    let status = answer(error)?;
    match status.code {
        404 => Some(Obstacle::Missing),
        401 | 403 | 405 => Some(Obstacle::Refused(status.message.clone())),
        _ => None,
    }
}

/// The kind as a client needs it: the path is made of the plural, and objects bring their kind themselves.
fn api_resource(resource: &Resource) -> ApiResource {
    ApiResource {
        group: resource.api.group.to_string(),
        version: resource.api.version.to_string(),
        api_version: resource.api.to_string(),
        kind: String::new(),
        plural: resource.plural.to_string(),
    }
}
