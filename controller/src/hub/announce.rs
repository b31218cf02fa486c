//! Events on Workflows of the WDS, one request after the other and beside the controller's work.
//!
//! They hold nothing up: they are written a moment later than their news, and where the API server is slower than the news, or away,
//! Events are left out. The state of a Workflow is in its status and conditions.

use std::time::Duration;

use argosy_api::{Workflow, names, workflow};
use argosy_core::hub::Notice;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

/// Events that wait to be written; more are left out.
const QUEUE: usize = 256;

/// How long an Event waits. Its news is followed by requests that the Workflow waits for: written beside them, an Event made
/// ManifestWorks wait, because etcd syncs one after the other.
const REST: Duration = Duration::from_millis(500);

/// For one Event.
const LIMIT: Duration = Duration::from_secs(5);

/// Where notices go.
pub(super) struct Events(mpsc::Sender<Rested>);

/// A notice, and when it may be written.
type Rested = (Instant, Notice);

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
        let due = Instant::now() + REST;
        for notice in notices {
            if let Err(full) = self.0.try_send((due, notice)) {
                let (_, notice) = full.into_inner();
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

/// The next notice, once it may be written.
async fn rested(notices: &mut mpsc::Receiver<Rested>) -> Option<Notice> {
    let (due, notice) = notices.recv().await?;
    sleep_until(due).await;
    Some(notice)
}

async fn write(recorder: Recorder, mut notices: mpsc::Receiver<Rested>) {
    while let Some(notice) = rested(&mut notices).await {
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

#[cfg(test)]
mod tests {
    use argosy_core::{OriginUid, WorkflowKey};

    use super::*;

    fn notice(reason: &str) -> Notice {
        Notice {
            key: WorkflowKey::new("argo", "a"),
            uid: OriginUid::from("u"),
            is_warning: false,
            reason: reason.to_owned(),
            message: String::new(),
        }
    }

    #[tokio::test]
    async fn events_come_in_their_order_after_a_rest() {
        let (sender, mut notices) = mpsc::channel(QUEUE);
        let events = Events(sender);
        let begin = Instant::now();
        events.announce(vec![notice("Dispatched"), notice("Started")]);
        for reason in ["Dispatched", "Started"] {
            assert_eq!(
                rested(&mut notices).await.map(|notice| notice.reason).as_deref(),
                Some(reason)
            );
            assert!(begin.elapsed() >= REST);
        }
        drop(events);
        assert_eq!(rested(&mut notices).await, None);
    }
}
