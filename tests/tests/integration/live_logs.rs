//! The answers of an agent to requests for logs, on a real API server. Logs that are followed need
//! kubelets: the tests of the fleet read those.

use std::sync::Arc;

use anyhow::{Context, Result};
use argosy::{
    agent::{args::Serve, pods::router},
    runtime::tunnel::ORIGIN_HEADER,
};
use argosy_api::{Workflow, names};
use argosy_tests::testenv::{
    TestEnv,
    objects::{create, create_namespace},
};
use axum::http::{Request, Response, request::Builder};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, client::Body};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::service_fn;

const CLUSTER: &str = "cluster1";

/// UID of the Workflow on the control cluster.
const ORIGIN: &str = "0b5f9e5c-3a2c-4c57-9a43-0d3ffb6f6f0a";

/// Name of the Node of all pods, which does not exist, so that the API server says so.
const ABSENT: &str = "absent-node";

struct Cluster {
    wec: Client,
    namespace: &'static str,
    agent: Client,
    /// The same agent with `--serve exec`.
    with_sessions: Client,
}

impl Cluster {
    async fn new(namespace: &'static str) -> Result<Self> {
        let env = TestEnv::shared().await?;
        let wec = env.servers.wecs[0].client().await?;
        create_namespace(&wec, namespace).await?;
        Ok(Self {
            agent: Client::new(router(wec.clone(), CLUSTER.into(), Serve::Logs), "default"),
            with_sessions: Client::new(router(wec.clone(), CLUSTER.into(), Serve::Exec), "default"),
            wec,
            namespace,
        })
    }

    /// A Workflow with these labels, which nothing runs, and a pod of it. Returns the UID of the
    /// Workflow.
    async fn run(&self, name: &str, labels: &Value, annotations: &Value) -> Result<String> {
        let workflow: Workflow = serde_json::from_value(json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
            "metadata": { "name": name, "labels": labels, "annotations": annotations },
            "spec": { "suspend": true },
        }))?;
        let run = create(&Api::namespaced(self.wec.clone(), self.namespace), &workflow).await?;
        let uid = run.uid().context("no UID")?;
        self.pod(name, Some(&uid)).await?;
        Ok(uid)
    }

    async fn pod(&self, name: &str, owner: Option<&str>) -> Result<()> {
        let owners: Vec<Value> = owner
            .map(|uid| json!({ "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": name, "uid": uid, "controller": true }))
            .into_iter()
            .collect();
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": name, "ownerReferences": owners },
            "spec": {
                "nodeName": ABSENT, "containers": [{ "name": "main", "image": "busybox:1.36" }],
            },
        }))?;
        create(&Api::namespaced(self.wec.clone(), self.namespace), &pod).await?;
        Ok(())
    }

    /// Status and text of the answer to a request for the log of a pod.
    async fn ask(&self, pod: &str, origin: Option<&str>) -> Result<(u16, String)> {
        self.get(
            &format!("/api/v1/namespaces/{}/pods/{pod}/log", self.namespace),
            origin,
        )
        .await
    }

    /// The same for a request to run a command in a pod.
    async fn ask_for_session(&self, pod: &str, origin: Option<&str>) -> Result<(u16, String)> {
        let path = format!("/api/v1/namespaces/{}/pods/{pod}/exec?command=id", self.namespace);
        answered(&self.with_sessions, Request::post(path), origin).await
    }

    async fn get(&self, path: &str, origin: Option<&str>) -> Result<(u16, String)> {
        answered(&self.agent, Request::get(path), origin).await
    }
}

/// Status and text of the answer to a request about the run of this UID.
async fn answered(agent: &Client, request: Builder, origin: Option<&str>) -> Result<(u16, String)> {
    let request = match origin {
        Some(origin) => request.header(ORIGIN_HEADER, origin),
        None => request,
    };
    let response = agent.send(request.body(Body::empty())?).await?;
    let status = response.status().as_u16();
    let text = axum::body::to_bytes(axum::body::Body::new(response.into_body()), 1 << 20).await?;
    Ok((status, String::from_utf8(text.to_vec())?))
}

/// A client of the WEC that answers a request for a log when it is told to, as a kubelet does whose
/// container has printed nothing yet.
fn with_silent_kubelet(wec: Client, speaks: Arc<Notify>) -> Client {
    let answer = move |request: Request<Body>| {
        let (wec, speaks) = (wec.clone(), Arc::clone(&speaks));
        async move {
            if !request.uri().path().ends_with("/log") {
                return wec.send(request).await;
            }
            speaks.notified().await;
            Ok(Response::new(Body::from(b"at last\n".to_vec())))
        }
    };
    Client::new(service_fn(answer), "default")
}

