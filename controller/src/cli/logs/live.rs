//! The logs of steps that run, from the API server of the control cluster: of the pods that run
//! there, and of the shadow pods that show pods on other clusters.
//!
//! A log that ends while its step runs is read again from its beginning, and the bytes that were
//! printed are skipped: an API server ends the log in the same way if its kubelet breaks off
//! (`StreamObject` in `apiserver/pkg/endpoints/handlers/responsewriters`). Not here: the lines on the
//! terminal, and the logs of steps that have ended (`logs`).

mod reader;

use std::collections::HashMap;

use argosy_api::names;
use argosy_core::Failure;
use futures::{AsyncBufRead, StreamExt, stream::BoxStream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{LogParams, Patch, PatchParams},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde_json::json;
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use self::reader::Reader;
use crate::runtime::{
    lenient::Lenient,
    requests::{REQUEST_TIMEOUT, call},
    tunnel::CUT,
    watch::reconnect_policy,
};

/// Number of parts of logs that wait to be printed.
const QUEUE: usize = 64;

/// Time for which the running pods of a watched Workflow are shown. It is extended while this command
/// runs.
const WATCHED: SignedDuration = SignedDuration::from_mins(2);

/// A part of the log of a node.
#[derive(Debug)]
pub(super) struct Part {
    /// ID of the node.
    pub(super) node: String,
    /// Number of the reader.
    reader: u64,
    /// The content.
    pub(super) content: Content,
}

/// The content of a part.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Bytes, up to the end of a line if it is not too long.
    Bytes(Vec<u8>),
    /// The log has ended, or cannot be read.
    Pause(Pause),
}

/// The end of one reading of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pause {
    /// Number of bytes of the log that were sent so far.
    pub(super) printed: u64,
    /// True if the log was read to its end, as far as the API server tells.
    pub(super) is_complete: bool,
    /// True if the log is not read again.
    pub(super) is_last: bool,
}

/// The logs of the running pods of one Workflow.
pub(super) struct Live {
    pods: Api<Pod>,
    container: String,
    events: BoxStream<'static, watcher::Result<Event<Lenient<Pod>>>>,
    /// Names of the running pods by the ID of their node.
    running: HashMap<String, String>,
    followed: HashMap<String, Followed>,
    /// Number of readers so far.
    count: u64,
    sender: mpsc::Sender<Part>,
    parts: mpsc::Receiver<Part>,
    readers: JoinSet<()>,
}

/// A log that is being read.
struct Followed {
    reading: AbortHandle,
    /// Number of the reader.
    reader: u64,
    /// It is read the last time.
    is_last: bool,
}

impl Live {
    /// Watches the pods of the Workflow `name` for the logs of `container`.
    pub(super) fn of(client: &Client, namespace: &str, name: &str, container: &str) -> Self {
        let pods: Api<Lenient<Pod>> = Api::namespaced(client.clone(), namespace);
        let labeled = watcher::Config::default().labels(&format!("{}={name}", names::ARGO_WORKFLOW_LABEL));
        let events = watcher(pods, labeled).backoff(reconnect_policy()).boxed();
        let (sender, parts) = mpsc::channel(QUEUE);
        Self {
            pods: Api::namespaced(client.clone(), namespace),
            container: container.to_owned(),
            events,
            running: HashMap::new(),
            followed: HashMap::new(),
            count: 0,
            sender,
            parts,
            readers: JoinSet::new(),
        }
    }

