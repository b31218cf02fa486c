//! Sessions in a container (exec, attach, port-forward) as requests in a tunnel.
//!
//! Kubernetes carries a session over a connection that was upgraded to SPDY, which HTTP/2 has no
//! upgrade for. So the bytes of the connection travel as the bodies of one POST, its request and its
//! answer, and nobody between API server and API server reads them. Not here: the rights to a
//! session (the kubelet endpoint and the agent).

use std::{io, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderName, HeaderValue},
};
use futures::{Stream, StreamExt, future::ready, stream::unfold};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, split},
    time::timeout,
};
use tokio_util::{io::ReaderStream, sync::CancellationToken};

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

/// Everything that `reader` reads, as a body. It ends at an error: one that fails resets the stream,
/// and the bytes before the error that are not sent yet are lost.
pub fn body_of(reader: impl AsyncRead + Send + 'static) -> Body {
    Body::from_stream(parts_of(reader))
}

/// The parts that `reader` reads, until its end or an error.
pub fn parts_of(reader: impl AsyncRead + Send) -> impl Stream<Item = io::Result<Bytes>> + Send {
    ReaderStream::new(reader).take_while(|part| ready(part.is_ok()))
}

/// Writes the parts of a body into `writer`, each when it is there, and ends it. Returns early if the
/// writer fails, and early and false if it takes nothing.
pub async fn write_all<E>(
    body: impl Stream<Item = Result<Bytes, E>> + Send,
    writer: impl AsyncWrite + Send,
) -> bool {
    write_all_for(body, writer, STALLED).await
}

async fn write_all_for<E>(
    body: impl Stream<Item = Result<Bytes, E>> + Send,
    writer: impl AsyncWrite + Send,
    stalled: Duration,
) -> bool {
    let (mut body, mut writer) = (std::pin::pin!(body), std::pin::pin!(writer));
    while let Some(Ok(part)) = body.next().await {
        let writing = async {
            writer.write_all(&part).await?;
            // TLS may keep a part until the next one, which may never come.
            writer.flush().await
        };
        match timeout(stalled, writing).await {
            Ok(Ok(())) => {}
            // The other end takes nothing any more, but its last output may still be on the way.
            Ok(Err(_)) => return true,
            Err(_) => return false,
        }
    }
    // An end that has gone already needs no goodbye.
    let _ = timeout(stalled, writer.shutdown()).await;
    true
}

/// Writes the parts of `input` into `session`, and returns everything that is read from it. The two
/// directions end together: the body ends if the session takes nothing, and nothing is written any
/// more when the body has ended or was dropped.
pub fn joined<E: Send + 'static>(
    session: impl AsyncRead + AsyncWrite + Send + 'static,
    input: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
) -> Body {
    joined_for(session, input, STALLED)
}

fn joined_for<E: Send + 'static>(
    session: impl AsyncRead + AsyncWrite + Send + 'static,
    input: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    stalled: Duration,
) -> Body {
    let (reader, writer) = split(session);
    let ends = CancellationToken::new();
    let (stalls, read) = (ends.clone(), ends.clone().drop_guard());
    tokio::spawn(async move {
        let writing = write_all_for(input, writer, stalled);
        if ends.run_until_cancelled(writing).await == Some(false) {
            ends.cancel();
        }
    });
    let parts = Box::pin(parts_of(reader).take_until(stalls.cancelled_owned()));
    Body::from_stream(unfold((parts, read), |(mut parts, read)| async move {
        Some((parts.next().await?, (parts, read)))
    }))
}

#[cfg(test)]
mod tests {
    use futures::stream::{self, pending};
    use tokio::io::{AsyncReadExt, BufWriter, duplex};

    use super::*;

    /// More than time enough, and little for a test that fails.
    const SOON: Duration = Duration::from_secs(10);

    type Part = io::Result<Bytes>;

    #[tokio::test]
    async fn a_part_is_sent_before_the_next_one_comes() {
        let (near, mut far) = duplex(64);
        let body = stream::iter([Part::Ok(Bytes::from_static(b"$ "))]).chain(pending());
        let writing = tokio::spawn(write_all(body, BufWriter::new(near)));
        let mut prompt = [0; 2];
        let read = timeout(SOON, far.read_exact(&mut prompt)).await;
        read.expect("it was not flushed").unwrap();
        assert_eq!(&prompt, b"$ ");
        writing.abort();
    }

    #[tokio::test]
    async fn a_body_ends_at_a_read_error_with_all_bytes_before_it() {
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        let read = [Part::Ok(Bytes::from_static(b"last words")), Err(reset)];
        let reader = tokio_util::io::StreamReader::new(stream::iter(read));
        let body = axum::body::to_bytes(body_of(reader), 64).await;
        assert_eq!(body.unwrap(), "last words");
    }

    #[tokio::test]
    async fn a_session_that_takes_nothing_ends_in_both_directions() {
        let (session, _far) = duplex(1);
        let input = stream::iter([Part::Ok(Bytes::from_static(b"too much"))]).chain(pending());
        let body = joined_for(session, input, Duration::from_millis(50));
        let output = timeout(SOON, axum::body::to_bytes(body, 64)).await;
        assert_eq!(output.expect("the other direction goes on").unwrap(), "");
    }

    #[tokio::test]
    async fn a_session_that_refuses_input_is_read_to_its_end() {
        let (output, mut far) = duplex(64);
        far.write_all(b"last words").await.unwrap();
        drop(far);
        let (refusing, closed) = duplex(1);
        drop(closed);
        let session = tokio::io::join(output, refusing);
        let input = stream::iter([Part::Ok(Bytes::from_static(b"go on"))]).chain(pending());
        let output = timeout(SOON, axum::body::to_bytes(joined(session, input), 64)).await;
        assert_eq!(output.expect("it does not end").unwrap(), "last words");
    }

    #[tokio::test]
    async fn a_session_whose_output_is_dropped_takes_no_more_input() {
        let (session, mut far) = duplex(64);
        drop(joined(session, pending::<Part>()));
        let mut rest = Vec::new();
        let closed = timeout(SOON, far.read_to_end(&mut rest)).await;
        closed.expect("the session is open").unwrap();
    }
}
