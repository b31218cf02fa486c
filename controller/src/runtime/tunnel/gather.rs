//! Joins the small parts of a body before they are sent.
//!
//! The receiver of HTTP/2 bounds not only the bytes that wait to be read, but also the small frames:
//! h2 closes a connection whose waiting frames of less than 256 bytes cost more than half of the
//! connection's window, which are 32,768 frames of one byte. A followed log has a part for each line
//! or less, so a single reader that stops would end all streams of the tunnel. The first part after
//! a pause is sent at once. Later ones wait for each other for [`PAUSE`], so a stream has at most 20
//! small frames a second. Not here: bodies of a known length.

use std::time::Duration;

use axum::{
    Error,
    body::{Body, BodyDataStream, Bytes, HttpBody},
};
use futures::{StreamExt, stream, stream::Fuse};
use tokio::time::{Instant, timeout_at};
use tower::BoxError;

/// Time between small parts.
const PAUSE: Duration = Duration::from_millis(50);

/// Number of bytes that are sent without waiting: those of one frame.
const ENOUGH: usize = super::FRAME as usize;

/// The same bytes in fewer parts. Trailers are dropped.
pub(super) fn gathered<B>(body: B) -> Body
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    if body.size_hint().exact().is_some() {
        return Body::new(body);
    }
    let parts = Parts {
        body: Body::new(body).into_data_stream().fuse(),
        sent_at: None,
        failed: None,
    };
    Body::from_stream(stream::unfold(parts, Parts::next))
}

struct Parts {
    body: Fuse<BodyDataStream>,
    /// Time of the last part.
    sent_at: Option<Instant>,
    /// Error that comes after the parts that were held back.
    failed: Option<Error>,
}

impl Parts {
    async fn next(mut self) -> Option<(Result<Bytes, Error>, Self)> {
        let next = match self.failed.take() {
            Some(error) => Err(error),
            None => self.joined().await?,
        };
        self.sent_at = Some(Instant::now());
        Some((next, self))
    }

    async fn joined(&mut self) -> Option<Result<Bytes, Error>> {
        let first = match self.first().await? {
            Ok(first) => first,
            Err(error) => return Some(Err(error)),
        };
        let due = self.sent_at.map(|sent_at| sent_at + PAUSE);
        let Some(due) = due.filter(|due| first.len() < ENOUGH && *due > Instant::now()) else {
            return Some(Ok(first));
        };
        let mut held = Vec::from(first);
        while held.len() < ENOUGH {
            match timeout_at(due, self.body.next()).await {
                Ok(Some(Ok(part))) => held.extend_from_slice(&part),
                Ok(Some(Err(error))) => {
                    self.failed = Some(error);
                    break;
                }
                Ok(None) | Err(_) => break,
            }
        }
        Some(Ok(held.into()))
    }

    /// The next part that is not empty. h2 bounds empty frames as well.
    async fn first(&mut self) -> Option<Result<Bytes, Error>> {
        loop {
            match self.body.next().await? {
                Ok(part) if part.is_empty() => {}
                part => return Some(part),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tokio::sync::mpsc;

    use super::*;

    fn parts(parts: Vec<Result<Bytes, &'static str>>) -> BodyDataStream {
        gathered(Body::from_stream(stream::iter(parts))).into_data_stream()
    }

    #[tokio::test]
    async fn many_small_parts_are_sent_as_the_first_and_the_rest() {
        let lines = vec![Ok(Bytes::from_static(b"line\n")); 1000];
        let sent: Vec<_> = parts(lines).map(|part| part.unwrap().len()).collect().await;
        assert_eq!(sent, [5, 4995]);
    }

    #[tokio::test]
    async fn a_part_that_is_large_enough_is_sent_as_it_is() {
        let large = Bytes::from(vec![0; ENOUGH]);
        let sent: Vec<_> = parts(vec![Ok(large.clone()), Ok(large.clone())]).collect().await;
        assert!(sent.iter().all(|part| *part.as_ref().unwrap() == large));
    }

    #[tokio::test]
    async fn an_error_comes_after_the_parts_before_it() {
        let small = Bytes::from_static(b"a");
        let mut sent = parts(vec![
            Ok(small.clone()),
            Ok(Bytes::new()),
            Ok(small.clone()),
            Err("cut"),
        ]);
        assert_eq!(sent.next().await.unwrap().unwrap(), small);
        assert_eq!(sent.next().await.unwrap().unwrap(), small);
        assert!(
            sent.next()
                .await
                .unwrap()
                .unwrap_err()
                .to_string()
                .contains("cut")
        );
    }

    #[tokio::test]
    async fn a_line_is_sent_before_the_next_one_is_written() {
        let (lines, mut written) = mpsc::channel::<Bytes>(1);
        let body = stream::poll_fn(move |context| written.poll_recv(context)).map(Ok::<_, Infallible>);
        let mut sent = gathered(Body::from_stream(body)).into_data_stream();
        for line in ["one\n", "two\n", "three\n"] {
            lines.send(line.into()).await.unwrap();
            assert_eq!(sent.next().await.unwrap().unwrap(), line);
        }
        drop(lines);
        assert!(sent.next().await.is_none());
    }
}
