//! The write gate: a layer around the clients of a process that lets no write start while the process
//! does not lead.
//!
//! The last renewal of the Lease sets the time until which writes may start, on a clock that goes
//! on while the process is stopped. After that time, a write waits for the next renewal, and is refused
//! when the process has given up its leadership. A creation behind a fence does not wait, because its
//! fence would be over. A write is canceled, with its connection, when another
//! process may soon lead. Both times are checked each time the write is polled, not only by a timer: a
//! process that was stopped and goes on notices before its timers fire. Events pass, and so do POST
//! requests that only ask something. Not here: the election (`runtime/leader`), the handling of
//! a refusal (like any unanswered request), and the time limit of a request that waits.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
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

/// Marks a write, in the extensions of its request, that must start at once or not at all.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce;

/// Allows writes while the process leads. Clones share it.
#[derive(Clone, Debug)]
pub struct Gate {
    /// `None` if the gate is always open.
    shared: Option<Arc<Shared>>,
}

/// A client's service behind a gate.
#[derive(Clone, Debug)]
pub struct Gated<S> {
    gate: Gate,
    /// Shared with the writes that wait. Its requests do not depend on each other: it is always ready, or
    /// becomes so for all at once.
    inner: Arc<Mutex<S>>,
}

#[derive(Debug)]
struct Shared {
    state: watch::Sender<State>,
    under_way: watch::Sender<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Time until which writes may start; `None` before the process leads and after it has given up.
    begin_until: Option<Instant>,
    /// Time until which their responses are waited for.
    requeue_at: Option<Instant>,
    /// Time at which a write with an unknown outcome was last canceled.
    given_up: Option<Instant>,
}

impl Gate {
    /// Creates a gate that is always open, for a process without an election.
    pub fn open() -> Self {
        Self { shared: None }
    }

    /// Creates a gate that is closed until a renewal of the Lease extends it.
    pub fn closed() -> Self {
        let shared = Shared {
            state: watch::Sender::default(),
            under_way: watch::Sender::new(0),
        };
        Self {
            shared: Some(Arc::new(shared)),
        }
    }

    /// Lets writes start until the first time, and waits for their responses until the second.
    pub(super) fn extend(&self, begin_until: Instant, requeue_at: Instant) {
        if let Some(shared) = &self.shared {
            shared.state.send_modify(|state| {
                state.begin_until = Some(begin_until);
                state.requeue_at = Some(requeue_at);
            });
        }
    }

    /// Refuses all later writes, and those that wait.
    pub(super) fn close(&self) {
        if let Some(shared) = &self.shared {
            shared.state.send_modify(|state| state.begin_until = None);
        }
    }

    /// Waits until no write is running, and until canceled writes have had the time to arrive.
    pub(super) async fn settle(&self, arrives_within: Duration) {
        let Some(shared) = &self.shared else { return };
        // `shared` owns the sender, so the channel is open.
        let _ = shared.under_way.subscribe().wait_for(|count| *count == 0).await;
        let given_up = shared.state.borrow().given_up;
        if let Some(given_up) = given_up {
            sleep_until(given_up + arrives_within).await;
        }
    }
}

impl Shared {
    /// Waits until a write may start, if it may wait.
    async fn begin(self: &Arc<Self>, may_wait: bool) -> Result<InFlight, NotLeading> {
        let mut changes = self.state.subscribe();
        loop {
            // The counter is incremented first: if the gate is closed afterwards and the counter is 0,
            // no write is running.
            self.under_way.send_modify(|count| *count += 1);
            let write = InFlight {
                shared: self.clone(),
                is_over: false,
            };
            let begin_until = changes.borrow_and_update().begin_until;
            if begin_until.is_some_and(|end| Instant::now() < end) {
                return Ok(write);
            }
            write.over();
            // `self` owns the sender, so the channel is open.
            if !may_wait || begin_until.is_none() || changes.changed().await.is_err() {
                return Err(NotLeading);
            }
        }
    }

    /// Waits for the time after which responses are no longer waited for. Each renewal extends it.
    async fn is_lost(&self) {
        loop {
            let end = self.state.borrow().requeue_at;
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
            // Nobody waits for it, so nobody is woken.
            self.shared.state.send_if_modified(|state| {
                state.given_up = Some(Instant::now());
                false
            });
        }
        self.shared.under_way.send_modify(|count| *count -= 1);
    }
}

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated {
            gate: self.clone(),
            inner: Arc::new(Mutex::new(inner)),
        }
    }
}

impl<S, B> Service<Request<B>> for Gated<S>
where
    S: Service<Request<B>> + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        lock(&self.inner).poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let shared = self.gate.shared.clone();
        let shared = shared.filter(|_| is_write(request.method(), request.uri()));
        let Some(shared) = shared else {
            let answer = lock(&self.inner).call(request);
            return Box::pin(async move { answer.await.map_err(Into::into) });
        };
        let inner = self.inner.clone();
        let may_wait = request.extensions().get::<AtOnce>().is_none();
        Box::pin(async move {
            let write = shared.begin(may_wait).await?;
            tokio::select! {
                biased;
                () = shared.is_lost() => Err(NotLeading.into()),
                answer = send(&inner, request) => {
                    if answer.is_ok() {
                        write.over();
                    }
                    answer
                }
            }
        })
    }
}

/// Sends a request through a service that others use, too, and which need not be ready any more.
async fn send<S, B>(inner: &Mutex<S>, request: Request<B>) -> Result<S::Response, BoxError>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
{
    let mut request = Some(request);
    let sent = poll_fn(|context| {
        let mut inner = lock(inner);
        ready!(inner.poll_ready(context))?;
        Poll::Ready(Ok(request.take().map(|request| inner.call(request))))
    });
    let answer = sent.await.map_err(|error: S::Error| error.into())?;
    answer.ok_or(NotLeading)?.await.map_err(Into::into)
}

fn lock<S>(inner: &Mutex<S>) -> MutexGuard<'_, S> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
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
