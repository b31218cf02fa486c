//! Limits the memory that long responses take: a layer around a client that lets the beginning of
//! every body through, and the rest of only one body at a time.
//!
//! A page of a list may have 24 MiB, as may many pages that are requested at once, and kube holds a
//! body twice before it parses it. Each client has its own layer, so one API server does not delay
//! the responses of another. The events of watches, and with them streaming lists, are lines that are
//! read one by one, so of these only the length of a line is limited. Not here: the number of objects.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body as Narrowed, BodyDataStream, Bytes, HttpBody},
    http::{Request, Response, Uri},
};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use kube::client::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::{BoxError, Layer, Service};

use crate::runtime::requests::sources;

/// Number of bytes of a body that are read without waiting. Ordinary responses have fewer.
const SHORT: usize = 1 << 20;

/// Maximum number of bytes of a body.
const LONGEST: usize = 128 << 20;

/// The same of a [`LARGE_PAGE`]: as many bytes as a [`SMALL_PAGE`] may have.
const LONGEST_PAGE: usize = 24 << 20;

/// Maximum number of bytes of an event of a watch. An API server stores objects of 1.5 MiB.
const LONGEST_EVENT: usize = 16 << 20;

/// Number of objects in a page of a long list. A reader of such pages goes on with small ones if one
/// is too long ([`is_too_long`]). Each page costs an API server some milliseconds, so that ten
/// thousand objects by small pages take it many seconds.
pub const LARGE_PAGE: u32 = 250;

/// Number of objects in a page for which there is memory if every object is as large as an API server
/// stores them, which is 1.5 MiB.
pub const SMALL_PAGE: u32 = 16;

/// The body was longer than this number of bytes.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the API server's answer is longer than {0} bytes")]
struct TooLong(usize);

/// Returns true if a request failed because its response was too long. A smaller page may not be.
pub fn is_too_long(error: &dyn std::error::Error) -> bool {
    sources(error).any(<dyn std::error::Error>::is::<TooLong>)
}

/// Layer that makes long responses wait for each other. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Narrow<S = ()> {
    busy: Arc<Semaphore>,
    inner: S,
}

impl Default for Narrow {
    fn default() -> Self {
        Self {
            busy: Arc::new(Semaphore::new(1)),
            inner: (),
        }
    }
}

impl<S> Layer<S> for Narrow {
    type Service = Narrow<S>;

    fn layer(&self, inner: S) -> Narrow<S> {
        Narrow {
            busy: self.busy.clone(),
            inner,
        }
    }
}

impl<S, B> Service<Request<Body>> for Narrow<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Narrowed>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Narrowed>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (is_watch, busy) = (is_watch(request.uri()), self.busy.clone());
        let longest = longest(request.uri());
        let answer = self.inner.call(request);
        Box::pin(async move {
            Ok(answer.await?.map(|body| {
                let body = Narrowed::new(body).into_data_stream();
                if is_watch {
                    Narrowed::from_stream(line_by_line(body))
                } else {
                    Narrowed::from_stream(narrowed(body, busy, longest))
                }
            }))
        })
    }
}

fn parameters(uri: &Uri) -> impl Iterator<Item = &str> {
    uri.query().into_iter().flat_map(|query| query.split('&'))
}

fn is_watch(uri: &Uri) -> bool {
    parameters(uri).any(|pair| pair == "watch=true" || pair == "watch=1")
}

/// Maximum number of bytes of the response to a request.
fn longest(uri: &Uri) -> usize {
    let mut limits = parameters(uri).filter_map(|pair| pair.strip_prefix("limit=")?.parse::<u32>().ok());
    if limits.any(|limit| limit == LARGE_PAGE) {
        LONGEST_PAGE
    } else {
        LONGEST
    }
}

/// Streams the events of a watch, of which each is a line. Its reader keeps a line until it has all of it.
fn line_by_line(body: BodyDataStream) -> impl Stream<Item = Result<Bytes, BoxError>> {
    let mut line = 0_usize;
    body.map(move |part| {
        let part = part?;
        let last = part.iter().rev().position(|byte| *byte == b'\n');
        line = last.unwrap_or_else(|| line.saturating_add(part.len()));
        if line > LONGEST_EVENT {
            return Err(TooLong(LONGEST_EVENT).into());
        }
        Ok(part)
    })
}

