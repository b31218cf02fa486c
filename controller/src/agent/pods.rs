//! Answers the controller's requests about pods: the logs of the pods of runs, the Events about them
//! (`events`), sessions in their containers (`sessions`) where they are allowed, and nothing else but
//! that the agent is there (`/healthz`).
//!
//! The requests have the form of Kubernetes' API. Each one about a pod names the Workflow of the WDS in a
//! header, and is refused unless the pod belongs to the run of that Workflow here. Not here: that rule
//! (`argosy_core::agent::pods`), and the connection that brings the requests (`tunnel`, or the
//! controller that hosts the agent).

mod events;
mod sessions;

use std::{io, time::Duration};

use argosy_api::Workflow;
use argosy_core::{ClusterName, Failure, agent::pods};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, Request, State},
    http::{self, HeaderMap, Response, StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use futures::{Stream, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, core::PartialObjectMeta};
use tokio::time::timeout;

use super::args::Serve;
use crate::runtime::{
    lenient::Lenient,
    requests::{REQUEST_TIMEOUT, read, with_sources},
    tunnel::ORIGIN_HEADER,
};

/// Time after which a log that is followed counts as silent. A kubelet answers with the first byte of a
/// log, so a silent log has no answer yet.
const SILENT: Duration = Duration::from_secs(5);

/// The pods of one cluster.
#[derive(Clone)]
struct Pods {
    /// A client without a read timeout, because a quiet log is silent for as long as it likes.
    wec: Client,
    cluster: ClusterName,
}

/// A service that answers the requests `serve` about the pods of `cluster`. `wec` is a client of the
/// WEC from `runtime::client::connect_streaming`.
pub fn router(wec: Client, cluster: ClusterName, serve: Serve) -> Router {
    let logs = Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/api/v1/namespaces/{namespace}/pods/{name}/log", get(log))
        .route(
            "/api/v1/namespaces/{namespace}/workflows/{name}/events",
            get(events::answer),
        );
    let (routes, served) = match serve {
        Serve::Exec => (
            logs.merge(sessions::routes()),
            "this agent serves logs, Events and sessions only",
        ),
        Serve::Logs | Serve::None => (logs, "this agent serves logs and Events only"),
    };
    routes
        .fallback(move || async move { (StatusCode::FORBIDDEN, served) })
        .with_state(Pods { wec, cluster })
}

async fn log(
    State(pods): State<Pods>,
    Path((namespace, name)): Path<(String, String)>,
    request: Request,
) -> Response<Body> {
    if let Err(refusal) = pods.check(&namespace, &name, request.headers()).await {
        return refusal.into_response();
    }
    let query = request.uri().query().unwrap_or_default();
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/log?{query}");
    pods.forward(&path, is_followed(query)).await
}

/// True if this can be the name of an object: a subdomain of RFC 1123.
fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let has_end = |end: Option<u8>| end.is_some_and(|byte| !b"-.".contains(&byte));
    text.len() <= 253
        && text.bytes().all(is_inner)
        && has_end(text.bytes().next())
        && has_end(text.bytes().next_back())
}

/// UID of the Workflow of the WDS that a request is about.
fn origin_in(headers: &HeaderMap) -> &str {
    let origin = headers.get(ORIGIN_HEADER);
    origin.and_then(|uid| uid.to_str().ok()).unwrap_or_default()
}

/// Reason that a request is not answered.
#[derive(Debug)]
enum Refusal {
    /// The pod does not exist, or belongs to no run of the Workflow. One answer for both, so that
    /// the controller learns nothing about other pods.
    Unknown(String),
    /// The Workflow does not exist, or is no run of the Workflow of the WDS.
    UnknownRun(String),
    /// The API server of the WEC did not answer as expected.
    Failed(Failure),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        match self {
            Self::Unknown(pod) => {
                let text = format!("there is no pod {pod} of this Workflow on the cluster");
                (StatusCode::NOT_FOUND, text).into_response()
            }
            Self::UnknownRun(run) => {
                let text = format!("there is no run {run} of this Workflow on the cluster");
                (StatusCode::NOT_FOUND, text).into_response()
            }
            Self::Failed(failure @ Failure::Refused(_)) => {
                (StatusCode::FORBIDDEN, failure.to_string()).into_response()
            }
            Self::Failed(failure) => (StatusCode::BAD_GATEWAY, failure.to_string()).into_response(),
        }
    }
}

