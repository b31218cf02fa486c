//! The agent's identity in the ITS: a client certificate, which it requests, keeps in a Secret of
//! the WEC, and replaces before it expires.
//!
//! It requests the first one with the token of its cluster's bootstrap account, and every other one
//! with the current certificate. A certificate is used until its end if no other is issued. Not
//! here: the hub's approval of a request (`hub/approval`), and the signing.

mod ask;
mod bootstrap;
mod held;
mod request;
mod schedule;
mod secret;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, bail};
use argosy_core::ClusterName;
use backon::{BackoffBuilder, ExponentialBuilder};
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use tokio::{sync::watch, time::sleep};

pub(crate) use self::held::hub_of;
use self::{
    ask::Problem,
    bootstrap::Bootstrap,
    held::{Content, Held},
    secret::Place,
};
use crate::runtime::{
    client::{self, switch::Switch},
    kubeconfig::from_secret,
    leader::gate::Gate,
    metrics::{self, Metrics, Space},
    x509::Certificate,
};

/// Time before which a certificate must have been requested to be replaced
/// ([`argosy_api::issued::replaced_before`]); `None` until it is known.
pub type RotationRequest = watch::Receiver<Option<Timestamp>>;

/// Settings of an agent's certificate.
pub struct Settings {
    /// Name of its ManagedCluster.
    pub cluster: ClusterName,
    /// Kubeconfig of the bootstrap account, read whenever it is needed.
    pub bootstrap: Option<PathBuf>,
    /// Namespace and name of the Secret in the WEC.
    pub secret: (String, String),
    /// Requested validity of a certificate.
    pub duration: Duration,
}

/// The state that is needed to obtain or replace an agent's certificate.
pub struct Identity {
    settings: Settings,
    bootstrap: Bootstrap,
    place: Place,
    content: Content,
    report: metrics::Identity,
}

/// A certificate in use.
pub struct Established {
    /// Client that always uses the current certificate.
    pub its: Client,
    /// Address of the ITS, see [`client::address`].
    pub hub: String,
    switch: Switch,
    held: Held,
    certificate: Certificate,
    identity: Identity,
}

/// Maximum sleep. The wall clock is checked at least this often, because it may be set.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);

/// The credential of a request for a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Bootstrap,
    Certificate,
}

impl Identity {
    /// Creates the state without reading anything.
    pub fn new(settings: Settings, wec: &Client, metrics: &Metrics) -> Self {
        Self {
            place: Place::new(wec, &settings.secret),
            content: Content::default(),
            report: metrics.identity(),
            bootstrap: Bootstrap::at(settings.bootstrap.clone()),
            settings,
        }
    }

    /// Returns a client with the existing certificate or with a new one. Retries until it has one.
    pub async fn establish(mut self, metrics: &Metrics, gate: &Gate) -> Established {
        let mut waits = delays();
        loop {
            match self.try_establish().await {
                Ok((held, certificate, (client, hub))) => {
                    let end = certificate.not_after;
                    tracing::info!(cluster = %self.settings.cluster, hub, %end, "the agent has its certificate");
                    self.report.holds_until(end);
                    let switch = Switch::new(client);
                    return Established {
                        its: switch.client(&metrics.requests(Space::Its), gate),
                        hub,
                        switch,
                        held,
                        certificate,
                        identity: self,
                    };
                }
                Err(error) => {
                    let delay = waits.next().unwrap_or(LONGEST_DELAY);
                    tracing::warn!(
                        ?delay,
                        error = format!("{error:#}"),
                        "the agent has no certificate for the ITS"
                    );
                    if self.bootstrap.is_replaced_within(delay).await {
                        waits = delays();
                    }
                }
            }
        }
    }

