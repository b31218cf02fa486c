//! Watches: the only module that handles the watch protocol. An index receives changes, and each
//! list as one reset. Only types that cannot fail to parse are watched (`Unfailing`): one
//! unreadable object would end or delay the watch of all.

mod initial_list;
mod projected;

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
        utils::ResetTimerBackoff,
        watcher::{self, Event},
    },
};
use tokio::sync::mpsc;

use crate::runtime::{
    lenient::{Lenient, Readable, Unfailing},
    metrics::WatchCount,
    requests::with_sources,
};

pub use projected::Projected;

/// Seconds after which a watch is renewed, and its account's rights are checked again.
const WATCH_SECONDS: u32 = 30;

/// The same for an agent in its mailbox, where a thousand agents share one API server, and for
/// streaming lists, which have to end within this time. An API server's own limit is 295 s or more.
const LONG_WATCH_SECONDS: u32 = 290;

/// Maximum number of objects whose version is remembered. A restore shows in every object that has
/// changed since the backup.
const VERSIONS: usize = 200_000;

/// Configures a watch of all objects that match `labels`.
pub fn selecting(labels: &str) -> watcher::Config {
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    if labels.is_empty() {
        config
    } else {
        config.labels(labels)
    }
}

/// Configures a watch of all objects that match `labels`, of which there may be many: the API server
/// sends its list as events of the watch (KEP-3157; by default in Kubernetes 1.32, and from 1.34 on),
/// or by pages if it does not know how to. It sends events from its cache, and pages often from etcd,
/// which takes it several times as long.
pub fn streaming(labels: &str) -> watcher::Config {
    selecting(labels).timeout(LONG_WATCH_SECONDS).streaming_lists()
}

/// Configures a watch of all objects of an agent's mailbox.
pub fn selecting_in_mailbox() -> watcher::Config {
    selecting("").timeout(LONG_WATCH_SECONDS)
}

/// Configures a watch of the one object with this name. An account may have the right to watch it
/// and no other.
pub fn named(name: &str) -> watcher::Config {
    let config = watcher::Config::default().timeout(LONG_WATCH_SECONDS);
    config.fields(&format!("metadata.name={name}"))
}

/// Returns true if a watch failed because the API server does not know the kind.
pub fn is_unknown_kind(error: &watcher::Error) -> bool {
    answer(error).is_some_and(|status| status.code == 404)
}

/// The API server's response to the list or to the start of a watch, if it sent one.
pub fn answer(error: &watcher::Error) -> Option<&Status> {
    let (watcher::Error::InitialListFailed(cause) | watcher::Error::WatchStartFailed(cause)) = error else {
        return None;
    };
    match cause {
        kube::Error::Api(status) => Some(status),
        _ => None,
    }
}

/// The API server's message if it refused a list or a watch (403).
pub fn refusal(error: &watcher::Error) -> Option<String> {
    let status = answer(error).filter(|status| status.code == 403)?;
    Some(status.message.clone())
}

/// Watches `api` and sends the result of `input` for each change. `on_error` may turn an error into
/// an input. Returns when the receiver is dropped, or when the API server lists an older version of
/// an object than it has sent before.
pub async fn follow<K, I>(
    api: Api<Lenient<K>>,
    config: watcher::Config,
    inputs: mpsc::Sender<I>,
    input: impl Fn(Change<K>) -> I,
    on_error: impl Fn(&watcher::Error) -> Option<I>,
) where
    K: Readable + Clone + Debug + Send + 'static,
    K::DynamicType: Default,
{
    let kind = K::kind(&K::DynamicType::default()).into_owned();
    follow_kind(kind, api, config, inputs, Lenient::into_object, input, on_error).await;
}

/// Like [`follow`], and `see` extracts the needed part of each object as soon as its page is
/// listed. For long lists of large objects, even one page takes far more memory than the extracted
/// parts: see [`Projected`]. An object for which `see` returns nothing is skipped.
pub async fn follow_projected<T, S, V, I>(
    api: Api<T>,
    config: watcher::Config,
    inputs: mpsc::Sender<I>,
    see: impl Fn(T) -> S,
    input: impl Fn(Change<V>) -> I,
) where
    T: Unfailing + Clone + Debug + Send + 'static,
    S: Into<Option<V>>,
    T::DynamicType: Default,
{
    let kind = T::kind(&T::DynamicType::default()).into_owned();
    follow_kind(kind, api, config, inputs, see, input, |_| None).await;
}

