//! Plays the kubelet of one Node: its API server reads the logs of the Node's pods here.
//!
//! Only logs: `follow` is a log of one line that goes on, otherwise a log is as long as `limitBytes`
//! says, as that of a pod that has printed much.
//!
//! Not here: pods, which nothing runs, and their statuses.

use std::convert::Infallible;

use anyhow::Result;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::Request,
    routing::get,
};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::testenv::{objects::create, served::Served};

/// Name of the Node.
pub(super) const NODE: &str = "played";

/// A line of a log, with its end.
const LINE: &[u8; 100] =
    b"a line of a log that is exactly as long as the others, and is read by somebody at once; 0123456789.\n";

/// Number of lines that are written at a time.
const AT_ONCE: usize = 320;

/// Starts the kubelet, and registers its Node.
pub(super) async fn play(wec: &Client) -> Result<Served> {
    let router = Router::new().route(
        "/containerLogs/{namespace}/{pod}/{container}",
        get(|request: Request| async move { log(request.uri().query().unwrap_or_default()) }),
    );
    let served = Served::direct(router).await?;
    let address = served.address();
    let nodes: Api<Node> = Api::all(wec.clone());
    let node: Node = serde_json::from_value(json!({ "metadata": { "name": NODE } }))?;
    create(&nodes, &node).await?;
    let status = json!({ "status": {
        "addresses": [{ "type": "InternalIP", "address": address.ip() }],
        "daemonEndpoints": { "kubeletEndpoint": { "Port": address.port() } },
    } });
    nodes
        .patch_status(NODE, &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(served)
}

fn log(query: &str) -> Body {
    let mut options = query.split('&').filter_map(|pair| pair.split_once('='));
    if query.split('&').any(|pair| pair == "follow=true") {
        let line = stream::iter([Ok::<_, Infallible>(Bytes::from_static(LINE))]);
        return Body::from_stream(line.chain(stream::pending()));
    }
    let limit = options.find(|(name, _)| *name == "limitBytes");
    let limit = limit.and_then(|(_, limit)| limit.parse().ok());
    let lines = Bytes::from(LINE.repeat(AT_ONCE));
    let parts = stream::unfold(limit.unwrap_or(0_usize), move |left| {
        let part = lines.slice(..left.min(lines.len()));
        let next = left - part.len();
        async move { (!part.is_empty()).then_some((Ok::<_, Infallible>(part), next)) }
    });
    Body::from_stream(parts)
}
