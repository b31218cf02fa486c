//! Watches: the only place that sees the watch protocol. An index sees changes, and a re-list as one reset.

use std::{fmt::Debug, time::Duration};

use argosy_core::Change;
use backon::ExponentialBuilder;
use futures::{StreamExt, pin_mut};
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt,
        utils::ResetTimerBackoff,
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::outcome::with_sources;

/// Seconds after which a watch is renewed; a dead link is noticed within five more.
const WATCH_SECONDS: u32 = 30;

/// The watch of everything that `labels` select.
pub fn selecting(labels: &str) -> watcher::Config {
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    if labels.is_empty() {
        config
    } else {
        config.labels(labels)
    }
}

/// Whether a watch failed because the API server does not know the kind.
pub fn is_unknown_kind(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(cause) | watcher::Error::WatchStartFailed(cause)) = error else {
        return false;
    };
    matches!(cause, kube::Error::Api(status) if status.code == 404)
}

/// Follows `api` for ever and sends what `input` makes of each change. `on_error` may turn an error into an input.
/// Ends when nobody receives any more.
pub async fn follow<K, I>(
    api: Api<K>,
    config: watcher::Config,
    inputs: mpsc::Sender<I>,
    input: impl Fn(Change<K>) -> I,
    on_error: impl Fn(&watcher::Error) -> Option<I>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    K::DynamicType: Default,
{
    let kind = K::kind(&K::DynamicType::default()).into_owned();
    let events = watcher(api, config).backoff(reconnect_policy());
    pin_mut!(events);
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        let next = match event {
            Ok(Event::Init) => {
                listed.clear();
                None
            }
            Ok(Event::InitApply(object)) => {
                listed.push(object);
                None
            }
            Ok(Event::InitDone) => Some(input(Change::Reset(std::mem::take(&mut listed)))),
            Ok(Event::Apply(object)) => Some(input(Change::Apply(Box::new(object)))),
            Ok(Event::Delete(object)) => Some(input(Change::Delete(Box::new(object)))),
            Err(error) => {
                tracing::warn!(kind, error = explain(&error), "watch failed, trying again");
                on_error(&error)
            }
        };
        if let Some(next) = next
            && inputs.send(next).await.is_err()
        {
            return;
        }
    }
}

/// Goes back to the first delay only after a minute of quiet: the watcher's own `Init`, which comes before a list that
/// then fails, is no success.
fn reconnect_policy() -> ResetTimerBackoff<watcher::ExponentialBackoff> {
    let delays = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(200))
        .with_max_delay(Duration::from_secs(10))
        .with_jitter()
        .without_max_times();
    ResetTimerBackoff::new(delays.into(), Duration::from_mins(1))
}

/// The error in one line. Of an API server's answer only what it says; kube shows every field of it.
fn explain(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => format!("{} {}", status.code, status.message),
        other => with_sources(other),
    }
}