    /// The next part of any log, or `None` after a change of the running pods. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Part> {
        tokio::select! {
            // A reader that was stopped may have sent parts that the next one sends again.
            part = self.parts.recv() => part.filter(|part| {
                self.followed.get(&part.node).is_some_and(|known| known.reader == part.reader)
            }),
            Some(event) = self.events.next() => {
                if let Ok(Event::InitApply(pod) | Event::Apply(pod)) = event {
                    self.learn(&pod.into_object());
                }
                None
            }
            else => std::future::pending().await,
        }
    }

    fn learn(&mut self, pod: &Pod) {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let Some(node) = pod.annotations().get(names::ARGO_NODE_ID_ANNOTATION) else {
            return;
        };
        if phase == Some("Running") {
            self.running.insert(node.clone(), pod.name_any());
        }
    }

    /// True if the log of a node is being read.
    pub(super) fn is_followed(&self, node: &str) -> bool {
        self.followed.contains_key(node)
    }

    /// Follows the log of a node if its pod is known to run. Its first `printed` bytes are skipped.
    pub(super) fn follow(&mut self, node: &str, printed: u64) {
        if self.is_followed(node) {
            return;
        }
        if let Some(reader) = self.reader(node) {
            let number = reader.number;
            self.watch(node, (number, false), reader.follow(printed));
        }
    }

    /// Reads the log of a node that has ended a last time, now, if it is being followed. The last part
    /// is a [`Pause`]. `printed` is its number of bytes that were printed, and `was_complete` is true if
    /// the former reading went to the end, which counts if the pod exists no longer.
    pub(super) fn finish(&mut self, node: &str, printed: u64, was_complete: bool) {
        if !self.is_followed(node) || self.is_finishing(node) {
            return;
        }
        if let Some(reader) = self.reader(node) {
            let number = reader.number;
            self.watch(node, (number, true), reader.finish(printed, was_complete));
        }
    }

    /// A new reader of the log of a node, if its pod is known.
    fn reader(&mut self, node: &str) -> Option<Reader> {
        let pod = self.running.get(node)?.clone();
        self.count += 1;
        Some(Reader {
            pods: self.pods.clone(),
            pod,
            node: node.to_owned(),
            number: self.count,
            container: self.container.clone(),
            parts: self.sender.clone(),
        })
    }

    /// Starts a reader instead of the former one.
    fn watch(
        &mut self,
        node: &str,
        (reader, is_last): (u64, bool),
        reading: impl Future<Output = ()> + Send + 'static,
    ) {
        let reading = self.readers.spawn(reading);
        let started = Followed {
            reading,
            reader,
            is_last,
        };
        if let Some(former) = self.followed.insert(node.to_owned(), started) {
            former.reading.abort();
        }
    }

    /// The nodes whose logs are being read.
    pub(super) fn followed(&self) -> impl Iterator<Item = &String> {
        self.followed.keys()
    }

    /// True if the log of a node is being read the last time.
    pub(super) fn is_finishing(&self, node: &str) -> bool {
        self.followed.get(node).is_some_and(|known| known.is_last)
    }

    /// Stops reading the log of a node that has ended.
    pub(super) fn ended(&mut self, node: &str) {
        if let Some(followed) = self.followed.remove(node) {
            followed.reading.abort();
        }
        self.running.remove(node);
    }

    /// Asks for the pods of the Workflow to be shown for a while. A user who may not write the
    /// Workflow sees the pods that are shown anyway.
    pub(super) async fn ask(
        workflows: &Api<Lenient<argosy_api::Workflow>>,
        name: &str,
    ) -> Result<(), Failure> {
        let until = Timestamp::now().saturating_add(WATCHED).unwrap_or(Timestamp::MAX);
        let patch = json!({ "metadata": { "annotations": {
            names::WATCHED_UNTIL_ANNOTATION: until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        } } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        call(workflows.patch_metadata(name, &params, &patch)).await?;
        Ok(())
    }

    /// The running pods, after their first list.
    pub(super) async fn listed(&mut self) {
        let listing = async {
            while let Some(event) = self.events.next().await {
                match event {
                    Ok(Event::InitApply(pod) | Event::Apply(pod)) => self.learn(&pod.into_object()),
                    Ok(Event::InitDone) | Err(_) => break,
                    Ok(_) => {}
                }
            }
        };
        let _ = timeout(REQUEST_TIMEOUT, listing).await;
    }

    /// The log of a node as far as it is written by now, if its pod is known to run.
    pub(super) async fn so_far(&self, node: &str) -> Option<kube::Result<impl AsyncBufRead + Unpin>> {
        let pod = self.running.get(node)?;
        let params = LogParams {
            container: Some(self.container.clone()),
            ..LogParams::default()
        };
        Some(self.pods.log_stream(pod, &params).await.map(Box::pin))
    }
}

/// True if a line of a log was written by Argo's executor or by the kubelet endpoint of Argosy, so
/// that the archived log does not contain it. Argo's own tools leave out those of the executor.
pub(super) fn is_of_executor(container: &str, line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    let is_of_argo = line.starts_with("time=") && line.contains(" argo=true");
    line.starts_with(CUT) || (is_of_argo && !["init", "wait"].contains(&container))
}

#[cfg(test)]
mod tests;
