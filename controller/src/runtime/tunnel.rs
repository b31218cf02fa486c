//! The tunnel: a connection that the agent dials and over which the controller asks.
//!
//! The agent sends an Upgrade to the controller's webhook port, through `services/proxy` of the API
//! server that it uses anyway ([`dial`]). The WebSocket that results carries one HTTP/2 connection:
//! the agent is its server, and the controller is its client ([`accept`]). So a cluster behind NAT
//! can be asked, and nothing but the API server is reachable from outside.
//!
//! Both ends ping every [`PING_EVERY`]. A reader that stops holds up its own stream only, see
//! `CONNECTION_WINDOW` and `gather`.
//!
//! Owns the bytes, the token and the bounds. Not here: the time to dial and to dial again (the
//! agent's process), the tokens in force and the tunnel that serves a cluster (the controller's
//! process), and the requests that an agent answers.

pub mod accept;
pub mod dial;
mod frames;
mod gather;
pub mod session;
pub mod token;

use std::time::Duration;

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, HeaderName, Request, Response},
};
use hyper::rt::Executor;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, ServiceExt, service_fn, util::BoxCloneSyncService};

/// An agent that answers requests. It fails at once if too many are in progress. Clones are the same
/// agent.
pub type Agent = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// The agent whose requests `router` answers, in this process.
pub fn agent_of(router: Router) -> Agent {
    BoxCloneSyncService::new(service_fn(move |request: Request<Body>| {
        let answering = router.clone().oneshot(request);
        async { answering.await.map_err(BoxError::from) }
    }))
}

/// URL path of the endpoint on the webhook's port.
pub const PATH: &str = "/tunnel";

/// Subprotocol of the WebSocket. Another version of the tunnel has another name.
pub const PROTOCOL: &str = "argosy.tunnel.v1";

/// Header of the request: the name of the cluster, a dot, and the token. The API server drops the
/// query of an Upgrade and `Authorization`, and keeps other headers.
pub const HEADER: &str = "x-argosy-tunnel";

/// Header of a request to an agent: UID of the Workflow in the WDS that the asked pod belongs to.
pub const ORIGIN_HEADER: &str = "x-argosy-origin-uid";

/// Beginning of the line that ends a log which was cut off. An API server tells its client nothing
/// else.
pub const CUT: &str = "argosy: this log is cut off here";

/// Beginning of that line if it follows a line that has no end. The line break between them is not
/// one of the log.
pub const CUT_WITHIN_LINE: &str = "argosy: this log is cut off here, within a line";

/// Maximum number of streams of a tunnel at a time. Each is one request.
pub const STREAMS: u32 = 64;

/// Bytes of a stream that are received before they are read.
const STREAM_WINDOW: u32 = 256 << 10;

/// Bytes of all streams that are received before they are read. The windows of all streams fit, so
/// streams that are not read leave room for the others.
const CONNECTION_WINDOW: u32 = STREAMS * STREAM_WINDOW;

/// Maximum bytes of a stream that wait to be sent.
const SEND_BUFFER: usize = 64 << 10;

/// Maximum payload of an HTTP/2 frame that is received, in bytes; the smallest that the protocol
/// allows.
const FRAME: u32 = 16 << 10;

/// Silence after which an end sends a ping. It is less than the idle timeouts of load balancers and
/// NAT, and less than the read timeouts of our clients of API servers.
pub const PING_EVERY: Duration = Duration::from_secs(10);

/// Time for the answer to a ping. After that, the connection is given up.
pub const PING_ANSWER: Duration = Duration::from_secs(5);

/// Time from the accepted Upgrade to the first bytes of HTTP/2, which the controller sends at once.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Runs the tasks of one connection. They end when the token is canceled, in whatever state their
/// streams are: hyper alone would keep a connection open until the last of its streams has ended.
#[derive(Clone, Debug)]
struct Tasks(CancellationToken);

impl<F> Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        tokio::spawn(self.0.clone().run_until_cancelled_owned(task));
    }
}

/// True if a header lists `value`. Case does not matter.
pub fn lists(headers: &HeaderMap, name: &HeaderName, value: &str) -> bool {
    let lists = headers.get_all(name).into_iter();
    let mut values = lists
        .filter_map(|list| list.to_str().ok())
        .flat_map(|list| list.split(','));
    values.any(|listed| listed.trim().eq_ignore_ascii_case(value))
}
