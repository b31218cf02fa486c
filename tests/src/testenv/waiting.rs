//! Waits for conditions of one object by watching it. Every wait has a deadline, and its error
//! shows the last state.

use std::{fmt::Debug, time::Duration};

use anyhow::{Context, Result, anyhow};
use futures::{StreamExt, pin_mut};
use kube::{Api, Resource, runtime::watcher};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::{
    sync::{Mutex, MutexGuard},
    time::{Instant, timeout_at},
};

/// The timeout of everything in the test environment. It ends a test that hangs and says nothing about
/// speed: a machine on which six tests run at once may be several times slower than usual.
pub const PATIENCE: Duration = Duration::from_mins(5);

/// Held by a test that takes all processors for minutes.
static TURN: Mutex<()> = Mutex::const_new(());

/// Waits until no other test holds the turn. Tests that fill the API servers for minutes
/// (`scripts/test.sh --all`) would otherwise measure each other.
pub async fn turn() -> Option<MutexGuard<'static, ()>> {
    std::env::var_os("ARGOSY_TAKE_TURNS")?;
    Some(TURN.lock().await)
}

/// Waits until the object exists and `test` holds, and returns it. `what` describes the condition
/// in the error.
pub async fn until<K>(api: &Api<K>, name: &str, what: &str, test: impl Fn(&K) -> bool) -> Result<K>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
{
    let found = watch(api, name, what, |state: Option<&K>| state.is_some_and(&test)).await?;
    found.with_context(|| format!("{name}: {what}"))
}

/// Waits until no object with this name exists.
pub async fn until_gone<K>(api: &Api<K>, name: &str, what: &str) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
{
    watch(api, name, what, |state: Option<&K>| state.is_none())
        .await
        .map(|_| ())
}

/// Repeats a write until the API server has answered. An overloaded API server gives up some
/// requests (429, 5xx) and closes connections. A write whose answer was lost may have succeeded, so
/// a repeated creation may find its own object (409).
pub async fn persistently<T>(what: &str, write: impl AsyncFn() -> kube::Result<T>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let error = match write().await {
            Ok(written) => return Ok(written),
            Err(error) => error,
        };
        let is_refused =
            matches!(&error, kube::Error::Api(status) if status.code < 500 && status.code != 429);
        if is_refused || Instant::now() > deadline {
            return Err(error).context(what.to_owned());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn watch<K>(
    api: &Api<K>,
    name: &str,
    what: &str,
    test: impl Fn(Option<&K>) -> bool,
) -> Result<Option<K>>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
{
    let states = watcher::watch_object(api.clone(), name);
    pin_mut!(states);
    let deadline = Instant::now() + PATIENCE;
    let (mut last, mut failed) = (None, None);
    loop {
        match timeout_at(deadline, states.next()).await {
            Ok(Some(Ok(state))) if test(state.as_ref()) => return Ok(state),
            Ok(Some(Ok(state))) => last = state,
            // The kind may not be served yet, and a broken watch is retried.
            Ok(Some(Err(error))) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                failed = Some(error);
            }
            Ok(None) => return Err(anyhow!("the watch of {name} has ended")),
            Err(_) => {
                return Err(anyhow!(
                    "waited {} s for {name}: {what}; its last state: {}{}",
                    PATIENCE.as_secs(),
                    shown(last.as_ref()),
                    failed.map_or_else(String::new, |error| format!("; its watch failed: {error:?}")),
                ));
            }
        }
    }
}

fn shown<K: Serialize>(state: Option<&K>) -> String {
    let Some(object) = state else {
        return "not there".to_owned();
    };
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    format!("{value:#}")
}
