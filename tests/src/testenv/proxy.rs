//! A proxy in front of an API server that can make it hang: the proxy then accepts connections and
//! never answers.
//!
//! It forwards bytes unchanged, including TLS, so clients see the certificate of the server.
//! Without a hang, it does not delay or lose anything.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use kube::config::Kubeconfig;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use super::folder;

/// A proxy in front of an API server.
#[derive(Debug)]
pub struct Proxy {
    kubeconfig: PathBuf,
    hangs: watch::Sender<bool>,
    _serving: JoinSet<()>,
}

impl Proxy {
    /// Opens a proxy in front of the API server of the kubeconfig `to`.
    pub async fn open(to: &Path) -> Result<Self> {
        let mut kubeconfig = Kubeconfig::read_from(to)?;
        let cluster = kubeconfig
            .clusters
            .first_mut()
            .and_then(|named| named.cluster.as_mut())
            .context("a kubeconfig names a cluster")?;
        let server = cluster.server.take().context("a cluster has a server")?;
        let target: SocketAddr = server.trim_start_matches("https://").parse()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        cluster.server = Some(format!("https://{}", listener.local_addr()?));
        let path = folder::create("proxy")?.join("kubeconfig");
        fs::write(&path, serde_saphyr::to_string(&kubeconfig)?)?;
        let (hangs, state) = watch::channel(false);
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, target, state));
        Ok(Self {
            kubeconfig: path,
            hangs,
            _serving: serving,
        })
    }

    /// Path of a kubeconfig that uses the proxy.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Stops answering from now on, on existing and on new connections.
    pub fn hang(&self) {
        self.hangs.send_replace(true);
    }

    /// Serves new connections from now on. Connections that hung are closed.
    pub fn recover(&self) {
        self.hangs.send_replace(false);
    }
}

async fn serve(listener: TcpListener, target: SocketAddr, state: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(carry(stream, target, state.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Forwards bytes until the proxy hangs, and then holds the connection open until the hang is over.
async fn carry(mut stream: TcpStream, target: SocketAddr, mut state: watch::Receiver<bool>) {
    let mut hung = state.clone();
    let through = async {
        let mut server = TcpStream::connect(target).await?;
        // A small write of one side must not wait for the other's acknowledgment.
        server.set_nodelay(true)?;
        stream.set_nodelay(true)?;
        copy_bidirectional(&mut stream, &mut server).await
    };
    tokio::select! {
        biased;
        _ = hung.wait_for(|hangs| *hangs) => {}
        // An error ends the connection, and both sides notice that by themselves.
        _ = through => return,
    }
    let _ = state.wait_for(|hangs| !hangs).await;
}
