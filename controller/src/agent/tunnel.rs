//! The agent's tunnel: it dials the controller as soon as the controller offers it, and dials again
//! whenever the tunnel has ended.
//!
//! The digest of the token is in the Lease that the heartbeat renews anyway, so a tunnel costs no
//! write. Not here: the bytes of the tunnel (`runtime::tunnel`), and the answers to the controller's
//! requests (`pods`).

use std::{path::PathBuf, sync::Arc, time::Duration};

use argosy_api::{ManagedCluster, names};
use axum::{Router, http::Uri};
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use kube::{Client, ResourceExt};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{Member, Pods};
use crate::runtime::{
    client::connect_url,
    requests::with_sources,
    tunnel::{
        PATH,
        dial::{Dialed, Error, dial, through_service},
        token::Token,
    },
};

/// The place that the controller offers, as the annotation on the ManagedCluster has it; `None` if
/// it offers none.
pub(super) type Offer = watch::Receiver<Option<String>>;

/// Number of attempts in a row while a replica answers that does not lead: the API server chooses
/// one by chance.
const REPLICAS: u32 = 5;

/// Maximum pause after an attempt that nobody has answered. It costs the API server nothing.
const UNANSWERED: Duration = Duration::from_secs(2);

/// Maximum pause while no controller leads, or the API server has trouble.
const UNAVAILABLE: Duration = Duration::from_secs(5);

/// Maximum pause after a refusal.
const REFUSED: Duration = Duration::from_mins(1);

/// Lifetime of a tunnel. A credential that has ended does not end a connection that is open.
const LIFETIME: Duration = Duration::from_hours(24);

/// Maximum length of an offer in bytes.
const LONGEST_OFFER: usize = 512;

/// The part of the tunnel that the heartbeat handles.
pub(super) struct Advert {
    /// The annotation of the Lease: the digest of the token, or that the agent serves nothing.
    pub(super) annotation: Option<String>,
    /// Receives the offer of the controller.
    pub(super) offers: watch::Sender<Option<String>>,
    /// Is notified of the first renewal of the Lease, and of each that follows one that failed: the
    /// controller refuses a token while the Lease has ended.
    pub(super) renewed: Arc<Notify>,
}

impl Advert {
    /// Passes on the offer on the ManagedCluster.
    pub(super) fn read(&self, cluster: &ManagedCluster) {
        let offer = offered(cluster);
        self.offers.send_if_modified(|known| {
            let is_new = *known != offer;
            *known = offer;
            is_new
        });
    }
}

/// Reads the offer of the controller.
fn offered(cluster: &ManagedCluster) -> Option<String> {
    let offer = cluster.annotations().get(names::TUNNEL_ANNOTATION)?;
    (offer.len() <= LONGEST_OFFER).then(|| offer.clone())
}

/// The place that is dialed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A path at the API server of the ITS.
    Service(String),
    /// A server and a path there.
    Url(Uri, String),
}

/// Reads an offer. Others may write the annotation, so its parts are checked before they become a
/// request, and a URL is dialed only with TLS: the token goes there.
fn place_of(offer: &str) -> Option<Place> {
    if offer.contains("://") {
        return url_of(offer);
    }
    path_of(offer).map(Place::Service)
}

/// The server and the path of a URL, which names the folder of the endpoint.
fn url_of(offer: &str) -> Option<Place> {
    let url: Uri = offer.parse().ok()?;
    let authority = url
        .authority()
        .filter(|authority| !authority.as_str().contains('@'))?;
    if url.scheme_str() != Some("https") || url.query().is_some() {
        return None;
    }
    let server = Uri::builder().scheme("https").authority(authority.as_str());
    let path = format!("{}{PATH}", url.path().trim_end_matches('/'));
    Some(Place::Url(server.path_and_query("/").build().ok()?, path))
}

