//! Requests a certificate from the hub: creates a CertificateSigningRequest and waits until it is
//! decided and signed.
//!
//! The requesting account may create requests, and read those whose name it knows. So it polls its
//! own request: the name is not known in advance, and in RBAC a right to watch without a name is a
//! right to watch all.

use std::time::Duration;

use argosy_api::{conditions::signing_request as types, names};
use argosy_core::Failure;
use backon::{BackoffBuilder, ExponentialBuilder};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::{Api, Client, ResourceExt};
use tokio::time::{Instant, sleep};

use crate::runtime::requests::{call, creating};

/// Polling delays: most requests are signed within a second, the others when somebody approves
/// them.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Interval between log lines while the agent waits.
const SAY_EVERY: Duration = Duration::from_secs(20);

/// Time that one request is waited for before another credential is tried.
const PATIENCE: Duration = Duration::from_mins(5);

/// An issued certificate.
pub(super) struct Issued {
    /// PEM.
    pub(super) certificate: String,
    pub(super) requested_at: Timestamp,
}

/// Reason that there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    /// This request is final; a new one may succeed.
    #[error("the hub has refused CertificateSigningRequest {name}: {message}")]
    Denied { name: String, message: String },
    /// Another attempt continues with the same request.
    #[error(
        "CertificateSigningRequest {name} is neither approved nor denied, or not signed; see `kubectl get csr {name}` on the hub"
    )]
    Pending { name: String },
    #[error("cannot request a certificate from the hub: {0}")]
    Unanswered(String),
}

impl Problem {
    /// The label value of metrics.
    pub(super) fn outcome(&self) -> &'static str {
        match self {
            Self::Denied { .. } => "denied",
            Self::Pending { .. } | Self::Unanswered(_) => "unanswered",
        }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::Unanswered(failure.to_string())
    }
}

/// Creates the request, unless it exists already, and waits for the certificate.
pub(super) async fn certificate(
    client: &Client,
    request: &CertificateSigningRequest,
) -> Result<Issued, Problem> {
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    match call(api.create(&creating(names::AGENT), request)).await {
        Ok(_) | Err(Failure::Foreign(_)) => {}
        Err(failure) => return Err(failure.into()),
    }
    let name = request.name_any();
    let deadline = Instant::now() + PATIENCE;
    let mut say_at = Instant::now();
    let mut delays = looks();
    loop {
        let seen = call(api.get(&name)).await?;
        if let Some(end) = end(&seen) {
            return end;
        }
        let now = Instant::now();
        if now >= deadline {
            return Err(Problem::Pending { name });
        }
        if now >= say_at {
            tracing::info!(
                name,
                "waiting for the hub to approve this CertificateSigningRequest"
            );
            say_at = now + SAY_EVERY;
        }
        sleep(delays.next().unwrap_or(LOOK_EVERY)).await;
    }
}

fn looks() -> backon::ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(FIRST_LOOK)
        .with_max_delay(LOOK_EVERY)
        .without_max_times()
        .build()
}

/// Returns the result of the request, if it is decided.
fn end(request: &CertificateSigningRequest) -> Option<Result<Issued, Problem>> {
    let status = request.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let refused = conditions.find(|known| [types::DENIED, types::FAILED].contains(&known.type_.as_str()));
    if let Some(refused) = refused {
        let word = |text: &Option<String>| text.clone().unwrap_or_default();
        let message = format!("{}: {}", word(&refused.reason), word(&refused.message));
        let name = request.name_any();
        return Some(Err(Problem::Denied { name, message }));
    }
    let certificate = status.certificate.as_ref()?;
    let certificate = String::from_utf8(certificate.0.clone()).ok()?;
    let requested_at = request.creation_timestamp()?.0;
    (!certificate.is_empty()).then_some(Ok(Issued {
        certificate,
        requested_at,
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn request(status: &Value) -> CertificateSigningRequest {
        serde_json::from_value(json!({
            "metadata": { "name": "r", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "request": "", "signerName": "s" }, "status": status,
        }))
        .unwrap()
    }

    fn said(type_: &str) -> Value {
        json!([{ "type": type_, "status": "True", "reason": "Why", "message": "because" }])
    }

    #[test]
    fn a_request_has_ended_when_it_is_refused_or_signed() {
        for open in [
            json!({}),
            json!({ "conditions": said("Approved") }),
            json!({ "certificate": "" }),
        ] {
            assert!(end(&request(&open)).is_none());
        }
        for refused in ["Denied", "Failed"] {
            let Some(Err(problem)) = end(&request(&json!({ "conditions": said(refused) }))) else {
                panic!("{refused} is an end");
            };
            assert!(problem.to_string().ends_with("Why: because"), "{problem}");
        }
        let signed = json!({ "conditions": said("Approved"), "certificate": "Yw==" });
        let Some(Ok(issued)) = end(&request(&signed)) else {
            panic!("it is signed");
        };
        assert_eq!(issued.certificate, "c");
        assert_eq!(issued.requested_at, "2026-01-01T00:00:00Z".parse().unwrap());
    }
}
