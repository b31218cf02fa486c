use std::{io, net::Ipv4Addr};

use argosy_api::ManagedCluster;
use axum::{
    Router,
    body::{Body, BodyDataStream, Bytes},
    http::StatusCode,
};
use futures::{StreamExt, stream};
use kube::Config;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle, time::timeout};

use super::*;
use crate::runtime::tunnel::{
    PATH,
    accept::router,
    agent_of,
    dial::{Error, dial},
};

const CLUSTER: &str = "team.blue";

/// More than time enough, and little for a test that fails.
const SOON: Duration = Duration::from_secs(10);

/// A controller that listens on the loopback address, with one cluster.
struct Lab {
    tunnels: Tunnels,
    opened: mpsc::Receiver<Tunnel>,
    /// An agent's client of the controller.
    agent: Client,
    token: Token,
}

type Serving = JoinHandle<Result<(), Error>>;

fn member(annotations: &Value) -> ObservedMember {
    let cluster = json!({ "metadata": { "name": CLUSTER, "annotations": annotations }, "spec": {} });
    ObservedMember::from(serde_json::from_value::<ManagedCluster>(cluster).unwrap())
}

/// The cluster with this status of its availability.
fn available(status: &str) -> ObservedMember {
    let condition = json!({
        "type": "ManagedClusterConditionAvailable", "status": status, "reason": "Lease", "message": "",
        "lastTransitionTime": "2026-11-21T10:00:00Z",
    });
    let status = json!({ "conditions": [condition] });
    let cluster = json!({ "metadata": { "name": CLUSTER }, "spec": {}, "status": status });
    ObservedMember::from(serde_json::from_value::<ManagedCluster>(cluster).unwrap())
}

fn lease(version: &str, token: &Token) -> Lease {
    let lease = json!({
        "metadata": {
            "name": names::CLUSTER_LEASE, "namespace": CLUSTER, "resourceVersion": version,
            "annotations": { names::TUNNEL_ANNOTATION: token.digest().to_string() },
        },
        "spec": { "leaseDurationSeconds": 60 },
    });
    serde_json::from_value(lease).unwrap()
}

/// State with the cluster and without agents, and an ITS that has nothing.
fn tunnels() -> Tunnels {
    let tunnels = Tunnels::new(&Client::new(Router::new(), "default"));
    tunnels.know(&Change::Reset(vec![member(&json!({}))]));
    tunnels
}

impl Lab {
    async fn new() -> Self {
        let tunnels = tunnels();
        let (sender, opened) = mpsc::channel(4);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let served = axum::serve(listener, router(tunnels.clone(), sender));
        tokio::spawn(async move { served.await });
        let token = Token::generate().unwrap();
        tunnels.learn(Change::Reset(vec![lease("1", &token)]));
        let agent = Client::try_from(Config::new(address.parse().unwrap())).unwrap();
        Self {
            tunnels,
            opened,
            agent,
            token,
        }
    }

    /// An agent with an open tunnel.
    async fn tunnel(&mut self) -> Serving {
        let dialed = dial(&self.agent, PATH, CLUSTER, &self.token).await.unwrap();
        let serving = tokio::spawn(async move {
            let stop = CancellationToken::new();
            dialed.serve(Router::new().fallback(endless), &stop).await
        });
        let tunnel = timeout(SOON, self.opened.recv()).await.unwrap();
        self.tunnels.open(tunnel.unwrap());
        serving
    }

    /// The verdict on the agent's token.
    async fn verdict(&self) -> Verdict {
        self.tunnels.authenticate(CLUSTER, &self.token).await
    }

    fn close(&self, now: Instant) {
        self.tunnels.lock().close(now);
    }

    fn is_open(&self) -> bool {
        self.tunnels.agent(&CLUSTER.into()).is_ok()
    }
}

/// An answer that does not end.
async fn endless() -> Body {
    let first = stream::iter([Ok::<_, io::Error>(Bytes::from_static(b"line\n"))]);
    Body::from_stream(first.chain(stream::pending()))
}

/// An answer of the cluster's agent, which has begun.
async fn following(tunnels: &Tunnels) -> BodyDataStream {
    let request = axum::http::Request::get("/").body(Body::empty()).unwrap();
    let agent = tunnels.agent(&CLUSTER.into()).unwrap();
    let answer = tower::ServiceExt::oneshot(agent, request).await.unwrap();
    let mut parts = answer.into_body().into_data_stream();
    assert_eq!(parts.next().await.unwrap().unwrap(), "line\n");
    parts
}

/// Waits until the agent has noticed the end of its tunnel.
async fn ends(serving: Serving) {
    let served = timeout(SOON, serving).await;
    let _how = served.expect("the agent still serves").unwrap();
}

