//! The admission webhook of the WDS, and the admission policies that guard while it does not
//! respond.
//!
//! Four parts run as long as the process: one renews the credentials, the server answers reviews,
//! one keeps the registration at the API server in line with policies and credentials, and one
//! reverts changes of others to it. All replicas serve; the leader does the rest. Not here: the
//! content of the answers (`argosy_core::hub::admission`).

mod admission_policies;
mod certificate;
mod configuration;
mod credentials;
mod intake;
mod members;
mod own_accounts;
mod reconcile;
mod register;
mod review;
mod schedule;
mod serve;

use std::{net::SocketAddr, str::FromStr, sync::Arc, time::Duration};

use argosy_core::hub::admission::Admission;
use axum::{Router, http::Uri};
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::runtime::{admin::Readiness, leader::Leadership, metrics::Reviews};

pub use members::{members, members_yaml};
pub use register::{guard_marks, guards_creations, is_refusal_of_guard, marks_yaml, unregister, withdraw};

pub(crate) use credentials::bundle_in;

/// The newest snapshot of the state that placement needs; `None` before everything was listed once.
pub type Snapshots = watch::Receiver<Option<Arc<Admission>>>;

/// The sender of these states.
pub type Publisher = watch::Sender<Option<Arc<Admission>>>;

/// Name of the MutatingWebhookConfiguration.
pub const WEBHOOK: &str = "argosy";

/// Name of the ValidatingAdmissionPolicy, and of its binding, that keeps a claimed Workflow held.
pub const HOLD_POLICY: &str = "argosy-hold";

/// Name of the ValidatingAdmissionPolicy, and of its binding, that refuses the creation of a
/// selected Workflow without a hold.
pub const CREATE_POLICY: &str = "argosy-create";

/// Name of the ValidatingAdmissionPolicy, and of its binding, that reserves some annotations for
/// Argosy. It exists without a webhook, too.
pub const MARKS_POLICY: &str = "argosy-marks";

/// Name of the ValidatingAdmissionPolicy of the ITS, and of its binding, that limits a member to
/// the writes of its agent. The chart installs it, or the first cluster that joins.
pub const MEMBERS_POLICY: &str = "argosy-members";

/// Name of the Secret with the webhook's certificates, in the controller's namespace.
pub const SECRET: &str = "argosy-webhook";

/// URL path of reviews.
pub const PATH: &str = "/admit";

/// The address at which the API server of the WDS reaches the webhook.
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
    /// A URL outside of the WDS.
    Url {
        /// `https://HOST:PORT`, without a path.
        url: String,
        /// Its host, a DNS name or an IP address.
        host: String,
    },
}

impl Place {
    /// Parses a Service that is written as `NAMESPACE/NAME` or `NAMESPACE/NAME:PORT`.
    pub fn service(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not a Service; use NAMESPACE/NAME or NAMESPACE/NAME:PORT");
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

    /// Parses a URL that is written as `https://HOST:PORT`.
    pub fn url(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not the address of a webhook; use https://HOST:PORT");
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

    /// The DNS names and IP addresses of the webhook's certificate.
    pub(crate) fn hosts(&self) -> Vec<String> {
        match self {
            Self::Service { namespace, name, .. } => {
                vec![format!("{name}.{namespace}.svc"), format!("{name}.{namespace}")]
            }
            Self::Url { host, .. } => vec![host.clone()],
        }
    }
}

/// Name of this part of the process.
pub const PART: &str = "webhook";

/// Settings of the webhook.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address that it listens on.
    pub address: SocketAddr,
    /// Address at which the API server reaches it.
    pub place: Place,
    /// Namespace of the Secret [`SECRET`].
    pub namespace: String,
    /// User name of the WDS's own workflow-controller.
    pub argo_account: String,
    /// Validity of a serving certificate; it is renewed after two thirds of that.
    pub certificate_lifetime: Duration,
    /// The leader renews the certificates and keeps the registration; all replicas serve.
    pub leadership: Leadership,
    /// Readiness of this part: ready when it listens.
    pub readiness: Readiness,
    /// Metrics of the reviews.
    pub reviews: Reviews,
    /// The endpoint that agents dial, if there are virtual Nodes.
    pub tunnel: Option<Router>,
}

/// Serves and registers the webhook until `stop`. Returns earlier only if one of its parts fails.
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