/// Like [`follow_projected`], for a kind that is only known at run time. `kind` is a label of metrics,
/// so it must not name an object.
pub async fn follow_kind<T, S, V, I>(
    kind: String,
    api: Api<T>,
    config: watcher::Config,
    inputs: mpsc::Sender<I>,
    see: impl Fn(T) -> S,
    input: impl Fn(Change<V>) -> I,
    on_error: impl Fn(&watcher::Error) -> Option<I>,
) where
    T: Unfailing + Clone + Debug + Send + 'static,
    S: Into<Option<V>>,
{
    let see = |object: T| -> Option<V> { see(object).into() };
    let count = WatchCount::of(&kind);
    let events = initial_list::events(api, config);
    pin_mut!(events);
    let (mut listed, mut uids) = (Vec::new(), HashSet::new());
    let mut versions = Versions::default();
    while let Some(event) = events.next().await {
        if let Ok(event) = &event
            && versions.go_back(event)
        {
            tracing::error!(
                kind,
                "the API server was restored to an earlier state; restarting with new lists"
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
                uids.extend(uid_of(object.meta()).filter(|uid| versions.0.contains_key(uid)));
                listed.extend(see(object));
                None
            }
            Ok(Event::InitDone) => {
                versions.keep(&std::mem::take(&mut uids));
                Some(input(Change::Reset(std::mem::take(&mut listed))))
            }
            Ok(Event::Apply(object)) => see(object).map(|object| input(Change::Apply(Box::new(object)))),
            Ok(Event::Delete(object)) => see(object).map(|object| input(Change::Delete(Box::new(object)))),
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

/// The versions that a watch has sent, by UID. An index may be newer than a list, because responses
/// to writes overtake it. The versions of a watch are not, unless the API server was restored to a
/// backup with raised versions, as by `etcdutl snapshot restore --bump-revision`.
#[derive(Debug, Default)]
struct Versions(HashMap<Uid, u64>);

/// A UID as a 128-bit number (RFC 9562), to save memory.
pub type Uid = [u8; 16];

/// The UID of an object; `None` if it is not a UUID.
pub fn uid_of(metadata: &ObjectMeta) -> Option<Uid> {
    let digits: String = metadata.uid.as_ref()?.split('-').collect();
    Some(u128::from_str_radix(&digits, 16).ok()?.to_ne_bytes())
}

impl Versions {
    /// Removes the objects that are not listed.
    fn keep(&mut self, listed: &HashSet<Uid>) {
        self.0.retain(|uid, _| listed.contains(uid));
    }

    /// Records the version of an event's object. Returns true if it is older than the known one.
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
            // If there are too many objects, the first ones suffice to detect a restore.
            _ if self.0.len() >= VERSIONS && !self.0.contains_key(&uid) => false,
            _ => self.0.insert(uid, version).is_some_and(|known| known > version),
        }
    }
}

/// Resets the delay only after a minute without errors: the watcher's own `Init` event precedes a
/// list that may then fail, so it is no success.
pub fn reconnect_policy() -> ResetTimerBackoff<watcher::ExponentialBackoff> {
    let delays = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(200))
        .with_max_delay(Duration::from_secs(10))
        .with_jitter()
        .without_max_times();
    ResetTimerBackoff::new(delays.into(), Duration::from_mins(1))
}

/// Formats an error in one line. Of an API server's response it keeps only code and message; kube
/// prints every field.
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

    #[test]
    fn of_objects_without_end_so_many_versions_are_remembered() {
        let uid = |number: usize| format!("{number:032x}");
        let mut versions = Versions::default();
        for number in 0..VERSIONS + 1000 {
            assert!(!versions.go_back(&Event::InitApply(version(&uid(number), "10"))));
        }
        assert_eq!(versions.0.len(), VERSIONS);
        assert!(versions.go_back(&Event::InitApply(version(&uid(0), "9"))));
    }
}