#[tokio::test]
async fn a_second_tunnel_of_a_cluster_closes_the_first() {
    let mut lab = Lab::new().await;
    let first = lab.tunnel().await;
    let second = lab.tunnel().await;
    ends(first).await;
    lab.close(Instant::now());
    assert!(lab.is_open() && !second.is_finished());
}

#[tokio::test]
async fn a_tunnel_is_closed_when_its_lease_ends_and_a_renewed_one_opens_another() {
    let mut lab = Lab::new().await;
    let serving = lab.tunnel().await;
    lab.close(Instant::now() + Duration::from_secs(50));
    assert!(lab.is_open());
    lab.close(Instant::now() + Duration::from_secs(70));
    assert!(!lab.is_open());
    ends(serving).await;
    let _again = lab.tunnel().await;
    assert!(lab.is_open());
}

#[tokio::test]
async fn a_tunnel_is_closed_when_the_lease_names_another_token() {
    let mut lab = Lab::new().await;
    let serving = lab.tunnel().await;
    let other = lease("2", &Token::generate().unwrap());
    lab.tunnels.learn(Change::Apply(Box::new(other)));
    lab.close(Instant::now());
    ends(serving).await;
    assert_eq!(lab.verdict().await, Verdict::Refused);
}

#[tokio::test]
async fn an_old_tunnel_is_closed_when_nothing_uses_it_and_a_very_old_one_in_any_case() {
    let mut lab = Lab::new().await;
    let serving = lab.tunnel().await;
    let opened = Instant::now();
    let after = |lab: &Lab, time: Duration| {
        for lease in lab.tunnels.lock().leases.values_mut() {
            lease.changed_at = opened + time;
        }
        lab.close(opened + time);
        lab.is_open()
    };
    assert!(after(&lab, Duration::from_mins(59)));
    let used = following(&lab.tunnels).await;
    assert!(after(&lab, Duration::from_hours(11)), "it is used");
    assert!(!after(&lab, Duration::from_hours(13)));
    drop(used);
    ends(serving).await;
    let serving = lab.tunnel().await;
    assert!(!after(&lab, Duration::from_mins(61)), "it is not used");
    ends(serving).await;
}

#[tokio::test]
async fn a_cluster_without_a_tunnel_is_said_to_have_none_since_the_last_one_ended() {
    let mut lab = Lab::new().await;
    let said = |lab: &Lab| match lab.tunnels.agent(&CLUSTER.into()) {
        Ok(_) => panic!("it has a tunnel"),
        Err(unreachable) => unreachable.to_string(),
    };
    assert!(said(&lab).ends_with("at the moment"), "{}", said(&lab));
    let serving = lab.tunnel().await;
    let before = Timestamp::now().as_second();
    lab.close(Instant::now() + Duration::from_secs(70));
    ends(serving).await;
    let text = said(&lab);
    let (_, since) = text.split_once(" since ").expect("a time");
    let since: Timestamp = since.parse().unwrap();
    assert!(since.as_second() >= before, "{text}");
    lab.tunnels.know(&Change::Reset(Vec::new()));
    lab.close(Instant::now());
    assert!(lab.tunnels.lock().ended_at.is_empty(), "it has left the fleet");
}

#[tokio::test]
async fn a_controller_that_leads_no_more_closes_all_tunnels() {
    let mut lab = Lab::new().await;
    let serving = lab.tunnel().await;
    let (_sender, opened) = mpsc::channel(1);
    let stop = CancellationToken::new();
    stop.cancel();
    lab.tunnels.keep(opened, KubeletMetrics::default(), stop).await;
    ends(serving).await;
    assert_eq!(lab.verdict().await, Verdict::NotLeading);
}

#[tokio::test]
async fn a_lease_alone_makes_no_cluster_and_one_that_leaves_loses_its_tunnel() {
    let removed = member(&json!({ names::REMOVED_ANNOTATION: "true" }));
    let turned_off = member(&json!({ names::NODE_ANNOTATION: names::NODE_OFF }));
    for change in [
        Change::Apply(Box::new(removed)),
        Change::Apply(Box::new(turned_off)),
        Change::Delete(Box::new(member(&json!({})))),
        Change::Reset(Vec::new()),
    ] {
        let mut lab = Lab::new().await;
        let serving = lab.tunnel().await;
        lab.tunnels.know(&change);
        lab.close(Instant::now());
        ends(serving).await;
        assert_eq!(lab.verdict().await, Verdict::Refused, "{change:?}");
        lab.tunnels.know(&Change::Apply(Box::new(member(&json!({})))));
        let _again = lab.tunnel().await;
    }
}

