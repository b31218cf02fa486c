//! The tunnel: HTTP/2 in a WebSocket that is dialed through `services/proxy` of a real API server.
//! Both ends are the code of Argosy, in this process.

use std::{
    convert::Infallible,
    iter::repeat_n,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use argosy::runtime::{
    client::{connect_counted, switch::Switch},
    leader::gate::Gate,
    metrics::{Metrics, Space},
    tunnel::{
        PATH, PING_ANSWER, PING_EVERY, STREAMS,
        accept::{Authenticator, Tunnel, Verdict, router},
        dial::{Error, dial, through_service},
        token::{Digest, Token},
    },
};
use argosy_tests::testenv::{
    TestEnv,
    admission::eventually,
    objects::create_namespace,
    proxy::Proxy,
    served::{PORT, Served},
    waiting::PATIENCE,
};
use axum::{
    Router,
    body::{self, Body, BodyDataStream, Bytes},
    http::{Request, Response, StatusCode},
    routing::get,
};
use futures::{StreamExt, future::try_join_all, stream};
use kube::{Client, Config};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const CLUSTER: &str = "team.blue";
const SERVICE: &str = "argosy-controller";

/// Time within which an end notices that the other is gone, and some for a slow machine.
const NOTICED: Duration = Duration::from_secs(PING_EVERY.as_secs() + PING_ANSWER.as_secs() + 5);

/// Plays the controller: it knows one cluster by the digest in its Lease.
struct Published {
    digest: Digest,
    leads: bool,
}

impl Authenticator for Published {
    async fn authenticate(&self, cluster: &str, token: &Token) -> Verdict {
        match (self.leads, cluster == CLUSTER && self.digest.is_of(token)) {
            (false, _) => Verdict::NotLeading,
            (true, true) => Verdict::Admitted,
            (true, false) => Verdict::Refused,
        }
    }
}

/// A controller behind a Service, and an agent's client of the API server.
struct Lab {
    agent: Client,
    path: String,
    token: Token,
    served: Served,
    tunnels: mpsc::Receiver<Tunnel>,
}

/// An agent that serves.
struct Agent(JoinHandle<Result<(), Error>>);

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Lab {
    async fn new(name: &str) -> Result<Self> {
        Self::start(name, true).await
    }

    async fn start(name: &str, leads: bool) -> Result<Self> {
        let env = TestEnv::shared().await?;
        let control = env.control.client().await?;
        create_namespace(&control, name).await?;
        let token = Token::generate()?;
        let digest = token.digest();
        let (opened, tunnels) = mpsc::channel(4);
        let router = router(Published { digest, leads }, opened);
        Ok(Self {
            served: Served::start(&control, name, SERVICE, router).await?,
            path: through_service(name, SERVICE, PORT),
            agent: agents_client(env.control.kubeconfig()).await?,
            token,
            tunnels,
        })
    }

    /// A tunnel to an agent that answers with `service`.
    async fn tunnel(&mut self, service: Router) -> Result<(Agent, Tunnel)> {
        let (client, path) = (self.agent.clone(), self.path.clone());
        self.tunnel_through(&client, &path, service).await
    }

    async fn tunnel_through(
        &mut self,
        client: &Client,
        path: &str,
        service: Router,
    ) -> Result<(Agent, Tunnel)> {
        let dialed = dial(client, path, CLUSTER, &self.token).await?;
        let serving = async move { dialed.serve(service, &CancellationToken::new()).await };
        let agent = Agent(tokio::spawn(serving));
        let tunnel = within(PATIENCE, "the tunnel opens", self.tunnels.recv()).await?;
        Ok((agent, tunnel.context("the endpoint is there")?))
    }

    /// The status and message with which a tunnel for `cluster` is refused.
    async fn refusal(&self, cluster: &str, token: &Token) -> Result<(u16, String)> {
        match dial(&self.agent, &self.path, cluster, token).await {
            Err(Error::Refused { status, message }) => Ok((status.as_u16(), message)),
            other => bail!("expected a refusal: {other:?}"),
        }
    }
}

/// A client with all layers and timeouts that an agent has, and which can be replaced.
async fn agents_client(kubeconfig: &Path) -> Result<Client> {
    let counted = Metrics::default().requests(Space::Its);
    let client = connect_counted(Some(kubeconfig), counted.clone(), &Gate::open()).await?;
    Ok(Switch::new(client).client(&counted, &Gate::open()))
}

async fn within<T>(time: Duration, what: &str, future: impl Future<Output = T>) -> Result<T> {
    let found = timeout(time, future).await;
    found.with_context(|| format!("waited {} s: {what}", time.as_secs()))
}

/// The answer of the agent, when its headers are there.
async fn ask(tunnel: &Tunnel, path: &str) -> Result<Response<Body>> {
    let request = Request::get(path).body(Body::empty())?;
    let response = within(PATIENCE, path, tunnel.agent().clone().oneshot(request)).await?;
    let response = response.map_err(anyhow::Error::from_boxed)?;
    ensure!(response.status().is_success(), "{path}: {}", response.status());
    Ok(response)
}

fn parts(response: Response<Body>) -> BodyDataStream {
    response.into_body().into_data_stream()
}

/// The number of bytes until the end.
async fn count(mut parts: BodyDataStream) -> Result<usize> {
    let mut count = 0;
    while let Some(part) = within(PATIENCE, "the next part", parts.next()).await? {
        count += part?.len();
    }
    Ok(count)
}

fn hello() -> Router {
    Router::new().route("/hello", get(|| async { "hello from the agent" }))
}

/// Answers `/lines` with the lines that are sent, each when it is sent.
fn lines() -> (mpsc::Sender<String>, Router) {
    let (sender, receiver) = mpsc::channel::<String>(1);
    let receiver = Arc::new(Mutex::new(Some(receiver)));
    let answer = get(move || async move {
        let lines = receiver.lock().ok().and_then(|mut receiver| receiver.take());
        let mut lines = lines.ok_or(StatusCode::GONE)?;
        let lines = stream::poll_fn(move |context| lines.poll_recv(context));
        Ok::<_, StatusCode>(Body::from_stream(lines.map(Ok::<_, Infallible>)))
    });
    (sender, hello().route("/lines", answer))
}

/// A body of `number` parts, which counts the bytes that were taken of it.
fn flood(part: &'static [u8], number: usize, taken: Arc<AtomicUsize>) -> Body {
    let parts = stream::iter(repeat_n(Bytes::from_static(part), number));
    Body::from_stream(parts.map(move |part| {
        taken.fetch_add(part.len(), Ordering::Relaxed);
        Ok::<_, Infallible>(part)
    }))
}

#[tokio::test]
async fn a_request_over_the_tunnel_is_answered_by_the_agents_service() -> Result<()> {
    let mut lab = Lab::new("tunnel-hello").await?;
    let (_agent, tunnel) = lab.tunnel(hello()).await?;
    assert_eq!(tunnel.cluster(), CLUSTER);
    let answer = ask(&tunnel, "/hello").await?;
    let text = body::to_bytes(answer.into_body(), 1 << 10).await?;
    assert_eq!(text, "hello from the agent");
    let missing = Request::get("/other").body(Body::empty())?;
    assert_eq!(
        tunnel
            .agent()
            .clone()
            .oneshot(missing)
            .await
            .map_err(anyhow::Error::from_boxed)?
            .status(),
        404
    );
    Ok(())
}

#[tokio::test]
async fn a_url_leads_to_the_controller_without_the_api_server() -> Result<()> {
    let mut lab = Lab::new("tunnel-url").await?;
    let mut config = Config::new(format!("https://{}", lab.served.address()).parse()?);
    config.accept_invalid_certs = true;
    let direct = Client::try_from(config)?;
    let (_agent, tunnel) = lab.tunnel_through(&direct, PATH, hello()).await?;
    ask(&tunnel, "/hello").await?;
    Ok(())
}

#[tokio::test]
async fn lines_arrive_one_by_one_as_they_are_written() -> Result<()> {
    let mut lab = Lab::new("tunnel-lines").await?;
    let (lines, service) = lines();
    let (_agent, tunnel) = lab.tunnel(service).await?;
    let mut parts = parts(ask(&tunnel, "/lines").await?);
    for number in 0..20 {
        let line = format!("line {number}\n");
        lines.send(line.clone()).await?;
        let part = within(PATIENCE, "the line arrives", parts.next()).await?;
        assert_eq!(part.context("the body goes on")??, line);
    }
    drop(lines);
    assert_eq!(count(parts).await?, 0, "the body ends");
    Ok(())
}

#[tokio::test]
#[ignore = "waits for three minutes: scripts/test.sh --all"]
async fn a_stream_that_is_quiet_for_three_minutes_stays_open() -> Result<()> {
    let mut lab = Lab::new("tunnel-quiet").await?;
    let (lines, service) = lines();
    let (_agent, tunnel) = lab.tunnel(service).await?;
    let mut parts = parts(ask(&tunnel, "/lines").await?);
    // The time itself is tested: it is longer than the timeouts of API servers and clients.
    let silence = timeout(Duration::from_mins(3), parts.next()).await;
    assert!(silence.is_err(), "{silence:?}");
    lines.send("still there\n".to_owned()).await?;
    let part = within(PATIENCE, "the line arrives", parts.next()).await?;
    assert_eq!(part.context("the body goes on")??, "still there\n");
    Ok(())
}

#[tokio::test]
async fn of_64_streams_one_that_is_not_read_does_not_stop_the_others() -> Result<()> {
    const PART: &[u8] = &[b'a'; 32 << 10];
    const READ: usize = 512 << 10;
    const UNREAD: usize = 4 << 20;
    let mut lab = Lab::new("tunnel-streams").await?;
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = taken.clone();
    let unread = move || async move { flood(PART, UNREAD / PART.len(), counted) };
    let read = || async { flood(PART, READ / PART.len(), Arc::default()) };
    let service = Router::new()
        .route("/unread", get(unread))
        .route("/read", get(read));
    let (_agent, tunnel) = lab.tunnel(service).await?;
    let unread = ask(&tunnel, "/unread").await?;
    let others = (1..STREAMS).map(|_| async { count(parts(ask(&tunnel, "/read").await?)).await });
    let counts = try_join_all(others).await?;
    assert_eq!(counts, vec![READ; STREAMS as usize - 1]);
    // The sender of the stream waits, with no more than the buffers full.
    let before = taken.load(Ordering::Relaxed);
    assert!((1..1 << 20).contains(&before), "{before}");
    assert_eq!(count(parts(unread)).await?, UNREAD);
    Ok(())
}

#[tokio::test]
async fn single_bytes_that_nobody_reads_do_not_close_the_tunnel() -> Result<()> {
    const WINDOW: usize = 256 << 10;
    const NUMBER: usize = 2 * WINDOW;
    let mut lab = Lab::new("tunnel-bytes").await?;
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = taken.clone();
    let unread = move || async move { flood(b"\n", NUMBER, counted) };
    let (_agent, tunnel) = lab.tunnel(hello().route("/unread", get(unread))).await?;
    let unread = ask(&tunnel, "/unread").await?;
    eventually("the window of the stream is full", async || {
        Ok(taken.load(Ordering::Relaxed) > WINDOW)
    })
    .await?;
    ask(&tunnel, "/hello").await?;
    assert_eq!(count(parts(unread)).await?, NUMBER);
    Ok(())
}

#[tokio::test]
async fn one_request_more_than_64_fails_until_another_has_ended() -> Result<()> {
    let mut lab = Lab::new("tunnel-many").await?;
    let endless = || async { Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()) };
    let (_agent, tunnel) = lab.tunnel(hello().route("/endless", get(endless))).await?;
    let asked = (0..STREAMS).map(|_| ask(&tunnel, "/endless"));
    let mut open = try_join_all(asked).await?;
    let refused = ask(&tunnel, "/hello").await.err().context("it is one too many")?;
    let causes = format!("{refused:#}");
    assert!(causes.contains("64 requests to this cluster"), "{causes}");
    open.pop();
    ask(&tunnel, "/hello").await?;
    Ok(())
}

