//! The kubeconfig of the bootstrap account: a file that may be replaced by one with a new token.
//!
//! A kubelet updates the Secret of a pod a minute after its change or later, so the file is polled
//! while the agent waits. Not here: the requests that use it.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::Context;
use kube::{Client, config::Kubeconfig};
use serde_json::Value;
use tokio::time::{interval, timeout};

use super::held::hub_of;
use crate::runtime::client;

/// Polling interval of the file.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The file, if one is configured.
pub(super) struct Bootstrap {
    path: Option<PathBuf>,
    /// Its content when it was last used or found changed.
    known: Option<String>,
}

impl Bootstrap {
    /// Creates the state for the file `path`, without reading it.
    pub(super) fn at(path: Option<PathBuf>) -> Self {
        Self { path, known: None }
    }

    /// Returns the hub of the kubeconfig, and the kubeconfig. Fails if there is none, or if it
    /// names no API server.
    pub(super) fn read(&self) -> anyhow::Result<(Value, Kubeconfig)> {
        let path = self.path.as_ref();
        let path = path.context("there is no --bootstrap-kubeconfig")?;
        let kubeconfig = Kubeconfig::read_from(path)?;
        let hub =
            hub_of(&kubeconfig).ok_or_else(|| anyhow::anyhow!("{} names no API server", path.display()))?;
        Ok((hub, kubeconfig))
    }

    /// Returns a client of the bootstrap account, and the hub that it connects to.
    pub(super) async fn connect(&mut self) -> anyhow::Result<(Client, Value)> {
        self.known = self.text();
        let (hub, kubeconfig) = self.read()?;
        let (client, _) = client::connect_to(kubeconfig, "of the bootstrap account").await?;
        Ok((client, hub))
    }

    /// Waits at most `limit` until the file has changed, and returns true if it has. Each change is
    /// reported once, so a caller that fails before it uses the file waits, too.
    pub(super) async fn is_replaced_within(&mut self, limit: Duration) -> bool {
        let replaced = async {
            let mut looks = interval(LOOK_EVERY);
            loop {
                looks.tick().await;
                let text = self.text();
                if text.is_some() && text != self.known {
                    return text;
                }
            }
        };
        let Ok(text) = timeout(limit, replaced).await else {
            return false;
        };
        self.known = text;
        true
    }

    fn text(&self) -> Option<String> {
        fs::read_to_string(self.path.as_ref()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a file of that name and tries to connect with it, which fails, because it names no
    /// server.
    async fn used(name: &str) -> (Bootstrap, PathBuf) {
        let path = std::env::temp_dir().join(format!("argosy-{}-{name}", std::process::id()));
        fs::write(&path, "clusters: []").unwrap();
        let mut bootstrap = Bootstrap::at(Some(path.clone()));
        assert!(bootstrap.connect().await.is_err());
        (bootstrap, path)
    }

    #[tokio::test]
    async fn a_file_that_is_replaced_ends_the_wait() {
        let (mut bootstrap, path) = used("replaced").await;
        let replace = async { fs::write(&path, "clusters: [] # a new token").unwrap() };
        let waiting = bootstrap.is_replaced_within(Duration::from_mins(1));
        assert!(tokio::join!(waiting, replace).0);
        // The change is reported once, used or not.
        assert!(!bootstrap.is_replaced_within(LOOK_EVERY / 20).await);
        fs::remove_file(path).unwrap();
    }

    #[tokio::test]
    async fn a_file_that_stays_or_goes_does_not() {
        let (mut bootstrap, path) = used("stays").await;
        let short = LOOK_EVERY / 20;
        assert!(!bootstrap.is_replaced_within(short).await);
        fs::remove_file(path).unwrap();
        assert!(!bootstrap.is_replaced_within(short).await);
        assert!(!Bootstrap::at(None).is_replaced_within(short).await);
    }
}
