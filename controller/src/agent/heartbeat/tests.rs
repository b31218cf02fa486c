use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use axum::{
    Router,
    http::{StatusCode, Uri},
    response::IntoResponse,
};
use kube::Client;

use super::*;
use crate::{
    agent::{Pods, args::Capacity, tunnel},
    runtime::metrics::Metrics,
};

/// The renewal that fails.
const FAILS: u64 = 4;

/// A client of an API server that refuses one renewal of the Lease for overload, and counts them.
fn server(renewals: Arc<AtomicU64>) -> Client {
    let answer = move |uri: Uri| async move {
        if uri.path() == "/version" {
            let version = json!({
                "major": "1", "minor": "34", "gitVersion": "v1.34.4", "gitCommit": "", "gitTreeState": "", "buildDate": "",
                "goVersion": "", "compiler": "", "platform": "",
            });
            return version.to_string().into_response();
        }
        let number = renewals.fetch_add(1, Ordering::SeqCst) + 1;
        if number == FAILS {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "namespace": "cluster1", "name": names::CLUSTER_LEASE, "uid": "l", "resourceVersion": number.to_string() },
        });
        lease.to_string().into_response()
    };
    Client::new(Router::new().fallback(answer), "default")
}

fn member(client: &Client) -> Member {
    Member {
        cluster: "cluster1".into(),
        its: client.clone(),
        hub: String::new(),
        wec: client.clone(),
        pods: Pods::Nothing,
        tunnel_authority: None,
        capacity: Capacity::None,
        artifact_namespace: "argo".to_owned(),
        argo_instance: None,
        lease_duration: Duration::from_millis(300),
        request_lifetime: Duration::from_mins(1),
        conditions: crate::runtime::args::ManifestWorkConditions::Eventually,
        at_once: 1,
        metrics: Metrics::default(),
        wish: watch::Sender::new(None),
    }
}

#[tokio::test]
async fn the_tunnel_is_told_of_the_first_renewal_and_of_one_that_follows_a_failure() {
    let renewals = Arc::new(AtomicU64::new(0));
    let member = member(&server(renewals.clone()));
    let (advert, _) = tunnel::prepare(&member);
    let told = advert.renewed.clone();
    let renewed = watch::Sender::new(None);
    let renewing = tokio::spawn(async move { renew_lease(&member, &advert, &renewed).await });
    let mut seen = Vec::new();
    for _ in 0..2 {
        let notified = timeout(Duration::from_secs(20), told.notified()).await;
        notified.expect("it is told");
        seen.push(renewals.load(Ordering::SeqCst));
    }
    renewing.abort();
    assert!(seen[0] < FAILS && seen[1] > FAILS, "{seen:?}");
}
