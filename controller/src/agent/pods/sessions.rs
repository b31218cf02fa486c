//! Opens sessions in the containers of runs for the controller: exec, attach and port-forward.
//!
//! The agent upgrades a connection to the API server of the WEC, and passes its bytes on
//! (`runtime::tunnel::session`). Not here: the rule which pods may be asked about (`pods`).

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Path, Request, State},
    http::{
        self, HeaderMap, Response, StatusCode,
        header::{CONNECTION, UPGRADE},
    },
    response::IntoResponse,
    routing::post,
};
use hyper::upgrade::{Upgraded, on};
use hyper_util::rt::TokioIo;
use kube::client::Body as RequestBody;
use tokio::time::timeout;

use super::{Pods, late};
use crate::runtime::{
    requests::{REQUEST_TIMEOUT, with_sources},
    tunnel::session::{PROTOCOL_VERSION, SPDY, joined, versions},
};

/// Maximum bytes of a refusal that are passed on.
const LONGEST_REFUSAL: usize = 4 << 10;

/// The routes of all kinds of sessions.
pub(super) fn routes() -> Router<Pods> {
    let paths = ["exec", "attach", "portforward"].into_iter();
    paths.fold(Router::new(), |routes, kind| {
        let path = format!("/api/v1/namespaces/{{namespace}}/pods/{{name}}/{kind}");
        let answer = move |State(pods): State<Pods>,
                           Path(names): Path<(String, String)>,
                           request: Request| async move {
            answer(&pods, kind, names, request).await
        };
        routes.route(&path, post(answer))
    })
}

async fn answer(
    pods: &Pods,
    kind: &str,
    (namespace, name): (String, String),
    request: Request,
) -> Response<Body> {
    if let Err(refusal) = pods.check(&namespace, &name, request.headers()).await {
        return refusal.into_response();
    }
    let query = request.uri().query().unwrap_or_default();
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/{kind}?{query}");
    match open(pods, &path, request.headers()).await {
        Ok((version, session)) => {
            let input = request.into_body().into_data_stream();
            let mut answer = Response::new(joined(TokioIo::new(session), input));
            answer.headers_mut().extend(version);
            answer
        }
        Err(refusal) => refusal,
    }
}

/// Upgrades a connection to the WEC. Returns it with the version of the protocol that was chosen.
async fn open(pods: &Pods, path: &str, headers: &HeaderMap) -> Result<(HeaderMap, Upgraded), Response<Body>> {
    let mut request = http::Request::post(path)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, SPDY);
    for version in versions(headers) {
        request = request.header(PROTOCOL_VERSION, version);
    }
    let request = request.body(RequestBody::empty());
    let request = request.map_err(|_| StatusCode::BAD_REQUEST.into_response())?;
    let failed = |text: String| (StatusCode::BAD_GATEWAY, text).into_response();
    let response = timeout(REQUEST_TIMEOUT, pods.wec.send(request)).await;
    let response = response
        .map_err(|_| late())?
        .map_err(|error| failed(with_sources(&error)))?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let (head, body) = response.into_parts();
        let read = timeout(REQUEST_TIMEOUT, to_bytes(Body::new(body), LONGEST_REFUSAL)).await;
        let text = read.ok().and_then(Result::ok).unwrap_or_default();
        return Err((head.status, text).into_response());
    }
    let mut chosen = HeaderMap::new();
    for version in versions(response.headers()) {
        chosen.append(PROTOCOL_VERSION, version.clone());
    }
    let session = timeout(REQUEST_TIMEOUT, on(response)).await;
    let session = session
        .map_err(|_| late())?
        .map_err(|error| failed(with_sources(&error)))?;
    Ok((chosen, session))
}
