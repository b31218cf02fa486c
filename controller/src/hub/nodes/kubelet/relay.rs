//! Passes the body of an agent's answer on to the API server.
//!
//! A body that breaks off ends with a line that says so, because an API server does not pass on that
//! the connection to a kubelet has broken. Within a line it ends with an error. A
//! reader that takes nothing for [`STALLED`] is given up: its unread frames count against the
//! connection of all readers of the cluster (`runtime::tunnel`). Not here: the window of each stream.

use std::time::Duration;

use argosy_core::ClusterName;
use axum::body::{Body, Bytes};
use futures::{StreamExt, stream::unfold};
use tokio::{sync::mpsc, time::timeout};
use tower::BoxError;

use crate::runtime::tunnel::CUT;

/// Time for which a reader may take nothing while there is something to read.
const STALLED: Duration = Duration::from_mins(5);

/// Number of parts between the two sides.
const PARTS: usize = 4;

/// The body, with the same bytes. `kept` is dropped at its end.
pub(super) fn relayed(body: Body, cluster: &ClusterName, kept: impl Send + 'static) -> Body {
    let cut = format!("{CUT}, because the connection to cluster {cluster} has broken; read it again\n");
    relayed_for(body, cut, kept, STALLED)
}

fn relayed_for(body: Body, cut: String, kept: impl Send + 'static, stalled: Duration) -> Body {
    let (sender, parts) = mpsc::channel(PARTS);
    tokio::spawn(async move {
        pump(body, sender, stalled).await;
        drop(kept);
    });
    let relay = Relay {
        parts,
        cut: Bytes::from(cut),
        is_within_line: false,
        has_ended: false,
    };
    Body::from_stream(unfold(relay, Relay::next))
}

struct Relay {
    parts: mpsc::Receiver<Part>,
    /// The line that says that the log is cut off.
    cut: Bytes,
    is_within_line: bool,
    has_ended: bool,
}

impl Relay {
    async fn next(mut self) -> Option<(Result<Bytes, BoxError>, Self)> {
        if self.has_ended {
            return None;
        }
        let part = self.parts.recv().await;
        self.has_ended = !matches!(part, Some(Part::Bytes(_)));
        let next = match part {
            Some(Part::Bytes(bytes)) => {
                self.is_within_line = bytes.last().is_some_and(|byte| *byte != b'\n');
                Ok(bytes)
            }
            Some(Part::End) => return None,
            // An error after it would have the line dropped with the connection.
            Some(Part::Broken(_)) if !self.is_within_line => Ok(self.cut.clone()),
            Some(Part::Broken(error)) => Err(error),
            None => Err("the reader was too slow".into()),
        };
        Some((next, self))
    }
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
        for (parts, is_cut, expected) in [
            (&["one ", "two"][..], false, "one two|"),
            (&["one\n", "two\n"], true, "one\ntwo\n[cut]|"),
            (&[], true, "[cut]|"),
            // A line of ours would become a part of the line that broke off.
            (&["one\n", "tw"], true, "one\ntw|error"),
        ] {
            let mut body: Vec<io::Result<Bytes>> = parts
                .iter()
                .map(|part| Ok(Bytes::from_static(part.as_bytes())))
                .collect();
            body.extend(is_cut.then(|| Err(io::Error::other("cut"))));
            let body = Body::from_stream(stream::iter(body));
            let mut relayed = relayed(body, &"cluster1".into(), ()).into_data_stream();
            let mut text = String::new();
            let mut end = "";
            while let Some(part) = relayed.next().await {
                match part {
                    Ok(bytes) if bytes.starts_with(CUT.as_bytes()) => text.push_str("[cut]"),
                    Ok(bytes) => text.push_str(std::str::from_utf8(&bytes).unwrap()),
                    Err(_) => end = "error",
                }
            }
            assert_eq!(format!("{text}|{end}"), expected);
        }
    }

    #[tokio::test]
    async fn a_reader_that_takes_nothing_is_given_up_and_one_that_has_nothing_to_take_is_not() {
        let stalled = Duration::from_millis(50);
        let (slow_kept, quiet_kept) = (Arc::new(()), Arc::new(()));
        let endless = stream::repeat_with(|| Ok::<_, io::Error>(Bytes::from_static(b"line\n")));
        let slow = relayed_for(
            Body::from_stream(endless),
            String::new(),
            slow_kept.clone(),
            stalled,
        );
        let nothing = stream::pending::<io::Result<Bytes>>();
        let quiet = relayed_for(
            Body::from_stream(nothing),
            String::new(),
            quiet_kept.clone(),
            stalled,
        );
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
