//! Events on Workflows of the WDS, one request after the other and beside the controller's work.
//!
//! They hold nothing up: where the API server is slower than the news, or away, Events are left out. The state of a Workflow
//! is in its status and conditions.

use std::time::Duration;

use argosy_api::{Workflow, names, workflow};
use argosy_core::hub::Notice;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::{sync::mpsc, time::timeout};

/// Events that wait to be written; more are left out.
const QUEUE: usize = 256;

/// For one Event.
const LIMIT: Duration = Duration::from_secs(5);

/// Where notices go.
pub(super) struct Events(mpsc::Sender<Notice>);

impl Events {
    /// The queue, and the task that writes what is put into it.
    pub(super) fn new(wds: &Client) -> (Self, impl Future<Output = ()> + use<>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let reporter = Reporter {
            controller: names::CONTROLLER.to_owned(),
            instance: None,
        };
        (
            Self(sender),
            write(Recorder::new(wds.clone(), reporter), receiver),
        )
    }

    /// Puts what fits into the queue.
    pub(super) fn announce(&self, notices: Vec<Notice>) {
        for notice in notices {
            if let Err(full) = self.0.try_send(notice) {
                let notice = full.into_inner();
                tracing::debug!(
                    kind = workflow::KIND,
                    namespace = %notice.key.namespace,
                    name = %notice.key.name,
                    uid = %notice.uid,
                    reason = notice.reason,
                    "left out an Event"
                );
            }
        }
    }
}

async fn write(recorder: Recorder, mut notices: mpsc::Receiver<Notice>) {
    while let Some(notice) = notices.recv().await {
        let event = Event {
            type_: if notice.is_warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: notice.reason,
            note: Some(notice.message),
            action: "Dispatch".to_owned(),
            secondary: None,
        };
        let regarding = ObjectReference {
            api_version: Some(Workflow::api_version(&()).into_owned()),
            kind: Some(Workflow::kind(&()).into_owned()),
            namespace: Some(notice.key.namespace.to_string()),
            name: Some(notice.key.name.to_string()),
            uid: Some(notice.uid.to_string()),
            ..ObjectReference::default()
        };
        let error = match timeout(LIMIT, recorder.publish(&event, &regarding)).await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it was not answered".to_owned(),
        };
        tracing::debug!(
            kind = workflow::KIND,
            namespace = %notice.key.namespace,
            name = %notice.key.name,
            uid = %notice.uid,
            error,
            "cannot write an Event"
        );
    }
}
