//! What many tests share: the API servers and one controller. Everything a test makes on them has the test's own names, so
//! that tests can run side by side.

use std::sync::Arc;

use anyhow::{Context, Result};
use kube::Client;
use tokio::sync::OnceCell;

use super::{
    binaries::Binary,
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
}

static SERVERS: OnceCell<Arc<Servers>> = OnceCell::const_new();
static SHARED: OnceCell<Arc<Stage>> = OnceCell::const_new();

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

    /// A control cluster over servers of its own.
    pub async fn start(servers: Arc<Servers>, name: &str) -> Result<Self> {
        let control = Server::start(&servers.store, name).await?;
        let client = control.client().await?;
        definitions::install_on_control(&client).await?;
        objects::create_namespace(&client, objects::CONTROLLER_NAMESPACE).await?;
        let controller = Binary::controller(control.kubeconfig(), name)
            .await
            .context("argosy-controller")?;
        Ok(Self {
            servers,
            control,
            controller,
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

async fn shared_servers() -> Result<Arc<Servers>> {
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