    async fn try_establish(&mut self) -> anyhow::Result<(Held, Certificate, (Client, String))> {
        self.read().await?;
        if let Some(held) = self.usable() {
            let certificate = held.valid(&self.settings.cluster, Timestamp::now());
            if let Some(certificate) = certificate {
                let client = self.connect(&held).await?;
                return Ok((held, certificate, client));
            }
        }
        let (client, hub) = self.bootstrap.connect().await?;
        self.obtain(&client, &hub, None).await
    }

    /// The existing certificate, unless the bootstrap kubeconfig is for another hub.
    fn usable(&self) -> Option<Held> {
        let held = self.content.held.clone()?;
        let is_elsewhere = self
            .bootstrap
            .read()
            .is_ok_and(|(hub, _)| held.hub().as_ref() != Some(&hub));
        if is_elsewhere {
            tracing::info!("the bootstrap kubeconfig is for another hub than the certificate");
        }
        (!is_elsewhere).then_some(held)
    }

    async fn connect(&self, held: &Held) -> anyhow::Result<(Client, String)> {
        let origin = format!("in Secret {}", self.place);
        Ok(client::connect_to(from_secret(&held.kubeconfig, &origin)?, &origin).await?)
    }

    /// Requests a certificate with `client`, and stores it.
    async fn obtain(
        &mut self,
        client: &Client,
        hub: &Value,
        answered: Option<Timestamp>,
    ) -> anyhow::Result<(Held, Certificate, (Client, String))> {
        let key = self.next_key().await?;
        let request = request::signing_request(&self.settings.cluster, &key, self.settings.duration)?;
        let issued = match ask::certificate(client, &request).await {
            Ok(issued) => issued,
            Err(problem) => {
                self.report.asked(problem.outcome());
                if let Problem::Denied { .. } = problem {
                    self.forget_request().await?;
                }
                return Err(problem.into());
            }
        };
        let kubeconfig = held::kubeconfig(hub, &issued.certificate, &key);
        let held = Held {
            cluster: self.settings.cluster.to_string(),
            kubeconfig: kubeconfig.context("cannot write the kubeconfig with the certificate")?,
            certificate: issued.certificate,
            key,
            requested_at: issued.requested_at,
            answered,
        };
        let Some(certificate) = held.valid(&self.settings.cluster, Timestamp::now()) else {
            self.forget_request().await?;
            bail!("the issued certificate is not for this agent or has expired");
        };
        // The client is created first: that fails if the certificate belongs to another key.
        let client = self.connect(&held).await?;
        let content = Content {
            held: Some(held.clone()),
            next_key: None,
        };
        self.keep(content).await?;
        self.report.asked("issued");
        Ok((held, certificate, client))
    }

    /// Drops the key of a finished request. The next request needs another key, or it would have
    /// the same name.
    async fn forget_request(&mut self) -> anyhow::Result<()> {
        let content = Content {
            next_key: None,
            ..self.content.clone()
        };
        self.keep(content).await
    }

    /// Returns the key of the pending request, or a new one, which is stored before it is used.
    async fn next_key(&mut self) -> anyhow::Result<String> {
        if let Some(key) = &self.content.next_key {
            return Ok(key.clone());
        }
        let key = request::new_key()?;
        let content = Content {
            next_key: Some(key.clone()),
            ..self.content.clone()
        };
        self.keep(content).await?;
        Ok(key)
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        match self.place.read().await {
            Ok(content) => {
                self.content = content;
                Ok(())
            }
            Err(failure) => bail!("cannot read Secret {} of this cluster: {failure}", self.place),
        }
    }

    async fn keep(&mut self, content: Content) -> anyhow::Result<()> {
        match self.place.write(&content).await {
            Ok(()) => {
                self.content = content;
                Ok(())
            }
            Err(failure) => bail!("cannot write Secret {} of this cluster: {failure}", self.place),
        }
    }
}

impl Established {
    /// Replaces the certificate whenever it is due or a rotation is requested. Never returns.
    pub async fn keep(mut self, mut wish: RotationRequest) {
        loop {
            self.until_due(&mut wish).await;
            self.replace(&wish).await;
        }
    }