/// Path of the controller's endpoint, for an offer `NAMESPACE/NAME:PORT`.
fn path_of(offer: &str) -> Option<String> {
    let (namespace, rest) = offer.split_once('/')?;
    let (service, port) = rest.split_once(':')?;
    let is_name = |text: &str| {
        let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&text.len()) && text.bytes().all(is_inner)
    };
    [namespace, service, port]
        .iter()
        .all(|part| is_name(part))
        .then(|| through_service(namespace, service, port))
}

/// Prepares the tunnel of the agent of `member`: the part of the heartbeat, and the dialing end if
/// the agent serves anything.
pub(super) fn prepare(member: &Member) -> (Advert, Option<(Dialer, Offer)>) {
    let (offers, offer) = watch::channel(None);
    let service = match &member.pods {
        Pods::Tunnel(service) => {
            let token = Token::generate().inspect_err(|error| tracing::error!(%error, "there is no tunnel"));
            token.ok().map(|token| (service.clone(), token))
        }
        Pods::Hosted | Pods::Nothing => None,
    };
    let annotation = match &member.pods {
        Pods::Tunnel(_) => service.as_ref().map(|(_, token)| token.digest().to_string()),
        Pods::Hosted => None,
        Pods::Nothing => Some(names::NO_TUNNEL.to_owned()),
    };
    let renewed = Arc::new(Notify::new());
    let dialer = service.map(|(service, token)| {
        let dialer = Dialer {
            its: member.its.clone(),
            cluster: member.cluster.to_string(),
            token,
            service,
            authority: member.tunnel_authority.clone(),
            renewed: renewed.clone(),
        };
        (dialer, offer)
    });
    let advert = Advert {
        annotation,
        offers,
        renewed,
    };
    (advert, dialer)
}

/// The dialing end of an agent.
pub(super) struct Dialer {
    its: Client,
    cluster: String,
    /// The token whose digest is in the Lease.
    token: Token,
    /// Answers the controller's requests.
    service: Router,
    /// File with the authorities of a controller that is dialed by its URL; without one, those of the
    /// system.
    authority: Option<PathBuf>,
    /// See [`Advert::renewed`].
    renewed: Arc<Notify>,
}

/// The end of an attempt.
enum Ended {
    /// A tunnel was open.
    Served,
    /// Another replica may lead, or none leads.
    Unavailable(Error),
    /// Nobody answered.
    Unanswered(Error),
    /// The API server or the controller refused, or answered in another protocol.
    Refused(Error),
}

impl Dialer {
    /// Keeps a tunnel open while the controller offers it, until `stop`.
    pub(super) async fn run(self, mut offer: Offer, stop: CancellationToken) {
        loop {
            let wanted = offer.borrow_and_update().clone();
            let Some(place) = wanted.as_deref().and_then(place_of) else {
                if let Some(offer) = wanted {
                    tracing::warn!(offer, "the controller offers a tunnel at an unknown place");
                }
                tokio::select! {
                    changed = offer.changed() => if changed.is_err() { return },
                    () = stop.cancelled() => return,
                }
                continue;
            };
            tokio::select! {
                () = self.keep(&place, &stop) => {}
                changed = offer.changed() => if changed.is_err() { return },
            }
            if stop.is_cancelled() {
                return;
            }
        }
    }

    /// Dials again and again, until `stop`.
    async fn keep(&self, place: &Place, stop: &CancellationToken) {
        let mut pauses = Pauses::new();
        let mut others = 0;
        while !stop.is_cancelled() {
            let pause = match self.serve(place, stop).await {
                Ended::Served => {
                    pauses = Pauses::new();
                    pauses.next(UNANSWERED)
                }
                Ended::Unavailable(_) if others < REPLICAS => {
                    others += 1;
                    continue;
                }
                Ended::Unavailable(error) => {
                    pauses.report(&error);
                    pauses.next(UNAVAILABLE)
                }
                Ended::Unanswered(error) => {
                    // Nothing else tells that a URL does not answer, or has an unknown certificate.
                    match place {
                        Place::Url(..) => pauses.report(&error),
                        Place::Service(_) => {
                            tracing::debug!(%error, "cannot open the tunnel to the controller");
                        }
                    }
                    pauses.next(UNANSWERED)
                }
                Ended::Refused(error) => {
                    pauses.report(&error);
                    pauses.next(REFUSED)
                }
            };
            others = 0;
            tokio::select! {
                () = sleep(pause) => {}
                () = self.renewed.notified() => pauses.begin_again(),
                () = stop.cancelled() => {}
            }
        }
    }

