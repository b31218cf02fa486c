//! Reads the log of one pod, again and again while its step runs, and a last time after that.

use std::{io, time::Duration};

use futures::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::LogParams};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use super::{Content, Part, Pause, is_of_executor};
use crate::{
    cli::logs::lines::after,
    runtime::{
        requests::REQUEST_TIMEOUT,
        tunnel::{CUT, CUT_WITHIN_LINE},
    },
};

/// Maximum length of a part in bytes. A longer line is printed in several parts.
const LONGEST: u64 = 64 << 10;

/// Pause before a log that has ended is read again, which doubles up to [`LONGEST_PAUSE`].
const AGAIN: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Number of attempts to read a log the last time. A tunnel that was cut is open again before the
/// last.
const LAST_ATTEMPTS: u32 = 5;

/// Reads the log of one pod.
pub(super) struct Reader {
    pub(super) pods: Api<Pod>,
    pub(super) pod: String,
    pub(super) node: String,
    pub(super) number: u64,
    pub(super) container: String,
    pub(super) parts: mpsc::Sender<Part>,
}

/// The end of one reading.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// At the end of the log, or the connection has broken behind the API server, which does not tell.
    Whole,
    /// The pod exists no longer, here or on its cluster.
    Gone,
    /// Before the end of the log.
    Cut,
}

impl Reader {
    /// Reads the log until it is aborted.
    pub(super) async fn follow(self, mut printed: u64) {
        let mut pause = AGAIN;
        loop {
            let before = printed;
            let ended = self.read(true, &mut printed).await;
            if printed > before {
                pause = AGAIN;
            }
            let is_complete = ended == Ended::Whole;
            self.pause(printed, is_complete, false).await;
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Reads the log of a container that has ended, see [`super::Live::finish`].
    pub(super) async fn finish(self, mut printed: u64, was_complete: bool) {
        let mut pause = AGAIN;
        let mut is_complete = false;
        for attempt in 1..=LAST_ATTEMPTS {
            match self.read(false, &mut printed).await {
                Ended::Whole => is_complete = true,
                Ended::Gone => is_complete = was_complete,
                Ended::Cut if attempt < LAST_ATTEMPTS => {
                    sleep(pause).await;
                    pause *= 2;
                    continue;
                }
                Ended::Cut => {}
            }
            break;
        }
        self.pause(printed, is_complete, true).await;
    }

    async fn read(&self, follow: bool, printed: &mut u64) -> Ended {
        let params = LogParams {
            container: Some(self.container.clone()),
            follow,
            ..LogParams::default()
        };
        let silence = if follow { Duration::MAX } else { REQUEST_TIMEOUT };
        match timeout(REQUEST_TIMEOUT, self.pods.log_stream(&self.pod, &params)).await {
            Ok(Ok(log)) => self.copy(log, printed, silence).await.unwrap_or(Ended::Cut),
            Ok(Err(kube::Error::Api(status))) if [400, 404].contains(&status.code) => Ended::Gone,
            _ => Ended::Cut,
        }
    }

    /// Sends the bytes of the step after the first `printed`, line by line, and counts them. Gives up
    /// if no line comes for the time `silence`.
    async fn copy(
        &self,
        log: impl AsyncBufRead + Send,
        printed: &mut u64,
        silence: Duration,
    ) -> io::Result<Ended> {
        let mut log = Box::pin(log);
        let mut skipped = *printed;
        let (mut is_counted, mut ended) = (false, Ended::Whole);
        loop {
            let mut line = Vec::new();
            let mut rest = log.as_mut().take(LONGEST);
            let read = timeout(silence, rest.read_until(b'\n', &mut line)).await??;
            if read == 0 {
                return Ok(ended);
            }
            ended = Ended::Whole;
            if line.starts_with(CUT.as_bytes()) {
                ended = Ended::Cut;
                if is_counted && line.starts_with(CUT_WITHIN_LINE.as_bytes()) {
                    // The line break before it is not one of the log.
                    *printed = printed.saturating_sub(1);
                }
            }
            if is_of_executor(&self.container, &line) {
                continue;
            }
            let line = after(&line, &mut skipped).to_vec();
            *printed = printed.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
            is_counted = !line.is_empty();
            if is_counted {
                self.send(Content::Bytes(line)).await;
            }
        }
    }

    async fn pause(&self, printed: u64, is_complete: bool, is_last: bool) {
        let pause = Pause {
            printed,
            is_complete,
            is_last,
        };
        self.send(Content::Pause(pause)).await;
    }

    async fn send(&self, content: Content) {
        let part = Part {
            node: self.node.clone(),
            reader: self.number,
            content,
        };
        // The receiver is gone only when the command ends.
        let _ = self.parts.send(part).await;
    }
}
