//! The kubelet endpoint of the virtual Nodes: the API server asks it for the logs of shadow pods, and
//! it asks the agent of their cluster. Through the API server, `argosy events` asks it for the Events
//! of a run, and `argosy doctor` if an agent answers.
//!
//! Owned here: the server, and the answers to the API server's requests. Every request but
//! `/healthz` needs a client certificate ([`account`]), and a log or a session also the right to
//! use `nodes/proxy` ([`authorize`]), as at a kubelet. Not here: the connections to agents ([`Reach`]),
//! and the choice of the pods that are shown (`shadow_pods`).

mod account;
mod admit;
mod authorize;
mod events;
mod logs;
mod places;
mod relay;
mod sessions;
mod tunnel;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use argosy_core::{Change, ClusterName};
use axum::{
    Extension, Router,
    extract::{Path, Request, State},
    http::{StatusCode, header::CONTENT_TYPE},
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use axum_server::{
    Handle,
    tls_rustls::{RustlsAcceptor, RustlsConfig},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::aws_lc_rs::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use self::{
    account::{Account, Identified},
    admit::Endpoint,
    sessions::Kind,
};
use crate::runtime::{
    connections::{Limited, bound},
    lenient::Lenient,
    metrics::KubeletMetrics,
    tunnel::Agent,
    watch::{follow, named},
};

/// Reaches the agents of clusters.
pub(super) trait Reach: Clone + Send + Sync + 'static {
    /// The agent of `cluster`.
    fn agent(&self, cluster: &ClusterName) -> Result<Agent, Unreachable>;
}

/// Reason that an agent cannot be asked, as a user reads it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Unreachable {
    /// The reason.
    pub(super) message: String,
}

/// Settings of the endpoint.
pub(super) struct Settings {
    /// Address that it listens on.
    pub(super) address: SocketAddr,
    /// Names and IP addresses in its certificate.
    pub(super) hosts: Vec<String>,
    /// True if exec, attach and port-forward are allowed.
    pub(super) exec: bool,
}

/// The ConfigMap in which the API server publishes the authority of client certificates.
const AUTHENTICATION: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

/// The key of that authority.
const CLIENT_AUTHORITY: &str = "client-ca-file";

/// Time for streams in progress after the process is asked to end. A followed log has no end.
const GRACE: Duration = Duration::from_secs(1);

/// Maximum number of concurrent streams of one connection.
const STREAMS: u32 = 256;

/// Serves until `stop`.
///
/// # Errors
///
/// The address cannot be listened on, or the certificate cannot be made.
pub(super) async fn run<R: Reach>(
    settings: Settings,
    wds: Client,
    reach: R,
    metrics: KubeletMetrics,
    stop: CancellationToken,
) -> io::Result<()> {
    let (sender, mut authorities) = mpsc::channel(4);
    let mut watches = JoinSet::new();
    let (namespace, name) = AUTHENTICATION;
    let published: Api<Lenient<ConfigMap>> = Api::namespaced(wds.clone(), namespace);
    watches.spawn(follow(published, named(name), sender, roots_in, |_| None));
    let endpoint = Endpoint::new(wds, reach, settings.exec, metrics);
    let identity = Identity::new(settings.hosts)?;
    let Some(roots) = next(&mut authorities, &stop).await else {
        return Ok(());
    };
    let tls = RustlsConfig::from_config(identity.config(roots)?);
    let handle = Handle::new();
    let mut server = axum_server::bind(settings.address)
        .acceptor(Limited::new(Identified::new(RustlsAcceptor::new(tls.clone()))))
        .handle(handle.clone());
    bound(&mut server, STREAMS);
    let server = server.serve(router(endpoint).into_make_service());
    tokio::pin!(server);
    loop {
        tokio::select! {
            result = &mut server => return result,
            newer = next(&mut authorities, &stop) => match newer {
                Some(roots) => tls.reload_from_config(identity.config(roots)?),
                None => break,
            }
        }
    }
    handle.graceful_shutdown(Some(GRACE));
    server.await
}

