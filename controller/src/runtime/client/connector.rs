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
pub(super) const UNUSED: Duration = Duration::from_secs(10);

/// Maximum size of the buffers of one connection, in bytes. They grow with what arrives at a time, and
/// a watch keeps its connection: a process with ten hosted agents has a hundred of them.
const LARGEST_BUFFER: usize = 32 << 10;

/// Returns true if this module can build the connections of `config`.
pub(super) fn serves(config: &Config) -> bool {
    config.proxy_url.is_none() && config.auth_info.exec.is_none() && config.auth_info.auth_provider.is_none()
}

/// Builds the client that kube's `ClientBuilder::try_from` builds, without kube's retries and
/// traces. A connection that is unused for so long is closed.
pub(super) fn builder(
    config: &Config,
    unused: Duration,
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
    // The second segment of a request must not wait for the acknowledgment of the first.
    tcp.set_nodelay(true);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(unused)
        .http1_max_buf_size(LARGEST_BUFFER)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::future::join_all;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
        sync::{Barrier, watch},
        time::timeout,
    };

    use super::*;

    const AT_ONCE: usize = 8;

    /// Answers requests, the first one when every connection has one, and counts open connections.
    async fn serve(mut connection: TcpStream, all: Arc<Barrier>, open: Arc<watch::Sender<usize>>) {
        open.send_modify(|open| *open += 1);
        let mut request = vec![0; 4096];
        while let Ok(1..) = connection.read(&mut request).await {
            all.wait().await;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            connection.write_all(answer).await.unwrap();
        }
        open.send_modify(|open| *open -= 1);
    }

    #[tokio::test]
    async fn connections_of_a_burst_are_closed_when_they_are_unused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (all, open) = (Arc::new(Barrier::new(AT_ONCE)), Arc::new(watch::Sender::new(0)));
        let mut seen = open.subscribe();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(serve(connection, all.clone(), open.clone()));
            }
        });
        let config = Config::new(url.parse().unwrap());
        let client = builder(&config, Duration::from_millis(100)).unwrap().build();
        let requests = (0..AT_ONCE).map(|_| {
            let request = Request::get("/").body(Vec::new()).unwrap();
            client.request_text(request)
        });
        for answer in join_all(requests).await {
            assert_eq!(answer.unwrap(), "");
        }
        assert_eq!(*seen.borrow(), AT_ONCE);
        let closed = timeout(Duration::from_secs(10), seen.wait_for(|open| *open == 0)).await;
        closed.expect("they stay open").unwrap();
    }
}
