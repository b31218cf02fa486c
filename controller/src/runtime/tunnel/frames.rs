//! A WebSocket as a stream of bytes, in both directions.
//!
//! Each write is one binary message, or several if it is longer than [`LARGEST`]; a flush sends
//! them. The borders of messages mean nothing, because gateways may move them. A closed WebSocket is
//! the end of the bytes, and text is an error. Not here: the handshake, and pings that keep the
//! connection alive, which are those of HTTP/2 (the pings of the WebSocket are answered).

use std::io::{Error, ErrorKind};

use axum::body::Bytes;
use futures::{
    SinkExt, Stream, StreamExt, TryStreamExt,
    future::ready,
    stream::{SplitSink, iter},
};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, join};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error as SocketError, Message,
        protocol::{Role, WebSocketConfig},
    },
};
use tokio_util::io::{CopyToBytes, SinkWriter, StreamReader};

/// Maximum length of a message in bytes, in both directions. HTTP/2 writes at most 16 KiB and a
/// header at once.
const LARGEST: usize = 64 << 10;

/// Capacity of the buffer for reading, which every tunnel has all the time.
const READ_BUFFER: usize = 16 << 10;

/// Number of buffered bytes from which on a write goes to the socket without a flush.
const WRITE_BUFFER: usize = 16 << 10;

/// The WebSocket on `socket` as bytes. The handshake is over.
pub(super) async fn open<S>(socket: S, role: Role) -> impl AsyncBufRead + AsyncWrite + Send + Unpin
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        // A write waits while more than WRITE_BUFFER is unsent, so this is never reached.
        .max_write_buffer_size(WRITE_BUFFER + 4 * LARGEST)
        .max_message_size(Some(LARGEST))
        .max_frame_size(Some(LARGEST));
    let socket = WebSocketStream::from_raw_socket(socket, role, Some(config)).await;
    let (sink, messages): (SplitSink<_, Message>, _) = socket.split();
    let read = messages
        .map_err(Failure::from)
        .take_while(|message| ready(!matches!(message, Ok(Message::Close(_)))))
        .try_filter_map(|message| ready(payload(message)));
    // Not `sink_map_err`, which panics at the second error.
    let written = sink.with(|message| ready(Ok::<_, Failure>(message)));
    join(
        StreamReader::new(read),
        SinkWriter::new(CopyToBytes::new(written.with_flat_map(messages_of))),
    )
}

/// An error of either direction.
struct Failure(Error);

impl From<SocketError> for Failure {
    fn from(error: SocketError) -> Self {
        Self(match error {
            SocketError::Io(error) => error,
            other => Error::other(other),
        })
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}

fn messages_of(bytes: Bytes) -> impl Stream<Item = Result<Message, Failure>> + Send + Unpin {
    let starts = (0..bytes.len()).step_by(LARGEST);
    let part = move |start: usize| bytes.slice(start..bytes.len().min(start.saturating_add(LARGEST)));
    iter(starts.map(move |start| Ok(Message::Binary(part(start)))))
}

fn payload(message: Message) -> Result<Option<Bytes>, Failure> {
    match message {
        Message::Binary(bytes) => Ok(Some(bytes)),
        Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => Ok(None),
        Message::Text(_) => {
            let error = Error::new(ErrorKind::InvalidData, "a text message in a tunnel of bytes");
            Err(Failure(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// The agent's end as bytes, and the other end as messages.
    async fn ends() -> (
        impl AsyncBufRead + AsyncWrite + Unpin,
        WebSocketStream<DuplexStream>,
    ) {
        let (near, far) = duplex(1 << 20);
        let far = WebSocketStream::from_raw_socket(far, Role::Server, None).await;
        (open(near, Role::Client).await, far)
    }

    #[tokio::test]
    async fn a_write_is_one_message_and_a_long_one_is_several() {
        let (mut near, mut far) = ends().await;
        near.write_all(b"hello").await.unwrap();
        near.flush().await.unwrap();
        assert_eq!(far.next().await.unwrap().unwrap(), Message::binary(&b"hello"[..]));
        let long = vec![7; 2 * LARGEST + 1];
        near.write_all(&long).await.unwrap();
        near.flush().await.unwrap();
        let mut lengths = Vec::new();
        for _ in 0..3 {
            lengths.push(far.next().await.unwrap().unwrap().len());
        }
        assert_eq!(lengths, [LARGEST, LARGEST, 1]);
    }

    #[tokio::test]
    async fn messages_are_bytes_in_order_and_a_close_is_their_end() {
        let (mut near, mut far) = ends().await;
        for message in ["one ", "", "two"] {
            far.send(Message::binary(message.as_bytes().to_vec()))
                .await
                .unwrap();
            far.send(Message::Ping(Bytes::new())).await.unwrap();
        }
        far.close(None).await.unwrap();
        let mut text = String::new();
        near.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "one two");
    }

    #[tokio::test]
    async fn text_and_messages_that_are_too_long_are_errors() {
        for bad in [Message::text("hello"), Message::binary(vec![0; LARGEST + 1])] {
            let (mut near, mut far) = ends().await;
            far.send(bad.clone()).await.unwrap();
            let mut read = Vec::new();
            assert!(near.read_to_end(&mut read).await.is_err(), "{bad:?}");
            assert_eq!(read, b"");
        }
    }

    #[tokio::test]
    async fn an_end_that_has_failed_fails_again_without_a_panic() {
        let (mut near, far) = ends().await;
        drop(far);
        let mut failures = 0;
        for _ in 0..3 {
            let written = near.write_all(&vec![0; LARGEST]).await;
            failures += u32::from(written.is_err() || near.flush().await.is_err());
        }
        assert!(failures >= 2, "{failures}");
        let _ = near.shutdown().await;
        let _ = near.shutdown().await;
    }
}