/// The authorities of client certificates in the ConfigMap. Without a readable one nobody is
/// identified, so that a change to a broken one is not applied.
fn roots_in(change: Change<ConfigMap>) -> Option<RootCertStore> {
    let published = match change {
        Change::Apply(published) => Some(*published),
        Change::Reset(published) => published.into_iter().next(),
        Change::Delete(_) => None,
    };
    let text = published?.data?.remove(CLIENT_AUTHORITY)?;
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(text.as_bytes()).filter_map(Result::ok);
    let (known, _) = roots.add_parsable_certificates(certificates);
    (known > 0).then_some(roots)
}

/// Waits for the next authorities; `None` if the process stops.
async fn next(
    authorities: &mut mpsc::Receiver<Option<RootCertStore>>,
    stop: &CancellationToken,
) -> Option<RootCertStore> {
    loop {
        if let Some(roots) = stop.run_until_cancelled(authorities.recv()).await?? {
            return Some(roots);
        }
        tracing::warn!(
            kind = "ConfigMap",
            namespace = AUTHENTICATION.0,
            name = AUTHENTICATION.1,
            "there is no authority of client certificates, so logs cannot be served to the API server"
        );
    }
}

/// Certificate and key of the server. API servers verify them only with
/// `--kubelet-certificate-authority`, so they are self-signed and last as long as the process.
struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    fn new(hosts: Vec<String>) -> io::Result<Self> {
        let issued = rcgen::generate_simple_self_signed(hosts).map_err(io::Error::other)?;
        Ok(Self {
            certificate: issued.cert.der().clone(),
            key: issued.signing_key.serialize_der(),
        })
    }

    fn config(&self, roots: RootCertStore) -> io::Result<Arc<ServerConfig>> {
        let provider = Arc::new(default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(io::Error::other)?;
        let key = PrivateKeyDer::try_from(self.key.clone()).map_err(io::Error::other)?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![self.certificate.clone()], key)
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn router<R: Reach>(endpoint: Endpoint<R>) -> Router {
    // Metrics servers ask every Node, some with a token instead of a certificate, and report a Node that
    // does not answer. The answers say nothing.
    let empty = || async { ([(CONTENT_TYPE, "text/plain; version=0.0.4")], "") };
    // API servers ask by POST, whatever their clients ask by (`apiserver/pkg/util/proxy`). A client that
    // may only `get` the proxy of a Node, which the API server passes on as GET, opens no session.
    let session = |kind| {
        post(
            move |State(endpoint): State<Endpoint<R>>,
                  Extension(account): Extension<Account>,
                  Path(path): Path<(String, String, String)>,
                  request: Request| {
                sessions::in_container(kind, endpoint, account, path, request)
            },
        )
    };
    Router::new()
        .route(
            "/containerLogs/{namespace}/{pod}/{container}",
            get(logs::answer::<R>),
        )
        .route("/exec/{namespace}/{pod}/{container}", session(Kind::Exec))
        .route("/attach/{namespace}/{pod}/{container}", session(Kind::Attach))
        .route("/portForward/{namespace}/{pod}", post(sessions::forward::<R>))
        .route("/events/{namespace}/{workflow}", get(events::answer::<R>))
        .route("/tunnel/{cluster}", get(tunnel::answer::<R>))
        .with_state(endpoint)
        .fallback(unserved)
        .layer(from_fn(identified))
        .route("/metrics", get(empty))
        .route("/metrics/cadvisor", get(empty))
        .route("/metrics/probes", get(empty))
        .route("/metrics/resource", get(empty))
        .route("/stats/summary", get(summary))
        .route("/healthz", get(async || "ok"))
}

async fn summary() -> Response {
    ([(CONTENT_TYPE, "application/json")], r#"{"node":{},"pods":[]}"#).into_response()
}

async fn unserved() -> Response {
    let text =
        "this kubelet serves only logs and Events of pods on other clusters, exec, attach and port-forward";
    (StatusCode::NOT_IMPLEMENTED, text).into_response()
}

/// Refuses requests without a certificate that the API server would accept from a client.
async fn identified(request: Request, next: Next) -> Response {
    if request.extensions().get::<Account>().is_none() {
        return (StatusCode::UNAUTHORIZED, "a client certificate is required").into_response();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests;
