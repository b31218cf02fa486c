//! A line whose Workflows go by a policy that chooses the best of all clusters of another line, paired
//! with it in the same run. The clusters say the same room, so the choice compares loads.

use std::sync::Arc;

use anyhow::Result;
use argosy_api::{BindingPolicy, names};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::environment::{Line, Station};
use crate::testenv::{Fixture, TestEnv, admission::until_selected, objects::create};

/// Room of each cluster, for more runs than a row has.
const ROOM: &str = "cpu=1000,memory=4Ti";

/// The line of a policy for all clusters of `pinned`.
pub(super) async fn open(env: &Arc<TestEnv>, pinned: &Line) -> Result<Line> {
    let name = format!("{}-best", pinned.mode.name());
    let fixture = Fixture::on(env.clone(), &name).await?;
    let clusters: Vec<&str> = pinned
        .stations
        .iter()
        .filter_map(|station| station.cluster.as_deref())
        .collect();
    let room = json!({ "metadata": { "annotations": { names::ROOM_ANNOTATION: ROOM } } });
    for cluster in &clusters {
        let params = PatchParams::default();
        fixture
            .clusters()
            .patch(cluster, &params, &Patch::Merge(&room))
            .await?;
    }
    create(&Api::all(fixture.control.clone()), &policy(&name, &clusters)?).await?;
    until_selected(&fixture, &name).await?;
    Ok(Line {
        mode: pinned.mode,
        is_best_cluster: true,
        clusters: clusters.len(),
        stations: vec![Station::of_policy(name)],
    })
}

fn policy(name: &str, clusters: &[&str]) -> Result<BindingPolicy> {
    let matched = json!([{ "key": "name", "operator": "In", "values": clusters }]);
    Ok(serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": name, "annotations": { names::RUNS_ANNOTATION: names::BEST_CLUSTER } },
        "spec": {
            "clusterSelectors": [{ "matchExpressions": matched }],
            "downsync": [{
                "apiGroup": "argoproj.io", "resources": ["workflows"], "namespaces": [name],
                "objectSelectors": [{ "matchLabels": { names::KUBESTELLAR_CLUSTER_LABEL: name } }],
                "wantSingletonReportedState": true,
            }],
        },
    }))?)
}
