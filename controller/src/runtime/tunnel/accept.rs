//! The controller's end of the tunnel: an endpoint for agents on the webhook's port, and a client
//! for each agent that was admitted.
//!
//! Anyone who reaches the port may ask, so a request costs a few comparisons before its token is
//! known, and few tokens are checked at a time. An admitted agent may still be hostile: its
//! messages, frames, headers, windows and streams are bounded here, the length of a body is not (see
//! [`Tunnel::agent`]). Not here: the tokens in force (an [`Authenticator`]), and the tunnel that
//! serves a cluster (the receiver of the [`Tunnel`]s).

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{
        HeaderMap, HeaderValue, Method, Response, StatusCode, Uri,
        header::{
            CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
            SEC_WEBSOCKET_VERSION, UPGRADE,
        },
        uri::InvalidUri,
    },
    response::IntoResponse,
    routing::get,
};
use futures::{StreamExt, stream::unfold};
use hyper::{
    body::Incoming,
    client::conn::http2::{Builder, SendRequest},
    upgrade::OnUpgrade,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    sync::{
        OwnedSemaphorePermit, Semaphore,
        mpsc::{OwnedPermit, Sender},
    },
    time::{Instant, timeout},
};
use tokio_tungstenite::tungstenite::{handshake::derive_accept_key, protocol::Role};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::{BoxError, service_fn, util::BoxCloneSyncService};

use super::{
    Agent, CONNECTION_WINDOW, FRAME, HANDSHAKE, HEADER, PATH, PING_ANSWER, PING_EVERY, PROTOCOL, SEND_BUFFER,
    STREAM_WINDOW, STREAMS, Tasks, frames,
    gather::gathered,
    lists,
    token::{Digest, Token},
};

/// Number of tokens that are checked at a time.
const CHECKS: usize = 16;

/// Time to check a token. The API server may have to be asked.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum length of a cluster's name: that of a name in Kubernetes.
const LONGEST_NAME: usize = 253;

/// Length of the key of a WebSocket: 16 bytes in base64.
const KEY_LENGTH: usize = 24;

/// The result of a check of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The token is that of the cluster's agent.
    Admitted,
    /// It is not, or there is no such cluster.
    Refused,
    /// This process does not lead, so it accepts no tunnels.
    NotLeading,
}

/// Checks the tokens of agents.
pub trait Authenticator: Send + Sync + 'static {
    /// Returns the verdict on a request in the name of `cluster`, a name that nobody has checked.
    fn authenticate(&self, cluster: &str, token: &Token) -> impl Future<Output = Verdict> + Send;
}

/// The endpoint at [`PATH`]. Every tunnel that opens is sent to `tunnels`; while that is full,
/// agents are refused.
pub fn router<A: Authenticator>(authenticator: A, tunnels: Sender<Tunnel>) -> Router {
    let door = Arc::new(Door {
        authenticator,
        checks: Semaphore::new(CHECKS),
        tunnels,
    });
    Router::new().route(PATH, get(answer::<A>)).with_state(door)
}

struct Door<A> {
    authenticator: A,
    checks: Semaphore,
    tunnels: Sender<Tunnel>,
}

async fn answer<A: Authenticator>(State(door): State<Arc<Door<A>>>, request: Request) -> Response<Body> {
    admit(&door, request)
        .await
        .unwrap_or_else(|refusal| (refusal.status(), refusal.to_string()).into_response())
}

/// Reason that an agent gets no tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Refusal {
    #[error("this is not a request for a tunnel in protocol {PROTOCOL}")]
    Malformed,
    #[error("the token is not that of the cluster's agent")]
    Unknown,
    #[error("this controller does not lead")]
    NotLeading,
    #[error("too many agents ask for a tunnel")]
    Busy,
}

