//! Who the agent is to the ITS: a certificate of its own, which it asks for itself, keeps in a Secret of the WEC, and replaces in time.
//!
//! The first one it asks for with the token of its cluster's bootstrap account, every other one with the one it has. Until there is
//! another, a certificate is used as long as it lives. Not here: what the hub thinks of a request (`approver`), and who signs it.

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
use crate::{
    client::{self, switch::Switch},
    kubeconfig::from_secret,
    leader::gate::Gate,
    metrics::{self, Metrics, Space},
    x509::Certificate,
};

/// A certificate that was asked for before this is to be replaced ([`argosy_api::issued::replaced_before`]); `None` before that is known.
pub type Wish = watch::Receiver<Option<Timestamp>>;

/// How an agent comes to its certificate.
pub struct Settings {
    /// Name of its ManagedCluster.
    pub cluster: ClusterName,
    /// Kubeconfig of the bootstrap account, read whenever it is needed.
    pub bootstrap: Option<PathBuf>,
    /// Namespace and name of the Secret in the WEC.
    pub secret: (String, String),
    /// How long a certificate is asked for.
    pub duration: Duration,
}

/// An agent's certificate, and everything that it takes to replace it.
pub struct Identity {
    settings: Settings,
    bootstrap: Bootstrap,
    place: Place,
    content: Content,
    report: metrics::Identity,
}

/// A certificate in use.
pub struct Established {
    /// Goes through the certificate that is in use at the time.
    pub its: Client,
    /// Address of the ITS, see [`client::address`].
    pub hub: String,
    switch: Switch,
    held: Held,
    certificate: Certificate,
    identity: Identity,
}

/// The clock of the wall is looked at this often, because it may be set.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);

/// With what a certificate is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Bootstrap,
    Certificate,
}

impl Identity {
    /// Nothing is read yet.
    pub fn new(settings: Settings, wec: &Client, metrics: &Metrics) -> Self {
        Self {
            place: Place::new(wec, &settings.secret),
            content: Content::default(),
            report: metrics.identity(),
            bootstrap: Bootstrap::at(settings.bootstrap.clone()),
            settings,
        }
    }

    /// A client with the certificate that is there, or with a new one. Tries until it has one.
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

    /// What is held, unless the bootstrap kubeconfig leads to another hub.
    fn usable(&self) -> Option<Held> {
        let held = self.content.held.clone()?;
        let is_elsewhere = self
            .bootstrap
            .read()
            .is_ok_and(|(hub, _)| held.hub().as_ref() != Some(&hub));
        if is_elsewhere {
            tracing::info!("the bootstrap kubeconfig leads to another hub than the certificate does");
        }
        (!is_elsewhere).then_some(held)
    }

    async fn connect(&self, held: &Held) -> anyhow::Result<(Client, String)> {
        let origin = format!("in Secret {}", self.place);
        Ok(client::connect_to(from_secret(&held.kubeconfig, &origin)?, &origin).await?)
    }

    /// Asks with `client` for a certificate, and keeps it.
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
            kubeconfig: kubeconfig.context("the certificate cannot be written down")?,
            certificate: issued.certificate,
            key,
            requested_at: issued.requested_at,
            answered,
        };
        let Some(certificate) = held.valid(&self.settings.cluster, Timestamp::now()) else {
            self.forget_request().await?;
            bail!("the certificate that was issued is not this agent's, or has ended");
        };
        // A client is made first: it is refused for a certificate of another key.
        let client = self.connect(&held).await?;
        let content = Content {
            held: Some(held.clone()),
            next_key: None,
        };
        self.keep(content).await?;
        self.report.asked("issued");
        Ok((held, certificate, client))
    }

    /// That request is over. The next one needs another key, or it would be the same.
    async fn forget_request(&mut self) -> anyhow::Result<()> {
        let content = Content {
            next_key: None,
            ..self.content.clone()
        };
        self.keep(content).await
    }

    /// The key of the request that is under way, or a new one, which is kept before it is used.
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
    /// Replaces the certificate whenever it is due or wished for, for ever.
    pub async fn keep(mut self, mut wish: Wish) {
        loop {
            self.until_due(&mut wish).await;
            self.replace(&wish).await;
        }
    }

    async fn until_due(&self, wish: &mut Wish) {
        let due = schedule::renew_at(&self.certificate, self.held.requested_at);
        loop {
            let wished = *wish.borrow_and_update();
            if schedule::is_wished(wished, self.held.requested_at, self.held.answered) {
                tracing::info!(since = ?wished, "the hub wishes for another certificate, or knows the cluster only since then");
                return;
            }
            let left = Duration::try_from(due.duration_since(Timestamp::now())).unwrap_or_default();
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = sleep(left.min(LONGEST_SLEEP)) => {}
                // Nobody can wish for anything when the agent has ended.
                Ok(()) = wish.changed() => {}
            }
        }
    }

    /// Tries until there is another certificate; asked is in turn with the one that is there and with the bootstrap account, at once
    /// with that if somebody has given it a new token.
    async fn replace(&mut self, wish: &Wish) {
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
                    tracing::warn!(credential = ?by, ?delay, %end, error = format!("{error:#}"), "cannot replace the agent's certificate, which is used until its end");
                    if self.identity.bootstrap.is_replaced_within(delay).await {
                        (waits, by) = (delays(), By::Certificate);
                    }
                }
            }
            by = self.next_by(by);
        }
    }

    /// The bootstrap account, if it is one of the same hub: what watches have told of one is nothing to another.
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
        let hub = self.held.hub().context("the certificate leads to no hub")?;
        let (held, certificate, (client, _)) = self.identity.obtain(&client, &hub, wished).await?;
        self.switch.set(client);
        self.identity.report.holds_until(certificate.not_after);
        tracing::info!(end = %certificate.not_after, "the agent has another certificate");
        (self.held, self.certificate) = (held, certificate);
        Ok(())
    }
}

/// What came of a renewal that has failed before the hub was asked, or after it has answered; what came of asking is counted there.
fn uncounted(error: &anyhow::Error) -> Option<&'static str> {
    (!error.is::<Problem>()).then_some("failed")
}

/// The longest time between two attempts.
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
