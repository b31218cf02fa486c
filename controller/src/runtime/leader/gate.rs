//! The write gate: a layer around the clients of a process that refuses writes while the process
//! does not lead.
//!
//! The last renewal of the Lease sets the time until which writes may start, on a clock that goes
//! on while the process is stopped. A write is canceled, with its connection, when another process
//! may soon lead. Both times are checked each time the write is polled, not only by a timer: a
//! process that was stopped and goes on notices before its timers fire. Events pass, and so do POST
//! requests that only ask something. Not here: the election (`runtime/leader`), and the handling of
//! a refusal (like any unanswered request).

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::http::{Method, Request, Uri};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tower::{BoxError, Layer, Service};

/// A write was refused or canceled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process does not lead, so it may not write")]
pub struct NotLeading;

/// Allows writes while the process leads. Clones share it.
#[derive(Clone, Debug)]
pub struct Gate<S = ()> {
    /// `None` if the gate is always open.
    shared: Option<Arc<Shared>>,
    inner: S,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    under_way: watch::Sender<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Time until which writes may start; `None` while the process does not lead.
    begin_until: Option<Instant>,
    /// Time until which their responses are waited for.
    requeue_at: Option<Instant>,
    /// Time at which a write with an unknown outcome was last canceled.
    given_up: Option<Instant>,
}

impl Gate {
    /// Creates a gate that is always open, for a process without an election.
    pub fn open() -> Self {
        Self {
            shared: None,
            inner: (),
        }
    }

    /// Creates a gate that is closed until a renewal of the Lease extends it.
    pub fn closed() -> Self {
        let shared = Shared {
            state: Mutex::default(),
            under_way: watch::Sender::new(0),
        };
        Self {
            shared: Some(Arc::new(shared)),
            inner: (),
        }
    }

    /// Lets writes start until the first time, and waits for their responses until the second.
    pub(super) fn extend(&self, begin_until: Instant, requeue_at: Instant) {
        if let Some(shared) = &self.shared {
            let mut state = shared.lock();
            state.begin_until = Some(begin_until);
            state.requeue_at = Some(requeue_at);
        }
    }

    /// Refuses all later writes.
    pub(super) fn close(&self) {
        if let Some(shared) = &self.shared {
            shared.lock().begin_until = None;
        }
    }

    /// Waits until no write is running, and until canceled writes have had the time to arrive.
    pub(super) async fn settle(&self, arrives_within: Duration) {
        let Some(shared) = &self.shared else { return };
        // `shared` owns the sender, so the channel is open.
        let _ = shared.under_way.subscribe().wait_for(|count| *count == 0).await;
        let given_up = shared.lock().given_up;
        if let Some(given_up) = given_up {
            sleep_until(given_up + arrives_within).await;
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(self: &Arc<Self>) -> Result<InFlight, NotLeading> {
        // The counter is incremented first: if the gate is closed afterwards and the counter is 0,
        // no write is running.
        self.under_way.send_modify(|count| *count += 1);
        let write = InFlight {
            shared: self.clone(),
            is_over: false,
        };
        let is_open = self.lock().begin_until.is_some_and(|end| Instant::now() < end);
        if is_open {
            Ok(write)
        } else {
            write.over();
            Err(NotLeading)
        }
    }

    /// Waits for the time after which responses are no longer waited for. Each renewal extends it.
    async fn is_lost(&self) {
        loop {
            let end = self.lock().requeue_at;
            let Some(end) = end.filter(|end| Instant::now() < *end) else {
                return;
            };
            let mut timer = pin!(sleep_until(end));
            poll_fn(|context| {
                if Instant::now() >= end {
                    return Poll::Ready(());
                }
                timer.as_mut().poll(context)
            })
            .await;
        }
    }
}

/// A write without a response so far.
struct InFlight {
    shared: Arc<Shared>,
    is_over: bool,
}

impl InFlight {
    /// Marks the write as answered, or as never started.
    fn over(mut self) {
        self.is_over = true;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.lock().given_up = Some(Instant::now());
        }
        self.shared.under_way.send_modify(|count| *count -= 1);
    }
}

impl<S> Layer<S> for Gate {
    type Service = Gate<S>;

    fn layer(&self, inner: S) -> Gate<S> {
        Gate {
            shared: self.shared.clone(),
            inner,
        }
    }
}

impl<S, B> Service<Request<B>> for Gate<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let shared = self
            .shared
            .clone()
            .filter(|_| is_write(request.method(), request.uri()));
        let Some(shared) = shared else {
            let answer = self.inner.call(request);
            return Box::pin(async move { answer.await.map_err(Into::into) });
        };
        let write = match shared.begin() {
            Ok(write) => write,
            Err(refusal) => return Box::pin(async move { Err(refusal.into()) }),
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            tokio::select! {
                biased;
                () = shared.is_lost() => Err(NotLeading.into()),
                answer = answer => {
                    if answer.is_ok() {
                        write.over();
                    }
                    answer.map_err(Into::into)
                }
            }
        })
    }
}

/// Returns true if a request changes anything that matters. An Event only informs, and an access
/// review changes nothing.
fn is_write(method: &Method, uri: &Uri) -> bool {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return false;
    }
    let segments: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    // Returns the segment `distance` places after `word`. A proxy may put segments in front of the
    // path.
    let after = |word: &str, distance: usize| {
        let place = segments.iter().position(|part| *part == word)?;
        segments.get(place + distance).copied()
    };
    let is_event = after("namespaces", 2) == Some("events");
    let is_question = matches!(
        after("apis", 1),
        Some("authorization.k8s.io" | "authentication.k8s.io")
    );
    !is_event && !is_question
}

#[cfg(test)]
mod tests;
