//! A member that claims enormous room, with the credential of its agent: it draws Workflows only within
//! the policies that match it and within the annotation `argosy.dev/room`, which it cannot write.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use argosy_api::{ManagedCluster, names, workflow};
use argosy_tests::fleet::{Cluster, Fleet, LIMIT, PULL, PUSH, gated, one_step, until};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// The name of the policy, and the label value that it selects.
const BEST: &str = "hostile-room";

/// Number of Workflows, and of runs that the liar may have.
const WORKFLOWS: usize = 8;
const MOST: usize = 2;

/// Interval of the lies; the agent reports the truth every ten seconds.
const EVERY: Duration = Duration::from_millis(200);

fn policy() -> Value {
    json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": BEST, "annotations": { names::RUNS_ANNOTATION: names::BEST_CLUSTER } },
        "spec": {
            "clusterSelectors": [{ "matchLabels": { "name": PULL } }, { "matchLabels": { "name": PUSH } }],
            "downsync": [{
                "apiGroup": "argoproj.io", "resources": ["workflows"], "wantSingletonReportedState": true,
                "objectSelectors": [{ "matchLabels": { names::KUBESTELLAR_CLUSTER_LABEL: BEST } }],
            }],
        },
    })
}

/// Status of a liar, with this claim.
fn lie(claim: &str) -> Value {
    let enormous = json!({ "cpu": "1e6", "memory": "1e15" });
    json!({ "status": {
        "capacity": enormous, "allocatable": enormous,
        "clusterClaims": [{ "name": names::ROOM_CLAIM, "value": claim }],
    } })
}

/// Tells all of these in turn, without end. Those that the API server refuses do no harm.
async fn keep_lying(client: &Client, claims: &[String]) -> Result<()> {
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    let mut turn = tokio::time::interval(EVERY);
    for claim in claims.iter().cycle() {
        turn.tick().await;
        let patch = Patch::Merge(lie(claim));
        let _ = clusters.patch_status(PULL, &PatchParams::default(), &patch).await;
    }
    Ok(())
}

/// Creates Workflows that wait at a gate, and returns the cluster of each.
async fn claimed(control: &Cluster) -> Result<BTreeMap<String, String>> {
    let mut clusters = BTreeMap::new();
    for number in 0..WORKFLOWS {
        let mut run = gated(BEST, &format!("drawn{number}"));
        // Held even if the webhook does not know the policy yet.
        run.spec["suspend"] = json!(true);
        let name = control.create_workflow(&run).await?.name_any();
        let label = |run: &argosy_api::Workflow| run.labels().get(names::CLUSTER_LABEL).cloned();
        let run = control
            .workflow_when(&name, LIMIT, "is claimed", |run| label(run).is_some())
            .await?;
        clusters.insert(name, label(&run).context("it is claimed")?);
    }
    Ok(clusters)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_member_that_claims_enormous_room_gets_what_policies_and_the_administrator_allow() -> Result<()> {
    let fleet = Fleet::disturbing(&[PULL, PUSH], &[]).await?;
    let (control, pull) = (fleet.control()?, fleet.cluster(PULL)?);
    let client = pull.agents_client().await?;
    control.apply(&policy()).await?;
    until(LIMIT, "the policy to be known", async || {
        let status = ["get", "bindingpolicy", BEST, "-o", "jsonpath={.status.clusters}"];
        Ok((control.kubectl(&status).await? == "2").then_some(()))
    })
    .await?;
    let room = format!("{}=cpu=1e6,memory=1e15,runs={MOST}", names::ROOM_ANNOTATION);
    control
        .kubectl(&["annotate", "managedcluster", PULL, "--overwrite", &room])
        .await?;
    let claims = [
        r#"{"cpu":{"node":"1e6"},"memory":{"node":"1e15"}}"#.to_owned(),
        "[".repeat(1000),
        "not JSON".to_owned(),
        format!(r#"{{"cpu":{{"node":"{}"}}}}"#, "9".repeat(900_000)),
    ];
    let tried = async {
        // It cannot write the annotation.
        let own = json!({ "metadata": { "annotations": { names::ROOM_ANNOTATION: "cpu=1e9" } } });
        let clusters: Api<ManagedCluster> = Api::all(client.clone());
        let params = PatchParams::default();
        let _ = clusters.patch_status(PULL, &params, &Patch::Merge(&own)).await;
        // A refused patch would look like a right that Argosy lacks (`rights`).
        let review: SelfSubjectAccessReview = serde_json::from_value(
            json!({ "spec": { "resourceAttributes": {
            "group": "cluster.open-cluster-management.io", "resource": "managedclusters", "verb": "patch", "name": PULL,
        } } }),
        )?;
        let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        ensure!(answer.status.is_some_and(|answer| !answer.allowed));
        let clusters = claimed(control).await?;
        let drawn = clusters.values().filter(|cluster| *cluster == PULL).count();
        ensure!(drawn == MOST, "{clusters:?}");
        // A policy that does not match it brings it nothing, and everything goes on.
        let name = control
            .create_workflow(&one_step(PUSH, "not-drawn", "true"))
            .await?
            .name_any();
        let end = control
            .workflow_when(&name, LIMIT, "ends", |run| {
                workflow::is_final(workflow::phase(run.status.as_ref()))
            })
            .await?;
        ensure!(workflow::phase(end.status.as_ref()) == "Succeeded", "{end:?}");
        ensure!(end.labels().get(names::CLUSTER_LABEL).map(String::as_str) == Some(PUSH));
        for name in clusters.keys().chain([&name]) {
            control.delete_workflow(name).await?;
        }
        anyhow::Ok(())
    };
    let outcome = tokio::select! {
        outcome = tried => outcome,
        lied = keep_lying(&client, &claims) => lied,
    };
    // The agent tells the truth again, whatever the result is.
    let room = format!("{}-", names::ROOM_ANNOTATION);
    control
        .kubectl(&["annotate", "managedcluster", PULL, &room])
        .await?;
    control.kubectl(&["delete", "bindingpolicy", BEST]).await?;
    outcome
}
