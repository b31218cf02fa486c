//! Sessions in the containers of other clusters: exec, attach and port-forward. The agent opens the
//! session (`runtime::tunnel::session`), and its bytes are passed on in both directions.
//!
//! Not here: the check of the request (`admit`).

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use axum::{
    Extension,
    body::Body,
    extract::{Path, Request, State},
    http::{
        self, HeaderMap, HeaderValue, Response, StatusCode,
        header::{CONNECTION, UPGRADE},
    },
};
use futures::StreamExt;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, DuplexStream, duplex, split},
    time::{sleep, timeout},
};

use super::{
    Reach,
    account::Account,
    admit::{ANSWER, Endpoint, Refusal, is_name},
};
use crate::runtime::tunnel::{
    lists,
    session::{PROTOCOL_VERSION, SPDY, body_of, parts_of, versions, write_all},
};

/// Maximum length of a query in bytes: it contains the command.
const LONGEST_QUERY: usize = 16 << 10;

/// Bytes of one direction that are read before they are passed on.
const BUFFER: usize = 64 << 10;

/// Time for which one side of a session may be silent after the other one has ended.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Time for which the input of a session that has ended is still read.
const LAST_INPUT: Duration = Duration::from_mins(5);

/// A kind of session.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Exec,
    Attach,
    PortForward,
}

impl Kind {
    /// The subresource of the pod.
    fn subresource(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portforward",
        }
    }
}

/// The query of a kubelet as that of an API server (PodExecOptions of Kubernetes).
pub(super) fn query(kind: Kind, container: Option<&str>, asked: &str) -> String {
    let container = container.map(|name| format!("container={name}"));
    let pairs = asked.split('&').filter_map(|pair| pair.split_once('='));
    let known = pairs.filter_map(|(name, value)| match (kind, name) {
        (Kind::Exec, "command") => Some(format!("command={value}")),
        (Kind::PortForward, _) => None,
        (_, "input") => flag("stdin", value),
        (_, "output") => flag("stdout", value),
        (_, "error") => flag("stderr", value),
        (_, "tty") => flag("tty", value),
        _ => None,
    });
    container.into_iter().chain(known).collect::<Vec<_>>().join("&")
}

fn flag(name: &str, value: &str) -> Option<String> {
    ["1", "true"].contains(&value).then(|| format!("{name}=true"))
}

/// Answers a request for a session of this kind in a container.
pub(super) async fn in_container<R: Reach>(
    kind: Kind,
    endpoint: Endpoint<R>,
    account: Account,
    (namespace, pod, container): (String, String, String),
    request: Request,
) -> Response<Body> {
    let opened = if is_name(&container) {
        open(
            &endpoint,
            &account,
            kind,
            (&namespace, &pod, Some(&container)),
            request,
        )
        .await
    } else {
        Err(Refusal::Malformed)
    };
    endpoint.answered(opened)
}

/// Answers a request to forward ports of a pod.
pub(super) async fn forward<R: Reach>(
    State(endpoint): State<Endpoint<R>>,
    Extension(account): Extension<Account>,
    Path((namespace, pod)): Path<(String, String)>,
    request: Request,
) -> Response<Body> {
    let opened = open(
        &endpoint,
        &account,
        Kind::PortForward,
        (&namespace, &pod, None),
        request,
    )
    .await;
    endpoint.answered(opened)
}

async fn open<R: Reach>(
    endpoint: &Endpoint<R>,
    account: &Account,
    kind: Kind,
    (namespace, pod, container): (&str, &str, Option<&str>),
    mut request: Request,
) -> Result<Response<Body>, Refusal> {
    if !endpoint.exec {
        return Err(Refusal::NoSessions);
    }
    let asked = request.uri().query().unwrap_or_default();
    if asked.len() > LONGEST_QUERY || !lists(request.headers(), &UPGRADE, SPDY) {
        return Err(Refusal::Malformed);
    }
    let path = format!(
        "/api/v1/namespaces/{namespace}/pods/{pod}/{}?{}",
        kind.subresource(),
        query(kind, container, asked)
    );
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let upgrade = upgrade.ok_or(Refusal::Malformed)?;
    let admitted = endpoint.admit(account, "create", namespace, pod).await?;
    let (near, far) = duplex(BUFFER);
    let mut asking = http::Request::post(path);
    for version in versions(request.headers()) {
        asking = asking.header(PROTOCOL_VERSION, version);
    }
    let answer = admitted.ask(asking.body(body_of(far))).await?;
    let response = switching(answer.headers());
    let kept = (admitted.place, endpoint.metrics.opened());
    tokio::spawn(async move {
        // The API server upgrades as soon as it has the answer.
        if let Ok(Ok(session)) = timeout(ANSWER, upgrade).await {
            relay(TokioIo::new(session), near, answer.into_body()).await;
        }
        drop(kept);
    });
    Ok(response)
}

