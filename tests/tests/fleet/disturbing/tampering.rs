//! People delete objects that are not theirs: nothing runs twice, nothing is stuck, and the end is
//! shown.

use anyhow::{Context as _, Result};
use argosy_api::conditions::workflow as types;
use argosy_api::{AppliedManifestWork, ManifestWork, WorkStatus, Workflow, names, workflow};
use argosy_tests::fleet::{
    CONTROL, Cluster, Fleet, History, LIMIT, PULL, PUSH, condition, gated, one_step, steps, until, watching,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, PostParams},
};

/// A run that waits at its gate. Returns its name, and the name of all objects in ITS and WEC that
/// belong to it.
async fn waiting(control: &Cluster, cluster: &str, name: &str) -> Result<(String, String)> {
    let name = control.gated_run(cluster, name).await?;
    let run = control.workflow(&name).await?.context("the run is gone")?;
    Ok((name, names::work_name(&run.uid().context("no UID")?)))
}

fn is_over(workflow: &Workflow) -> bool {
    workflow::is_final(workflow::phase(workflow.status.as_ref()))
}

fn message(workflow: &Workflow) -> &str {
    let status = workflow.status.as_ref();
    status
        .and_then(|status| status.get("message")?.as_str())
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_work_status_that_is_deleted_comes_back_and_the_run_goes_on() -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PUSH]).await?;
    let control = fleet.control()?;
    let (name, work) = waiting(control, PUSH, "untold").await?;
    let told: Api<WorkStatus> = Api::namespaced(control.client(), PUSH);
    let before = told.get(&work).await?.uid();
    told.delete(&work, &DeleteParams::default()).await?;
    until(LIMIT, "another WorkStatus", async || {
        let there = told.get_opt(&work).await?;
        Ok(there.filter(|there| there.uid() != before).map(drop))
    })
    .await?;
    control.argo(&["resume", &name]).await?;
    let history = History::follow(control, &name, LIMIT).await?;
    assert_eq!(history.end(), "Succeeded");
    history.went_forward()?;
    assert_eq!(fleet.clusters_with_pods(&name).await?, [PUSH]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_manifest_work_that_is_deleted_ends_its_run_which_says_so_and_is_not_made_again() -> Result<()> {
    let fleet = Fleet::using(&[PULL]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(PULL)?);
    let (name, work) = waiting(control, PULL, "unasked").await?;
    let first = wec.workflow(&name).await?.context("gone")?.uid();
    let works: Api<ManifestWork> = Api::namespaced(control.client(), PULL);
    let deleted = async {
        works.delete(&work, &DeleteParams::default()).await?;
        let over = control
            .workflow_when(&name, LIMIT, "is shown as ended", is_over)
            .await?;
        wec.gone(&name).await?;
        // Any new object of the first run would be on the cluster before this one.
        let later = control.create_workflow(&one_step(PULL, "later", "true")).await?;
        History::follow(control, &later.name_any(), LIMIT).await?;
        Ok(over)
    };
    let (over, objects, _) = watching(wec, &name, deleted).await?;
    assert!(
        first.iter().eq(&objects) || objects.is_empty(),
        "it was made again: {objects:?}"
    );
    assert_eq!(workflow::phase(over.status.as_ref()), "Error");
    assert!(
        message(&over).contains(&format!("deleted on {PULL}")),
        "{:?}",
        over.status
    );
    control.delete_workflow(&name).await?;
    control.gone(&name).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_record_that_is_deleted_makes_nothing_run_again() -> Result<()> {
    let fleet = Fleet::disturbing(&[PULL], &[]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(PULL)?);
    let created = control
        .create_workflow(&one_step(PULL, "unrecorded", "echo once"))
        .await?;
    let (name, work) = (
        created.name_any(),
        names::work_name(&created.uid().context("no UID")?),
    );
    let records: Api<AppliedManifestWork> = Api::all(wec.client());
    let run = async {
        let history = History::follow(control, &name, LIMIT).await?;
        wec.delete_workflow(&name).await?;
        wec.gone(&name).await?;
        records.delete(&work, &DeleteParams::default()).await?;
        // The agent restarts, and has only the remaining objects to rely on.
        fleet.script(&["kill", PULL, "argosy-agent"]).await?;
        let later = control.create_workflow(&one_step(PULL, "later", "true")).await?;
        History::follow(control, &later.name_any(), LIMIT).await?;
        Ok(history)
    };
    let (history, objects, pods) = watching(wec, &name, run).await?;
    assert_eq!((objects.len(), pods.len()), (1, 1), "{objects:?} {pods:?}");
    let now = control.workflow(&name).await?.context("gone")?;
    assert_eq!(now.status, history.last.status);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_namespace_that_is_deleted_on_a_cluster_goes_and_its_runs_are_shown_as_deleted() -> Result<()> {
    let fleet = Fleet::using(&[PUSH]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(PUSH)?);
    let namespace = "doomed";
    for cluster in [control, wec] {
        // It may be left by a run of this test that failed.
        let leftover = [
            "delete",
            "namespace",
            namespace,
            "--ignore-not-found",
            "--timeout=100s",
        ];
        cluster.kubectl(&leftover).await?;
        cluster.kubectl(&["create", "namespace", namespace]).await?;
    }
    // It waits at its first step, so that it has no pod whose end would be its own.
    let mut doomed = gated(PUSH, "doomed");
    doomed.metadata.namespace = Some(namespace.to_owned());
    let there: Api<Workflow> = Api::namespaced(wec.client(), namespace);
    let here: Api<Workflow> = Api::namespaced(control.client(), namespace);
    let name = here.create(&PostParams::default(), &doomed).await?.name_any();
    until(LIMIT, "its object on the cluster", async || {
        Ok(there.get_opt(&name).await?.map(drop))
    })
    .await?;

    wec.kubectl(&["delete", "namespace", namespace, "--timeout=100s"])
        .await?;

    until(LIMIT, "the Workflow to be shown as ended", async || {
        let workflow = here.get(&name).await?;
        Ok((is_over(&workflow) && message(&workflow).contains(&format!("deleted on {PUSH}"))).then_some(()))
    })
    .await?;
    control
        .kubectl(&["delete", "namespace", namespace, "--timeout=100s"])
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_mailbox_that_is_deleted_ends_what_runs_keeps_what_has_ended_and_serves_again_when_it_is_back()
-> Result<()> {
    let fleet = Fleet::disturbing(&[PUSH], &[]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(PUSH)?);
    let ended = control
        .create_workflow(&one_step(PUSH, "kept", "echo kept"))
        .await?
        .name_any();
    let ended = History::follow(control, &ended, LIMIT).await?.last;
    let (running, _) = waiting(control, PUSH, "mailbox").await?;
    let first = wec.workflow(&running).await?.context("gone")?.uid();

    let deleted = async {
        control
            .kubectl(&["delete", "namespace", PUSH, "--timeout=100s"])
            .await?;
        wec.gone(&running).await?;
        fleet.script(&["install", PUSH]).await?;
        control
            .workflow_when(&running, LIMIT, "is shown as ended", is_over)
            .await
    };
    let outcome = watching(wec, &running, deleted).await;
    if outcome.is_err() {
        fleet.script(&["install", PUSH]).await?;
    }
    let (over, objects, _) = outcome?;
    assert!(
        first.iter().eq(&objects) || objects.is_empty(),
        "it was made again: {objects:?}"
    );
    assert!(
        message(&over).contains(&format!("deleted on {PUSH}")),
        "{:?}",
        over.status
    );
    let name = ended.name_any();
    let kept = control.workflow(&name).await?.context("gone")?;
    assert_eq!(kept.status, ended.status);
    let again = control
        .create_workflow(&one_step(PUSH, "again", "echo again"))
        .await?
        .name_any();
    assert_eq!(History::follow(control, &again, LIMIT).await?.end(), "Succeeded");
    control.delete_workflow(&running).await?;
    control.gone(&running).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn runs_go_on_while_their_agent_is_uninstalled_and_are_shown_when_it_is_installed_again() -> Result<()>
{
    let fleet = Fleet::disturbing(&[PULL], &[]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(PULL)?);
    let name = control
        .create_workflow(&steps(
            PULL,
            "left-alone",
            &["echo first", "sleep 20", "echo last"],
        ))
        .await?
        .name_any();
    until(LIMIT, "a pod on the cluster", async || {
        Ok((!wec.pods_of(&name).await?.is_empty()).then_some(()))
    })
    .await?;
    let away = async {
        fleet.script(&["remove", PULL]).await?;
        let released = wec.workflow(&name).await?.context("the run is gone")?;
        assert!(released.finalizers().is_empty(), "{:?}", released.metadata);
        let is_away = |run: &Workflow| {
            condition(run, types::CLUSTER_REACHABLE).is_some_and(|(status, _)| status == "False")
        };
        control
            .workflow_when(&name, LIMIT, "says that its cluster is unreachable", is_away)
            .await?;
        wec.workflow_when(&name, LIMIT, "has ended on its cluster", is_over)
            .await?;
        fleet.script(&["install", PULL]).await?;
        History::follow(control, &name, LIMIT).await
    };
    let outcome = watching(wec, &name, away).await;
    if outcome.is_err() {
        fleet.script(&["install", PULL]).await?;
    }
    let (history, objects, pods) = outcome?;
    assert_eq!(history.end(), "Succeeded");
    assert_eq!((objects.len(), pods.len()), (1, 3), "{objects:?} {pods:?}");
    assert_eq!(condition(&history.last, types::CLUSTER_REACHABLE), None);
    assert!(fleet.cluster(CONTROL)?.pods_of(&name).await?.is_empty());
    Ok(())
}