struct Reading {
    body: BodyDataStream,
    read: usize,
    turn: Option<OwnedSemaphorePermit>,
}

/// Streams a body. A long one waits for its turn and keeps it until it is dropped.
fn narrowed(
    body: BodyDataStream,
    busy: Arc<Semaphore>,
    longest: usize,
) -> impl Stream<Item = Result<Bytes, BoxError>> {
    let reading = Reading {
        body,
        read: 0,
        turn: None,
    };
    stream::try_unfold(reading, move |mut reading| {
        let busy = busy.clone();
        async move {
            if reading.read > longest {
                return Err(TooLong(longest).into());
            }
            if reading.read > SHORT && reading.turn.is_none() {
                reading.turn = Some(busy.acquire_owned().await?);
            }
            let part = reading.body.try_next().await?;
            Ok::<_, BoxError>(part.map(|part| {
                reading.read = reading.read.saturating_add(part.len());
                (part, reading)
            }))
        }
    })
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, pin::pin};

    use futures::FutureExt;

    use super::*;

    const PART: usize = 64 << 10;

    fn body(parts: usize, busy: &Arc<Semaphore>) -> impl Stream<Item = Result<Bytes, BoxError>> + use<> {
        let part = Bytes::from(vec![b' '; PART]);
        let parts = stream::iter(vec![Ok::<_, Infallible>(part); parts]);
        narrowed(
            Narrowed::from_stream(parts).into_data_stream(),
            busy.clone(),
            LONGEST,
        )
    }

    #[tokio::test]
    async fn the_rest_of_a_long_answer_waits_until_another_is_read() {
        let busy = Arc::new(Semaphore::new(1));
        let (mut first, mut second) = (Box::pin(body(100, &busy)), Box::pin(body(100, &busy)));
        for _ in 0..50 {
            assert!(first.next().await.is_some());
        }
        let mut read = 0;
        while let Some(part) = second.next().now_or_never() {
            read += part.unwrap().unwrap().len();
        }
        assert!(read > SHORT && read <= SHORT + PART, "{read}");
        let short: Vec<_> = body(SHORT / PART, &busy).collect().await;
        assert_eq!(short.len(), SHORT / PART);
        drop(first);
        assert!(second.next().await.is_some());
    }

    #[tokio::test]
    async fn an_answer_without_an_end_is_not_read_to_the_end() {
        let busy = Arc::new(Semaphore::new(1));
        let parts: Vec<_> = body(2 * LONGEST / PART, &busy).collect().await;
        assert!(parts.len() <= LONGEST / PART + 2);
        let last = parts.last().unwrap().as_ref().map_err(ToString::to_string);
        assert!(last.unwrap_err().contains("longer than"));
    }

    /// Reads a watch of so many parts of `PART` bytes, each of which ends with `end`. Returns the number of
    /// parts that were read, and the last error.
    async fn watched(parts: usize, end: u8) -> (usize, Option<String>) {
        let mut part = vec![b' '; PART];
        part[PART - 1] = end;
        let parts = stream::iter(vec![Ok::<_, Infallible>(Bytes::from(part)); parts]);
        let mut events = pin!(line_by_line(Narrowed::from_stream(parts).into_data_stream()));
        let mut read = 0;
        while let Some(part) = events.next().await {
            if let Err(error) = part {
                return (read, Some(error.to_string()));
            }
            read += 1;
        }
        (read, None)
    }

    #[tokio::test]
    async fn a_watch_may_last_for_ever_and_none_of_its_events_may_be_longer_than_an_object() {
        let many = 4 * LONGEST_EVENT / PART;
        assert_eq!(watched(many, b'\n').await, (many, None));
        let (read, error) = watched(many, b' ').await;
        assert_eq!(read, LONGEST_EVENT / PART);
        assert!(error.unwrap().contains("longer than"));
    }

    #[test]
    fn a_large_page_has_as_many_bytes_as_a_small_one_may_have() {
        for (query, bytes) in [
            ("", LONGEST),
            ("?limit=16&labelSelector=a", LONGEST),
            ("?limit=a", LONGEST),
            ("?labelSelector=a&limit=250", LONGEST_PAGE),
            // Its reader does not go on with small pages.
            ("?limit=500", LONGEST),
        ] {
            let uri = format!("https://10.0.0.1/api/v1/pods{query}").parse().unwrap();
            assert_eq!(longest(&uri), bytes, "{query}");
        }
    }
}
