//! Sessions in a container (exec, attach, port-forward) as requests in a tunnel.
//!
//! Kubernetes carries a session over a connection that was upgraded to SPDY, which HTTP/2 has no
//! upgrade for. So the bytes of the connection travel as the bodies of one POST, its request and its
//! answer, and nobody between API server and API server reads them. Not here: the rights to a
//! session (the kubelet endpoint and the agent).

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderName, HeaderValue},
};
use futures::{Stream, StreamExt};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    time::timeout,
};
use tokio_util::io::ReaderStream;

/// Protocol that a connection is upgraded to, as API servers speak it to kubelets.
pub const SPDY: &str = "SPDY/3.1";

/// Header with the versions of the protocol within SPDY: those that are offered, and in the answer
/// the one that was chosen.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// Maximum number of versions that are passed on.
const VERSIONS: usize = 8;

/// Maximum length of a version in bytes.
const LONGEST_VERSION: usize = 64;

/// Time in which an end must take the bytes that it was sent.
const STALLED: Duration = Duration::from_mins(5);

/// The versions in `headers`, bounded.
pub fn versions(headers: &HeaderMap) -> impl Iterator<Item = &HeaderValue> {
    let versions = headers.get_all(PROTOCOL_VERSION).into_iter();
    versions
        .filter(|version| version.len() <= LONGEST_VERSION)
        .take(VERSIONS)
}

/// Everything that `reader` reads, as a body.
pub fn body_of(reader: impl AsyncRead + Send + 'static) -> Body {
    Body::from_stream(ReaderStream::new(reader))
}

/// Writes the parts of a body into `writer`, and ends it. Returns early if the body breaks or the
/// writer takes nothing.
pub async fn write_all<E>(body: impl Stream<Item = Result<Bytes, E>> + Send, writer: impl AsyncWrite + Send) {
    let (mut body, mut writer) = (std::pin::pin!(body), std::pin::pin!(writer));
    while let Some(Ok(part)) = body.next().await {
        if !matches!(timeout(STALLED, writer.write_all(&part)).await, Ok(Ok(()))) {
            return;
        }
    }
    // An end that has gone already needs no goodbye.
    let _ = timeout(STALLED, writer.shutdown()).await;
}
