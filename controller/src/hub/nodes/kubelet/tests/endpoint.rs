//! The answers of the endpoint, with an API server and an agent in the process.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use argosy_core::{ClusterName, model::claim::Claim};
use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    extract::Request,
    http::{Method, Response, StatusCode},
    response::IntoResponse,
};
use futures::stream;
use kube::Client;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::super::{Reach, Unreachable, account::Account, admit::Endpoint, router};
use crate::runtime::{
    metrics::Metrics,
    tunnel::{Agent, agent_of},
};

/// Reaches an agent whose logs do not end.
#[derive(Clone)]
struct Endless;

impl Reach for Endless {
    fn agent(&self, _: &ClusterName) -> Result<Agent, Unreachable> {
        let log = async || Body::from_stream(stream::pending::<std::io::Result<axum::body::Bytes>>());
        Ok(agent_of(Router::new().fallback(log)))
    }
}

/// An endpoint, and the requests that the API server has had.
struct Lab {
    router: Router,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Lab {
    /// With an API server that has the shadow pod and the Workflow `shown` in every namespace, and that
    /// gives its callers the right for these Nodes; `*` is the right for every Node.
    fn new(nodes: &[&'static str]) -> Self {
        let nodes: BTreeSet<&str> = nodes.iter().copied().collect();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = asked.clone();
        let answer = move |request: Request| async move {
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            seen.lock().unwrap().push(format!("{method} {path}"));
            if method == Method::POST {
                let body = to_bytes(request.into_body(), 1 << 16).await.unwrap();
                return review(&serde_json::from_slice(&body).unwrap(), &nodes);
            }
            if path.ends_with("/shown") {
                return shown();
            }
            let status = json!({
                "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound",
                "message": "it is not found", "details": { "kind": "kind", "name": "name" },
            });
            (StatusCode::NOT_FOUND, status.to_string()).into_response()
        };
        let wds = Client::new(Router::new().fallback(answer), "default");
        let account = Account {
            user: "somebody".to_owned(),
            groups: Vec::new(),
        };
        let endpoint = Endpoint::new(wds, Endless, true, Metrics::default().kubelet());
        Self {
            router: router(endpoint).layer(Extension(account)),
            asked,
        }
    }

    async fn send(&self, method: Method, path: &str) -> Response<Body> {
        let request = Request::builder().method(method).uri(path).body(Body::empty());
        self.router.clone().oneshot(request.unwrap()).await.unwrap()
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        let response = self.send(Method::GET, path).await;
        let status = response.status();
        let text = to_bytes(response.into_body(), 1 << 16).await.unwrap();
        (status, String::from_utf8(text.to_vec()).unwrap())
    }
}

/// A shadow pod, or a Workflow that was sent.
fn shown() -> Response<Body> {
    let claim = Claim::new(&"cluster1".into(), 1).to_annotation("u");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "shown", "uid": "u", "labels": { "argosy.dev/shadow-of": "u" },
            "annotations": { "argosy.dev/claim": claim },
        },
        "spec": { "nodeName": "argosy-cluster1", "containers": [] },
    });
    pod.to_string().into_response()
}

fn review(review: &Value, nodes: &BTreeSet<&str>) -> Response<Body> {
    let name = review
        .pointer("/spec/resourceAttributes/name")
        .and_then(Value::as_str);
    let is_allowed = nodes.contains("*") || name.is_some_and(|name| nodes.contains(name));
    let mut answer = review.clone();
    answer["status"] = json!({ "allowed": is_allowed });
    (StatusCode::CREATED, answer.to_string()).into_response()
}

#[tokio::test]
async fn an_account_without_the_right_learns_no_name_and_causes_no_read() {
    for nodes in [&[][..], &["argosy-cluster1"]] {
        let lab = Lab::new(nodes);
        let mut answers = BTreeSet::new();
        for path in [
            "/containerLogs/a/shown/main",
            "/containerLogs/a/absent/main",
            "/events/a/shown",
            "/events/a/absent",
        ] {
            answers.insert(lab.get(path).await);
        }
        let refused = "the account somebody may not use nodes/proxy of virtual Nodes".to_owned();
        assert_eq!(answers, [(StatusCode::FORBIDDEN, refused)].into());
        let asked = lab.asked.lock().unwrap();
        assert!(
            asked.iter().all(|request| request.starts_with("POST ")),
            "{asked:?}"
        );
    }
    let (status, text) = Lab::new(&["*"]).get("/containerLogs/a/absent/main").await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
}

#[tokio::test]
async fn a_session_is_asked_for_by_post() {
    let lab = Lab::new(&["*"]);
    for path in [
        "/exec/a/shown/main?command=id",
        "/attach/a/shown/main",
        "/portForward/a/shown",
    ] {
        let got = lab.send(Method::GET, path).await.status();
        assert_eq!(got, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        assert!(lab.asked.lock().unwrap().is_empty());
        // It is no Upgrade.
        let posted = lab.send(Method::POST, path).await.status();
        assert_eq!(posted, StatusCode::BAD_REQUEST, "{path}");
    }
}

#[tokio::test]
async fn of_a_cluster_64_logs_are_open_at_a_time_and_the_65th_is_refused_until_one_ends() {
    let lab = Lab::new(&["*"]);
    let path = |number: usize| format!("/containerLogs/{}/shown/main", ["a", "b"][number % 2]);
    let mut open = Vec::new();
    for number in 0..64 {
        let response = lab.send(Method::GET, &path(number)).await;
        assert_eq!(response.status(), StatusCode::OK, "{number}");
        open.push(response);
    }
    let (status, text) = lab.get(&path(64)).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(
        text.starts_with("64 logs and sessions of cluster cluster1 are open"),
        "{text}"
    );
    open.pop();
    // The place is free when the task that reads the log has noticed it.
    loop {
        let response = lab.send(Method::GET, &path(64)).await;
        if response.status() == StatusCode::OK {
            break;
        }
        tokio::task::yield_now().await;
    }
}
