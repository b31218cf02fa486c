//! Stub.
use std::collections::BTreeSet;
use argosy_core::{ClusterName, Failure};
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use crate::runtime::metrics::Metrics;
pub struct Settings { pub address: String, pub address_type: String, pub port: u16, pub tunnel: String }
pub async fn run(_: Client, _: Client, _: Settings, _: watch::Receiver<BTreeSet<ClusterName>>, _: Metrics, _: CancellationToken) {}
pub async fn remove(_: &Client) -> Result<usize, Failure> { Ok(0) }
