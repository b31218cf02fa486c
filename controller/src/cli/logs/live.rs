//! The logs of steps that run, from the API server of the control cluster: of the pods that run
//! there, and of the shadow pods that show pods on other clusters.
//!
//! A log that ends while its step runs is read again from its beginning, and the bytes that were
//! printed are skipped: an API server ends the log in the same way if its kubelet breaks off
//! (`StreamObject` in `apiserver/pkg/endpoints/handlers/responsewriters`). Not here: the lines on the
//! terminal, and the logs of steps that have ended (`logs`).

use std::{collections::HashMap, time::Duration};

use argosy_api::names;
use futures::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, StreamExt, stream::BoxStream};
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
    time::{sleep, timeout},
};

use super::lines::after;
use crate::runtime::{
    lenient::Lenient,
    requests::{REQUEST_TIMEOUT, with_sources},
    tunnel::CUT,
    watch::reconnect_policy,
};

/// Number of parts of logs that wait to be printed.
const QUEUE: usize = 64;

/// Maximum length of a part in bytes. A longer line is printed in several parts.
const LONGEST: u64 = 64 << 10;

/// Pause before a log that has ended is read again, which doubles up to [`LONGEST_PAUSE`].
const AGAIN: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Time for which the running pods of a watched Workflow are shown. It is extended while this command
/// runs.
const WATCHED: SignedDuration = SignedDuration::from_mins(2);

/// A part of the log of a node.
#[derive(Debug)]
pub(super) struct Part {
    /// ID of the node.
    pub(super) node: String,
    /// The content.
    pub(super) content: Content,
}

/// The content of a part.
#[derive(Debug)]
pub(super) enum Content {
    /// Bytes, up to the end of a line if it is not too long.
    Bytes(Vec<u8>),
    /// The log has ended, or cannot be read. It is read again after a pause.
    Pause {
        /// True if it was read to its end.
        is_complete: bool,
    },
}

/// The logs of the running pods of one Workflow.
pub(super) struct Live {
    pods: Api<Pod>,
    container: String,
    events: BoxStream<'static, watcher::Result<Event<Lenient<Pod>>>>,
    /// Names of the running pods by the ID of their node.
    running: HashMap<String, String>,
    followed: HashMap<String, AbortHandle>,
    sender: mpsc::Sender<Part>,
    parts: mpsc::Receiver<Part>,
    readers: JoinSet<()>,
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
            sender,
            parts,
            readers: JoinSet::new(),
        }
    }

    /// The next part of any log, or `None` after a change of the running pods. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Part> {
        tokio::select! {
            part = self.parts.recv() => part,
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
        let Some(pod) = self.running.get(node).filter(|_| !self.is_followed(node)) else {
            return;
        };
        let reader = Reader {
            pods: self.pods.clone(),
            pod: pod.clone(),
            node: node.to_owned(),
            container: self.container.clone(),
            parts: self.sender.clone(),
        };
        let reading = self.readers.spawn(reader.run(printed));
        self.followed.insert(node.to_owned(), reading);
    }

    /// The nodes whose logs are being read.
    pub(super) fn followed(&self) -> impl Iterator<Item = &String> {
        self.followed.keys()
    }

    /// Stops reading the log of a node that has ended.
    pub(super) fn ended(&mut self, node: &str) {
        if let Some(reading) = self.followed.remove(node) {
            reading.abort();
        }
        self.running.remove(node);
    }

    /// Asks for the pods of the Workflow to be shown for a while. A user who may not write the
    /// Workflow sees the pods that are shown anyway.
    pub(super) async fn ask(workflows: &Api<Lenient<argosy_api::Workflow>>, name: &str) {
        let until = Timestamp::now().saturating_add(WATCHED).unwrap_or(Timestamp::MAX);
        let patch = json!({ "metadata": { "annotations": {
            names::WATCHED_UNTIL_ANNOTATION: until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        } } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let asking = workflows.patch_metadata(name, &params, &patch);
        if let Ok(Err(error)) = timeout(REQUEST_TIMEOUT, asking).await {
            tracing::debug!(
                error = with_sources(&error),
                "cannot ask for the pods to be shown"
            );
        }
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

/// Reads the log of one pod.
struct Reader {
    pods: Api<Pod>,
    pod: String,
    node: String,
    container: String,
    parts: mpsc::Sender<Part>,
}

impl Reader {
    /// Reads the log until it is aborted.
    async fn run(self, mut printed: u64) {
        let mut pause = AGAIN;
        let params = LogParams {
            container: Some(self.container.clone()),
            follow: true,
            ..LogParams::default()
        };
        loop {
            let before = printed;
            let opened = timeout(REQUEST_TIMEOUT, self.pods.log_stream(&self.pod, &params)).await;
            let is_complete = match opened {
                Ok(Ok(log)) => self.copy(log, &mut printed).await.is_ok(),
                _ => false,
            };
            if printed > before {
                pause = AGAIN;
            }
            self.send(Content::Pause { is_complete }).await;
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Sends the bytes of the step after the first `printed`, line by line, and counts them.
    async fn copy(&self, log: impl AsyncBufRead + Send, printed: &mut u64) -> std::io::Result<()> {
        let mut log = Box::pin(log);
        let mut skipped = *printed;
        loop {
            let mut line = Vec::new();
            let read = log.as_mut().take(LONGEST).read_until(b'\n', &mut line).await?;
            if read == 0 {
                return Ok(());
            }
            if is_of_executor(&self.container, &line) {
                continue;
            }
            let line = after(&line, &mut skipped).to_vec();
            *printed = printed.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
            if !line.is_empty() {
                self.send(Content::Bytes(line)).await;
            }
        }
    }

    async fn send(&self, content: Content) {
        let part = Part {
            node: self.node.clone(),
            content,
        };
        // The receiver is gone only when the command ends.
        let _ = self.parts.send(part).await;
    }
}

#[cfg(test)]
mod tests {
    use super::is_of_executor;

    #[test]
    fn lines_that_the_archived_log_does_not_contain_are_left_out() {
        let captures = r#"time="2026-11-25T12:29:57.171Z" level=info msg="capturing logs" argo=true"#;
        for (container, line, expected) in [
            ("main", captures, true),
            ("main", "argosy: this log is cut off here, because", true),
            ("wait", captures, false),
            ("main", "hello argo=true", false),
            ("main", "time=noon", false),
        ] {
            assert_eq!(
                is_of_executor(container, line.as_bytes()),
                expected,
                "{container}: {line}"
            );
        }
    }
}
