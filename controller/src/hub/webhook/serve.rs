//! The webhook's server: HTTPS, one path, one response for each review; and beside it the path at
//! which agents open their tunnels, if there are virtual Nodes.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{
        HeaderMap, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
    routing::post,
};
use axum_server::{
    Handle,
    tls_rustls::{RustlsAcceptor, RustlsConfig},
};
use tokio::{runtime::Handle as Runtime, time::Instant as Deadline};
use tokio_util::sync::CancellationToken;

use super::{
    PART, PATH, Settings, Snapshots,
    certificate::Credentials,
    credentials::Issued,
    intake::{Intake, LARGEST_REVIEW, Refusal},
    review::Review,
};
use crate::runtime::{
    connections::{Limited, bound},
    metrics::Reviews,
};

/// Time for running reviews after the process is asked to end, longer than one waits for capacity.
const GRACE: Duration = Duration::from_secs(3);

/// Maximum number of concurrent streams of one connection; API servers send all their requests at
/// once.
const STREAMS: u32 = 128;

/// Serves until `stop`. Each connection uses the newest credentials at its start.
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
    let router = Router::new().route(PATH, post(admit)).with_state(Reviewer {
        snapshots,
        reviews: settings.reviews.clone(),
        intake: Intake::default(),
    });
    let router = match &settings.tunnel {
        Some(tunnel) => router.merge(tunnel.clone()),
        None => router,
    };
    let handle = Handle::new();
    let mut server = axum_server::bind(settings.address)
        .acceptor(Limited::new(RustlsAcceptor::new(tls.clone())))
        .handle(handle.clone());
    bound(&mut server, STREAMS);
    let server = server.serve(router.into_make_service());
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

/// Waits for the next credentials; `None` if the process stops.
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

/// State of the review handler. Clones share everything.
#[derive(Clone)]
struct Reviewer {
    snapshots: Snapshots,
    reviews: Reviews,
    intake: Intake,
}

type Outcome = (&'static str, Response);

async fn admit(State(reviewer): State<Reviewer>, headers: HeaderMap, body: Body) -> Response {
    let started = Instant::now();
    let (outcome, response) = answer(&reviewer, &headers, body)
        .await
        .unwrap_or_else(|refusal| refused(&refusal));
    reviewer.reviews.reviewed(outcome, started.elapsed());
    response
}

async fn answer(reviewer: &Reviewer, headers: &HeaderMap, body: Body) -> Result<Outcome, Refusal> {
    let deadline = Intake::deadline();
    // API servers always send the length.
    let length = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok());
    let length = length.ok_or(Refusal::Broken)?;
    let (body, _room) = reviewer.intake.body(length, body, deadline).await?;
    let (reviewer, runtime) = (reviewer.clone(), Runtime::current());
    // A large review takes long and must not block the loops.
    let answered = tokio::task::spawn_blocking(move || review(&reviewer, &body, &runtime, deadline));
    answered.await.unwrap_or(Err(Refusal::Busy))
}

fn review(
    reviewer: &Reviewer,
    body: &Bytes,
    runtime: &Runtime,
    deadline: Deadline,
) -> Result<Outcome, Refusal> {
    let Some(admission) = reviewer.snapshots.borrow().clone() else {
        let waiting = "waiting for the first listing of every watched kind; see /readyz";
        return Ok((
            "unready",
            (StatusCode::SERVICE_UNAVAILABLE, waiting).into_response(),
        ));
    };
    let review = match Review::read(body) {
        Ok(review) => review,
        Err(error) => return Ok(malformed(error)),
    };
    let _room = runtime.block_on(reviewer.intake.trees(review.weight(), deadline))?;
    Ok(match review.answer(&admission) {
        Ok(answer) => (
            "answered",
            ([(CONTENT_TYPE, "application/json")], answer).into_response(),
        ),
        Err(error) => malformed(error),
    })
}

fn malformed(error: String) -> Outcome {
    tracing::warn!(error, "refused a request that is not an AdmissionReview");
    ("malformed", (StatusCode::BAD_REQUEST, error).into_response())
}

fn refused(refusal: &Refusal) -> Outcome {
    match refusal {
        Refusal::Busy => (
            "busy",
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "too many reviews are in progress",
            )
                .into_response(),
        ),
        Refusal::TooLong => {
            let error = format!("the request is longer than {LARGEST_REVIEW} bytes");
            (
                "malformed",
                (StatusCode::PAYLOAD_TOO_LARGE, error).into_response(),
            )
        }
        Refusal::Broken => {
            malformed("the length of the body differs from the Content-Length header".to_owned())
        }
    }
}
