//! Verbs as users type them, and buttons of the UI, each on the cluster on which `quiet::verbs`,
//! `quiet::retry` and `quiet::deletion` do not test it.

use anyhow::{Context as _, Result};
use argosy_api::Workflow;
use argosy_tests::fleet::{CONTROL, Fleet, GATES, History, LIMIT, Method, NAMESPACE, PULL, PUSH, failing};
use kube::ResourceExt as _;
use serde_json::json;

use crate::quiet::{
    retry::succeeds,
    verbs::{ends, node, waiting_twice},
};

/// Stops or terminates a run with the command.
async fn end_by_argo(fleet: &Fleet, cluster: &str, verb: &str) -> Result<()> {
    let control = fleet.control()?;
    let name = control.gated_run(cluster, &format!("by-argo-{verb}")).await?;
    control.argo(&[verb, &name]).await?;
    assert_ended(fleet, &name, verb).await
}

/// Stops or terminates a run with the button.
async fn end_by_button(fleet: &Fleet, cluster: &str, verb: &str) -> Result<()> {
    let control = fleet.control()?;
    let name = control.gated_run(cluster, &format!("by-button-{verb}")).await?;
    fleet.argo_server.verb(&name, verb, &json!({})).await?;
    assert_ended(fleet, &name, verb).await
}

/// The exit handler runs after a stop, but not after a terminate.
async fn assert_ended(fleet: &Fleet, name: &str, verb: &str) -> Result<()> {
    let ended = ends(fleet, name, "Failed").await?;
    let exit = node(&ended, &format!("{name}.onExit")).map(|exit| &exit["phase"]);
    let expected = (verb == "stop").then(|| json!("Succeeded"));
    assert_eq!(exit, expected.as_ref(), "the exit handler after {verb}");
    Ok(())
}

/// Sets the result of two waiting steps.
async fn set(fleet: &Fleet, cluster: &str) -> Result<()> {
    let name = waiting_twice(fleet, cluster).await?;
    for gate in GATES {
        let selector = format!("--node-field-selector=displayName={gate}");
        let set = [
            "node",
            "set",
            &name,
            &selector,
            "--phase=Succeeded",
            "--message=by hand",
        ];
        assert_eq!(fleet.control()?.argo(&set).await?, "workflow values set");
    }
    let ended = ends(fleet, &name, "Succeeded").await?;
    for gate in GATES {
        assert_eq!(node(&ended, gate).context("no gate")?["message"], "by hand");
    }
    Ok(())
}

/// Suspends and resumes a run.
async fn pause(fleet: &Fleet, cluster: &str) -> Result<()> {
    let (control, wec) = (fleet.control()?, fleet.cluster(cluster)?);
    let name = control.gated_run(cluster, "paused").await?;
    for (verb, is_suspended) in [("suspend", true), ("resume", false)] {
        let told = control.argosy(&[verb, &name]).await?;
        assert!(told.contains(cluster), "{told}");
        let is_so = |run: &Workflow| (run.spec["suspend"] == true) == is_suspended;
        wec.workflow_when(&name, LIMIT, &format!("has taken {verb}"), is_so)
            .await?;
    }
    control.argo(&["resume", &name]).await?;
    ends(fleet, &name, "Succeeded").await?;
    Ok(())
}

/// Retries and resubmits a failed run in every way.
async fn again(fleet: &Fleet, cluster: &str) -> Result<()> {
    let control = fleet.control()?;
    let failed = control
        .create_workflow(&failing(cluster, "again"))
        .await?
        .name_any();
    assert_eq!(History::follow(control, &failed, LIMIT).await?.end(), "Failed");

    let is_memoized = cluster == PULL;
    let form = json!({ "memoized": is_memoized, "parameters": ["code=0"] });
    let answer = fleet.argo_server.verb(&failed, "resubmit", &form).await?;
    let name = answer["metadata"]["name"].as_str().context("no name")?;
    let mut runs = vec![(name.to_owned(), is_memoized)];
    if cluster == PUSH {
        let resubmit = ["resubmit", &failed, "-p", "code=0", "-o", "name"];
        runs.push((control.argo(&resubmit).await?, false));
        let memoized = [&resubmit[..], &["--memoized"]].concat();
        runs.push((control.argo(&memoized).await?, true));
    }
    let form = json!({ "parameters": ["code=0"] });
    fleet.argo_server.verb(&failed, "retry", &form).await?;
    runs.push((failed, false));

    for (name, is_memoized) in &runs {
        let ended = succeeds(fleet, name).await?;
        let first = &node(&ended, "first").context("no first step")?["type"];
        assert_eq!(first == "Skipped", *is_memoized, "{name}: {first}");
        assert_eq!(fleet.clusters_with_pods(name).await?, [cluster], "{name}");
    }
    Ok(())
}

/// Deletes a waiting run.
async fn delete(fleet: &Fleet, cluster: &str) -> Result<()> {
    let control = fleet.control()?;
    let name = control.gated_run(cluster, "by-button-deleted").await?;
    let path = format!("api/v1/workflows/{NAMESPACE}/{name}");
    fleet.argo_server.ask(Method::DELETE, &path, &json!({})).await?;
    control.gone(&name).await?;
    fleet.cluster(cluster)?.gone(&name).await
}

async fn assert_verbs(cluster: &str, typed: &str, pressed: &str) -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, cluster]).await?;
    tokio::try_join!(
        end_by_argo(&fleet, cluster, typed),
        end_by_button(&fleet, cluster, pressed),
        set(&fleet, cluster),
        pause(&fleet, cluster),
        again(&fleet, cluster),
        delete(&fleet, cluster)
    )?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn verbs_and_buttons_steer_runs_on_the_cluster_that_pulls() -> Result<()> {
    Box::pin(assert_verbs(PULL, "stop", "terminate")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn verbs_and_buttons_steer_runs_on_the_cluster_that_is_pushed_to() -> Result<()> {
    Box::pin(assert_verbs(PUSH, "terminate", "stop")).await
}
