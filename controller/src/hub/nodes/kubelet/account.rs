//! The account that a connection belongs to: user and groups in its client certificate, as an API
//! server reads them. TLS has verified the certificate before. Not here: the rights of the account
//! (`authorize`).

use std::io;

use axum::{Extension, middleware::AddExtension};
use axum_server::{accept::Accept, tls_rustls::RustlsAcceptor};
use futures::future::BoxFuture;
use tokio::net::TcpStream;
use tower::Layer;
use x509_parser::parse_x509_certificate;

/// Maximum number of groups that are read.
const GROUPS: usize = 64;

/// The user and the groups of a client certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Account {
    /// The common name.
    pub(super) user: String,
    /// The organizations, in alphabetical order.
    pub(super) groups: Vec<String>,
}

impl Account {
    /// Reads a certificate in DER. `None` if it has no common name.
    pub(super) fn read(der: &[u8]) -> Option<Self> {
        let (_, certificate) = parse_x509_certificate(der).ok()?;
        let subject = certificate.subject();
        let user = subject.iter_common_name().last()?.as_str().ok()?.to_owned();
        let organizations = subject.iter_organization().filter_map(|name| name.as_str().ok());
        let mut groups: Vec<String> = organizations.take(GROUPS).map(str::to_owned).collect();
        groups.sort_unstable();
        groups.dedup();
        (!user.is_empty()).then_some(Self { user, groups })
    }
}

/// Accepts connections with TLS, and adds the [`Account`] of each to its requests.
#[derive(Clone)]
pub(super) struct Identified(RustlsAcceptor);

impl Identified {
    pub(super) fn new(acceptor: RustlsAcceptor) -> Self {
        Self(acceptor)
    }
}

/// A service whose requests have the account of their connection, if it has one.
#[derive(Clone)]
pub(super) enum WithAccount<S> {
    Known(AddExtension<S, Account>),
    Unknown(S),
}

impl<S, R> tower::Service<axum::http::Request<R>> for WithAccount<S>
where
    S: tower::Service<axum::http::Request<R>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), S::Error>> {
        match self {
            Self::Known(service) => service.poll_ready(context),
            Self::Unknown(service) => service.poll_ready(context),
        }
    }

    fn call(&mut self, request: axum::http::Request<R>) -> S::Future {
        match self {
            Self::Known(service) => service.call(request),
            Self::Unknown(service) => service.call(request),
        }
    }
}

impl<S: Send + 'static> Accept<TcpStream, S> for Identified {
    type Stream = <RustlsAcceptor as Accept<TcpStream, S>>::Stream;
    type Service = WithAccount<S>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let accepting = self.0.accept(stream, service);
        Box::pin(async move {
            let (stream, service) = accepting.await?;
            let (_, session) = stream.get_ref();
            let certificate = session.peer_certificates().and_then(<[_]>::first);
            let service = match certificate.and_then(|certificate| Account::read(certificate)) {
                Some(account) => WithAccount::Known(Extension(account).layer(service)),
                None => WithAccount::Unknown(service),
            };
            Ok((stream, service))
        })
    }
}
