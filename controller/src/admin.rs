//! The endpoints of a process: `/healthz` (it answers) and `/readyz` (everything has been listed once), which a kubelet asks, and
//! `/metrics`, which Prometheus does.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::{self, Metrics};

/// Whether a part of a process is ready. Clones share one flag.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Says whether everything has been listed.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the endpoints speak of. Clones share it.
#[derive(Clone, Debug)]
pub struct Parts {
    readiness: Arc<[Readiness]>,
    metrics: Metrics,
}

impl Parts {
    /// The parts of a process that must all be ready, and its metrics.
    pub fn new(readiness: impl Into<Arc<[Readiness]>>, metrics: Metrics) -> Self {
        Self {
            readiness: readiness.into(),
            metrics,
        }
    }
}

/// Serves the endpoints on `address` until `stop`.
pub async fn serve(address: SocketAddr, parts: Parts, stop: CancellationToken) -> std::io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics_text))
        .with_state(parts);
    let listener = TcpListener::bind(address).await?;
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}

async fn readyz(State(parts): State<Parts>) -> (StatusCode, &'static str) {
    if parts.readiness.iter().all(Readiness::get) {
        (StatusCode::OK, "ok")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "waiting for the first listing of every watched kind; see the log",
        )
    }
}

async fn metrics_text(State(parts): State<Parts>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)],
        parts.metrics.text(),
    )
}
