//! What many tests share: the API servers and one controller. Everything a test makes on them has the test's own names, so
//! that tests can run side by side.

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
    /// For further API servers.
    pub store: Store,
    /// The WECs' API servers, with Argo.
    pub wecs: [Server; 2],
}

/// A control cluster, which is WDS and ITS, with its controller, and two WECs.
#[derive(Debug)]
pub struct Stage {
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

/// Who the controller is to the control cluster; the tests are somebody else.
pub const CONTROLLER_USER: &str = "argosy-controller";

/// A lifetime of certificates that no test sees the end of.
pub const LONG: &str = "30d";

static SERVERS: OnceCell<Arc<Servers>> = OnceCell::const_new();
static SHARED: OnceCell<Arc<Stage>> = OnceCell::const_new();
static GUARDED: OnceCell<Arc<Stage>> = OnceCell::const_new();

impl Stage {
    /// The stage of all tests that leave the controller alone.
    pub async fn shared() -> Result<Arc<Self>> {
        let stage = SHARED.get_or_try_init(async || {
            Self::start(shared_servers().await?, "control")
                .await
                .map(Arc::new)
        });
        Ok(stage.await?.clone())
    }

    /// A control cluster for the caller alone, who may kill its controller. `name` must be unique.
    pub async fn own(name: &str) -> Result<Arc<Self>> {
        Ok(Arc::new(Self::start(shared_servers().await?, name).await?))
    }

    /// The stage of all tests that leave its controller alone and want a webhook.
    pub async fn guarded() -> Result<Arc<Self>> {
        let stage = GUARDED.get_or_try_init(async || Self::own_guarded("guarded", LONG).await);
        Ok(stage.await?.clone())
    }

    /// As [`Stage::own`], with a webhook whose certificates live for `certificate_lifetime`.
    pub async fn own_guarded(name: &str, certificate_lifetime: &str) -> Result<Arc<Self>> {
        Self::own_with(name, &WebhookSettings::new(certificate_lifetime)?).await
    }

    /// As [`Stage::own`], with a webhook.
    pub async fn own_with(name: &str, webhook: &WebhookSettings) -> Result<Arc<Self>> {
        let stage = Self::start_with(shared_servers().await?, name, Some(webhook)).await?;
        Ok(Arc::new(stage))
    }

    /// As [`Stage::own_guarded`], where controller and agents have environment variables of their own.
    pub async fn own_observed(name: &str, variables: Vec<(&'static str, String)>) -> Result<Arc<Self>> {
        let (servers, webhook) = (shared_servers().await?, WebhookSettings::new(LONG)?);
        let store = &servers.store;
        let stage = Self::start_over(store, servers.clone(), name, Some(&webhook), variables).await?;
        Ok(Arc::new(stage))
    }

    /// As [`Stage::own`], where controller and agents have environment variables of their own.
    pub async fn own_replicated(name: &str, variables: Vec<(&'static str, String)>) -> Result<Arc<Self>> {
        let servers = shared_servers().await?;
        let stage = Self::start_over(&servers.store, servers.clone(), name, None, variables).await?;
        Ok(Arc::new(stage))
    }

    /// A control cluster over servers of its own.
    pub async fn start(servers: Arc<Servers>, name: &str) -> Result<Self> {
        Self::start_with(servers, name, None).await
    }

    /// As [`Stage::start`], with a webhook.
    pub async fn start_guarded(servers: Arc<Servers>, name: &str) -> Result<Self> {
        Self::start_with(servers, name, Some(&WebhookSettings::new(LONG)?)).await
    }

    /// As [`Stage::own`], with a webhook, over an etcd of its own, which may be put back to an earlier state.
    pub async fn own_store(name: &str) -> Result<(Arc<Self>, Store)> {
        let store = Store::start(Durability::Unsynced)?;
        let webhook = WebhookSettings::new(LONG)?;
        let stage =
            Self::start_over(&store, shared_servers().await?, name, Some(&webhook), Vec::new()).await?;
        Ok((Arc::new(stage), store))
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
