//! The tunnel of an agent that dials the controller by its URL, without the API server.

use std::path::PathBuf;

use anyhow::{Context, Result};
use argosy::runtime::tunnel::{
    accept::{Authenticator, Tunnel, Verdict, router},
    token::{Digest, Token},
};
use argosy_api::names;
use argosy_tests::testenv::{
    Fixture, Member,
    admission::eventually,
    binaries::{AgentSettings, Binary},
    served::Served,
    waiting::PATIENCE,
};
use axum::{body::Body, http::Request};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::{sync::mpsc, time::timeout};
use tower::ServiceExt;

/// Plays the controller: it reads the digest in the Lease of a cluster, as the controller does.
struct Leases(Client);

impl Authenticator for Leases {
    async fn authenticate(&self, cluster: &str, token: &Token) -> Verdict {
        let leases: Api<Lease> = Api::namespaced(self.0.clone(), cluster);
        let lease = leases.get(names::CLUSTER_LEASE).await.ok();
        let digest =
            lease.and_then(|lease| Digest::parse(lease.annotations().get(names::TUNNEL_ANNOTATION)?));
        if digest.is_some_and(|digest| digest.is_of(token)) {
            Verdict::Admitted
        } else {
            Verdict::Refused
        }
    }
}

/// A server behind a URL, and a cluster to whose agent the URL is offered.
struct Lab {
    fixture: Fixture,
    member: Member,
    agent: Binary,
    _served: Served,
    tunnels: mpsc::Receiver<Tunnel>,
}

impl Lab {
    /// With an agent that knows the server's certificate, if `is_known`.
    async fn new(name: &str, is_known: bool) -> Result<Self> {
        let fixture = Fixture::new(name).await?;
        let member = fixture.join("pull", &fixture.env.servers.wecs[0]).await?;
        let (opening, tunnels) = mpsc::channel(1);
        let served = Served::direct(router(Leases(fixture.control.clone()), opening)).await?;
        let url = format!("https://{}/", served.address());
        let offer = json!({ "metadata": { "annotations": { names::TUNNEL_ANNOTATION: url } } });
        fixture
            .clusters()
            .patch(&member.cluster, &PatchParams::default(), &Patch::Merge(offer))
            .await?;
        let settings = AgentSettings {
            lease_seconds: 15,
            artifact_namespace: fixture.namespace.clone(),
        };
        let certificate = Served::certificate()?.display().to_string();
        let variables = [("ARGOSY_TUNNEL_CA", certificate)];
        let variables = if is_known { &variables[..] } else { &[] };
        let (its, wec): (_, PathBuf) = (fixture.env.control.kubeconfig(), member.kubeconfig.clone());
        let agent = Binary::agent(&member.cluster, its, &wec, &settings, variables).await?;
        Ok(Self {
            fixture,
            member,
            agent,
            _served: served,
            tunnels,
        })
    }
}

#[tokio::test]
async fn an_agent_dials_a_url_that_is_offered_and_answers_there() -> Result<()> {
    let mut lab = Lab::new("tunnel-by-url", true).await?;
    let tunnel = timeout(PATIENCE, lab.tunnels.recv()).await?;
    let tunnel = tunnel.context("the endpoint is there")?;
    assert_eq!(tunnel.cluster(), lab.member.cluster);
    let path = format!("/api/v1/namespaces/{}/pods/absent/log", lab.fixture.namespace);
    let request = Request::get(path).body(Body::empty())?;
    let response = tunnel.agent().clone().oneshot(request).await;
    let response = response.map_err(|error| anyhow::anyhow!("no answer: {error}"))?;
    assert_eq!(response.status(), 404);
    Ok(())
}

#[tokio::test]
async fn an_agent_sends_its_token_to_no_server_whose_certificate_it_does_not_know() -> Result<()> {
    let mut lab = Lab::new("tunnel-by-unknown-url", false).await?;
    let agent = &lab.agent;
    eventually("the agent says why", async || {
        Ok(agent.log()?.contains("cannot open the tunnel to the controller"))
    })
    .await?;
    assert!(lab.tunnels.try_recv().is_err(), "a tunnel was opened");
    Ok(())
}
