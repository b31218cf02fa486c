use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, client::ClientBuilder};
use tokio::time::timeout;
use tower::service_fn;

use super::*;
use crate::runtime::requests::create_at_once;

/// Counts the requests that reach it, and responds when `answers` is true.
#[derive(Clone)]
struct Server {
    asked: Arc<AtomicUsize>,
    answers: watch::Receiver<bool>,
}

impl Server {
    fn new() -> (Self, watch::Sender<bool>) {
        let (sender, answers) = watch::channel(true);
        let asked = Arc::default();
        (Self { asked, answers }, sender)
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Service<Request<()>> for Server {
    type Response = ();
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<(), Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let mut server = self.clone();
        Box::pin(async move {
            server.asked.fetch_add(1, Ordering::SeqCst);
            let _ = server.answers.wait_for(|answers| *answers).await;
            Ok(())
        })
    }
}

fn request(method: Method, uri: &str) -> Request<()> {
    Request::builder().method(method).uri(uri).body(()).unwrap()
}

fn write() -> Request<()> {
    request(Method::PATCH, "/api/v1/namespaces/a/configmaps/b")
}

async fn ask(gate: &Gate, server: &Server, request: Request<()>) -> Result<(), BoxError> {
    gate.layer(server.clone()).call(request).await
}

#[test]
fn a_write_is_told_from_a_read_an_event_and_a_question() {
    for (method, uri, expected) in [
        (Method::GET, "/api/v1/pods", false),
        (Method::POST, "/api/v1/namespaces/a/configmaps", true),
        (Method::PUT, "/api/v1/namespaces/a/configmaps/b", true),
        (Method::PATCH, "/api/v1/namespaces/events/configmaps/events", true),
        (
            Method::DELETE,
            "/apis/argoproj.io/v1alpha1/namespaces/a/workflows/b",
            true,
        ),
        (Method::POST, "/apis/events.k8s.io/v1/namespaces/a/events", false),
        (
            Method::PATCH,
            "/apis/events.k8s.io/v1/namespaces/a/events/b",
            false,
        ),
        (
            Method::POST,
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            false,
        ),
    ] {
        let uri: Uri = uri.parse().unwrap();
        assert_eq!(is_write(&method, &uri), expected, "{method} {uri}");
    }
}

#[tokio::test]
async fn who_does_not_lead_reads_and_does_not_write() {
    let (server, _answers) = Server::new();
    let gate = Gate::closed();
    let refused = ask(&gate, &server, write()).await.unwrap_err();
    assert_eq!(refused.downcast_ref(), Some(&NotLeading));
    assert_eq!(server.asked(), 0);
    assert!(
        ask(&gate, &server, request(Method::GET, "/api/v1/pods"))
            .await
            .is_ok()
    );
    assert!(ask(&Gate::open(), &server, write()).await.is_ok());
}

fn in_millis(millis: u64) -> Instant {
    Instant::now() + Duration::from_millis(millis)
}

#[tokio::test]
async fn writes_begin_until_the_last_renewal_says_so() {
    let (server, _answers) = Server::new();
    let gate = Gate::closed();
    let far = in_millis(60_000);
    gate.extend(far, far);
    assert!(ask(&gate, &server, write()).await.is_ok());
    gate.extend(Instant::now(), far);
    let mut waiting = Box::pin(ask(&gate, &server, write()));
    assert!((&mut waiting).now_or_never().is_none());
    assert!(
        ask(&gate, &server, request(Method::GET, "/api/v1/pods"))
            .await
            .is_ok()
    );
    assert_eq!(server.asked(), 2);
    gate.extend(far, far);
    assert!(waiting.await.is_ok());
    gate.close();
    assert!(ask(&gate, &server, write()).await.is_err());
    assert_eq!(server.asked(), 3);
}

#[tokio::test]
async fn a_creation_with_a_fence_is_refused_while_the_leader_is_late() {
    let gate = Gate::closed();
    gate.extend(Instant::now(), in_millis(60_000));
    let unreachable = service_fn(|_: Request<kube::client::Body>| async {
        Err::<axum::http::Response<kube::client::Body>, _>(std::io::Error::other("it was sent"))
    });
    let client = ClientBuilder::new(unreachable, "default")
        .with_layer(&gate)
        .build();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let creating = create_at_once(&api, "argosy", &ConfigMap::default());
    let refused = timeout(Duration::from_secs(5), creating)
        .await
        .unwrap()
        .unwrap_err();
    assert!(refused.to_string().contains(&NotLeading.to_string()), "{refused}");
}

#[tokio::test]
async fn a_write_that_waits_is_refused_when_the_leadership_is_given_up() {
    let (server, _answers) = Server::new();
    let gate = Gate::closed();
    gate.extend(Instant::now(), in_millis(60_000));
    let mut waiting = Box::pin(ask(&gate, &server, write()));
    assert!((&mut waiting).now_or_never().is_none());
    // Waiting writes hold up nobody who ends.
    gate.settle(Duration::from_mins(1)).await;
    gate.close();
    assert_eq!(waiting.await.unwrap_err().downcast_ref(), Some(&NotLeading));
    assert_eq!(server.asked(), 0);
}

/// Starts a write that has no response until `answers` is true.
async fn under_way(gate: &Gate, server: &Server) -> tokio::task::JoinHandle<Result<(), String>> {
    let asking = (gate.clone(), server.clone());
    let asked = tokio::spawn(async move {
        let answer = ask(&asking.0, &asking.1, write()).await;
        answer.map_err(|error| error.to_string())
    });
    while server.asked() == 0 {
        tokio::task::yield_now().await;
    }
    asked
}

#[tokio::test]
async fn an_answer_is_waited_for_until_another_may_lead_and_each_renewal_puts_that_off() {
    let (server, answers) = Server::new();
    answers.send_replace(false);
    let gate = Gate::closed();
    gate.extend(in_millis(60_000), in_millis(100));
    let asked = under_way(&gate, &server).await;
    let end = in_millis(300);
    gate.extend(in_millis(60_000), end);
    assert_eq!(asked.await.unwrap(), Err(NotLeading.to_string()));
    assert!(Instant::now() >= end);
}

#[tokio::test]
async fn it_settles_when_all_are_answered() {
    let (server, answers) = Server::new();
    let gate = Gate::closed();
    let far = in_millis(60_000);
    gate.extend(far, far);
    gate.settle(Duration::from_mins(1)).await;
    answers.send_replace(false);
    let asked = under_way(&gate, &server).await;
    let mut settling = Box::pin(gate.settle(Duration::from_mins(1)));
    assert_eq!((&mut settling).now_or_never(), None);
    answers.send_replace(true);
    assert_eq!(asked.await.unwrap(), Ok(()));
    settling.await;
}

#[tokio::test]
async fn what_was_given_up_has_time_to_arrive() {
    let (server, answers) = Server::new();
    answers.send_replace(false);
    let gate = Gate::closed();
    let far = in_millis(60_000);
    gate.extend(far, far);
    let asked = under_way(&gate, &server).await;
    let (given_up, limit) = (Instant::now(), Duration::from_millis(200));
    asked.abort();
    gate.settle(limit).await;
    assert!(given_up.elapsed() >= limit);
}
