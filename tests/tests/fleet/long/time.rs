//! Effects that appear only after minutes: of a TTL, of a schedule, of a cluster that is cut off.
//! Tests on different clusters run at the same time.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use argosy_api::{Workflow, conditions::workflow as types, names, workflow};
use argosy_tests::fleet::{
    CONTROL, Cluster, Fleet, GATE, History, LIMIT, PULL, PUSH, condition, gated, one_step, until, waits_at,
    watching,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

/// OCM's agent checks its applied objects every five minutes, which is when other systems run a
/// Workflow again.
const TTL_LOOK: Duration = Duration::from_mins(7);

/// After five minutes, the local Argo counts a Workflow without progress as its own failure.
const CUT: Duration = Duration::from_mins(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn what_its_ttl_has_removed_is_not_run_again_within_seven_minutes() -> Result<()> {
    let fleet = Fleet::using(&[PUSH]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(PUSH)?);
    let mut workflow = one_step(PUSH, "ttl", "echo once");
    let spec = workflow.spec.as_object_mut().context("a spec")?;
    spec.insert("ttlStrategy".to_owned(), json!({ "secondsAfterCompletion": 1 }));
    let name = control.create_workflow(&workflow).await?.name_any();
    let run = async {
        let history = History::follow(control, &name, LIMIT).await?;
        wec.gone(&name).await?;
        sleep(TTL_LOOK).await;
        Ok(history)
    };
    let (history, objects, pods) = watching(wec, &name, run).await?;
    assert_eq!(history.end(), "Succeeded");
    assert_eq!((objects.len(), pods.len()), (1, 1), "{objects:?} {pods:?}");
    Ok(())
}

/// Number of container restarts of the control cluster's workflow-controller.
async fn restarts_of_argo(control: &Cluster) -> Result<i32> {
    let pods: Vec<Pod> = control.list("argo", "app=workflow-controller").await?;
    ensure!(!pods.is_empty(), "{CONTROL} has no workflow-controller");
    let statuses = pods
        .iter()
        .filter_map(|pod| pod.status.as_ref()?.container_statuses.as_ref());
    Ok(statuses.flatten().map(|status| status.restart_count).sum())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_cluster_cut_off_for_ten_minutes_disturbs_nobody_and_does_then_what_was_asked_of_it() -> Result<()>
{
    let fleet = Fleet::disturbing(&[PULL], &[CONTROL]).await?;
    let control = fleet.control()?;
    let running = control.gated_run(PULL, "cut-off").await?;
    let restarts = restarts_of_argo(control).await?;

    fleet.script(&["cut", PULL]).await?;
    let end = Instant::now() + CUT;
    let outcome = while_cut_off(&fleet, &running, end).await;
    fleet.script(&["heal", PULL]).await?;
    let created = outcome?;

    assert_eq!(
        restarts_of_argo(control).await?,
        restarts,
        "the local Argo was restarted"
    );
    for name in [&running, &created] {
        let history = History::follow(control, name, LIMIT).await?;
        assert_eq!(history.end(), "Succeeded", "{name}");
        assert_eq!(fleet.clusters_with_pods(name).await?, [PULL]);
        assert_eq!(condition(&history.last, types::CLUSTER_REACHABLE), None);
    }
    Ok(())
}

/// Sends a verb and a new Workflow to an unreachable cluster, and waits until `end`. Returns the
/// name of the new Workflow.
async fn while_cut_off(fleet: &Fleet, running: &str, end: Instant) -> Result<String> {
    let control = fleet.control()?;
    let is_away = |workflow: &Workflow| {
        condition(workflow, types::CLUSTER_REACHABLE).is_some_and(|(status, _)| status == "False")
    };
    control
        .workflow_when(running, LIMIT, "says that its cluster is unreachable", is_away)
        .await?;
    control.argo(&["resume", running]).await?;
    let created = control
        .create_workflow(&one_step(PULL, "waiting", "echo late"))
        .await?
        .name_any();
    control
        .workflow_when(&created, LIMIT, "says that its cluster is unreachable", is_away)
        .await?;
    sleep_until(end).await;
    for name in [running, &created] {
        let workflow = control.workflow(name).await?.context("gone")?;
        ensure!(
            !workflow::is_final(workflow::phase(workflow.status.as_ref())),
            "{name} has ended meanwhile"
        );
        ensure!(
            fleet.control()?.pods_of(name).await?.is_empty(),
            "{name} runs on {CONTROL}"
        );
    }
    Ok(created)
}

/// The Workflows of a CronWorkflow on a cluster, the oldest first.
async fn fired(cluster: &Cluster, cron: &str) -> Result<Vec<Workflow>> {
    let mut found: Vec<Workflow> = cluster
        .list("argo", &format!("workflows.argoproj.io/cron-workflow={cron}"))
        .await?;
    found.sort_by_key(|workflow| workflow.metadata.name.clone());
    Ok(found)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_schedule_that_a_policy_selects_fires_here_alone_runs_there_one_at_a_time_and_keeps_as_many_as_it_is_told()
-> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PUSH]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(PUSH)?);
    let cron = "every-minute";
    control
        .kubectl(&["delete", "cronworkflow", cron, "--ignore-not-found"])
        .await?;
    // Like KubeStellar's samples, the policy names no kind, so it also selects a CronWorkflow.
    control
        .apply(&json!({
            "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
            "metadata": { "name": cron },
            "spec": {
                "clusterSelectors": [{ "matchLabels": { "name": PUSH } }],
                "downsync": [{
                    "objectSelectors": [{ "matchLabels": { "fleet-test": cron } }], "wantSingletonReportedState": true,
                }],
            },
        }))
        .await?;
    control
        .apply(&json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "CronWorkflow",
            "metadata": { "name": cron, "labels": { "fleet-test": cron } },
            "spec": {
                "schedules": ["* * * * *"], "concurrencyPolicy": "Forbid", "successfulJobsHistoryLimit": 1,
                "workflowMetadata": { "labels": { names::KUBESTELLAR_CLUSTER_LABEL: PUSH } },
                "workflowSpec": gated(PUSH, cron).spec,
            },
        }))
        .await?;
    let waiting = async |but: &str| {
        until(LIMIT, "a run of the schedule to wait at its gate", async || {
            let runs = fired(control, cron).await?;
            let run = runs
                .into_iter()
                .find(|run| run.name_any() != but && waits_at(run, GATE));
            Ok(run.map(|run| run.name_any()))
        })
        .await
    };
    let first = waiting("").await?;
    // The next scheduled time has passed meanwhile.
    sleep(Duration::from_secs(75)).await;
    let names: Vec<String> = fired(control, cron)
        .await?
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(
        names,
        [first.as_str()],
        "another one was fired while the first one ran"
    );
    let there: Vec<String> = fired(wec, cron)
        .await?
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(there, [first.as_str()], "its Workflows on {PUSH}");
    let copy = wec
        .kubectl(&["get", "cronworkflow", cron, "--ignore-not-found", "--output=name"])
        .await?;
    assert_eq!(copy, "", "it is on {PUSH} as well, and fires there");

    control.argo(&["resume", &first]).await?;
    let second = waiting(&first).await?;
    control.argo(&["resume", &second]).await?;
    assert_eq!(History::follow(control, &second, LIMIT).await?.end(), "Succeeded");
    control.gone(&first).await?;
    wec.gone(&first).await?;

    control
        .kubectl(&["delete", "cronworkflow,bindingpolicy", cron])
        .await?;
    for cluster in [control, wec] {
        until(LIMIT, "the schedule's runs to be gone", async || {
            Ok(fired(cluster, cron).await?.is_empty().then_some(()))
        })
        .await?;
    }
    Ok(())
}
