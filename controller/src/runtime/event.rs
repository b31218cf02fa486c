//! Writes one Event about an object after an action on it. A failure to write it is only logged.
//!
//! Not here: the Events of a Workflow's progress, which must keep their order
//! (`hub::workflows::event_recorder`).

use std::time::Duration;

use argosy_core::hub::objects::{ObjectEvent, Place};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::time::timeout;

/// Timeout of one Event.
const LIMIT: Duration = Duration::from_secs(5);

/// The `action` field of the Event.
const ACTION: &str = "TakeBack";

/// Writes an Event about the object, reported by the program `reporter`. Similar Events are
/// separate objects: a series would show only the message of its first Event.
pub(crate) async fn tell(
    client: &Client,
    reporter: &str,
    regarding: &ObjectReference,
    reason: &str,
    sentence: String,
) {
    let reporter = Reporter {
        controller: reporter.to_owned(),
        instance: None,
    };
    let event = Event {
        type_: EventType::Normal,
        reason: reason.to_owned(),
        note: Some(sentence),
        action: ACTION.to_owned(),
        secondary: None,
    };
    let recorder = Recorder::new(client.clone(), reporter);
    let error = match timeout(LIMIT, recorder.publish(&event, regarding)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the API server did not answer".to_owned(),
    };
    tracing::debug!(
        kind = regarding.kind,
        namespace = regarding.namespace,
        name = regarding.name,
        uid = regarding.uid,
        error,
        "cannot write an Event"
    );
}

/// Like [`tell`], for an object of the WDS.
pub(crate) async fn tell_of(wds: &Client, reporter: &str, told: &ObjectEvent) {
    let Place {
        kind,
        namespace,
        name,
        uid,
    } = &told.place;
    let regarding = ObjectReference {
        api_version: Some(kind.api_version()),
        kind: Some(kind.kind.clone()),
        namespace: Some(namespace.to_string()).filter(|namespace| !namespace.is_empty()),
        name: Some(name.to_string()),
        uid: Some(uid.to_string()),
        ..ObjectReference::default()
    };
    tell(wds, reporter, &regarding, told.reason, told.message.clone()).await;
}
