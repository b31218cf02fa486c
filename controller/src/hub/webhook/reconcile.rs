//! Reconciles one registered object: writes it when the wanted content changes, and again when
//! someone changes or deletes it. Writes nothing if nothing differs.

use std::{fmt::Debug, time::Duration};

use argosy_api::names;
use argosy_core::{Change, Failure};
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use kube::{Api, Client, Resource, ResourceExt, core::ClusterResourceScope};
use serde::Serialize;
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

use crate::runtime::{
    lenient::Readable,
    requests::{call, creating},
    watch::{follow, selecting},
};

/// A kind that can be registered.
pub(super) trait Registered:
    Resource<DynamicType = (), Scope = ClusterResourceScope>
    + Readable
    + Clone
    + Debug
    + Serialize
    + Send
    + Sync
    + 'static
{
}

impl<K> Registered for K where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Readable
        + Clone
        + Debug
        + Serialize
        + Send
        + Sync
        + 'static
{
}

/// Keeps the object `name` equal to the result of `build`. Returns when the sender of `wanted` is
/// dropped.
pub(super) async fn keep<K: Registered, W: Clone>(
    wds: Client,
    name: &'static str,
    mut wanted: watch::Receiver<Option<W>>,
    build: impl Fn(&W) -> K,
) {
    let (sender, mut changes) = mpsc::channel(4);
    let selection = selecting("").fields(&format!("metadata.name={name}"));
    let mut watching = Box::pin(follow(
        Api::all(wds.clone()),
        selection,
        sender,
        |change| change,
        |_| None,
    ));
    let mut keeper = Keeper::new(Api::all(wds), name);
    let mut retry = None;
    loop {
        tokio::select! {
            () = &mut watching => return,
            Some(change) = changes.recv() => keeper.learn(change),
            result = wanted.changed() => if result.is_err() { return },
            () = sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => {}
        }
        let current = wanted.borrow_and_update().clone();
        retry = match current {
            Some(current) => keeper.settle(build(&current)).await,
            None => None,
        };
    }
}

struct Keeper<K> {
    api: Api<K>,
    name: &'static str,
    live: Option<K>,
    is_listed: bool,
    /// The content of the last write, and the version that resulted.
    written: Option<(Value, Version)>,
    pace: Backoff,
}

/// UID and generation of an object. Changes of labels and annotations do not change the generation.
type Version = (Option<String>, Option<i64>);

impl<K: Registered> Keeper<K> {
    fn new(api: Api<K>, name: &'static str) -> Self {
        Self {
            api,
            name,
            live: None,
            is_listed: false,
            written: None,
            pace: Backoff::default(),
        }
    }

    fn learn(&mut self, change: Change<K>) {
        self.is_listed = true;
        self.live = match change {
            Change::Reset(mut live) => live.pop(),
            Change::Apply(live) => Some(*live),
            Change::Delete(_) => None,
        };
    }

    /// Writes `wanted` if it differs from the live object. Returns the time of the next attempt
    /// after a failure.
    async fn settle(&mut self, wanted: K) -> Option<Instant> {
        if !self.is_listed {
            return None;
        }
        let body = body(&wanted);
        let is_written = self.written.as_ref().is_some_and(|(written, _)| *written == body);
        if self.is_settled(&body) {
            return None;
        }
        let now = Instant::now();
        // Our own changes are written at once; only repairs of changes by others are delayed, to
        // avoid a race.
        if is_written && let Some(at) = self.pace.wait(now) {
            return Some(at);
        }
        match self.write(wanted).await {
            Ok(written) => {
                self.report(is_written);
                self.written = Some((body, version(&written)));
                self.live = Some(written);
                None
            }
            // The watch reports the concurrent change.
            Err(Failure::Conflict | Failure::Foreign(_)) => Some(self.pace.after(now)),
            Err(failure) => {
                tracing::warn!(
                    kind = %K::kind(&()),
                    name = self.name,
                    error = %failure,
                    "cannot register the object, trying again"
                );
                Some(self.pace.after(now))
            }
        }
    }

    fn report(&self, is_undone: bool) {
        let (kind, name) = (K::kind(&()), self.name);
        match (is_undone, self.written.is_some()) {
            (true, _) => tracing::warn!(
                %kind,
                name,
                "another client has changed or deleted the object; registered it again"
            ),
            (false, false) => tracing::info!(%kind, name, "registered"),
            (false, true) => {
                tracing::debug!(
                    %kind,
                    name,
                    "registered the object again, because policies or certificates have changed"
                );
            }
        }
    }

    /// Returns true if nothing must be written. An object to which the API server adds fields is
    /// recognized by its generation.
    fn is_settled(&self, wanted: &Value) -> bool {
        let Some(live) = &self.live else { return false };
        let is_as_written = |(written, at): &(Value, Version)| written == wanted && *at == version(live);
        body(live) == *wanted || self.written.as_ref().is_some_and(is_as_written)
    }

    async fn write(&self, mut wanted: K) -> Result<K, Failure> {
        let params = creating(names::CONTROLLER);
        match &self.live {
            None => call(self.api.create(&params, &wanted)).await,
            Some(live) => {
                wanted.meta_mut().resource_version = live.resource_version();
                call(self.api.replace(self.name, &params, &wanted)).await
            }
        }
    }
}

/// The content of an object, without metadata and status.
fn body<K: Serialize>(object: &K) -> Value {
    let mut body = serde_json::to_value(object).unwrap_or_default();
    if let Some(fields) = body.as_object_mut() {
        fields.remove("metadata");
        fields.remove("status");
    }
    body
}

fn version<K: Resource>(object: &K) -> Version {
    (object.meta().uid.clone(), object.meta().generation)
}

/// Back-off between repairs, reset after a minute without one.
#[derive(Default)]
struct Backoff {
    delays: Option<ExponentialBackoff>,
    next: Option<Instant>,
}

impl Backoff {
    const QUIET: Duration = Duration::from_mins(1);
    const LONGEST: Duration = Duration::from_secs(10);

    /// Returns the time of the next write; `None` if it may happen now, which counts as a write.
    fn wait(&mut self, now: Instant) -> Option<Instant> {
        if let Some(next) = self.next.filter(|next| now < *next) {
            return Some(next);
        }
        if self.next.is_some_and(|next| now > next + Self::QUIET) {
            self.delays = None;
        }
        self.after(now);
        None
    }

    fn after(&mut self, now: Instant) -> Instant {
        let delays = self.delays.get_or_insert_with(|| {
            ExponentialBuilder::default()
                .with_min_delay(Duration::from_millis(100))
                .with_max_delay(Self::LONGEST)
                .without_max_times()
                .build()
        });
        let next = now + delays.next().unwrap_or(Self::LONGEST);
        self.next = Some(next);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_repair_is_made_at_once_and_each_further_one_later() {
        let mut pace = Backoff::default();
        let start = Instant::now();
        assert_eq!(pace.wait(start), None);
        let second = pace.wait(start).unwrap();
        assert_eq!(second, start + Duration::from_millis(100));
        assert_eq!(pace.wait(second), None);
        let third = pace.wait(second).unwrap();
        assert!(
            third >= second + Duration::from_millis(200),
            "{:?}",
            third - second
        );
    }

    #[test]
    fn after_a_quiet_minute_a_repair_is_the_first_again() {
        let mut pace = Backoff::default();
        let mut now = Instant::now();
        for _ in 0..5 {
            now = pace.wait(now).unwrap_or(now);
        }
        now += Backoff::QUIET * 2;
        assert_eq!(pace.wait(now), None);
        assert_eq!(pace.wait(now), Some(now + Duration::from_millis(100)));
    }
}