    async fn until_due(&self, wish: &mut RotationRequest) {
        let due = schedule::renew_at(&self.certificate, self.held.requested_at);
        loop {
            let wished = *wish.borrow_and_update();
            if schedule::is_wished(wished, self.held.requested_at, self.held.answered) {
                tracing::info!(
                    since = ?wished,
                    "replacing the certificate: the hub requests a rotation, or the cluster was registered \
                     after the last certificate was requested"
                );
                return;
            }
            let left = Duration::try_from(due.duration_since(Timestamp::now())).unwrap_or_default();
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = sleep(left.min(LONGEST_SLEEP)) => {}
                // The sender is dropped when the agent has ended; then only the time counts.
                Ok(()) = wish.changed() => {}
            }
        }
    }

    /// Retries until there is another certificate. Attempts alternate between the current
    /// certificate and the bootstrap account; a new bootstrap kubeconfig ends the wait at once.
    async fn replace(&mut self, wish: &RotationRequest) {
        let mut waits = delays();
        let mut by = By::Certificate;
        loop {
            let wished = *wish.borrow();
            match self.try_replace(by, wished).await {
                Ok(()) => return,
                Err(error) => {
                    if let Some(outcome) = uncounted(&error) {
                        self.identity.report.asked(outcome);
                    }
                    let delay = waits.next().unwrap_or(LONGEST_DELAY);
                    let end = self.certificate.not_after;
                    tracing::warn!(
                        credential = ?by,
                        ?delay,
                        %end,
                        error = format!("{error:#}"),
                        "cannot replace the agent's certificate; it is used until it expires"
                    );
                    if self.identity.bootstrap.is_replaced_within(delay).await {
                        (waits, by) = (delays(), By::Certificate);
                    }
                }
            }
            by = self.next_by(by);
        }
    }

    /// Returns the next credential. The bootstrap account counts only if it is for the same hub:
    /// the watch state of one hub is meaningless for another.
    fn next_by(&self, by: By) -> By {
        let bootstrap = self.identity.bootstrap.read().ok().map(|(hub, _)| hub);
        match by {
            By::Certificate if bootstrap.is_some() && bootstrap == self.held.hub() => By::Bootstrap,
            _ => By::Certificate,
        }
    }

    async fn try_replace(&mut self, by: By, wished: Option<Timestamp>) -> anyhow::Result<()> {
        self.identity.read().await?;
        let client = match by {
            By::Certificate => self.its.clone(),
            By::Bootstrap => self.identity.bootstrap.connect().await?.0,
        };
        let hub = self
            .held
            .hub()
            .context("the kubeconfig with the certificate names no hub")?;
        let (held, certificate, (client, _)) = self.identity.obtain(&client, &hub, wished).await?;
        self.switch.set(client);
        self.identity.report.holds_until(certificate.not_after);
        tracing::info!(end = %certificate.not_after, "the agent has a new certificate");
        (self.held, self.certificate) = (held, certificate);
        Ok(())
    }
}

/// The outcome of a renewal that failed before the request was sent or after it was decided. Other
/// outcomes are counted by the request itself.
fn uncounted(error: &anyhow::Error) -> Option<&'static str> {
    (!error.is::<Problem>()).then_some("failed")
}

/// Maximum delay between two attempts.
const LONGEST_DELAY: Duration = Duration::from_mins(1);

fn delays() -> backon::ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_secs(1))
        .with_max_delay(LONGEST_DELAY)
        .with_jitter()
        .without_max_times()
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_that_fails_is_counted_once_wherever_it_fails() {
        let asked = Problem::Unanswered("no route".to_owned());
        assert_eq!(uncounted(&anyhow::Error::from(asked)), None);
        let read = anyhow::anyhow!("cannot read Secret argosy/argosy-its-identity: forbidden");
        assert_eq!(uncounted(&read), Some("failed"));
    }
}
