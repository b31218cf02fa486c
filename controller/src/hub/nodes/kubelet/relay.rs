//! Passes the body of an agent's answer on to the API server.
//!
//! A body that breaks ends with an error, so that the reader sees that its log is not complete. A
//! reader that takes nothing for [`STALLED`] is given up: its unread frames count against the
//! connection of all readers of the cluster (`runtime::tunnel`). Not here: the window of each stream.

use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::{StreamExt, stream::unfold};
use tokio::{sync::mpsc, time::timeout};
use tower::BoxError;

/// Time for which a reader may take nothing while there is something to read.
const STALLED: Duration = Duration::from_mins(5);

/// Number of parts between the two sides.
const PARTS: usize = 4;

/// The body, with the same bytes. `kept` is dropped at its end.
pub(super) fn relayed(body: Body, kept: impl Send + 'static) -> Body {
    relayed_for(body, kept, STALLED)
}

fn relayed_for(body: Body, kept: impl Send + 'static, stalled: Duration) -> Body {
    let (sender, parts) = mpsc::channel(PARTS);
    tokio::spawn(async move {
        pump(body, sender, stalled).await;
        drop(kept);
    });
    Body::from_stream(unfold((parts, false), |(mut parts, has_ended)| async move {
        if has_ended {
            return None;
        }
        match parts.recv().await {
            Some(Part::Bytes(bytes)) => Some((Ok(bytes), (parts, false))),
            Some(Part::End) => None,
            Some(Part::Broken(error)) => Some((Err(error), (parts, true))),
            None => Some((Err("the reader was too slow".into()), (parts, true))),
        }
    }))
}

enum Part {
    Bytes(Bytes),
    Broken(BoxError),
    End,
}

async fn pump(body: Body, parts: mpsc::Sender<Part>, stalled: Duration) {
    let mut body = body.into_data_stream();
    loop {
        let part = tokio::select! {
            part = body.next() => part,
            // The reader has gone.
            () = parts.closed() => return,
        };
        let (part, is_last) = match part {
            Some(Ok(bytes)) => (Part::Bytes(bytes), false),
            Some(Err(error)) => (Part::Broken(error.into()), true),
            None => (Part::End, true),
        };
        if !matches!(timeout(stalled, parts.send(part)).await, Ok(Ok(()))) || is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use futures::stream;
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn a_body_ends_as_it_ended_before() {
        let parts = || vec![Ok(Bytes::from_static(b"one ")), Ok(Bytes::from_static(b"two"))];
        let whole = relayed(Body::from_stream(stream::iter(parts() as Vec<io::Result<_>>)), ());
        let read = axum::body::to_bytes(whole, 100).await.unwrap();
        assert_eq!(read, "one two");
        let mut cut = parts();
        cut.push(Err(io::Error::other("cut")));
        let mut cut = relayed(Body::from_stream(stream::iter(cut)), ()).into_data_stream();
        assert_eq!(cut.next().await.unwrap().unwrap(), "one ");
        assert_eq!(cut.next().await.unwrap().unwrap(), "two");
        assert!(cut.next().await.unwrap().is_err());
        assert!(cut.next().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_takes_nothing_is_given_up_and_one_that_has_nothing_to_take_is_not() {
        let stalled = Duration::from_millis(50);
        let (slow_kept, quiet_kept) = (Arc::new(()), Arc::new(()));
        let endless = stream::repeat_with(|| Ok::<_, io::Error>(Bytes::from_static(b"line\n")));
        let slow = relayed_for(Body::from_stream(endless), slow_kept.clone(), stalled);
        let nothing = stream::pending::<io::Result<Bytes>>();
        let quiet = relayed_for(Body::from_stream(nothing), quiet_kept.clone(), stalled);
        dropped(&slow_kept).await;
        let mut slow = slow.into_data_stream();
        let mut last = Ok(Bytes::new());
        while let Some(part) = slow.next().await {
            last = part;
        }
        assert!(last.is_err(), "it has ended as if it were complete");
        assert_eq!(Arc::strong_count(&quiet_kept), 2, "a quiet log was given up");
        drop(quiet);
        dropped(&quiet_kept).await;
    }

    /// Waits until the body has dropped the value.
    async fn dropped(kept: &Arc<()>) {
        while Arc::strong_count(kept) > 1 {
            yield_now().await;
        }
    }
}
