//! Connections to API servers, built as kube builds them, with TCP keepalive. A dead link is
//! noticed within 35 s without a request to the API server. client-go does the same, every 30 s.
//!
//! Not here: connections through a proxy, and credentials from an exec or auth-provider plugin;
//! kube builds those connections itself.

use std::time::Duration;

use axum::{
    body::{Bytes, HttpBody},
    http::{Request, Response},
};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Config,
    client::{Body, ClientBuilder, ConfigExt},
};
use tower::{BoxError, Service, ServiceBuilder};
use tower_http::decompression::DecompressionLayer;

/// Idle time before the first keepalive probe.
const SILENCE: Duration = Duration::from_secs(20);
/// Interval between keepalive probes.
const BETWEEN: Duration = Duration::from_secs(5);
/// Number of unanswered probes after which the connection is closed.
const QUESTIONS: u32 = 3;
/// Time after which an unused connection is closed. A burst opens hundreds, with about 40 KiB of buffers
/// each. The last used one is used first, so the renewals of Leases keep one open.
const UNUSED: Duration = Duration::from_secs(10);

/// Returns true if this module can build the connections of `config`.
pub(super) fn serves(config: &Config) -> bool {
    config.proxy_url.is_none() && config.auth_info.exec.is_none() && config.auth_info.auth_provider.is_none()
}

/// Builds the client that kube's `ClientBuilder::try_from` builds, without kube's retries and
/// traces.
pub(super) fn builder(
    config: &Config,
) -> kube::Result<
    ClientBuilder<
        impl Service<
            Request<Body>,
            Response = Response<impl HttpBody<Data = Bytes, Error = impl Into<BoxError>> + Send + 'static>,
            Error = BoxError,
            Future: Send + 'static,
        > + Send
        + 'static,
    >,
> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_keepalive(Some(SILENCE));
    tcp.set_keepalive_interval(Some(BETWEEN));
    tcp.set_keepalive_retries(Some(QUESTIONS));
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(UNUSED)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(DecompressionLayer::new().gzip(!config.disable_compression))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()))
}
