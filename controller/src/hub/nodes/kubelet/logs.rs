//! The answer to a request for the log of a container: that of the agent of the pod's cluster.
//!
//! The shadow pod is read from the API server for each request, so nothing is remembered that could
//! be outdated. Not here: the bytes of the answer (`relay`), and the check of the agent that the pod
//! belongs to a run.

use std::{sync::Arc, time::Duration};

use argosy_api::names;
use argosy_core::{ClusterName, Failure};
use axum::{
    Extension,
    body::Body,
    extract::{Path, Request, State},
    http::{self, HeaderValue, Response, StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{Reach, account::Account, authorize::Reviews, relay};
use crate::runtime::{
    lenient::Lenient,
    metrics::KubeletMetrics,
    requests::{read, with_sources},
    tunnel::ORIGIN_HEADER,
};

/// Time for the beginning of an agent's answer.
const ANSWER: Duration = Duration::from_secs(20);

/// Maximum number of logs that are read at a time, of all clusters.
const STREAMS: usize = 1024;

/// Maximum length of a query in bytes.
const LONGEST_QUERY: usize = 1024;

/// Maximum bytes of an agent's error that are passed on.
const LONGEST_ERROR: usize = 4 << 10;

/// Name of an option, and the form of its value.
type LogOption = (&'static str, fn(&str) -> bool);

/// Options of a log that are passed on (PodLogOptions of Kubernetes), each with the form of its value.
const OPTIONS: [LogOption; 7] = [
    ("follow", is_flag),
    ("previous", is_flag),
    ("timestamps", is_flag),
    ("sinceSeconds", is_number),
    ("tailLines", is_number),
    ("limitBytes", is_number),
    ("sinceTime", is_time),
];

fn is_flag(value: &str) -> bool {
    ["true", "false", "1", "0"].contains(&value)
}

fn is_number(value: &str) -> bool {
    (1..=18).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// RFC 3339, possibly percent-encoded.
fn is_time(value: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-:.+%".contains(&byte);
    (1..=64).contains(&value.len()) && value.bytes().all(is_part)
}

/// The options of a query that a log may have, encoded again.
pub(super) fn options(query: &str) -> String {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let known = pairs.filter(|(name, value)| {
        OPTIONS
            .iter()
            .any(|(option, has_form)| option == name && has_form(value))
    });
    known.fold(String::new(), |text, (name, value)| {
        format!("{text}&{name}={value}")
    })
}

/// True if this can be the name of an object or container: a subdomain of RFC 1123.
pub(super) fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=253).contains(&text.len()) && text.bytes().all(is_inner) && !text.starts_with('.')
}

/// Everything that an answer needs.
#[derive(Clone)]
pub(super) struct Logs<R> {
    wds: Client,
    reach: R,
    reviews: Reviews,
    metrics: KubeletMetrics,
    streams: Arc<Semaphore>,
}

impl<R: Reach> Logs<R> {
    pub(super) fn new(wds: Client, reach: R, reviews: Reviews, metrics: KubeletMetrics) -> Self {
        Self {
            wds,
            reach,
            reviews,
            metrics,
            streams: Arc::new(Semaphore::new(STREAMS)),
        }
    }
}

/// Reason that a request gets no log, as a user reads it.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("this is not a request for the log of a container")]
    Malformed,
    #[error("there is no shadow pod {0}")]
    Unknown(String),
    #[error("the account {user} may not use nodes/proxy of {node}")]
    Forbidden { user: String, node: String },
    #[error("{STREAMS} logs of other clusters are read at the moment; close some and try again")]
    Busy,
    #[error("{0}")]
    TooManyStreams(String),
    #[error("{0}")]
    Unavailable(String),
    #[error("{message}")]
    Agent { status: StatusCode, message: String },
}

impl Refusal {
    /// The status of the answer. An API server passes on the text only with 400, 403 and 500
    /// (`GenericHttpResponseChecker` in `apiserver/pkg/registry/generic/rest`).
    fn status(&self) -> StatusCode {
        match self {
            Self::Malformed | Self::Unknown(_) => StatusCode::BAD_REQUEST,
            Self::Forbidden { .. } => StatusCode::FORBIDDEN,
            Self::Agent { status, .. } if status.is_client_error() => StatusCode::BAD_REQUEST,
            Self::Busy | Self::TooManyStreams(_) | Self::Unavailable(_) | Self::Agent { .. } => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }

    /// The label of the metric.
    fn outcome(&self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unknown(_) => "unknown",
            Self::Forbidden { .. } => "forbidden",
            Self::Busy | Self::TooManyStreams(_) => "busy",
            Self::Unavailable(_) => "unavailable",
            Self::Agent { .. } => "refused_by_agent",
        }
    }
}

/// Answers `GET /containerLogs/NAMESPACE/POD/CONTAINER`.
pub(super) async fn answer<R: Reach>(
    State(logs): State<Logs<R>>,
    Extension(account): Extension<Account>,
    Path(path): Path<(String, String, String)>,
    request: Request,
) -> Response<Body> {
    let query = request.uri().query().unwrap_or_default();
    match logs.open(&account, path, query).await {
        Ok(response) => {
            logs.metrics.answered("opened");
            response
        }
        Err(refusal) => {
            logs.metrics.answered(refusal.outcome());
            (refusal.status(), refusal.to_string()).into_response()
        }
    }
}

impl<R: Reach> Logs<R> {
    async fn open(
        &self,
        account: &Account,
        (namespace, pod, container): (String, String, String),
        query: &str,
    ) -> Result<Response<Body>, Refusal> {
        let names = [&namespace, &pod, &container];
        if query.len() > LONGEST_QUERY || !names.into_iter().all(|name| is_name(name)) {
            return Err(Refusal::Malformed);
        }
        let shown = self.shown(&namespace, &pod).await?;
        let may_read = self.reviews.may_read(account, &shown.node).await;
        if !may_read.map_err(|failure| Refusal::Unavailable(failure.to_string()))? {
            return Err(Refusal::Forbidden {
                user: account.user.clone(),
                node: shown.node,
            });
        }
        let stream = self
            .streams
            .clone()
            .try_acquire_owned()
            .map_err(|_| Refusal::Busy)?;
        let client = self.reach.client(&shown.cluster);
        let client = client.map_err(|away| Refusal::Unavailable(away.to_string()))?;
        let path = format!(
            "/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}{}",
            options(query)
        );
        self.ask(&client, &path, &shown, stream).await
    }

    /// Reads the shadow pod of a request.
    async fn shown(&self, namespace: &str, name: &str) -> Result<Shown, Refusal> {
        let unknown = || Refusal::Unknown(format!("{namespace}/{name}"));
        let pods: Api<Lenient<Pod>> = Api::namespaced(self.wds.clone(), namespace);
        let pod = read(pods.get(name)).await.map_err(|failure| match failure {
            Failure::NotFound { .. } => unknown(),
            failure => Refusal::Unavailable(failure.to_string()),
        })?;
        Shown::of(&pod).ok_or_else(unknown)
    }

    async fn ask(
        &self,
        client: &Client,
        path: &str,
        shown: &Shown,
        stream: OwnedSemaphorePermit,
    ) -> Result<Response<Body>, Refusal> {
        let request = http::Request::get(path)
            .header(ORIGIN_HEADER, &shown.origin)
            .body(kube::client::Body::empty())
            .map_err(|_| Refusal::Malformed)?;
        let cluster = &shown.cluster;
        let asked = timeout(ANSWER, client.send(request)).await.map_err(|_| {
            let text = format!("cluster {cluster} did not answer within {} s", ANSWER.as_secs());
            Refusal::Unavailable(text)
        })?;
        let response = asked.map_err(|error| {
            let text = with_sources(&error);
            if text.contains("requests to this cluster are in progress") {
                Refusal::TooManyStreams(text)
            } else {
                Refusal::Unavailable(format!("cluster {cluster} cannot be asked: {text}"))
            }
        })?;
        let (head, body) = response.into_parts();
        let body = Body::new(body);
        if !head.status.is_success() {
            let message = text_of(body).await;
            return Err(Refusal::Agent {
                status: head.status,
                message,
            });
        }
        let gauge = self.metrics.opened();
        let mut answer = Response::new(relay::relayed(body, (stream, gauge)));
        let kind = head.headers.get(CONTENT_TYPE).cloned();
        let kind = kind.unwrap_or_else(|| HeaderValue::from_static("text/plain"));
        answer.headers_mut().insert(CONTENT_TYPE, kind);
        Ok(answer)
    }
}

/// The text of an agent's error, shortened.
async fn text_of(body: Body) -> String {
    let read = timeout(ANSWER, axum::body::to_bytes(body, LONGEST_ERROR)).await;
    let text = read.ok().and_then(Result::ok).unwrap_or_default();
    match serde_json::from_slice::<kube::core::Status>(&text) {
        Ok(status) if !status.message.is_empty() => status.message,
        _ => String::from_utf8_lossy(&text).trim().to_owned(),
    }
}

/// A pod on another cluster, as its shadow pod names it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shown {
    cluster: ClusterName,
    node: String,
    /// UID of the Workflow that it belongs to.
    origin: String,
}

impl Shown {
    /// Reads a shadow pod; `None` if it is another pod.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        let origin = pod.labels().get(names::SHADOW_OF_LABEL)?.clone();
        let node = pod.spec.as_ref()?.node_name.clone()?;
        let cluster = node.strip_prefix(names::NODE_PREFIX)?.into();
        Some(Self {
            cluster,
            node,
            origin,
        })
    }
}