impl Refusal {
    fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Unknown => StatusCode::UNAUTHORIZED,
            Self::NotLeading | Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

async fn admit<A: Authenticator>(door: &Door<A>, mut request: Request) -> Result<Response<Body>, Refusal> {
    let asked = Asked::read(request.method(), request.headers())?;
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let upgrade = upgrade.ok_or(Refusal::Malformed)?;
    let check = door.checks.try_acquire().map_err(|_| Refusal::Busy)?;
    let verdict = door.authenticator.authenticate(&asked.cluster, &asked.token);
    match timeout(CHECK_TIMEOUT, verdict).await {
        Ok(Verdict::Admitted) => drop(check),
        Ok(Verdict::Refused) => return Err(Refusal::Unknown),
        Ok(Verdict::NotLeading) => return Err(Refusal::NotLeading),
        Err(_) => return Err(Refusal::Busy),
    }
    let place = door.tunnels.clone().try_reserve_owned();
    let place = place.map_err(|_| Refusal::Busy)?;
    let response = asked.response()?;
    tokio::spawn(open(upgrade, asked.cluster, asked.token.digest(), place));
    Ok(response)
}

/// A request for a tunnel, which nobody has checked.
struct Asked {
    cluster: String,
    token: Token,
    key: HeaderValue,
}

impl Asked {
    fn read(method: &Method, headers: &HeaderMap) -> Result<Self, Refusal> {
        let key = headers
            .get(SEC_WEBSOCKET_KEY)
            .filter(|key| key.len() == KEY_LENGTH);
        let is_upgrade = *method == Method::GET
            && lists(headers, &UPGRADE, "websocket")
            && lists(headers, &CONNECTION, "upgrade")
            && lists(headers, &SEC_WEBSOCKET_VERSION, "13")
            && lists(headers, &SEC_WEBSOCKET_PROTOCOL, PROTOCOL);
        let key = key.filter(|_| is_upgrade).ok_or(Refusal::Malformed)?;
        let secret = headers.get(HEADER).and_then(|secret| secret.to_str().ok());
        // The name of a cluster may contain dots.
        let (cluster, token) = secret
            .and_then(|secret| secret.rsplit_once('.'))
            .filter(|(cluster, _)| (1..=LONGEST_NAME).contains(&cluster.len()))
            .ok_or(Refusal::Unknown)?;
        Ok(Self {
            cluster: cluster.to_owned(),
            token: Token::parse(token).ok_or(Refusal::Unknown)?,
            key: key.clone(),
        })
    }

