//! The agent's end of the tunnel: it dials, and serves HTTP/2 on the connection that results.
//!
//! Everything that the other end sends is bounded: the answer to the Upgrade in time and length,
//! then messages, frames, headers, windows and streams. A dead link is noticed by a ping, or by the
//! write timeout of the client if unsent bytes fill the buffers. Not here: the time to dial (again),
//! and the answers to requests.

use std::{io, pin::pin, time::Duration};

use axum::{
    body::{self, Bytes, HttpBody},
    http::{
        self, HeaderMap, HeaderValue, Request, Response, StatusCode,
        header::{
            CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
            SEC_WEBSOCKET_VERSION, UPGRADE,
        },
    },
};
use hyper::{
    body::Incoming,
    server::conn::http2::Builder,
    upgrade::{Upgraded, on},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use kube::{Client, client::Body, core::Status};
use tokio::{io::AsyncBufReadExt, time::timeout};
use tokio_tungstenite::tungstenite::{
    handshake::{client::generate_key, derive_accept_key},
    protocol::Role,
};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service, ServiceExt};

use super::{
    CONNECTION_WINDOW, FRAME, HANDSHAKE, HEADER, PATH, PING_ANSWER, PING_EVERY, PROTOCOL, SEND_BUFFER,
    STREAM_WINDOW, STREAMS, Tasks, frames, gather::gathered, lists, token::Token,
};
use crate::runtime::requests::REQUEST_TIMEOUT;

/// Maximum bytes of a refusal that are read.
const LONGEST_REFUSAL: usize = 4 << 10;

/// Time for the streams in progress after the agent is asked to stop.
const GRACE: Duration = Duration::from_secs(1);

