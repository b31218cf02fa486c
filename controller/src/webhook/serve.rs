//! The webhook's server: HTTPS, one path, one answer for each review.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::post,
};
use axum_server::{Handle, tls_rustls::RustlsConfig};
use tokio_util::sync::CancellationToken;

use super::{PART, PATH, Settings, Snapshots, certificate::Credentials, credentials::Issued, review};
use crate::metrics::Reviews;

/// A review carries the old and the new object, each as large as etcd lets it be, and JSON in JSON grows.
const LARGEST_REVIEW: usize = 16 * 1024 * 1024;

/// How long reviews under way may take when the process is asked to end; the API server waits no longer.
const GRACE: Duration = Duration::from_secs(3);

/// Serves until `stop`, each connection with the credentials that are the newest when it is made.
pub(super) async fn serve(
    settings: &Settings,
    mut credentials: Issued,
    snapshots: Snapshots,
    stop: CancellationToken,
) -> io::Result<()> {
    let Some(first) = next(&mut credentials, &stop).await else {
        return Ok(());
    };
    let (certificate, key) = first.serving();
    let tls = RustlsConfig::from_pem(certificate.into(), key.into()).await?;
    let router = Router::new()
        .route(PATH, post(admit))
        .layer(DefaultBodyLimit::max(LARGEST_REVIEW))
        .with_state((snapshots, settings.reviews.clone()));
    let handle = Handle::new();
    let server = axum_server::bind_rustls(settings.address, tls.clone())
        .handle(handle.clone())
        .serve(router.into_make_service());
    tokio::pin!(server);
    let mut is_ready = false;
    loop {
        tokio::select! {
            result = &mut server => return result,
            Some(_) = handle.listening(), if !is_ready => {
                is_ready = true;
                settings.readiness.tell(PART, Vec::new());
            }
            newer = next(&mut credentials, &stop) => match newer {
                Some(newer) => reload(&tls, &newer).await?,
                None => break,
            }
        }
    }
    handle.graceful_shutdown(Some(GRACE));
    server.await
}

/// The next credentials; `None` when there will be none any more.
async fn next(credentials: &mut Issued, stop: &CancellationToken) -> Option<Arc<Credentials>> {
    loop {
        tokio::select! {
            () = stop.cancelled() => return None,
            changed = credentials.changed() => changed.ok()?,
        }
        if let Some(newer) = credentials.borrow_and_update().clone() {
            return Some(newer);
        }
    }
}

async fn reload(tls: &RustlsConfig, credentials: &Credentials) -> io::Result<()> {
    let (certificate, key) = credentials.serving();
    tls.reload_from_pem(certificate.into(), key.into()).await
}

async fn admit(State((snapshots, reviews)): State<(Snapshots, Reviews)>, body: Bytes) -> Response {
    let began = Instant::now();
    let (outcome, response) = review(&snapshots, &body);
    reviews.reviewed(outcome, began.elapsed());
    response
}

fn review(snapshots: &Snapshots, body: &[u8]) -> (&'static str, Response) {
    let Some(admission) = snapshots.borrow().clone() else {
        let waiting = "waiting for the first listing of every watched kind; see /readyz";
        return (
            "unready",
            (StatusCode::SERVICE_UNAVAILABLE, waiting).into_response(),
        );
    };
    match review::answer(&admission, body) {
        Ok(answer) => (
            "answered",
            ([(CONTENT_TYPE, "application/json")], answer).into_response(),
        ),
        Err(error) => {
            tracing::warn!(error, "refused a request that is no review");
            ("malformed", (StatusCode::BAD_REQUEST, error).into_response())
        }
    }
}
