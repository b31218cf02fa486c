//! Writes Events about Workflows of the WDS, one request after the other, apart from the
//! controller's work.
//!
//! Events delay nothing: each is written when the controller has nothing else to do, or when it has
//! waited for half a minute, after those before it. If the API server is too slow or unreachable, Events
//! are dropped, warnings last. The state of a Workflow is in its status and conditions.

use std::{collections::HashMap, time::Duration};

use argosy_api::{Workflow, names, workflow};
use argosy_core::{OriginUid, hub::workflows::EventRecord};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

use super::activity::Activity;

/// Capacity of the queue; further Events are dropped.
const QUEUE: usize = 2048;

/// Places of the queue that only warnings take: a burst of Workflows that are well must not be the reason
/// that a problem is not reported.
const FOR_WARNINGS: usize = 256;

/// Longest delay of an Event. Its cause is followed by requests that a Workflow waits for: an Event
/// that is written beside them delays ManifestWorks, because etcd syncs one write after the other.
const AT_MOST: Duration = Duration::from_secs(30);

/// Timeout of one Event.
const LIMIT: Duration = Duration::from_secs(5);

/// The longest note in bytes that an API server accepts.
const LONGEST_NOTE: usize = 1024;

/// Number of warnings whose repetitions are counted. A cluster that comes and goes has many Workflows.
const COUNTED: usize = 2048;

/// Queue of notices.
pub(super) struct Events(mpsc::Sender<Rested>);

/// A notice, with the latest time of its write.
type Rested = (Instant, EventRecord);

impl Events {
    /// Creates the queue, and the task that writes its notices.
    pub(super) fn new(wds: &Client, activity: Activity) -> (Self, impl Future<Output = ()> + use<>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let reporter = Reporter {
            controller: names::CONTROLLER.to_owned(),
            instance: None,
        };
        (Self(sender), write(wds.clone(), reporter, receiver, activity))
    }

    /// Queues notices, and drops those that do not fit.
    pub(super) fn record(&self, records: Vec<EventRecord>) {
        let due = Instant::now() + AT_MOST;
        for record in records {
            let is_welcome = record.is_warning || self.0.capacity() > FOR_WARNINGS;
            let dropped = if is_welcome {
                let sent = self.0.try_send((due, record));
                sent.err().map(|full| full.into_inner().1)
            } else {
                Some(record)
            };
            if let Some(record) = dropped {
                tracing::debug!(
                    kind = workflow::KIND,
                    namespace = %record.key.namespace,
                    name = %record.key.name,
                    uid = %record.uid,
                    reason = record.reason,
                    "dropped an Event"
                );
            }
        }
    }
}

/// Waits for the next notice and for its time.
async fn rested(records: &mut mpsc::Receiver<Rested>, activity: &Activity) -> Option<EventRecord> {
    let (due, record) = records.recv().await?;
    activity.until_idle(due).await;
    Some(record)
}

/// The recorders of the last warnings, by object and reason, with the message.
///
/// A recorder counts an Event that it has written before, without regard to the message: the Event keeps
/// the first one. Only warnings are repeated, and a recorder keeps each Event for minutes.
struct Recorders<R> {
    last: HashMap<(OriginUid, String), (String, R)>,
}

impl<R: Clone> Recorders<R> {
    fn new() -> Self {
        Self { last: HashMap::new() }
    }

    /// The recorder of the same warning, if it was the last one of its object and reason; otherwise, and
    /// for other Events, a `new` one.
    fn of(&mut self, record: &EventRecord, new: impl FnOnce() -> R) -> R {
        if !record.is_warning {
            return new();
        }
        let key = (record.uid.clone(), record.reason.clone());
        let last = self.last.get(&key);
        if let Some((_, recorder)) = last.filter(|(message, _)| *message == record.message) {
            return recorder.clone();
        }
        if self.last.len() >= COUNTED {
            self.last.clear();
        }
        let recorder = new();
        self.last.insert(key, (record.message.clone(), recorder.clone()));
        recorder
    }
}

/// The message, as far as an Event may hold it.
fn note(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(LONGEST_NOTE));
    message
}