fn switching(answer: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(SPDY));
    for version in versions(answer) {
        headers.append(PROTOCOL_VERSION, version.clone());
    }
    response
}

/// Passes the bytes on until the agent's side ends, or is silent for [`LAST_WORDS`] after the API
/// server's side has ended or the agent takes nothing any more.
async fn relay(session: impl AsyncRead + AsyncWrite + Send, near: DuplexStream, answer: Body) {
    relay_for(session, near, answer, LAST_WORDS).await;
}

async fn relay_for(
    session: impl AsyncRead + AsyncWrite + Send,
    near: DuplexStream,
    answer: Body,
    last_words: Duration,
) {
    let (mut reader, writer) = split(session);
    let parts = AtomicU64::new(0);
    {
        let asking = async {
            write_all(parts_of(&mut reader), near).await;
            until_silent(&parts, last_words).await;
        };
        let answer = answer.into_data_stream().inspect(|_| {
            parts.fetch_add(1, Ordering::Relaxed);
        });
        let answering = write_all(answer, writer);
        tokio::select! {
            () = asking => return,
            _ = answering => {}
        }
    }
    // A connection is reset if it is closed with unread bytes or if more bytes come afterwards, and
    // the output that is still on its way is lost: megabytes if its reader is slow. Go's API server
    // ends its side when it has read everything.
    let _ = timeout(LAST_INPUT, read_until_silent(&mut reader, last_words)).await;
}

/// Reads until the end, an error or a silence of this duration.
async fn read_until_silent(reader: &mut (impl AsyncRead + Unpin), silence: Duration) {
    let mut bytes = vec![0; 4 << 10];
    while let Ok(Ok(1..)) = timeout(silence, reader.read(&mut bytes)).await {}
}

/// Waits until the number of parts has not changed for `silence`.
async fn until_silent(parts: &AtomicU64, silence: Duration) {
    loop {
        let before = parts.load(Ordering::Relaxed);
        sleep(silence).await;
        if parts.load(Ordering::Relaxed) == before {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use tokio::{
        io::AsyncWriteExt,
        net::{TcpListener, TcpStream},
        time::interval,
    };

    use super::*;

    /// More than time enough, and little for a test that fails.
    const SOON: Duration = Duration::from_secs(10);

    fn silent() -> Body {
        Body::from_stream(stream::pending::<std::io::Result<axum::body::Bytes>>())
    }

    #[tokio::test]
    async fn a_session_ends_soon_after_the_api_server_has_ended_its_side() {
        let (near, mut agent) = duplex(64);
        let (session, mut api_server) = duplex(64);
        api_server.write_all(b"exit\n").await.unwrap();
        drop(api_server);
        let relaying = relay_for(session, near, silent(), Duration::from_millis(50));
        timeout(SOON, relaying).await.expect("it waits for the agent");
        let mut input = String::new();
        agent.read_to_string(&mut input).await.unwrap();
        assert_eq!(input, "exit\n");
    }

    #[tokio::test]
    async fn the_last_output_is_followed_by_the_end_while_input_is_still_read() {
        let (near, _agent) = duplex(64);
        let (session, mut api_server) = duplex(8);
        let relaying = tokio::spawn(relay(session, near, Body::from("bye")));
        let mut read = String::new();
        timeout(SOON, api_server.read_to_string(&mut read))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(read, "bye");
        // More than the connection holds, so that somebody must read it.
        api_server.write_all(&[0; 64]).await.unwrap();
        drop(api_server);
        timeout(SOON, relaying).await.unwrap().unwrap();
    }
    #[tokio::test]
    async fn a_slow_api_server_that_still_writes_gets_all_output_of_a_session_that_has_ended() {
        const OUTPUT: usize = 100_000;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dialing = TcpStream::connect(listener.local_addr().unwrap());
        let (session, api_server) = tokio::join!(listener.accept(), dialing);
        let ((session, _), mut api_server) = (session.unwrap(), api_server.unwrap());
        let (near, _agent) = duplex(64);
        let silence = Duration::from_secs(2);
        let relaying = tokio::spawn(relay_for(session, near, Body::from(vec![1; OUTPUT]), silence));
        // It takes half as long again as the longest silence.
        let mut ticks = interval(Duration::from_millis(200));
        let mut part = vec![0; OUTPUT / 15];
        for _ in 0..15 {
            ticks.tick().await;
            api_server.write_all(b"more").await.unwrap();
            api_server.read_exact(&mut part).await.unwrap();
        }
        let mut rest = Vec::new();
        api_server.read_to_end(&mut rest).await.unwrap();
        assert_eq!(part.len() * 15 + rest.len(), OUTPUT);
        drop(api_server);
        timeout(SOON, relaying).await.unwrap().unwrap();
    }
}
