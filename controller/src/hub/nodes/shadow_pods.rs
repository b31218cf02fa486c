//! Stub.
use std::sync::Arc;
use argosy_core::hub::admission::Admission;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use crate::runtime::metrics::Metrics;
pub struct Settings { pub shown: argosy_core::hub::shadow_pods::Shown }
pub async fn run(_: Client, _: Settings, _: watch::Receiver<Option<Arc<Admission>>>, _: Metrics, _: CancellationToken) {}
