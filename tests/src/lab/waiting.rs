//! Waiting for a condition of one object, by watching it. Every wait has a deadline, and its error shows the last state.

use std::{fmt::Debug, time::Duration};

use anyhow::{Context, Result, anyhow};
use futures::{StreamExt, pin_mut};
use kube::{Api, Resource, runtime::watcher};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

/// The longest that anything in the lab may take.
pub const PATIENCE: Duration = Duration::from_secs(45);

/// Waits until the object is there and `test` holds, and returns it. `what` says what is waited for.
pub async fn until<K>(api: &Api<K>, name: &str, what: &str, test: impl Fn(&K) -> bool) -> Result<K>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
{
    let found = watch(api, name, what, |state: Option<&K>| state.is_some_and(&test)).await?;
    found.with_context(|| format!("{name}: {what}"))
}

/// Waits until there is no object of that name.
pub async fn until_gone<K>(api: &Api<K>, name: &str, what: &str) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
{
    watch(api, name, what, |state: Option<&K>| state.is_none())
        .await
        .map(|_| ())
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
    let mut last: Result<Option<K>, watcher::Error> = Ok(None);
    loop {
        match timeout_at(deadline, states.next()).await {
            Ok(Some(Ok(state))) if test(state.as_ref()) => return Ok(state),
            Ok(Some(state)) => {
                // The kind may not be served yet; a broken watch is tried again.
                if state.is_err() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                last = state;
            }
            Ok(None) => return Err(anyhow!("the watch of {name} has ended")),
            Err(_) => {
                return Err(anyhow!(
                    "waited {} s for {name}: {what}; its last state: {}",
                    PATIENCE.as_secs(),
                    shown(&last)
                ));
            }
        }
    }
}

fn shown<K: Serialize>(state: &Result<Option<K>, watcher::Error>) -> String {
    match state {
        Err(error) => format!("{error:?}"),
        Ok(None) => "not there".to_owned(),
        Ok(Some(object)) => {
            let mut value = serde_json::to_value(object).unwrap_or_default();
            if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
            format!("{value:#}")
        }
    }
}
