//! Limits for the connections of a server that anybody can reach: their number, and the time that
//! they may take to say something.
//!
//! Not here: TLS (`axum_server` bounds the time of its handshake), and the bodies of requests.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum_server::{Server, accept::Accept};
use futures::future::BoxFuture;
use hyper_util::rt::TokioTimer;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};

/// Maximum number of open connections of a server. Each tunnel and each session has one.
const CONNECTIONS: usize = 4096;

/// Time for the first bytes of a connection, and for the headers of a request. A connection of
/// HTTP/1 that is idle for as long is closed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Silence after which a connection of HTTP/2 is pinged.
const PING_EVERY: Duration = Duration::from_secs(30);

/// Time for the answer to a ping.
const PING_ANSWER: Duration = Duration::from_secs(20);

/// Silence after which the kernel probes a connection, and the time between probes. A session that
/// is silent has no other sign that the other end is there.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_EVERY: Duration = Duration::from_secs(10);

/// Maximum bytes that a stream buffers unread.
const UNREAD: u32 = 64 << 10;

/// The first bytes of a connection of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bounds the connections of `server`, each with at most `streams` concurrent streams.
pub(crate) fn bound<A>(server: &mut Server<SocketAddr, A>, streams: u32) {
    bound_for(server, streams, PATIENCE);
}

fn bound_for<A>(server: &mut Server<SocketAddr, A>, streams: u32, patience: Duration) {
    let builder = server.http_builder();
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(UNREAD as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_ANSWER)
        .initial_connection_window_size(4 * UNREAD)
        .initial_stream_window_size(UNREAD)
        .max_concurrent_streams(streams);
}

/// Accepts a limited number of connections at a time, and closes one that stays silent.
#[derive(Clone, Debug)]
pub(crate) struct Limited<A> {
    inner: A,
    places: Arc<Semaphore>,
    patience: Duration,
}

impl<A> Limited<A> {
    /// Limits the connections that `inner` accepts.
    pub(crate) fn new(inner: A) -> Self {
        Self::with(inner, CONNECTIONS, PATIENCE)
    }

    fn with(inner: A, connections: usize, patience: Duration) -> Self {
        Self {
            inner,
            places: Arc::new(Semaphore::new(connections)),
            patience,
        }
    }
}

impl<A, S> Accept<TcpStream, S> for Limited<A>
where
    A: Accept<TcpStream, S>,
    A::Stream: Send,
    A::Service: Send,
    A::Future: Send + 'static,
{
    type Stream = Placed<A::Stream>;
    type Service = A::Service;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            tracing::debug!("a connection was closed, because there are too many");
            return Box::pin(async { Err(io::Error::other("too many connections")) });
        };
        set_options(&stream);
        let (accepting, patience) = (self.inner.accept(stream, service), self.patience);
        Box::pin(async move {
            let (stream, service) = accepting.await?;
            let opening = Opening {
                read: 0,
                due: Box::pin(sleep(patience)),
            };
            let placed = Placed {
                stream,
                opening: Some(opening),
                _place: place,
            };
            Ok((placed, service))
        })
    }
}

/// Has the kernel probe a silent connection, and send each answer at once. A connection without
/// these options is as good as before.
fn set_options(stream: &TcpStream) {
    let probes = TcpKeepalive::new()
        .with_time(PROBE_AFTER)
        .with_interval(PROBE_EVERY);
    let result = SockRef::from(stream).set_tcp_keepalive(&probes);
    if let Err(error) = result.and_then(|()| stream.set_nodelay(true)) {
        tracing::debug!(%error, "the options of a connection cannot be set");
    }
}

