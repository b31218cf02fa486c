//! The control cluster's argo-server over HTTP, with exactly the requests that the Argo UI sends
//! (`ui/src/shared/services/workflows-service.ts`).

#![expect(
    clippy::indexing_slicing,
    reason = "indexing a Value with a field's name gives Null where there is none"
)]

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, stream::BoxStream};
pub use reqwest::Method;
use reqwest::{Client, Response, Url, header::ACCEPT};
use serde_json::Value;
use tokio::time::timeout;

use super::{LIMIT, NAMESPACE};

const CALL: Duration = Duration::from_secs(20);

/// The argo-server of a fleet's control cluster.
#[derive(Clone, Debug)]
pub struct ArgoServer {
    client: Client,
    /// Address of the server and of the UI.
    pub url: Url,
}

/// An artifact in a Workflow's status.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Artifact {
    /// Id of the node that wrote it.
    pub node: String,
    /// Name of the node.
    pub node_name: String,
    /// Name of the artifact.
    pub name: String,
    /// Its key in the bucket.
    pub key: String,
}

impl ArgoServer {
    /// The server at this address.
    pub(super) fn new(url: &str) -> Result<Self> {
        let client = Client::builder().no_proxy().connect_timeout(CALL).build()?;
        Ok(Self {
            client,
            url: Url::parse(url)?,
        })
    }

    /// The answer to a request of the API.
    pub async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value> {
        Ok(serde_json::from_slice(&self.bytes(path, query).await?)?)
    }

    /// Name and phase of every Workflow whose phase label is one of `phases`, requested as the UI's
    /// list does.
    pub async fn list(&self, phases: &[&str]) -> Result<Vec<(String, String)>> {
        let selector = format!("workflows.argoproj.io/phase in ({})", phases.join(","));
        let fields =
            "metadata,items.metadata.uid,items.metadata.name,items.metadata.labels,items.status.phase";
        let query = [
            ("listOptions.labelSelector", selector.as_str()),
            ("fields", fields),
        ];
        let list = self.get(&format!("api/v1/workflows/{NAMESPACE}"), &query).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = list["items"].as_array().into_iter().flatten();
        Ok(items
            .map(|item| (text(&item["metadata"]["name"]), text(&item["status"]["phase"])))
            .collect())
    }

    /// Sends a verb as the UI does: `stop`, `resume`, `retry` and so on, with its options. Returns
    /// the Workflow of the answer.
    pub async fn verb(&self, workflow: &str, verb: &str, options: &Value) -> Result<Value> {
        let path = format!("api/v1/workflows/{NAMESPACE}/{workflow}/{verb}");
        self.ask(Method::PUT, &path, options).await
    }

    /// Sends a form of the UI and returns the answer.
    pub async fn ask(&self, method: Method, path: &str, form: &Value) -> Result<Value> {
        let request = self
            .client
            .request(method, self.url.join(path)?)
            .timeout(CALL)
            .header("content-type", "application/json")
            .body(form.to_string());
        let response = request.send().await.with_context(|| path.to_owned())?;
        let status = response.status();
        let text = response.text().await?;
        ensure!(status.is_success(), "{path}: {status}: {text}");
        serde_json::from_str(&text).with_context(|| format!("{path}: {text}"))
    }

    /// Opens the event stream of one Workflow.
    pub async fn events(&self, workflow: &str) -> Result<Events> {
        let selector = format!("metadata.namespace={NAMESPACE},metadata.name={workflow}");
        let path = format!("api/v1/workflow-events/{NAMESPACE}");
        let response = timeout(
            CALL,
            self.send(
                &path,
                &[("listOptions.fieldSelector", &selector)],
                "text/event-stream",
            ),
        )
        .await;
        let response = response.context("no answer")??;
        let chunks = response.bytes_stream().map(|chunk| Ok(chunk?.to_vec())).boxed();
        Ok(Events {
            chunks,
            received: Vec::new(),
        })
    }

    /// The lines of a container's log until its end, as the UI's logs panel reads them. An empty
    /// `pod` means all pods of the Workflow.
    pub async fn log(&self, workflow: &str, pod: &str, container: &str) -> Result<Vec<String>> {
        let path = format!("api/v1/workflows/{NAMESPACE}/{workflow}/log");
        let query = [
            ("podName", pod),
            ("logOptions.container", container),
            ("logOptions.follow", "true"),
        ];
        let response = self.send(&path, &query, "text/event-stream").await?;
        let text = timeout(LIMIT, response.text())
            .await
            .context("the log has no end")??;
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| {
            let event: Value = serde_json::from_str(data)?;
            let content = event["result"]["content"].as_str();
            Ok(content
                .with_context(|| format!("the log says {event}"))?
                .to_owned())
        })
        .collect()
    }

    /// The content of an output artifact, fetched as the UI's links and logs panel do.
    pub async fn artifact(&self, workflow: &str, node: &str, name: &str) -> Result<Vec<u8>> {
        self.bytes(
            &format!("artifact-files/{NAMESPACE}/workflows/{workflow}/{node}/outputs/{name}"),
            &[],
        )
        .await
    }

    async fn bytes(&self, path: &str, query: &[(&str, &str)]) -> Result<Vec<u8>> {
        let answer = async { anyhow::Ok(self.send(path, query, "*/*").await?.bytes().await?.to_vec()) };
        timeout(CALL, answer)
            .await
            .with_context(|| format!("{path}: no answer"))?
    }

    async fn send(&self, path: &str, query: &[(&str, &str)], accept: &str) -> Result<Response> {
        let mut url = self.url.join(path)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let response = self.client.get(url.clone()).header(ACCEPT, accept).send().await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        bail!(
            "GET {url}: {status}: {}",
            response.text().await.unwrap_or_default()
        )
    }
}

/// A stream of server-sent events about one Workflow.
pub struct Events {
    chunks: BoxStream<'static, Result<Vec<u8>>>,
    received: Vec<u8>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events")
            .field("waiting", &self.received.len())
            .finish_non_exhaustive()
    }
}

impl Events {
    /// The object of the next event.
    pub async fn next(&mut self) -> Result<Value> {
        loop {
            while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                if let Some(data) = line.strip_prefix(b"data: ") {
                    let mut event: Value = serde_json::from_slice(data)?;
                    ensure!(event["result"].is_object(), "the stream says {event}");
                    return Ok(event["result"]["object"].take());
                }
            }
            let chunk = self.chunks.next().await.context("the stream ended")??;
            self.received.extend(chunk);
        }
    }
}

impl Artifact {
    /// The output artifacts in S3 of all nodes of a status, sorted by node name and artifact name.
    pub fn all(status: &Value) -> Vec<Self> {
        let mut found = Vec::new();
        for (node, fields) in status["nodes"].as_object().into_iter().flatten() {
            for artifact in fields["outputs"]["artifacts"].as_array().into_iter().flatten() {
                let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
                let (name, key) = (text(&artifact["name"]), text(&artifact["s3"]["key"]));
                let (Some(name), Some(key)) = (name, key) else {
                    continue;
                };
                let node_name = text(&fields["name"]).unwrap_or_default();
                found.push(Self {
                    node: node.clone(),
                    node_name,
                    name,
                    key,
                });
            }
        }
        found.sort_by(|one, other| (&one.node_name, &one.name).cmp(&(&other.node_name, &other.name)));
        found
    }
}
