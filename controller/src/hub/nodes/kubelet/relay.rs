//! Passes the body of an agent's answer on to the API server.
//!
//! A body that breaks off ends with a line that says so, and not with an error: an API server does not
//! pass on that the connection to a kubelet has broken, and an error would have the line dropped with
//! the connection. A reader that takes nothing for [`STALLED`] is given up: its unread frames count
//! against the connection of all readers of the cluster (`runtime::tunnel`). Not here: the window of
//! each stream.

use std::{convert::Infallible, time::Duration};

use argosy_core::ClusterName;
use axum::body::{Body, Bytes};
use futures::{StreamExt, stream::unfold};
use tokio::{sync::mpsc, time::timeout};

use crate::runtime::tunnel::{CUT, CUT_WITHIN_LINE};

/// Time for which a reader may take nothing while there is something to read.
const STALLED: Duration = Duration::from_mins(5);

/// Number of parts between the two sides.
const PARTS: usize = 4;

/// The body, with the same bytes. `kept` is dropped at its end.
pub(super) fn relayed(body: Body, cluster: &ClusterName, kept: impl Send + 'static) -> Body {
    relayed_for(body, cluster, kept, STALLED)
}

fn relayed_for(body: Body, cluster: &ClusterName, kept: impl Send + 'static, stalled: Duration) -> Body {
    let (sender, parts) = mpsc::channel(PARTS);
    let relay = Relay {
        parts,
        cluster: cluster.clone(),
        is_within_line: false,
        has_ended: false,
    };
    tokio::spawn(async move {
        pump(body, sender, stalled).await;
        drop(kept);
    });
    Body::from_stream(unfold(relay, Relay::next))
}

struct Relay {
    parts: mpsc::Receiver<Part>,
    cluster: ClusterName,
    is_within_line: bool,
    has_ended: bool,
}

impl Relay {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if self.has_ended {
            return None;
        }
        let part = self.parts.recv().await;
        self.has_ended = !matches!(part, Some(Part::Bytes(_)));
        let next = match part {
            Some(Part::Bytes(bytes)) => {
                self.is_within_line = bytes.last().is_some_and(|byte| *byte != b'\n');
                bytes
            }
            Some(Part::End) => return None,
            Some(Part::Broken) => self.note(&format!(
                "because the connection to cluster {} has broken",
                self.cluster
            )),
            None => self.note("because its reader was too slow"),
        };
        Some((Ok(next), self))
    }

    /// The line that says that the log is cut off, and the end of the line before it.
    fn note(&self, why: &str) -> Bytes {
        let (end, cut) = if self.is_within_line {
            ("\n", CUT_WITHIN_LINE)
        } else {
            ("", CUT)
        };
        Bytes::from(format!("{end}{cut}, {why}; read it again\n"))
    }
}

enum Part {
    Bytes(Bytes),
    Broken,
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
            Some(Err(error)) => {
                tracing::debug!(%error, "a log has broken off");
                (Part::Broken, true)
            }
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

    use axum::body::to_bytes;
    use futures::stream;
    use tokio::task::yield_now;

    use super::*;

    /// The text of a body that does not fail.
    async fn text(body: Body) -> String {
        let bytes = to_bytes(body, 1 << 20).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_says_so_in_a_line_of_its_own() {
        const WHY: &str = "because the connection to cluster cluster1 has broken; read it again\n";
        for (parts, is_cut, expected) in [
            (&["one ", "two"][..], false, "one two".to_owned()),
            (&["one\n", "two\n"], true, format!("one\ntwo\n{CUT}, {WHY}")),
            (&[], true, format!("{CUT}, {WHY}")),
            (
                &["one\n", "tw"],
                true,
                format!("one\ntw\n{CUT_WITHIN_LINE}, {WHY}"),
            ),
        ] {
            let mut body: Vec<io::Result<Bytes>> = parts
                .iter()
                .map(|part| Ok(Bytes::from_static(part.as_bytes())))
                .collect();
            body.extend(is_cut.then(|| Err(io::Error::other("cut"))));
            let body = Body::from_stream(stream::iter(body));
            assert_eq!(text(relayed(body, &"cluster1".into(), ())).await, expected);
        }
    }

    #[tokio::test]
    async fn a_reader_that_takes_nothing_is_given_up_and_one_that_has_nothing_to_take_is_not() {
        let (stalled, cluster) = (Duration::from_millis(50), "cluster1".into());
        let (slow_kept, quiet_kept) = (Arc::new(()), Arc::new(()));
        let endless = stream::repeat_with(|| Ok::<_, io::Error>(Bytes::from_static(b"line\npart")));
        let endless = Body::from_stream(endless);
        let slow = relayed_for(endless, &cluster, slow_kept.clone(), stalled);
        let nothing = Body::from_stream(stream::pending::<io::Result<Bytes>>());
        let quiet = relayed_for(nothing, &cluster, quiet_kept.clone(), stalled);
        dropped(&slow_kept).await;
        let text = text(slow).await;
        let end = format!("line\npart\n{CUT_WITHIN_LINE}, because its reader was too slow; read it again\n");
        assert!(text.ends_with(&end), "{text}");
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