/// A connection in its place among all. A read fails if the first bytes are late: the server waits
/// for them without limit, to know the version of HTTP.
#[derive(Debug)]
pub(crate) struct Placed<S> {
    stream: S,
    opening: Option<Opening>,
    _place: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct Opening {
    /// Number of bytes of the preface that were read.
    read: usize,
    due: Pin<Box<Sleep>>,
}

impl Opening {
    /// True if the version of HTTP is still unknown after these bytes.
    fn goes_on(&mut self, bytes: &[u8]) -> bool {
        let rest = PREFACE.get(self.read..).unwrap_or_default();
        self.read += bytes.len();
        bytes.len() < rest.len() && rest.starts_with(bytes)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Placed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        let Some(opening) = &mut this.opening else {
            return read;
        };
        if read.is_pending() {
            let is_late = opening.due.as_mut().poll(context).is_ready();
            return if is_late {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            } else {
                Poll::Pending
            };
        }
        let bytes = buffer.filled().get(before..).unwrap_or_default();
        if !opening.goes_on(bytes) {
            this.opening = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Placed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::{Router, routing::get};
    use axum_server::{Handle, accept::DefaultAcceptor};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        time::timeout,
    };

    use super::*;

    /// More than time enough, and little for a test that fails.
    const SOON: Duration = Duration::from_secs(10);

    /// The address of a server with this many connections and this patience.
    async fn server(connections: usize, patience: Duration) -> SocketAddr {
        let handle = Handle::new();
        let mut server = axum_server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .acceptor(Limited::with(DefaultAcceptor::new(), connections, patience))
            .handle(handle.clone());
        bound_for(&mut server, 8, patience);
        let router = Router::new().route("/", get(async || "hello"));
        tokio::spawn(server.serve(router.into_make_service()));
        handle.listening().await.unwrap()
    }

    /// Everything that the server answers to these bytes until it closes the connection.
    async fn said(connection: &mut TcpStream, bytes: &[u8]) -> String {
        connection.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let read = timeout(SOON, connection.read_to_end(&mut answer)).await;
        // A reset is an end, too.
        let _ = read.expect("the connection stays open");
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn a_connection_sends_each_answer_at_once_and_is_probed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let connecting = TcpStream::connect(listener.local_addr().unwrap());
        let (_client, accepted) = tokio::join!(connecting, listener.accept());
        let (stream, _) = accepted.unwrap();
        set_options(&stream);
        assert!(stream.nodelay().unwrap());
        assert!(SockRef::from(&stream).keepalive().unwrap());
    }

    #[tokio::test]
    async fn a_connection_that_does_not_come_to_the_point_is_closed() {
        let address = server(8, Duration::from_millis(100)).await;
        for bytes in ["", "PRI", "GET", "GET / HTTP/1.1\r\nx-header: "] {
            let mut connection = TcpStream::connect(address).await.unwrap();
            let answer = said(&mut connection, bytes.as_bytes()).await;
            assert!(!answer.contains("hello"), "{bytes}: {answer}");
        }
        let mut connection = TcpStream::connect(address).await.unwrap();
        let answer = said(&mut connection, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(answer.ends_with("hello"), "{answer}");
    }

    #[tokio::test]
    async fn one_connection_too_many_is_closed_and_the_others_are_served() {
        const ASKED: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let address = server(1, SOON).await;
        let mut first = TcpStream::connect(address).await.unwrap();
        // The server has accepted it when it has read.
        first
            .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .unwrap();
        first.read_exact(&mut [0; 8]).await.unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        let mut nothing = Vec::new();
        let read = timeout(SOON, second.read_to_end(&mut nothing)).await;
        let _ = read.expect("it is one too many");
        assert_eq!(nothing, b"");
        drop(first);
        let served = timeout(SOON, async {
            loop {
                let mut next = TcpStream::connect(address).await.unwrap();
                if next.write_all(ASKED).await.is_ok() {
                    let mut answer = String::new();
                    if next.read_to_string(&mut answer).await.is_ok() && answer.ends_with("hello") {
                        break;
                    }
                }
            }
        });
        served.await.expect("the place is free again");
    }
}
