//! Stores the webhook's credentials and renews them in time.
//!
//! Behind a Service they are in a Secret, so that all replicas and later processes serve the same
//! certificate. The leader writes new ones when they are due, guarded by the version that it has
//! read. With a URL there is only one process, so they are in memory.

use std::{sync::Arc, time::Duration};

use argosy_api::names;
use argosy_core::{Change, Failure};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, ResourceExt, api::ObjectMeta};
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};

use super::{Place, SECRET, Settings, certificate::Credentials};
use crate::runtime::{
    requests::{call, creating},
    watch::{follow, selecting},
};

/// The credentials in use; `None` before the first ones.
pub(super) type Issued = watch::Receiver<Option<Arc<Credentials>>>;

/// Key of the Secret: the credentials as JSON.
const KEY: &str = "credentials.json";

/// Delay before a failed write is retried.
const AGAIN: Duration = Duration::from_secs(2);

/// Maximum sleep. The wall clock is checked at least this often, because it may be set.
const LONGEST_SLEEP: Duration = Duration::from_hours(1);

/// Keeps `issued` up to date. Never returns.
pub(super) async fn keep(settings: &Settings, wds: &Client, issued: watch::Sender<Option<Arc<Credentials>>>) {
    match settings.place {
        Place::Service { .. } => in_secret(settings, wds, issued).await,
        Place::Url { .. } => in_memory(settings, issued).await,
    }
}

async fn in_memory(settings: &Settings, issued: watch::Sender<Option<Arc<Credentials>>>) {
    let mut known = None;
    loop {
        if let Some(renewed) = renewed(settings, known.as_ref()) {
            known = Some(renewed);
        }
        sleep(publish(settings, known.as_ref(), &issued)).await;
    }
}

async fn in_secret(settings: &Settings, wds: &Client, issued: watch::Sender<Option<Arc<Credentials>>>) {
    let api: Api<Secret> = Api::namespaced(wds.clone(), &settings.namespace);
    let (sender, mut changes) = mpsc::channel(4);
    let selection = selecting("").fields(&format!("metadata.name={SECRET}"));
    let mut watching = Box::pin(follow(
        Api::namespaced(wds.clone(), &settings.namespace),
        selection,
        sender,
        |change| change,
        |_| None,
    ));
    let mut live = None;
    let mut is_listed = false;
    let mut pause = LONGEST_SLEEP;
    let mut leads = false;
    loop {
        tokio::select! {
            () = &mut watching => return,
            Some(change) = changes.recv() => {
                live = learnt(change);
                is_listed = true;
            }
            () = sleep(pause), if is_listed => {}
            () = settings.leadership.begins(), if !leads => leads = true,
        }
        if !is_listed {
            continue;
        }
        let known = live.as_ref().and_then(read);
        let due = if leads {
            renewed(settings, known.as_ref())
        } else {
            None
        };
        pause = match due {
            None => publish(settings, known.as_ref(), &issued),
            Some(renewed) => match write(&api, live.as_ref(), &renewed).await {
                Ok(written) => {
                    live = Some(written);
                    publish(settings, Some(&renewed), &issued)
                }
                // Another replica was faster, and the watch reports its write.
                Err(Failure::Conflict | Failure::Foreign(_)) => AGAIN,
                Err(failure) => {
                    let namespace = &settings.namespace;
                    tracing::warn!(
                        kind = "Secret",
                        namespace,
                        name = SECRET,
                        error = %failure,
                        "cannot store the webhook's certificate"
                    );
                    AGAIN
                }
            },
        };
    }
}

fn learnt(change: Change<Secret>) -> Option<Secret> {
    match change {
        Change::Reset(mut live) => live.pop(),
        Change::Apply(secret) => Some(*secret),
        Change::Delete(_) => None,
    }
}

fn renewed(settings: &Settings, known: Option<&Credentials>) -> Option<Credentials> {
    let hosts = settings.place.hosts();
    let lifetime = settings.certificate_lifetime;
    match Credentials::renewed(known, &hosts, lifetime, Timestamp::now()) {
        Ok(renewed) => {
            if renewed.is_some() {
                tracing::info!(?hosts, "the webhook has a new certificate");
            }
            renewed
        }
        Err(error) => {
            tracing::error!(?hosts, %error, "cannot create a certificate for the webhook");
            None
        }
    }
}

/// Publishes the credentials, and returns the time until the next renewal.
fn publish(
    settings: &Settings,
    known: Option<&Credentials>,
    issued: &watch::Sender<Option<Arc<Credentials>>>,
) -> Duration {
    let Some(known) = known else { return AGAIN };
    settings.reviews.certificate_ends(known.ends_at());
    issued.send_if_modified(|current| {
        let is_new = current.as_deref() != Some(known);
        if is_new {
            *current = Some(Arc::new(known.clone()));
        }
        is_new
    });
    let left = known.renew_at().duration_since(Timestamp::now());
    let left = Duration::try_from(left).unwrap_or_default();
    // The minimum prevents a busy loop if the renewal fails.
    left.clamp(Duration::from_millis(100), LONGEST_SLEEP)
}

/// Returns the CAs of the webhook's certificate from the Secret, in PEM; `None` if they cannot be
/// parsed.
pub(crate) fn bundle_in(secret: &Secret) -> Option<String> {
    read(secret).map(|credentials| credentials.bundle())
}

/// Parses the credentials. Unreadable ones are replaced.
fn read(secret: &Secret) -> Option<Credentials> {
    let bytes = secret.data.as_ref()?.get(KEY)?;
    serde_json::from_slice(&bytes.0).ok()
}

async fn write(api: &Api<Secret>, live: Option<&Secret>, renewed: &Credentials) -> Result<Secret, Failure> {
    let bytes = serde_json::to_vec(renewed).map_err(|error| Failure::Refused(error.to_string()))?;
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(SECRET.to_owned()),
            resource_version: live.and_then(ResourceExt::resource_version),
            ..ObjectMeta::default()
        },
        data: Some([(KEY.to_owned(), ByteString(bytes))].into()),
        ..Secret::default()
    };
    let params = creating(names::CONTROLLER);
    match live {
        None => call(api.create(&params, &secret)).await,
        Some(_) => call(api.replace(SECRET, &params, &secret)).await,
    }
}
