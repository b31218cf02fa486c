//! The kubeconfig of the bootstrap account: a file that somebody may replace by one with a new token.
//!
//! Kubelets bring a changed Secret to its pods a minute later or more, so the file is looked at while the agent waits. Not here: what
//! is asked with it.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::Context;
use kube::{Client, config::Kubeconfig};
use serde_json::Value;
use tokio::time::{interval, timeout};

use super::held::hub_of;
use crate::client;

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The file, if there is one.
pub(super) struct Bootstrap {
    path: Option<PathBuf>,
    /// What stood in it when it was last connected with, or found to be another.
    known: Option<String>,
}

impl Bootstrap {
    /// The file `path`, which was not looked at yet.
    pub(super) fn at(path: Option<PathBuf>) -> Self {
        Self { path, known: None }
    }

    /// The hub that it leads to, and what stands in it. An error if there is none, or it leads nowhere.
    pub(super) fn read(&self) -> anyhow::Result<(Value, Kubeconfig)> {
        let path = self.path.as_ref();
        let path = path.context("there is no --bootstrap-kubeconfig")?;
        let kubeconfig = Kubeconfig::read_from(path)?;
        let hub = hub_of(&kubeconfig)
            .ok_or_else(|| anyhow::anyhow!("{} leads to no API server", path.display()))?;
        Ok((hub, kubeconfig))
    }

    /// A client of the bootstrap account, and the hub that it leads to.
    pub(super) async fn connect(&mut self) -> anyhow::Result<(Client, Value)> {
        self.known = self.text();
        let (hub, kubeconfig) = self.read()?;
        let (client, _) = client::connect_to(kubeconfig, "of the bootstrap account").await?;
        Ok((client, hub))
    }

    /// Waits until there is another file than was known, `limit` at the longest; whether there is. Of each file once, so that whoever
    /// fails before it is used waits, too.
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

    /// A file of that name that was connected with, so far as that goes: it leads nowhere.
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
        // It is news once, whether it is used or not.
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
