//! The end of tunnels to a controller process, and the next one after a cut. Their bytes are tested in
//! `tunnel`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use argosy::runtime::tunnel::{
    dial::{Error, dial, through_service},
    token::Token,
};
use argosy_api::{conditions::managed_cluster as types, names};
use argosy_tests::testenv::{
    Fixture,
    admission::eventually,
    binaries::{AgentSettings, Binary, argosy},
    fixture::conditions,
    objects::CONTROLLER_NAMESPACE,
    proxy::Proxy,
    served::PORT,
    server::client_of,
    signing::{Signing, TUNNEL_SERVICE},
    waiting::{PATIENCE, until},
};
use axum::Router;
use k8s_openapi::api::{coordination::v1::Lease, rbac::v1::RoleBinding};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

/// An agent's end of a tunnel, in this process. It answers nothing.
struct Dialing {
    agent: Client,
    path: String,
    cluster: String,
    token: Token,
}

impl Dialing {
    fn new(agent: Client, cluster: &str) -> Result<Self> {
        Ok(Self {
            agent,
            path: through_service(CONTROLLER_NAMESPACE, TUNNEL_SERVICE, PORT),
            cluster: cluster.to_owned(),
            token: Token::generate()?,
        })
    }

    /// Writes the Lease of the cluster with the digest of `token`.
    async fn renew(&self, token: &Token) -> Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.agent.clone(), &self.cluster);
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": names::CLUSTER_LEASE,
                "annotations": { names::TUNNEL_ANNOTATION: token.digest().to_string() },
            },
            "spec": { "leaseDurationSeconds": 60 },
        });
        let params = PatchParams::apply("agent").force();
        leases
            .patch(names::CLUSTER_LEASE, &params, &Patch::Apply(lease))
            .await?;
        Ok(())
    }

    /// Opens a tunnel, and returns its end.
    async fn open(&self) -> Result<JoinHandle<bool>> {
        let mut opened = None;
        eventually("a tunnel is open", async || {
            opened = dial(&self.agent, &self.path, &self.cluster, &self.token)
                .await
                .ok();
            Ok(opened.is_some())
        })
        .await?;
        let dialed = opened.context("it was opened")?;
        Ok(tokio::spawn(async move {
            let served = dialed.serve(Router::new(), &CancellationToken::new()).await;
            // An end that is noticed only by its silence says that nobody has closed it.
            !matches!(served, Err(Error::Silent))
        }))
    }

    async fn is_refused(&self) -> bool {
        let dialed = dial(&self.agent, &self.path, &self.cluster, &self.token).await;
        matches!(dialed, Err(Error::Refused { status, .. }) if status.as_u16() == 401)
    }
}

#[tokio::test]
async fn a_tunnel_ends_with_the_next_one_with_its_token_and_with_its_cluster() -> Result<()> {
    let (signing, _) = Signing::with_nodes("kubelet-tunnels").await?;
    let fixture = Fixture::on(signing.env.clone(), "kubelet-tunnels").await?;
    let member = fixture.join("dialing", &fixture.env.servers.wecs[0]).await?;
    let agent = Dialing::new(fixture.control.clone(), &member.cluster)?;
    let ends = async |what: &str, serving: JoinHandle<bool>| -> Result<()> {
        let ended = timeout(PATIENCE, serving)
            .await
            .with_context(|| what.to_owned())?;
        ensure!(ended?, "{what}");
        Ok(())
    };
    agent.renew(&agent.token).await?;
    let first = agent.open().await?;
    let second = agent.open().await?;
    ends("the first tunnel ends with the second", first).await?;
    ensure!(!second.is_finished(), "the second tunnel is open");
    agent.renew(&Token::generate()?).await?;
    ends("a tunnel ends with its token", second).await?;
    agent.renew(&agent.token).await?;
    let third = agent.open().await?;
    fixture
        .clusters()
        .delete(&member.cluster, &DeleteParams::default())
        .await?;
    ends("a tunnel ends with its cluster", third).await?;
    // The Lease is still there.
    agent.renew(&agent.token).await?;
    ensure!(agent.is_refused().await, "a Lease alone opens a tunnel");
    Ok(())
}

/// The HTTP status with which a tunnel was refused; `None` if it was opened.
async fn refused(agent: &Dialing) -> Result<Option<u16>> {
    match dial(&agent.agent, &agent.path, &agent.cluster, &agent.token).await {
        Ok(_) => Ok(None),
        Err(Error::Refused { status, .. }) => Ok(Some(status.as_u16())),
        Err(error) => Err(error.into()),
    }
}