#[tokio::test]
async fn no_tunnel_opens_before_the_fleet_is_known() {
    let mut lab = Lab::new().await;
    lab.tunnels.lock().fleet = None;
    assert_eq!(lab.verdict().await, Verdict::NotLeading);
    lab.tunnels.know(&Change::Reset(vec![member(&json!({}))]));
    let _serving = lab.tunnel().await;
}

#[tokio::test]
async fn tokens_that_are_refused_meanwhile_do_not_put_off_the_next_read_of_a_lease() {
    let lab = Lab::new().await;
    let (cluster, before) = (ClusterName::from(CLUSTER), Instant::now());
    lab.tunnels.lock().read_at.insert(cluster.clone(), before);
    assert!(lab.tunnels.read_again(&cluster).await.is_none());
    assert_eq!(lab.tunnels.lock().read_at[&cluster], before);
}

#[tokio::test]
async fn the_end_of_a_former_hosted_agent_leaves_the_new_one() {
    let (tunnels, cluster) = (tunnels(), ClusterName::from(CLUSTER));
    let answers = |status: StatusCode| agent_of(Router::new().fallback(async move || status));
    let former = tunnels.host(&cluster, answers(StatusCode::OK));
    let newer = tunnels.host(&cluster, answers(StatusCode::ACCEPTED));
    drop(former);
    let agent = tunnels.agent(&cluster).unwrap();
    let request = axum::http::Request::get("/").body(Body::empty()).unwrap();
    let answer = tower::ServiceExt::oneshot(agent, request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::ACCEPTED);
    assert!(tunnels.hosted().borrow().contains(&cluster));
    drop(newer);
    assert!(tunnels.agent(&cluster).is_err());
    assert!(tunnels.hosted().borrow().is_empty());
}

#[tokio::test]
async fn the_hosted_agent_of_a_cluster_whose_node_is_turned_off_is_not_asked() {
    let (tunnels, cluster) = (tunnels(), ClusterName::from(CLUSTER));
    let _hosting = tunnels.host(&cluster, agent_of(Router::new()));
    assert!(tunnels.agent(&cluster).is_ok());
    let turned_off = member(&json!({ names::NODE_ANNOTATION: names::NODE_OFF }));
    tunnels.know(&Change::Apply(Box::new(turned_off)));
    assert!(tunnels.agent(&cluster).is_err());
}

#[tokio::test]
async fn an_answer_of_a_hosted_agent_breaks_off_when_the_node_or_the_cluster_is_lost_or_the_agent_ends() {
    let (tunnels, cluster) = (tunnels(), ClusterName::from(CLUSTER));
    let hosting = tunnels.host(&cluster, agent_of(Router::new().fallback(endless)));
    let mut parts = following(&tunnels).await;
    let turned_off = member(&json!({ names::NODE_ANNOTATION: names::NODE_OFF }));
    tunnels.know(&Change::Apply(Box::new(turned_off)));
    parts.next().await.unwrap().unwrap_err();
    assert!(parts.next().await.is_none());
    let seen = |status: &str| Change::Apply(Box::new(available(status)));
    for lost in [seen("Unknown"), Change::Reset(vec![available("False")])] {
        tunnels.know(&seen("True"));
        let mut parts = following(&tunnels).await;
        tunnels.know(&seen("True"));
        tunnels.know(&lost);
        parts.next().await.unwrap().unwrap_err();
    }
    let mut parts = following(&tunnels).await;
    tunnels.know(&seen("Unknown"));
    drop(hosting);
    parts.next().await.unwrap().unwrap_err();
}

#[tokio::test]
async fn a_cluster_whose_agent_dials_is_told_with_and_without_its_tunnel_and_others_are_not() {
    let mut lab = Lab::new().await;
    let told = |lab: &Lab| {
        let offered = lab.tunnels.lock().offered();
        offered.get(&ClusterName::from(CLUSTER)).copied()
    };
    assert_eq!(told(&lab), Some(false));
    let serving = lab.tunnel().await;
    assert_eq!(told(&lab), Some(true));
    let hosting = lab.tunnels.host(&CLUSTER.into(), agent_of(Router::new()));
    assert_eq!(told(&lab), None, "it is hosted");
    drop(hosting);
    lab.tunnels.know(&Change::Reset(Vec::new()));
    assert_eq!(told(&lab), None, "it has left");
    lab.tunnels.know(&Change::Reset(vec![member(&json!({}))]));
    let mut silent = lease("2", &lab.token);
    silent.metadata.annotations = None;
    lab.tunnels.learn(Change::Apply(Box::new(silent)));
    assert_eq!(told(&lab), None, "its agent serves nothing");
    serving.abort();
}