async fn write(wds: Client, reporter: Reporter, mut records: mpsc::Receiver<Rested>, activity: Activity) {
    let mut recorders = Recorders::new();
    while let Some(record) = rested(&mut records, &activity).await {
        let recorder = recorders.of(&record, || Recorder::new(wds.clone(), reporter.clone()));
        let event = Event {
            type_: if record.is_warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: record.reason,
            note: Some(note(record.message)),
            action: "Dispatch".to_owned(),
            secondary: None,
        };
        let regarding = ObjectReference {
            api_version: Some(Workflow::api_version(&()).into_owned()),
            kind: Some(Workflow::kind(&()).into_owned()),
            namespace: Some(record.key.namespace.to_string()),
            name: Some(record.key.name.to_string()),
            uid: Some(record.uid.to_string()),
            ..ObjectReference::default()
        };
        let error = match timeout(LIMIT, recorder.publish(&event, &regarding)).await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the API server did not answer".to_owned(),
        };
        tracing::debug!(
            kind = workflow::KIND,
            namespace = %record.key.namespace,
            name = %record.key.name,
            uid = %record.uid,
            error,
            "cannot write an Event"
        );
    }
}

#[cfg(test)]
mod tests {
    use argosy_core::{OriginUid, WorkflowKey};

    use super::*;

    fn record(reason: &str) -> EventRecord {
        EventRecord {
            key: WorkflowKey::new("argo", "a"),
            uid: OriginUid::from("u"),
            is_warning: false,
            reason: reason.to_owned(),
            message: String::new(),
        }
    }

    #[tokio::test]
    async fn events_come_in_their_order_when_the_controller_is_idle() {
        let (sender, mut records) = mpsc::channel(QUEUE);
        let (events, activity) = (Events(sender), Activity::new());
        let request = activity.begin();
        events.record(vec![record("Dispatched"), record("Started")]);
        drop(request);
        let begin = Instant::now();
        for reason in ["Dispatched", "Started"] {
            assert_eq!(
                rested(&mut records, &activity)
                    .await
                    .map(|record| record.reason)
                    .as_deref(),
                Some(reason)
            );
            assert!(begin.elapsed() >= Duration::from_millis(900));
        }
        drop(events);
        assert_eq!(rested(&mut records, &activity).await, None);
    }

    #[test]
    fn a_warning_counts_as_repeated_only_if_it_says_the_same_as_the_last_one() {
        let mut recorders = Recorders::new();
        let mut made = 0;
        let mut of = |is_warning, reason: &str, message: &str| {
            let record = EventRecord {
                is_warning,
                message: message.to_owned(),
                ..record(reason)
            };
            recorders.of(&record, || {
                made += 1;
                made
            })
        };
        let told = [
            of(true, "Rerun", "sent to c2"),
            of(true, "Rerun", "sent to c2"),
            of(true, "Finished", "sent to c2"),
            of(true, "Rerun", "sent to c3"),
            of(true, "Rerun", "sent to c3"),
            of(true, "Rerun", "sent to c2"),
            of(false, "Dispatched", "sent to c2"),
            of(false, "Dispatched", "sent to c2"),
        ];
        assert_eq!(told, [1, 1, 2, 3, 3, 4, 5, 6]);
    }

    #[test]
    fn thousands_of_warnings_take_no_more_memory_than_the_last_ones() {
        let mut recorders = Recorders::new();
        for n in 0..10 * COUNTED {
            let record = EventRecord {
                is_warning: true,
                ..record(&n.to_string())
            };
            recorders.of(&record, || ());
        }
        assert!(recorders.last.len() <= COUNTED);
    }

    #[test]
    fn a_note_is_as_long_as_an_api_server_accepts() {
        assert_eq!(note("short".to_owned()), "short");
        assert_eq!(note("é".repeat(600)), "é".repeat(512));
        assert_eq!(note(format!("a{}", "é".repeat(600))).len(), 1023);
    }

    #[tokio::test]
    async fn a_warning_finds_a_place_that_thousands_of_other_events_do_not_take() {
        let (sender, mut records) = mpsc::channel(QUEUE);
        let events = Events(sender);
        events.record(vec![record("Dispatched"); 2 * QUEUE]);
        let warning = EventRecord {
            is_warning: true,
            ..record("Invalid")
        };
        events.record(vec![warning.clone(); 2 * FOR_WARNINGS]);
        drop(events);
        let mut reasons = Vec::new();
        while let Some((_, record)) = records.recv().await {
            reasons.push(record.reason);
        }
        let others = vec!["Dispatched"; QUEUE - FOR_WARNINGS];
        assert_eq!(reasons, [others, vec!["Invalid"; FOR_WARNINGS]].concat());
    }
}
