//! Watches: the only place that sees the watch protocol. An index sees changes, and a re-list as one reset. Nothing is followed that
//! somebody could make unreadable (`Unfailing`): one object would end, or hold back, the watch of all.

mod seen;

use std::{
    collections::{HashMap, HashSet},
    fmt::Debug,
    time::Duration,
};

use argosy_core::Change;
use backon::ExponentialBuilder;
use futures::{StreamExt, pin_mut};
use kube::{
    Api, Resource,
    core::{ObjectMeta, Status},
    runtime::{
        WatchStreamExt,
        utils::ResetTimerBackoff,
        watcher::{self, Event, watcher},
    },
};
use tokio::sync::mpsc;

use crate::{
    metrics::WatchCount,
    outcome::with_sources,
    tolerant::{Readable, Tolerant, Unfailing},
};

pub use seen::Seen;

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
    answer(error).is_some_and(|status| status.code == 404)
}

/// What the API server answered to the list or the start of a watch, if it did.
pub fn answer(error: &watcher::Error) -> Option<&Status> {
    let (watcher::Error::InitialListFailed(cause) | watcher::Error::WatchStartFailed(cause)) = error else {
        return None;
    };
    match cause {
        kube::Error::Api(status) => Some(status),
        _ => None,
    }
}

/// What an API server said that refused a list or a watch (403).
pub fn refusal(error: &watcher::Error) -> Option<String> {
    let status = answer(error).filter(|status| status.code == 403)?;
    Some(status.message.clone())
}

/// Follows `api` for ever and sends what `input` makes of each change. `on_error` may turn an error into an input.
/// Ends when nobody receives any more, and when the API server lists an older version of an object than it has told of before.
pub async fn follow<K, I>(
    api: Api<Tolerant<K>>,
    config: watcher::Config,
    inputs: mpsc::Sender<I>,
    input: impl Fn(Change<K>) -> I,
    on_error: impl Fn(&watcher::Error) -> Option<I>,
) where
    K: Readable + Clone + Debug + Send + 'static,
    K::DynamicType: Default,
{
    let kind = K::kind(&K::DynamicType::default()).into_owned();
    follow_kind(kind, api, config, inputs, Tolerant::into_object, input, on_error).await;
}

/// As [`follow`], and `see` takes of each object what is needed as soon as its page is listed. Of long lists of large objects even a page
/// takes far more memory than what is kept of it: see [`Seen`].
pub async fn follow_seen<T, V, I>(
    api: Api<T>,
    config: watcher::Config,
    inputs: mpsc::Sender<I>,
    see: impl Fn(T) -> V,
    input: impl Fn(Change<V>) -> I,
) where
    T: Unfailing + Clone + Debug + Send + 'static,
    T::DynamicType: Default,
{
    let kind = T::kind(&T::DynamicType::default()).into_owned();
    follow_kind(kind, api, config, inputs, see, input, |_| None).await;
}

/// As [`follow_seen`], where the kind is known only while it runs. It is a label of metrics, so it must not name an object.
pub async fn follow_kind<T, V, I>(
    kind: String,
    api: Api<T>,
    config: watcher::Config,
    inputs: mpsc::Sender<I>,
    see: impl Fn(T) -> V,
    input: impl Fn(Change<V>) -> I,
    on_error: impl Fn(&watcher::Error) -> Option<I>,
) where
    T: Unfailing + Clone + Debug + Send + 'static,
{
    let count = WatchCount::of(&kind);
    let events = watcher(api, config).backoff(reconnect_policy());
    pin_mut!(events);
    let (mut listed, mut uids) = (Vec::new(), HashSet::new());
    let mut versions = Versions::default();
    while let Some(event) = events.next().await {
        if let Ok(event) = &event
            && versions.go_back(event)
        {
            tracing::error!(
                kind,
                "the API server was put back to an earlier state; beginning anew"
            );
            return;
        }
        let next = match event {
            Ok(Event::Init) => {
                count.listed();
                listed.clear();
                uids.clear();
                None
            }
            Ok(Event::InitApply(object)) => {
                uids.extend(uid_of(object.meta()));
                listed.push(see(object));
                None
            }
            Ok(Event::InitDone) => {
                versions.keep(&std::mem::take(&mut uids));
                Some(input(Change::Reset(std::mem::take(&mut listed))))
            }
            Ok(Event::Apply(object)) => Some(input(Change::Apply(Box::new(see(object))))),
            Ok(Event::Delete(object)) => Some(input(Change::Delete(Box::new(see(object))))),
            Err(error) => {
                count.failed();
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

/// The versions that a watch has told of, by UID. What an index knows may be newer than a list, as answers to writes overtake
/// it; what a watch has told is not, unless the API server was put back to a backup whose numbers go on elsewhere, as
/// `etcdutl snapshot restore --bump-revision` makes them.
#[derive(Debug, Default)]
struct Versions(HashMap<Uid, u64>);

/// The number that a UID is (RFC 9562), as thousands of them are kept.
type Uid = [u8; 16];

/// The UID of an object, which an API server makes; nothing, if it is none.
fn uid_of(metadata: &ObjectMeta) -> Option<Uid> {
    let digits: String = metadata.uid.as_ref()?.split('-').collect();
    Some(u128::from_str_radix(&digits, 16).ok()?.to_ne_bytes())
}

impl Versions {
    /// Forgets what is not listed.
    fn keep(&mut self, listed: &HashSet<Uid>) {
        self.0.retain(|uid, _| listed.contains(uid));
    }

    /// Learns an event; whether it shows an older version than was told.
    fn go_back<K: Resource>(&mut self, event: &Event<K>) -> bool {
        let (Event::Apply(object) | Event::InitApply(object) | Event::Delete(object)) = event else {
            return false;
        };
        let metadata = object.meta();
        let (Some(uid), Some(version)) = (uid_of(metadata), &metadata.resource_version) else {
            return false;
        };
        let Ok(version) = version.parse() else {
            return false;
        };
        match event {
            Event::Delete(_) => {
                self.0.remove(&uid);
                false
            }
            _ => self.0.insert(uid, version).is_some_and(|known| known > version),
        }
    }
}

/// Goes back to the first delay only after a minute of quiet: the watcher's own `Init`, which comes before a list that
/// then fails, is no success.
pub fn reconnect_policy() -> ResetTimerBackoff<watcher::ExponentialBackoff> {
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    const A: &str = "0b5f9e5c-3a2c-4c57-9a43-0d3ffb6f6f0a";
    const B: &str = "0b5f9e5c-3a2c-4c57-9a43-0d3ffb6f6f0b";

    fn version(uid: &str, version: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.uid = Some(uid.to_owned());
        object.metadata.resource_version = Some(version.to_owned());
        object
    }

    #[test]
    fn a_list_with_an_older_version_than_was_told_shows_a_restore() {
        let mut versions = Versions::default();
        let told = [
            Event::InitApply(version(A, "10")),
            Event::Apply(version(A, "12")),
            Event::Apply(version(B, "13")),
            Event::Init,
            Event::InitApply(version(A, "12")),
            Event::Delete(version(B, "14")),
            Event::InitApply(version(B, "9")),
        ];
        assert!(told.iter().all(|event| !versions.go_back(event)));
        assert!(versions.go_back(&Event::InitApply(version(A, "11"))));
    }
}