/// True if the API server refuses the write because of a missing right.
fn is_forbidden(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<kube::Error>();
    matches!(error, Some(kube::Error::Api(status)) if status.code == 403)
}

#[tokio::test]
async fn the_service_account_of_a_joined_cluster_opens_its_own_tunnel_and_no_other() -> Result<()> {
    let (signing, _) = Signing::with_nodes("tunnel-accounts").await?;
    let fixture = Fixture::on(signing.env.clone(), "tunnel-accounts").await?;
    let kubeconfig = signing.env.control.kubeconfig();
    let mut agents = Vec::new();
    for suffix in ["own", "other"] {
        let member = fixture
            .register(suffix, signing.env.servers.wecs[0].kubeconfig())
            .await?;
        let joined = argosy(
            kubeconfig,
            &["cluster", "join", &member.cluster, "-o", "kubeconfig"],
        )
        .await?;
        ensure!(joined.code == Some(0), "{joined:?}");
        let account = signing.account(&member, names::AGENT_ACCOUNT).await?;
        agents.push(Dialing::new(client_of(&account).await?, &member.cluster)?);
    }
    let (own, other) = (&agents[0], &agents[1]);
    for agent in &agents {
        agent.renew(&agent.token).await?;
        agent.open().await?;
    }
    // With the name of the other cluster, and its own token or the other's Lease.
    let mut foreign = Dialing::new(own.agent.clone(), &other.cluster)?;
    assert_eq!(refused(&foreign).await?, Some(401));
    eventually("the API server refuses it", async || {
        match foreign.renew(&foreign.token).await {
            Ok(()) => bail!("it writes the Lease of another cluster"),
            Err(error) => Ok(is_forbidden(&error)),
        }
    })
    .await?;
    foreign.path = through_service(CONTROLLER_NAMESPACE, "another", PORT);
    assert_eq!(refused(&foreign).await?, Some(403), "another Service");
    let removing = ["cluster", "remove", &own.cluster, "--yes", "--timeout", "40s"];
    let removed = argosy(kubeconfig, &removing).await?;
    ensure!(removed.code == Some(0), "{removed:?}");
    let bindings: Api<RoleBinding> = Api::namespaced(fixture.control.clone(), CONTROLLER_NAMESPACE);
    let left = bindings.list(&ListParams::default()).await?;
    let of = |cluster: &str| {
        let name = format!("argosy-tunnel:{cluster}");
        left.iter()
            .any(|binding| binding.metadata.name.as_ref() == Some(&name))
    };
    assert!(!of(&own.cluster) && of(&other.cluster), "{left:?}");
    Ok(())
}

#[tokio::test]
#[ignore = "cuts a link for longer than a Lease lasts: scripts/test.sh --all"]
async fn a_tunnel_is_open_again_within_five_seconds_after_a_cut_that_was_longer_than_the_lease() -> Result<()>
{
    let (signing, _) = Signing::with_nodes("tunnels-cut").await?;
    let fixture = Fixture::on(signing.env.clone(), "tunnels-cut").await?;
    let member = fixture.join("cut", &fixture.env.servers.wecs[0]).await?;
    let proxy = Proxy::open(fixture.env.control.kubeconfig()).await?;
    let settings = AgentSettings {
        lease_seconds: 30,
        artifact_namespace: fixture.namespace.clone(),
    };
    let (its, wec) = (proxy.kubeconfig(), &member.kubeconfig);
    let agent = Binary::agent(&member.cluster, its, wec, &settings, &[]).await?;
    let opened = async |number: usize| {
        eventually("a tunnel is open", async || {
            let log = agent.log()?;
            Ok(log.matches("the tunnel to the controller is open").count() == number)
        })
        .await
    };
    opened(1).await?;
    proxy.hang();
    until(
        &fixture.clusters(),
        &member.cluster,
        "its Lease has ended",
        |cluster| {
            let available = conditions(cluster).remove(types::AVAILABLE);
            available.is_some_and(|(status, _)| status != "True")
        },
    )
    .await?;
    eventually("the agent has noticed the cut", async || {
        Ok(agent.log()?.contains("the tunnel to the controller has ended"))
    })
    .await?;
    proxy.recover();
    let begun = Instant::now();
    opened(2).await?;
    let passed = begun.elapsed();
    ensure!(passed < Duration::from_secs(5), "it took {passed:?}");
    Ok(())
}