    fn response(&self) -> Result<Response<Body>, Refusal> {
        let response = Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header(CONNECTION, "upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_ACCEPT, derive_accept_key(self.key.as_bytes()))
            .header(SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
            .body(Body::empty());
        response.map_err(|_| Refusal::Malformed)
    }
}

async fn open(upgrade: OnUpgrade, cluster: String, digest: Digest, place: OwnedPermit<Tunnel>) {
    match timeout(HANDSHAKE, Tunnel::open(upgrade, &cluster, digest)).await {
        Ok(Ok(tunnel)) => drop(place.send(tunnel)),
        Ok(Err(error)) => tracing::debug!(cluster, %error, "a tunnel ended before it began"),
        Err(_) => tracing::debug!(cluster, "the agent did not complete the upgrade in time"),
    }
}

/// An open tunnel to the agent of a cluster. A drop closes it, with all its streams.
pub struct Tunnel {
    cluster: String,
    digest: Digest,
    agent: Agent,
    opened_at: Instant,
    streams: Arc<Semaphore>,
    open: CancellationToken,
    _closes: DropGuard,
}

impl Tunnel {
    /// The cluster, as the [`Authenticator`] has admitted it.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The digest of the token that the agent was admitted with.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The time at which it was opened.
    pub fn opened_at(&self) -> Instant {
        self.opened_at
    }

    /// True if a request is in progress.
    pub fn is_used(&self) -> bool {
        self.streams.available_permits() < STREAMS as usize
    }

    /// The agent. A request fails at once if [`STREAMS`] requests are in progress; a request is in progress until its body is read or dropped.
    ///
    /// It has no timeouts and does not bound the length of a body, because the log that a user
    /// follows has no end. A caller bounds the time to the answer, and the bytes of an answer that it
    /// keeps.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Waits until the tunnel has ended: the agent has closed it, does not answer any more, or the
    /// tunnel was dropped. The future does not keep it open.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        self.open.clone().cancelled_owned()
    }

    async fn open(upgrade: OnUpgrade, cluster: &str, digest: Digest) -> hyper::Result<Self> {
        let bytes = frames::open(TokioIo::new(upgrade.await?), Role::Server).await;
        let open = CancellationToken::new();
        let closes = open.clone().drop_guard();
        let (requests, connection) = builder(Tasks(open.clone()))
            .handshake(TokioIo::new(bytes))
            .await?;
        let (ended, name) = (open.clone(), cluster.to_owned());
        tokio::spawn(async move {
            let _ended = ended.clone().drop_guard();
            if let Some(Err(error)) = ended.run_until_cancelled(connection).await {
                tracing::debug!(cluster = name, %error, "a tunnel has failed");
            }
        });
        let streams = Arc::new(Semaphore::new(STREAMS as usize));
        Ok(Self {
            cluster: cluster.to_owned(),
            digest,
            agent: agent(requests, streams.clone()),
            opened_at: Instant::now(),
            streams,
            open,
            _closes: closes,
        })
    }
}

fn builder(tasks: Tasks) -> Builder<Tasks> {
    let mut builder = Builder::new(tasks);
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_ANSWER)
        .keep_alive_while_idle(true)
        .initial_max_send_streams(STREAMS as usize)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .max_send_buf_size(SEND_BUFFER);
    builder
}

/// All streams of a tunnel are in use.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{STREAMS} requests to this cluster are in progress")]
struct TooManyStreams;

/// Counts streams itself: a hostile agent could announce that it takes any number.
fn agent(requests: SendRequest<Body>, streams: Arc<Semaphore>) -> Agent {
    BoxCloneSyncService::new(service_fn(move |mut request: Request<Body>| {
        let (mut requests, streams) = (requests.clone(), streams.clone());
        async move {
            let stream = streams.try_acquire_owned().map_err(|_| TooManyStreams)?;
            *request.uri_mut() = with_authority(request.uri())?;
            let response = requests.send_request(request.map(gathered)).await?;
            Ok::<_, BoxError>(response.map(|body| keeping(body, stream)))
        }
    }))
}

/// HTTP/2 needs a scheme and an authority.
fn with_authority(uri: &Uri) -> Result<Uri, InvalidUri> {
    Uri::try_from(format!("http://tunnel{uri}"))
}

/// The same body, which keeps its place among the streams until it is dropped.
fn keeping(body: Incoming, stream: OwnedSemaphorePermit) -> Body {
    let parts = Body::new(body).into_data_stream();
    Body::from_stream(unfold((parts, stream), |(mut parts, stream)| async move {
        Some((parts.next().await?, (parts, stream)))
    }))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;
    use tokio::sync::mpsc::channel;
    use tower::ServiceExt;

    use super::*;

    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

    /// Headers of a valid request, and `changed`.
    fn headers(changed: &str, value: &str) -> HeaderMap {
        let secret = format!("team.blue.{}", "0".repeat(64));
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", KEY),
            ("sec-websocket-protocol", "other, argosy.tunnel.v1"),
            (HEADER, &secret),
            (changed, value),
        ] {
            let name = HeaderName::try_from(name).unwrap();
            headers.insert(name, HeaderValue::try_from(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_request_is_read_with_the_name_of_its_cluster() {
        let asked = Asked::read(&Method::GET, &headers("x-other", "a")).ok().unwrap();
        assert_eq!(asked.cluster, "team.blue");
        let response = asked.response().unwrap();
        // The example of RFC 6455.
        let accept = &response.headers()[SEC_WEBSOCKET_ACCEPT];
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn requests_that_are_malformed_or_without_a_token_are_refused() {
        let long = format!("{}.{}", "a".repeat(LONGEST_NAME + 1), "0".repeat(64));
        for (name, value, refusal) in [
            ("upgrade", "SPDY/3.1", Refusal::Malformed),
            ("connection", "close", Refusal::Malformed),
            ("sec-websocket-version", "8", Refusal::Malformed),
            ("sec-websocket-key", "short", Refusal::Malformed),
            ("sec-websocket-protocol", "argosy.tunnel.v2", Refusal::Malformed),
            (HEADER, "", Refusal::Unknown),
            (HEADER, "cluster1", Refusal::Unknown),
            (HEADER, "cluster1.0000", Refusal::Unknown),
            (HEADER, &long, Refusal::Unknown),
        ] {
            let read = Asked::read(&Method::GET, &headers(name, value));
            assert_eq!(read.err(), Some(refusal), "{name}: {value}");
        }
        let read = Asked::read(&Method::HEAD, &headers("x-other", "a"));
        assert_eq!(read.err(), Some(Refusal::Malformed));
    }

    struct Always(Verdict);

    impl Authenticator for Always {
        async fn authenticate(&self, _: &str, _: &Token) -> Verdict {
            self.0
        }
    }

    #[tokio::test]
    async fn a_request_that_cannot_be_upgraded_is_refused_before_its_token_is_checked() {
        let (tunnels, _opened) = channel(1);
        let router = router(Always(Verdict::Admitted), tunnels);
        let mut request = Request::get(PATH).body(Body::empty()).unwrap();
        *request.headers_mut() = headers("x-other", "a");
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    }
}
