//! The write gate: a layer around the clients of a process that refuses what would change anything while the process does not lead.
//!
//! Each write is let through only while writes may begin, as the last renewal of the Lease says, on a clock that goes on while the process is
//! stopped; and it is given up, with its connection, when another process may soon lead. Both are looked at whenever the
//! write goes on, and not only when a timer says so: a process that was stopped finds out before its timers do. Events pass, and what is
//! only asked with POST. Not here: who leads (`leader`), and how a refusal is dealt with (as any request that was not answered).

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

/// Why a write was not let through, or not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process does not lead, so it writes nothing")]
pub struct NotLeading;

/// Lets writes through while the process leads. Clones share it.
#[derive(Clone, Debug)]
pub struct Gate<S = ()> {
    /// `None`: always open.
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
    /// Until when writes may begin; `None` while the process does not lead.
    begin_until: Option<Instant>,
    /// Until when they are waited for.
    wait_until: Option<Instant>,
    /// When a write was last given up whose outcome is not known.
    given_up: Option<Instant>,
}

impl Gate {
    /// Always open: for a process that is alone.
    pub fn open() -> Self {
        Self {
            shared: None,
            inner: (),
        }
    }

    /// Closed until it is extended by a renewal of the Lease.
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

    /// Writes may begin until the first, and are waited for until the second.
    pub(super) fn extend(&self, begin_until: Instant, wait_until: Instant) {
        if let Some(shared) = &self.shared {
            let mut state = shared.lock();
            state.begin_until = Some(begin_until);
            state.wait_until = Some(wait_until);
        }
    }

    /// No write begins from now on.
    pub(super) fn close(&self) {
        if let Some(shared) = &self.shared {
            shared.lock().begin_until = None;
        }
    }

    /// Until no write is under way, and what was given up is so long ago that it has arrived.
    pub(super) async fn settle(&self, arrives_within: Duration) {
        let Some(shared) = &self.shared else { return };
        // The sender is in `shared`, so there is one.
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

    fn begin(self: &Arc<Self>) -> Result<UnderWay, NotLeading> {
        // Counted first: whoever closes the gate and then sees none under way has seen them all.
        self.under_way.send_modify(|count| *count += 1);
        let write = UnderWay {
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

    /// Until answers are not waited for any more, which each renewal puts off.
    async fn is_lost(&self) {
        loop {
            let end = self.lock().wait_until;
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

/// A write that nobody has answered yet.
struct UnderWay {
    shared: Arc<Shared>,
    is_over: bool,
}

impl UnderWay {
    /// It was answered, or never begun.
    fn over(mut self) {
        self.is_over = true;
    }
}

impl Drop for UnderWay {
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

/// Whether a request changes anything that matters. An Event is only told, and who asks what somebody may do changes nothing.
fn is_write(method: &Method, uri: &Uri) -> bool {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return false;
    }
    let segments: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    // What follows a word at some distance: a proxy in front of an API server may put something before it.
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
