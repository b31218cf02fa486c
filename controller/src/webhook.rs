//! The admission webhook of the WDS and the admission policies that guard while it does not answer.
//!
//! Four parts that live as long as the process: the credentials renew themselves, the server answers reviews, the
//! registration at the API server follows policies and credentials, and what others do to it is undone. What a review
//! answers is decided in `argosy_core::admission`. Of several replicas, all answer, and the one that leads does the rest.

mod certificate;
mod configuration;
mod credentials;
mod guard;
mod intake;
mod keep;
mod ourselves;
mod register;
mod review;
mod serve;

use std::{net::SocketAddr, str::FromStr, sync::Arc, time::Duration};

use argosy_core::admission::Admission;
use axum::http::Uri;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{admin::Readiness, leader::Leadership, metrics::Reviews};

pub use register::{guard_marks, is_refusal_of_guard, marks_yaml, unregister, withdraw};

pub(crate) use credentials::bundle_in;

/// The newest snapshot of what placement needs; none before everything was listed once.
pub type Snapshots = watch::Receiver<Option<Arc<Admission>>>;

/// Name of the MutatingWebhookConfiguration.
pub const WEBHOOK: &str = "argosy";

/// Name of the ValidatingAdmissionPolicy that keeps a claimed Workflow held, and of its binding.
pub const HOLD_POLICY: &str = "argosy-hold";

/// Name of the ValidatingAdmissionPolicy that lets no selected Workflow be created unheld, and of its binding.
pub const CREATE_POLICY: &str = "argosy-create";

/// Name of the ValidatingAdmissionPolicy that lets nobody else write what only Argosy writes, and of its binding. It is there without
/// a webhook as well.
pub const MARKS_POLICY: &str = "argosy-marks";

/// Name of the Secret with the webhook's certificates, in the controller's namespace.
pub const SECRET: &str = "argosy-webhook";

/// Path that reviews are posted to.
pub const PATH: &str = "/admit";

/// Where the API server of the WDS finds the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A Service of the WDS.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
    /// An address outside of it.
    Url {
        /// `https://HOST:PORT`, without a path.
        url: String,
        /// Its host, a DNS name or an IP address.
        host: String,
    },
}

impl Place {
    /// A Service written as `NAMESPACE/NAME` or `NAMESPACE/NAME:PORT`.
    pub fn service(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no Service; write NAMESPACE/NAME or NAMESPACE/NAME:PORT");
        let (namespace, rest) = text.split_once('/').ok_or_else(bad)?;
        let (name, port) = match rest.split_once(':') {
            Some((name, port)) => (name, port.parse().map_err(|_| bad())?),
            None => (rest, 443),
        };
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return Err(bad());
        }
        Ok(Self::Service {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            port,
        })
    }

    /// An address written as `https://HOST:PORT`.
    pub fn url(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no address of a webhook; write https://HOST:PORT");
        let uri = Uri::from_str(text).map_err(|_| bad())?;
        let host = uri.host().filter(|_| uri.scheme_str() == Some("https"));
        if !uri.path().trim_matches('/').is_empty() || uri.query().is_some() {
            return Err(bad());
        }
        Ok(Self::Url {
            url: text.trim_end_matches('/').to_owned(),
            host: host.ok_or_else(bad)?.trim_matches(['[', ']']).to_owned(),
        })
    }

    /// The names that the webhook's certificate is for.
    pub(crate) fn hosts(&self) -> Vec<String> {
        match self {
            Self::Service { namespace, name, .. } => {
                vec![format!("{name}.{namespace}.svc"), format!("{name}.{namespace}")]
            }
            Self::Url { host, .. } => vec![host.clone()],
        }
    }
}

/// Its name where parts of the process are named.
pub const PART: &str = "webhook";

/// What the webhook is told at start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where the API server finds it.
    pub place: Place,
    /// Namespace of the Secret [`SECRET`].
    pub namespace: String,
    /// User name of the WDS's own workflow-controller.
    pub argo_account: String,
    /// How long a serving certificate is good for; it is renewed after two thirds of it.
    pub certificate_lifetime: Duration,
    /// Who leads renews the certificates and keeps the registration; all answer.
    pub leadership: Leadership,
    /// Told when it listens.
    pub readiness: Readiness,
    /// Where it reports to.
    pub reviews: Reviews,
}

/// Serves and registers the webhook until `stop`. Ends before only if one of its parts cannot go on.
pub async fn run(settings: Settings, wds: Client, snapshots: Snapshots, stop: CancellationToken) {
    let (issued, credentials) = watch::channel(None);
    let server = serve::serve(&settings, credentials.clone(), snapshots.clone(), stop);
    tokio::select! {
        result = server => {
            if let Err(error) = result {
                tracing::error!(address = %settings.address, %error, "cannot serve the admission webhook");
            }
        }
        () = Box::pin(credentials::keep(&settings, &wds, issued)) => {}
        () = Box::pin(register::keep(&settings, &wds, snapshots, credentials)) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_known_by_both_of_its_names() {
        let place = Place::service("argosy/argosy-controller").unwrap();
        assert_eq!(
            place.hosts(),
            ["argosy-controller.argosy.svc", "argosy-controller.argosy"]
        );
        let other = Place::service("a/b:9443").unwrap();
        assert!(matches!(other, Place::Service { port: 9443, .. }), "{other:?}");
        for bad in ["argosy", "/argosy", "argosy/", "a/b/c", "a/b:", "a/:1"] {
            assert!(Place::service(bad).is_err(), "{bad} was taken");
        }
    }

    #[test]
    fn an_address_is_https_with_a_host_and_no_path() {
        assert_eq!(
            Place::url("https://127.0.0.1:9443/").unwrap().hosts(),
            ["127.0.0.1"]
        );
        assert_eq!(Place::url("https://[::1]:9443").unwrap().hosts(), ["::1"]);
        for bad in ["http://a:1", "https://", "a", "https://a/b", "https://a/?b"] {
            assert!(Place::url(bad).is_err(), "{bad} was taken");
        }
    }
}