/// Reason that there is no tunnel, or no longer one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path or the name of the cluster cannot be part of a request.
    #[error("cannot ask for a tunnel")]
    Request(#[source] http::Error),
    /// There is no client for the controller's URL.
    #[error("cannot dial the controller: {0}")]
    Unusable(String),
    /// The request was not answered.
    #[error("cannot ask for a tunnel")]
    Unanswered(#[source] kube::Error),
    /// The request was not answered in time.
    #[error("a request for a tunnel was not answered within {} s", REQUEST_TIMEOUT.as_secs())]
    Late,
    /// The API server or the controller refused. The controller answers 401 to a token that it does
    /// not know, and 503 if it does not lead. The API server answers 403 without the right to use
    /// `services/proxy`, and 503 without an endpoint.
    #[error("a tunnel was refused with {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// The answer, shortened.
        message: String,
    },
    /// The answer is not that of a controller of Argosy.
    #[error("the answer to a request for a tunnel is invalid: {0}")]
    Invalid(&'static str),
    /// The connection ended.
    #[error("the tunnel has ended")]
    Ended(#[source] hyper::Error),
    /// The connection ended before HTTP/2 began.
    #[error("the tunnel ended before it began")]
    Broken(#[source] io::Error),
    /// Nothing was sent after the Upgrade.
    #[error("the controller sent nothing within {} s after the upgrade", HANDSHAKE.as_secs())]
    Silent,
}

/// The path of a controller's endpoint at the API server, behind a Service.
pub fn through_service(namespace: &str, service: &str, port: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/services/https:{service}:{port}/proxy{PATH}")
}

/// Opens a tunnel as the agent of `cluster`.
///
/// `client` is one of the API server, with the path [`through_service`], or one of the controller
/// itself, with the path [`PATH`]. It must have a write timeout, its read timeout, if any, must be
/// longer than [`PING_EVERY`], and it must not repeat requests itself: 503 says that another replica
/// leads. The clients of `runtime/client` are of that kind.
///
/// # Errors
///
/// There is no tunnel. Each await is bounded, so the answer takes at most half a minute.
pub async fn dial(client: &Client, path: &str, cluster: &str, token: &Token) -> Result<Dialed, Error> {
    let key = generate_key();
    let request = request(path, cluster, token, &key).map_err(Error::Request)?;
    let response = timeout(REQUEST_TIMEOUT, client.send(request)).await;
    let response = response.map_err(|_| Error::Late)?.map_err(Error::Unanswered)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(refusal(response).await);
    }
    check(response.headers(), &key)?;
    let upgraded = timeout(HANDSHAKE, on(response)).await;
    Ok(Dialed(upgraded.map_err(|_| Error::Late)?.map_err(Error::Ended)?))
}

fn request(path: &str, cluster: &str, token: &Token, key: &str) -> Result<Request<Body>, http::Error> {
    let mut secret = HeaderValue::try_from(format!("{cluster}.{}", token.reveal()))?;
    secret.set_sensitive(true);
    Request::get(path)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_KEY, key)
        .header(SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
        .header(HEADER, secret)
        .body(Body::empty())
}

async fn refusal(response: Response<Body>) -> Error {
    let status = response.status();
    let read = body::to_bytes(body::Body::new(response.into_body()), LONGEST_REFUSAL);
    // The status alone says enough if the text is late or too long.
    let text = timeout(REQUEST_TIMEOUT, read).await.ok().and_then(Result::ok);
    let text = text.unwrap_or_default();
    let message = match serde_json::from_slice::<Status>(&text) {
        Ok(status) => status.message,
        Err(_) => String::from_utf8_lossy(&text).trim().to_owned(),
    };
    Error::Refused { status, message }
}

fn check(headers: &HeaderMap, key: &str) -> Result<(), Error> {
    let accept = derive_accept_key(key.as_bytes());
    let problem = if !lists(headers, &UPGRADE, "websocket") || !lists(headers, &CONNECTION, "upgrade") {
        "it is no upgrade to a WebSocket"
    } else if headers.get(SEC_WEBSOCKET_ACCEPT).map(HeaderValue::as_bytes) != Some(accept.as_bytes()) {
        "its Sec-WebSocket-Accept belongs to another request"
    } else if !lists(headers, &SEC_WEBSOCKET_PROTOCOL, PROTOCOL) {
        "its subprotocol is another one"
    } else {
        return Ok(());
    };
    Err(Error::Invalid(problem))
}

/// A tunnel that is open and not served yet. A drop closes it.
#[derive(Debug)]
pub struct Dialed(Upgraded);

impl Dialed {
    /// Answers the controller's requests with `service` until the tunnel ends or `stop` is
    /// canceled. A drop of the future ends the tunnel and all its streams.
    ///
    /// # Errors
    ///
    /// The connection failed, or a ping was not answered. An end that the controller has announced
    /// is no error.
    pub async fn serve<S, B>(self, service: S, stop: &CancellationToken) -> Result<(), Error>
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let mut bytes = frames::open(TokioIo::new(self.0), Role::Client).await;
        // hyper does not bound the time that it waits for the beginning.
        match timeout(HANDSHAKE, bytes.fill_buf()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(Error::Broken(error)),
            Err(_) => return Err(Error::Silent),
        }
        let tasks = CancellationToken::new();
        let _ends = tasks.clone().drop_guard();
        let service = service.map_response(|response: Response<B>| response.map(gathered));
        let service = TowerToHyperService::new(service);
        let connection = builder(Tasks(tasks)).serve_connection(TokioIo::new(bytes), service);
        let mut connection = pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(Error::Ended),
            () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        // A stream such as a followed log has no end of its own.
        let _ = timeout(GRACE, connection).await;
        Ok(())
    }
}

fn builder(tasks: Tasks) -> Builder<Tasks> {
    let mut builder = Builder::new(tasks);
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_ANSWER)
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .max_send_buf_size(SEND_BUFFER);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(changed: &str, value: &str) -> HeaderMap {
        // The example of RFC 6455.
        let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        let mut headers = HeaderMap::new();
        headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, HeaderValue::from_static(accept));
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
        let name = http::HeaderName::try_from(changed).unwrap();
        headers.insert(name, HeaderValue::try_from(value).unwrap());
        headers
    }

    #[test]
    fn only_the_answer_to_the_own_request_in_the_own_protocol_is_taken() {
        const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
        check(&answer("x-other", "a"), KEY).unwrap();
        for (name, value) in [
            ("upgrade", "SPDY/3.1"),
            ("connection", "close"),
            ("sec-websocket-accept", "AAAAAAAAAAAAAAAAAAAAAAAAAAA="),
            ("sec-websocket-protocol", "argosy.tunnel.v2"),
        ] {
            let refused = check(&answer(name, value), KEY);
            assert!(matches!(refused, Err(Error::Invalid(_))), "{name}: {value}");
        }
    }

    #[test]
    fn a_request_names_cluster_and_token_and_hides_them_from_logs() {
        let token = Token::generate().unwrap();
        let path = through_service("argosy", "argosy-controller", "webhook");
        let request = request(&path, "cluster1", &token, &generate_key()).unwrap();
        let secret = &request.headers()[HEADER];
        assert_eq!(secret, &format!("cluster1.{}", token.reveal()));
        assert!(!format!("{request:?}").contains(&token.reveal()));
        assert_eq!(
            request.uri().path(),
            "/api/v1/namespaces/argosy/services/https:argosy-controller:webhook/proxy/tunnel"
        );
    }

    #[tokio::test]
    async fn the_message_of_a_refusal_is_that_of_the_status_or_the_text() {
        let status = serde_json::to_vec(&Status::failure("no right", "Forbidden")).unwrap();
        for (text, expected) in [
            (status, "no right"),
            (b"unknown token\n".to_vec(), "unknown token"),
            (vec![b'a'; LONGEST_REFUSAL + 1], ""),
        ] {
            let response = Response::builder().status(403).body(Body::from(text)).unwrap();
            let Error::Refused { status, message } = refusal(response).await else {
                panic!("it is a refusal");
            };
            assert_eq!((status.as_u16(), message.as_str()), (403, expected));
        }
    }
}
