//! The HTTP endpoints of a process for the kubelet and Prometheus.
//!
//! - `/livez`, and `/healthz` by its old name: fails if the process must be restarted, which is if
//!   a loop is overdue. An API server that does not answer is no reason: requests run beside the
//!   loops, and a restart fixes nothing. A part or a watch that has ended needs no check, because
//!   its end ends the process.
//! - `/readyz`: succeeds if every part has started. A standby replica is ready, too; the part
//!   `leads` or `follows` shows its role. `?verbose` lists the parts; a failed check always lists
//!   them.
//! - `/metrics`: the metrics in the OpenMetrics format.

use std::{collections::BTreeMap, fmt::Write, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, Uri, header},
    response::IntoResponse,
    routing::get,
};
use tokio::{net::TcpListener, sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::runtime::metrics::{self, Metrics};

/// The delay of a loop after which the process must be restarted. The first list of a hundred
/// thousand objects takes seconds.
const LATEST: Duration = Duration::from_mins(1);

/// Everything that the parts of a process wait for before they are ready. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<watch::Sender<BTreeMap<&'static str, Vec<&'static str>>>>);

/// Placeholder for a part that has not reported yet.
const BEGINNING: &str = "its beginning";

impl Readiness {
    /// Creates a readiness with these parts, none of which is ready yet.
    pub fn of(parts: &[&'static str]) -> Self {
        let readiness = Self::default();
        readiness.expect(parts);
        readiness
    }

    /// Sets the things that `part` still waits for. A part that waits for nothing is ready.
    pub fn tell(&self, part: &'static str, waits_for: Vec<&'static str>) {
        self.0.send_modify(|parts| {
            parts.insert(part, waits_for);
        });
    }

    /// Waits until `part` waits for nothing.
    pub async fn until_ready(&self, part: &'static str) {
        let mut parts = self.0.subscribe();
        let is_ready = |parts: &BTreeMap<_, Vec<_>>| parts.get(part).is_some_and(Vec::is_empty);
        // Fails only without a sender, and this is one.
        let _ = parts.wait_for(is_ready).await;
    }

    /// Adds parts that must become ready as well.
    pub fn expect(&self, parts: &[&'static str]) {
        for part in parts {
            self.tell(part, vec![BEGINNING]);
        }
    }

    /// Removes `part` from the check.
    pub fn forget(&self, part: &'static str) {
        self.0.send_modify(|parts| {
            parts.remove(part);
        });
    }

    fn parts(&self) -> BTreeMap<&'static str, Vec<&'static str>> {
        self.0.borrow().clone()
    }
}

/// State that the endpoints report. Clones share it.
#[derive(Clone, Debug)]
pub struct Parts {
    readiness: Readiness,
    metrics: Metrics,
}

impl Parts {
    /// Combines the readiness of a process with its metrics.
    pub fn new(readiness: Readiness, metrics: Metrics) -> Self {
        Self { readiness, metrics }
    }

    fn readiness(&self) -> Verdict {
        let parts = self.readiness.parts().into_iter().map(|(part, waits_for)| {
            let waits = (!waits_for.is_empty()).then(|| format!("waits for {}", waits_for.join(", ")));
            (part, waits)
        });
        Verdict::of("readyz", parts.collect())
    }

    fn liveness(&self, now: Instant) -> Verdict {
        let late = self
            .metrics
            .overdue(LATEST, now)
            .into_iter()
            .map(|(engine, late)| {
                let why = format!("should have made progress {} s ago", late.as_secs());
                (engine, Some(why))
            });
        Verdict::of("livez", [("process", None)].into_iter().chain(late).collect())
    }
}

/// The result of a check: each part, with the reason if it failed.
struct Verdict {
    check: &'static str,
    parts: Vec<(&'static str, Option<String>)>,
}

impl Verdict {
    fn of(check: &'static str, parts: Vec<(&'static str, Option<String>)>) -> Self {
        Self { check, parts }
    }

    /// Formats the result as kube-apiserver does.
    fn answer(&self, is_verbose: bool) -> (StatusCode, String) {
        let is_well = self.parts.iter().all(|(_, why)| why.is_none());
        if is_well && !is_verbose {
            return (StatusCode::OK, "ok".to_owned());
        }
        let mut text = String::new();
        for (part, why) in &self.parts {
            // Writing into a String cannot fail.
            let _ = match why {
                None => writeln!(text, "[+]{part} ok"),
                Some(why) => writeln!(text, "[-]{part} failed: {why}"),
            };
        }
        let check = self.check;
        if is_well {
            (StatusCode::OK, format!("{text}{check} check passed\n"))
        } else {
            let failed = format!("{text}{check} check failed\n");
            (StatusCode::SERVICE_UNAVAILABLE, failed)
        }
    }
}

fn is_verbose(uri: &Uri) -> bool {
    let mut pairs = uri.query().unwrap_or_default().split('&');
    pairs.any(|pair| matches!(pair, "verbose" | "verbose=" | "verbose=true" | "verbose=1"))
}

/// Serves the endpoints on `address` until `stop`.
pub async fn serve(address: SocketAddr, parts: Parts, stop: CancellationToken) -> std::io::Result<()> {
    let router = Router::new()
        .route("/livez", get(livez))
        .route("/healthz", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics_text))
        .with_state(parts);
    let listener = TcpListener::bind(address).await?;
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}

async fn livez(State(parts): State<Parts>, uri: Uri) -> (StatusCode, String) {
    parts.liveness(Instant::now()).answer(is_verbose(&uri))
}

async fn readyz(State(parts): State<Parts>, uri: Uri) -> (StatusCode, String) {
    parts.readiness().answer(is_verbose(&uri))
}

async fn metrics_text(State(parts): State<Parts>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)],
        parts.metrics.text(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_when_every_part_waits_for_nothing() {
        let readiness = Readiness::of(&["workflows", "webhook"]);
        let parts = Parts::new(readiness.clone(), Metrics::default());
        readiness.tell("workflows", vec!["leases", "manifestworks"]);
        let text = "[-]webhook failed: waits for its beginning\n\
                    [-]workflows failed: waits for leases, manifestworks\n\
                    readyz check failed\n";
        let failed = (StatusCode::SERVICE_UNAVAILABLE, text.to_owned());
        assert_eq!(parts.readiness().answer(false), failed);
        readiness.tell("workflows", Vec::new());
        assert_eq!(parts.readiness().answer(false).0, StatusCode::SERVICE_UNAVAILABLE);
        readiness.tell("webhook", Vec::new());
        assert_eq!(parts.readiness().answer(false), (StatusCode::OK, "ok".to_owned()));
        let text = "[+]webhook ok\n[+]workflows ok\nreadyz check passed\n";
        assert_eq!(parts.readiness().answer(true), (StatusCode::OK, text.to_owned()));
    }

    #[test]
    fn a_process_is_to_be_restarted_when_a_loop_no_longer_turns() {
        let parts = Parts::new(Readiness::default(), Metrics::default());
        let reactions = parts.metrics.reactions("workflows");
        let timer = Instant::now() + LATEST;
        reactions.idle(timer);
        assert_eq!(
            parts.liveness(timer).answer(false),
            (StatusCode::OK, "ok".to_owned())
        );
        let started = reactions.busy();
        let late = started + LATEST + Duration::from_secs(5);
        let text =
            "[+]process ok\n[-]workflows failed: should have made progress 65 s ago\nlivez check failed\n";
        let failed = (StatusCode::SERVICE_UNAVAILABLE, text.to_owned());
        assert_eq!(parts.liveness(late).answer(false), failed);
    }

    #[test]
    fn parts_are_named_where_that_is_asked_for() {
        for (uri, verbose) in [
            ("/readyz", false),
            ("/readyz?verbose", true),
            ("/readyz?a=b&verbose=1", true),
            ("/readyz?verbose=0", false),
        ] {
            assert_eq!(is_verbose(&Uri::from_static(uri)), verbose, "{uri}");
        }
    }
}