impl Pods {
    /// Checks that a pod belongs to the run of the Workflow of the WDS with the UID in `headers`.
    async fn check(&self, namespace: &str, name: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        let unknown = || Refusal::Unknown(format!("{namespace}/{name}"));
        // The names become a path again, so they must be names.
        if !is_name(namespace) || !is_name(name) {
            return Err(unknown());
        }
        let origin = origin_in(headers);
        let failed = |failure| match failure {
            Failure::NotFound { .. } | Failure::Unserved(_) => unknown(),
            failure => Refusal::Failed(failure),
        };
        let api: Api<Lenient<PartialObjectMeta<Pod>>> = Api::namespaced(self.wec.clone(), namespace);
        let pod = read(api.get(name)).await.map_err(failed)?;
        let (owner, _) = pods::owner(&pod.metadata).ok_or_else(unknown)?;
        let api: Api<Lenient<PartialObjectMeta<Workflow>>> = Api::namespaced(self.wec.clone(), namespace);
        let run = read(api.get(owner)).await.map_err(failed)?;
        pods::belongs(&pod.metadata, &run.metadata, origin, self.cluster.as_str())
            .then_some(())
            .ok_or_else(unknown)
    }

    /// Sends a request to the WEC. The answer is passed on as it comes.
    async fn forward(&self, path: &str, is_followed: bool) -> Response<Body> {
        let request = http::Request::get(path).body(kube::client::Body::empty());
        let Ok(request) = request else {
            return StatusCode::BAD_REQUEST.into_response();
        };
        let wec = self.wec.clone();
        let mut sending = Box::pin(async move { wec.send(request).await });
        let limit = if is_followed { SILENT } else { REQUEST_TIMEOUT };
        match timeout(limit, &mut sending).await {
            Ok(Ok(response)) => {
                let (head, body) = response.into_parts();
                let mut answer = Response::new(Body::new(body));
                *answer.status_mut() = head.status;
                if let Some(kind) = head.headers.get(CONTENT_TYPE) {
                    answer.headers_mut().insert(CONTENT_TYPE, kind.clone());
                }
                answer
            }
            Ok(Err(error)) => (StatusCode::BAD_GATEWAY, with_sources(&error)).into_response(),
            Err(_) if is_followed => Body::from_stream(later(sending)).into_response(),
            Err(_) => late(),
        }
    }
}

/// The bytes of a log whose answer comes later. A refusal is an error then, as the answer has begun.
fn later(
    sending: impl Future<Output = kube::Result<Response<kube::client::Body>>>,
) -> impl Stream<Item = Result<Bytes, axum::Error>> {
    let answered = async {
        let response = sending.await.map_err(axum::Error::new)?;
        let status = response.status();
        if !status.is_success() {
            let refused = format!("the cluster's API server answered {status}");
            return Err(axum::Error::new(io::Error::other(refused)));
        }
        Ok(Body::new(response.into_body()).into_data_stream())
    };
    stream::once(answered).try_flatten()
}

/// True if a query asks for a log that goes on.
fn is_followed(query: &str) -> bool {
    let mut options = query.split('&');
    options.any(|option| option == "follow=true" || option == "follow=1")
}

/// The answer if the API server of the WEC gives none.
fn late() -> Response<Body> {
    let text = format!(
        "the cluster's API server did not answer within {} s",
        REQUEST_TIMEOUT.as_secs()
    );
    (StatusCode::GATEWAY_TIMEOUT, text).into_response()
}
