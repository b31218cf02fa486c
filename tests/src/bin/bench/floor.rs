//! The floor: what copying costs on this machine with one request each way, whatever is between. It promises nothing that
//! Argosy promises; it only shows how much of a time is not Argosy's.

use argosy_api::Workflow;
use futures::{StreamExt, pin_mut};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    runtime::watcher::{self, Event, watcher},
};
use serde_json::json;

/// Creates every Workflow that appears in `from` in `to`.
pub(crate) async fn copy_down(from: Api<Workflow>, to: Api<Workflow>) {
    let events = watcher(from, watcher::Config::default());
    pin_mut!(events);
    while let Some(event) = events.next().await {
        let Ok(Event::Apply(workflow)) = event else {
            continue;
        };
        if workflow.status.is_some() {
            continue;
        }
        let mut copy = workflow.clone();
        copy.metadata = kube::core::ObjectMeta {
            name: Some(workflow.name_any()),
            ..Default::default()
        };
        // A name that is taken was copied on an earlier event.
        let _ = to.create(&PostParams::default(), &copy).await;
    }
}

/// Copies every status that appears in `from` to `to`.
pub(crate) async fn copy_up(from: Api<Workflow>, to: Api<Workflow>) {
    let events = watcher(from, watcher::Config::default());
    pin_mut!(events);
    while let Some(event) = events.next().await {
        let Ok(Event::Apply(workflow)) = event else {
            continue;
        };
        let Some(status) = &workflow.status else { continue };
        let patch = Patch::Merge(json!({ "status": status }));
        // A failure shows as a sample that never comes.
        let _ = to
            .patch(&workflow.name_any(), &PatchParams::default(), &patch)
            .await;
    }
}
