//! The health endpoints that a kubelet asks: `/healthz` (the process answers) and `/readyz` (everything has been listed
//! once).

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

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

/// The parts of a process that must all be ready.
pub type Parts = Arc<[Readiness]>;

/// Serves the endpoints on `address` until `stop`.
pub async fn serve(address: SocketAddr, parts: Parts, stop: CancellationToken) -> std::io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(readyz))
        .with_state(parts);
    let listener = TcpListener::bind(address).await?;
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}

async fn readyz(State(parts): State<Parts>) -> (StatusCode, &'static str) {
    if parts.iter().all(Readiness::get) {
        (StatusCode::OK, "ok")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "waiting for the first listing of every watched kind; see the log",
        )
    }
}
