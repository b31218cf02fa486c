//! The part of the test environment that many tests share: the API servers and one controller. All objects of a
//! test have names of their own, so that tests can run concurrently.

use std::sync::Arc;

use anyhow::{Context, Result};
use kube::Client;
use tokio::sync::OnceCell;

use super::{
    binaries::{Binary, WebhookSettings},
    definitions, objects,
    server::Server,
    store::{Durability, Store},
};

/// etcd and the API servers of the WECs.
#[derive(Debug)]
pub struct Servers {
    /// The store for further API servers.
    pub store: Store,
    /// The API servers of the WECs, with Argo's definitions.
    pub wecs: [Server; 2],
}

/// A control cluster, which is both WDS and ITS, with its controller, and two WECs.
#[derive(Debug)]
pub struct TestEnv {
    /// The WECs.
    pub servers: Arc<Servers>,
    /// The API server of WDS and ITS.
    pub control: Server,
    /// `argosy-controller`.
    pub controller: Binary,
    /// Port of its webhook, if it has one.
    pub webhook_port: Option<u16>,
    /// Environment variables of controller and agents.
    pub variables: Vec<(&'static str, String)>,
}

/// The user name of the controller on the control cluster. The tests use another user.
pub const CONTROLLER_USER: &str = "argosy-controller";

/// A certificate lifetime that ends after every test.
pub const LONG: &str = "30d";

static SERVERS: OnceCell<Arc<Servers>> = OnceCell::const_new();
static SHARED: OnceCell<Arc<TestEnv>> = OnceCell::const_new();
static GUARDED: OnceCell<Arc<TestEnv>> = OnceCell::const_new();

impl TestEnv {
    /// The environment that is shared by all tests that leave the controller alone.
    pub async fn shared() -> Result<Arc<Self>> {
        let env = SHARED.get_or_try_init(async || {
            Self::start(shared_servers().await?, "control")
                .await
                .map(Arc::new)
        });
        Ok(env.await?.clone())
    }

    /// A control cluster for the caller alone, who may kill its controller. `name` must be unique.
    pub async fn own(name: &str) -> Result<Arc<Self>> {
        Ok(Arc::new(Self::start(shared_servers().await?, name).await?))
    }

    /// The environment that is shared by all tests that leave its controller alone and need a webhook.
    pub async fn guarded() -> Result<Arc<Self>> {
        let env = GUARDED.get_or_try_init(async || Self::own_guarded("guarded", LONG).await);
        Ok(env.await?.clone())
    }

    /// Like [`TestEnv::own`], with a webhook whose certificates live for `certificate_lifetime`.
    pub async fn own_guarded(name: &str, certificate_lifetime: &str) -> Result<Arc<Self>> {
        Self::own_with(name, &WebhookSettings::new(certificate_lifetime)?).await
    }

    /// Like [`TestEnv::own`], with a webhook.
    pub async fn own_with(name: &str, webhook: &WebhookSettings) -> Result<Arc<Self>> {
        let env = Self::start_with(shared_servers().await?, name, Some(webhook)).await?;
        Ok(Arc::new(env))
    }

    /// Like [`TestEnv::own_guarded`], with environment variables for controller and agents.
    pub async fn own_observed(name: &str, variables: Vec<(&'static str, String)>) -> Result<Arc<Self>> {
        let (servers, webhook) = (shared_servers().await?, WebhookSettings::new(LONG)?);
        let store = &servers.store;
        let env = Self::start_over(store, servers.clone(), name, Some(&webhook), variables).await?;
        Ok(Arc::new(env))
    }

    /// Like [`TestEnv::own`], with environment variables for controller and agents.
    pub async fn own_replicated(name: &str, variables: Vec<(&'static str, String)>) -> Result<Arc<Self>> {
        let servers = shared_servers().await?;
        let env = Self::start_over(&servers.store, servers.clone(), name, None, variables).await?;
        Ok(Arc::new(env))
    }

    /// A control cluster over the given servers.
    pub async fn start(servers: Arc<Servers>, name: &str) -> Result<Self> {
        Self::start_with(servers, name, None).await
    }

    /// Like [`TestEnv::start`], with a webhook.
    pub async fn start_guarded(servers: Arc<Servers>, name: &str) -> Result<Self> {
        Self::start_with(servers, name, Some(&WebhookSettings::new(LONG)?)).await
    }

    /// Like [`TestEnv::own`], with a webhook and a separate etcd, which may be restored to an earlier
    /// state.
    pub async fn own_store(name: &str) -> Result<(Arc<Self>, Store)> {
        let store = Store::start(Durability::Unsynced)?;
        let webhook = WebhookSettings::new(LONG)?;
        let env = Self::start_over(&store, shared_servers().await?, name, Some(&webhook), Vec::new()).await?;
        Ok((Arc::new(env), store))
    }

    async fn start_with(
        servers: Arc<Servers>,
        name: &str,
        webhook: Option<&WebhookSettings>,
    ) -> Result<Self> {
        Self::start_over(&servers.store, servers.clone(), name, webhook, Vec::new()).await
    }

    async fn start_over(
        store: &Store,
        servers: Arc<Servers>,
        name: &str,
        webhook: Option<&WebhookSettings>,
        variables: Vec<(&'static str, String)>,
    ) -> Result<Self> {
        let control = Server::start(store, name).await?;
        let client = control.client().await?;
        definitions::install_on_control(&client).await?;
        objects::create_namespace(&client, objects::CONTROLLER_NAMESPACE).await?;
        let kubeconfig = control.kubeconfig_as(CONTROLLER_USER)?;
        let controller = Binary::controller_with(&kubeconfig, name, webhook, &variables)
            .await
            .context("argosy-controller")?;
        Ok(Self {
            servers,
            control,
            controller,
            webhook_port: webhook.map(|webhook| webhook.port),
            variables,
        })
    }
}

impl Servers {
    /// Starts etcd and both WECs.
    pub async fn start(durability: Durability) -> Result<Self> {
        let store = Store::start(durability)?;
        let (one, two) = tokio::try_join!(Box::pin(wec(&store, "wec1")), Box::pin(wec(&store, "wec2")))?;
        Ok(Self {
            store,
            wecs: [one, two],
        })
    }
}

pub(super) async fn shared_servers() -> Result<Arc<Servers>> {
    let servers = SERVERS.get_or_try_init(async || Servers::start(Durability::Unsynced).await.map(Arc::new));
    Ok(servers.await?.clone())
}

async fn wec(store: &Store, name: &str) -> Result<Server> {
    let server = Server::start(store, name).await?;
    let client: Client = server.client().await?;
    definitions::install_for_agent(&client).await?;
    definitions::install_argo(&client).await?;
    Ok(server)
}