    /// Dials once, and serves until the tunnel ends.
    async fn serve(&self, place: &Place, stop: &CancellationToken) -> Ended {
        let dialed = match self.dial(place).await {
            Ok(dialed) => dialed,
            Err(error) => return Ended::of(error),
        };
        tracing::info!("the tunnel to the controller is open");
        if let Err(error) = self.answer(dialed, stop).await {
            tracing::info!(%error, "the tunnel to the controller has ended");
        }
        Ended::Served
    }

    async fn dial(&self, place: &Place) -> Result<Dialed, Error> {
        match place {
            Place::Service(path) => dial(&self.its, path, &self.cluster, &self.token).await,
            Place::Url(server, path) => {
                // The file may have changed since the last attempt.
                let client = connect_url(server.clone(), self.authority.as_deref());
                let client = client.map_err(|error| Error::Unusable(with_sources(&error)))?;
                dial(&client, path, &self.cluster, &self.token).await
            }
        }
    }

    async fn answer(&self, dialed: Dialed, stop: &CancellationToken) -> Result<(), Error> {
        let ends = stop.child_token();
        let served = dialed.serve(self.service.clone(), &ends);
        tokio::pin!(served);
        if let Ok(ended) = timeout(LIFETIME, served.as_mut()).await {
            return ended;
        }
        ends.cancel();
        served.await
    }
}

impl Ended {
    fn of(error: Error) -> Self {
        match &error {
            Error::Refused { status, .. } if status.is_server_error() => Self::Unavailable(error),
            Error::Refused { .. } | Error::Invalid(_) | Error::Request(_) | Error::Unusable(_) => {
                Self::Refused(error)
            }
            Error::Unanswered(_) | Error::Late | Error::Ended(_) | Error::Broken(_) | Error::Silent => {
                Self::Unanswered(error)
            }
        }
    }
}

/// Pauses that grow while the failures are of one kind, and the last refusal that was reported.
struct Pauses {
    delays: ExponentialBackoff,
    /// The maximum of `delays`, by which kinds of failures differ.
    longest: Duration,
    reported: Option<String>,
}

impl Pauses {
    fn new() -> Self {
        Self {
            delays: growing(UNANSWERED),
            longest: UNANSWERED,
            reported: None,
        }
    }

    /// The next pause, at most `longest`. A failure of another kind than the last one begins with a
    /// short pause: after a long cut without an answer, the first answer is often a refusal that is
    /// soon outdated.
    fn next(&mut self, longest: Duration) -> Duration {
        if self.longest != longest {
            self.longest = longest;
            self.begin_again();
        }
        self.delays.next().unwrap_or(longest).min(longest)
    }

    /// Makes the next pause short.
    fn begin_again(&mut self) {
        self.delays = growing(self.longest);
    }

    /// Logs a refusal, once in a row.
    fn report(&mut self, error: &Error) {
        let text = with_sources(error);
        if self.reported.as_ref() != Some(&text) {
            tracing::warn!(
                error = text,
                "cannot open the tunnel to the controller; logs of this cluster's runs are not live there"
            );
            self.reported = Some(text);
        }
    }
}

fn growing(longest: Duration) -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(500))
        .with_max_delay(longest)
        .with_jitter()
        .without_max_times()
        .build()
}

#[cfg(test)]
mod tests;