#[tokio::test]
async fn a_followed_log_that_is_silent_from_the_beginning_is_followed_until_it_speaks() -> Result<()> {
    let cluster = Cluster::new("logs-silent").await?;
    let born = json!({ names::BORN_AS_ANNOTATION: "logs-silent/own" });
    let ours = json!({ names::ORIGIN_UID_LABEL: ORIGIN, names::CLUSTER_LABEL: CLUSTER });
    cluster.run("own", &ours, &born).await?;
    let speaks = Arc::new(Notify::new());
    let wec = with_silent_kubelet(cluster.wec.clone(), Arc::clone(&speaks));
    let agent = Client::new(router(wec, CLUSTER.into(), Serve::Logs), "default");
    let path = format!(
        "/api/v1/namespaces/{}/pods/own/log?follow=true",
        cluster.namespace
    );
    let request = Request::get(path).header(ORIGIN_HEADER, ORIGIN);
    let response = agent.send(request.body(Body::empty())?).await?;
    assert_eq!(response.status(), 200, "it waits");
    speaks.notify_one();
    let text = axum::body::to_bytes(axum::body::Body::new(response.into_body()), 1 << 10).await?;
    assert_eq!(text, "at last\n");
    Ok(())
}

#[tokio::test]
async fn the_agent_serves_no_pod_that_is_not_of_the_named_run() -> Result<()> {
    let cluster = Cluster::new("logs-refused").await?;
    let born = json!({ names::BORN_AS_ANNOTATION: "logs-refused/own" });
    let ours = json!({ names::ORIGIN_UID_LABEL: ORIGIN, names::CLUSTER_LABEL: CLUSTER });
    let others = json!({ names::ORIGIN_UID_LABEL: ORIGIN, names::CLUSTER_LABEL: "cluster2" });
    let own = cluster.run("own", &ours, &born).await?;
    cluster.run("tenants", &json!({}), &json!({})).await?;
    cluster.run("copy", &ours, &born).await?;
    cluster.run("others", &others, &json!({})).await?;
    cluster.pod("bare", None).await?;
    cluster.pod("forged", Some(&own)).await?;
    let (status, text) = cluster.ask("own", Some(ORIGIN)).await?;
    assert_eq!(status, 404, "{text}");
    assert!(text.contains(ABSENT), "{text}");
    let (_, text) = cluster.ask_for_session("own", Some(ORIGIN)).await?;
    assert!(text.contains(ABSENT), "{text}");
    let other = "0b5f9e5c-3a2c-4c57-9a43-0d3ffb6f6f0b";
    for (pod, origin) in [
        ("own", Some(other)),
        ("own", None),
        ("tenants", Some(ORIGIN)),
        ("copy", Some(ORIGIN)),
        ("others", Some(ORIGIN)),
        ("bare", Some(ORIGIN)),
        ("forged", Some(ORIGIN)),
        ("absent", Some(ORIGIN)),
    ] {
        let log = cluster.ask(pod, origin).await?;
        for (status, text) in [log, cluster.ask_for_session(pod, origin).await?] {
            assert_eq!(status, 404, "{pod}: {text}");
            assert!(text.contains("there is no pod"), "{pod}: {text}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_agent_serves_no_events_of_a_workflow_that_is_not_the_named_run() -> Result<()> {
    let cluster = Cluster::new("events-refused").await?;
    let born = json!({ names::BORN_AS_ANNOTATION: "events-refused/own" });
    let ours = json!({ names::ORIGIN_UID_LABEL: ORIGIN, names::CLUSTER_LABEL: CLUSTER });
    let others = json!({ names::ORIGIN_UID_LABEL: ORIGIN, names::CLUSTER_LABEL: "cluster2" });
    cluster.run("own", &ours, &born).await?;
    cluster.run("tenants", &json!({}), &json!({})).await?;
    cluster.run("copy", &ours, &born).await?;
    cluster.run("others", &others, &json!({})).await?;
    let path = |run: &str| format!("/api/v1/namespaces/events-refused/workflows/{run}/events");
    assert_eq!(
        cluster.get(&path("own"), Some(ORIGIN)).await?,
        (200, "[]".to_owned())
    );
    let other = "0b5f9e5c-3a2c-4c57-9a43-0d3ffb6f6f0b";
    for (run, origin) in [
        ("own", Some(other)),
        ("own", None),
        ("tenants", Some(ORIGIN)),
        ("copy", Some(ORIGIN)),
        ("others", Some(ORIGIN)),
        ("absent", Some(ORIGIN)),
        ("..%2F..%2Fsecrets%2Fa", Some(ORIGIN)),
    ] {
        let (status, text) = cluster.get(&path(run), origin).await?;
        assert_eq!(status, 404, "{run}: {text}");
        assert!(text.contains("there is no run"), "{run}: {text}");
    }
    Ok(())
}

#[tokio::test]
async fn the_agent_answers_requests_for_logs_only() -> Result<()> {
    let cluster = Cluster::new("logs-only").await?;
    for path in [
        "/",
        "/api/v1/secrets",
        "/api/v1/namespaces/kube-system/pods",
        "/api/v1/namespaces/logs-only/events",
        "/api/v1/namespaces/logs-only/pods/own",
        "/api/v1/namespaces/logs-only/pods/own/exec?command=id",
        "/api/v1/namespaces/logs-only/secrets/a/log",
        "/api/v1/namespaces/logs-only/pods/own/log/../../../secrets",
    ] {
        let (status, text) = cluster.get(path, Some(ORIGIN)).await?;
        assert_eq!(status, 403, "{path}: {text}");
    }
    // A name that is not one reaches the API server as one segment of the path, or not at all.
    let (status, text) = cluster.ask("..%2F..%2Fsecrets%2Fa", Some(ORIGIN)).await?;
    assert_eq!(status, 404, "{text}");
    Ok(())
}
