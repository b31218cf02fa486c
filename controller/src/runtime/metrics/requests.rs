//! Number, duration and size of requests to API servers, measured by a layer around a client, so
//! that none is missed.

use std::{
    fmt::{self, Write},
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use axum::http::{Method, Request, Response, Uri};
use kube::client::Body;
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use tower::{Layer, Service};

use super::{
    Durations,
    catalog::{REQUEST_DURATION, REQUESTS, SENT},
};

/// The API server that a client connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// The WDS.
    Wds,
    /// The ITS. If it is also the WDS, its requests count as `wds`.
    Its,
    /// A WEC.
    Wec,
}

impl EncodeLabelValue for Space {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(match self {
            Self::Wds => "wds",
            Self::Its => "its",
            Self::Wec => "wec",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    space: Space,
    verb: &'static str,
    /// Named as in RBAC: `workflows`, `manifestworks/status`; empty for a path that is no resource.
    resource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    space: Space,
    verb: &'static str,
    resource: String,
    /// The HTTP status; 0 if there was no response.
    code: u16,
}

/// Metrics of the requests of a process.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    answers: Family<Answer, Counter>,
    sent: Family<Kind, Counter>,
    durations: Durations<Kind>,
}

/// Buckets in seconds: from one millisecond, for a local server, to the request timeout.
const SECONDS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0,
];

impl Requests {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let known = Self {
            answers: Family::default(),
            sent: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(SECONDS)),
        };
        REQUESTS.register(registry, known.answers.clone());
        SENT.register(registry, known.sent.clone());
        REQUEST_DURATION.register(registry, known.durations.clone());
        known
    }

    fn sent(&self, kind: &Kind, bytes: u64) {
        if bytes > 0 {
            self.sent.get_or_create(kind).inc_by(bytes);
        }
    }

    fn succeeded(&self, kind: Kind, code: u16, started: Instant) {
        self.durations
            .get_or_create(&kind)
            .observe(started.elapsed().as_secs_f64());
        let Kind {
            space,
            verb,
            resource,
        } = kind;
        let answer = Answer {
            space,
            verb,
            resource,
            code,
        };
        self.answers.get_or_create(&answer).inc();
    }
}

/// Records one request, for a test.
#[cfg(test)]
pub(super) fn exercise(requests: &Requests) {
    let kind = Kind {
        space: Space::Wds,
        verb: "get",
        resource: "workflows".to_owned(),
    };
    requests.sent(&kind, 1);
    requests.succeeded(kind, 200, Instant::now());
}

/// Layer that counts the requests of a client.
#[derive(Clone, Debug)]
pub struct Counted<S = ()> {
    requests: Requests,
    space: Space,
    inner: S,
}

impl Counted {
    pub(super) fn new(requests: Requests, space: Space) -> Self {
        Self {
            requests,
            space,
            inner: (),
        }
    }
}

impl<S> Layer<S> for Counted {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            requests: self.requests.clone(),
            space: self.space,
            inner,
        }
    }
}

/// A running request. A dropped one is counted, too.
struct InFlight {
    requests: Requests,
    kind: Option<Kind>,
    started: Instant,
}

impl InFlight {
    fn succeeded(mut self, code: u16) {
        if let Some(kind) = self.kind.take() {
            self.requests.succeeded(kind, code, self.started);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(kind) = self.kind.take() {
            self.requests.succeeded(kind, 0, self.started);
        }
    }
}

impl<S, B> Service<Request<Body>> for Counted<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (verb, resource) = describe(request.method(), request.uri());
        let kind = Kind {
            space: self.space,
            verb,
            resource,
        };
        let size = axum::body::HttpBody::size_hint(request.body());
        self.requests.sent(&kind, size.exact().unwrap_or_default());
        let under_way = InFlight {
            requests: self.requests.clone(),
            kind: Some(kind),
            started: Instant::now(),
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            under_way.succeeded(answer.as_ref().map_or(0, |answer| answer.status().as_u16()));
            answer
        })
    }
}

/// Returns the verb and the resource of a request, named as in RBAC.
fn describe(method: &Method, uri: &Uri) -> (&'static str, String) {
    let mut segments = uri.path().split('/').filter(|segment| !segment.is_empty());
    let is_group = |segment: &str| segment == "apis";
    // A proxy may put segments in front of the path.
    let Some(root) = segments.find(|segment| *segment == "api" || *segment == "apis") else {
        return (simple_verb(method), String::new());
    };
    let mut rest: Vec<&str> = segments.skip(if is_group(root) { 2 } else { 1 }).collect();
    // `namespaces/NAME` without more segments is the namespace itself, and so is its status.
    if rest.first() == Some(&"namespaces")
        && rest.len() > 2
        && !matches!(rest.get(2), Some(&("status" | "finalize")))
    {
        rest.drain(..2);
    }
    let mut rest = rest.into_iter();
    let Some(resource) = rest.next() else {
        return (simple_verb(method), String::new());
    };
    let is_named = rest.next().is_some();
    let resource = match rest.next() {
        Some(subresource) => format!("{resource}/{subresource}"),
        None => resource.to_owned(),
    };
    let is_watch = uri.query().is_some_and(|query| {
        query
            .split('&')
            .any(|pair| pair == "watch=true" || pair == "watch=1")
    });
    let verb = match (simple_verb(method), is_named) {
        ("get", false) if is_watch => "watch",
        ("get", false) => "list",
        ("delete", false) => "deletecollection",
        (verb, _) => verb,
    };
    (verb, resource)
}

fn simple_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &Method, uri: &str, verb: &str, resource: &str) {
        let (actual, of) = describe(
            method,
            &Uri::from_static(Box::leak(uri.to_owned().into_boxed_str())),
        );
        assert_eq!((actual, of.as_str()), (verb, resource), "{uri}");
    }

    #[test]
    fn a_request_is_named_as_rbac_names_it() {
        let argo = "/apis/argoproj.io/v1alpha1";
        check(
            &Method::GET,
            &format!("{argo}/workflows?limit=500"),
            "list",
            "workflows",
        );
        check(
            &Method::GET,
            &format!("{argo}/workflows?watch=true"),
            "watch",
            "workflows",
        );
        check(
            &Method::GET,
            &format!("{argo}/namespaces/a/workflows/w"),
            "get",
            "workflows",
        );
        check(
            &Method::POST,
            &format!("{argo}/namespaces/a/workflows"),
            "create",
            "workflows",
        );
        check(
            &Method::PATCH,
            &format!("{argo}/namespaces/a/workflows/w"),
            "patch",
            "workflows",
        );
        check(
            &Method::DELETE,
            &format!("{argo}/namespaces/a/workflows"),
            "deletecollection",
            "workflows",
        );
        check(
            &Method::PATCH,
            "/apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks/w/status",
            "patch",
            "manifestworks/status",
        );
        check(&Method::GET, "/api/v1/namespaces/a", "get", "namespaces");
        check(
            &Method::PUT,
            "/api/v1/namespaces/a/finalize",
            "update",
            "namespaces/finalize",
        );
        check(&Method::GET, "/api/v1/nodes/n", "get", "nodes");
    }

    #[test]
    fn what_is_no_resource_has_no_name() {
        check(&Method::GET, "/version", "get", "");
        check(&Method::GET, "/apis", "get", "");
        check(&Method::GET, "/apis/argoproj.io/v1alpha1", "get", "");
    }

    #[test]
    fn a_proxy_in_front_changes_no_name() {
        check(&Method::GET, "/k8s/clusters/c1/api/v1/pods", "list", "pods");
    }
}
