//! One watch for each kind that is wanted, of the objects with the cluster's label, from when it is wanted until it is not.

use std::collections::{BTreeSet, HashMap};

use argosy_api::names;
use argosy_core::{
    ClusterName,
    apply::{ApplyInput, Obstacle, Resource},
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

use crate::watch::{answer, follow_kind, selecting};

/// Follows whatever is `wanted`. Ends when a watch ends by itself, and when nobody wants anything any more.
pub(super) async fn follow(
    wec: Client,
    cluster: ClusterName,
    mut wanted: watch::Receiver<BTreeSet<Resource>>,
    sender: mpsc::Sender<ApplyInput>,
) {
    let mut watches = JoinSet::new();
    let mut followed: HashMap<Resource, AbortHandle> = HashMap::new();
    loop {
        let kinds = wanted.borrow_and_update().clone();
        for (kind, watch) in &followed {
            if !kinds.contains(kind) {
                watch.abort();
            }
        }
        // One that has not ended yet is begun anew when it has.
        for kind in kinds {
            let selector = format!("{}={cluster},!{}", names::CLUSTER_LABEL, names::ORIGIN_UID_LABEL);
            followed
                .entry(kind.clone())
                .or_insert_with(|| watches.spawn(follow_one(wec.clone(), kind, selector, sender.clone())));
        }
        tokio::select! {
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            Some(ended) = watches.join_next_with_id() => match ended {
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // Its kind was not wanted any more.
                Err(error) => {
                    for (kind, _) in followed.extract_if(|_, watch| watch.id() == error.id()) {
                        if sender.send(ApplyInput::Unwatched(kind)).await.is_err() {
                            return;
                        }
                    }
                }
                Ok(_) => return,
            },
        }
    }
}

async fn follow_one(wec: Client, kind: Resource, selector: String, sender: mpsc::Sender<ApplyInput>) {
    let api: Api<DynamicObject> = Api::all_with(wec, &api_resource(&kind));
    let (of, by) = (kind.clone(), kind.clone());
    follow_kind(
        kind.to_string(),
        api,
        selecting(&selector),
        sender,
        move |change| ApplyInput::Objects(of.clone(), change),
        move |error| Some(ApplyInput::Unlisted(by.clone(), obstacle(error)?)),
    )
    .await;
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
pub(super) fn api_resource(resource: &Resource) -> ApiResource {
    ApiResource {
        group: resource.api.group.to_string(),
        version: resource.api.version.to_string(),
        api_version: resource.api.to_string(),
        kind: String::new(),
        plural: resource.plural.to_string(),
    }
}