#[tokio::test]
async fn tokens_that_are_not_the_clusters_are_refused_and_a_follower_says_so() -> Result<()> {
    let mut lab = Lab::new("tunnel-refused").await?;
    let (status, message) = lab.refusal(CLUSTER, &Token::generate()?).await?;
    assert_eq!((status, message.contains("token")), (401, true), "{message}");
    let (status, message) = lab.refusal("team.red", &lab.token).await?;
    assert_eq!((status, message.contains("token")), (401, true), "{message}");
    assert!(lab.tunnels.try_recv().is_err(), "no tunnel is open");
    lab.tunnel(hello()).await?;

    let follower = Lab::start("tunnel-follower", false).await?;
    let (status, message) = follower.refusal(CLUSTER, &follower.token).await?;
    assert_eq!(
        (status, message.contains("does not lead")),
        (503, true),
        "{message}"
    );
    Ok(())
}

#[tokio::test]
async fn an_end_that_closes_is_noticed_by_the_other() -> Result<()> {
    let mut lab = Lab::new("tunnel-closed").await?;
    let (_lines, service) = lines();
    let (agent, tunnel) = lab.tunnel(service).await?;
    let mut parts = parts(ask(&tunnel, "/lines").await?);
    drop(agent);
    within(NOTICED, "the controller notices", tunnel.ended()).await?;
    let part = within(PATIENCE, "its streams end", parts.next()).await?;
    assert!(part.context("they fail")?.is_err());
    assert!(ask(&tunnel, "/hello").await.is_err());

    // With a stream in use, for which hyper would keep the connection.
    let (_lines, service) = lines();
    let (mut agent, tunnel) = lab.tunnel(service).await?;
    let _used = ask(&tunnel, "/lines").await?;
    drop(tunnel);
    let served = within(NOTICED, "the agent notices", &mut agent.0).await??;
    assert!(!matches!(served, Err(Error::Silent)), "{served:?}");
    Ok(())
}

#[tokio::test]
async fn a_link_that_falls_silent_is_noticed_by_both_ends() -> Result<()> {
    let mut lab = Lab::new("tunnel-silent").await?;
    let env = TestEnv::shared().await?;
    let proxy = Proxy::open(env.control.kubeconfig()).await?;
    let client = agents_client(proxy.kubeconfig()).await?;
    let path = lab.path.clone();
    let (mut agent, tunnel) = lab.tunnel_through(&client, &path, hello()).await?;
    ask(&tunnel, "/hello").await?;
    proxy.hang();
    let (controller, agent) = tokio::join!(
        within(NOTICED, "the controller notices", tunnel.ended()),
        within(NOTICED, "the agent notices", &mut agent.0),
    );
    controller?;
    let served = agent??;
    assert!(served.is_err(), "no end was announced");
    Ok(())
}
