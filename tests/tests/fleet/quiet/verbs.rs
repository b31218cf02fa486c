//! Verbs on the control cluster's copy of an active run, sent by the real `argo` and as the UI
//! does. Each takes effect on the run's cluster, and nothing starts on the control cluster.

use anyhow::{Context as _, Result};
use argosy_api::{Workflow, names, workflow};
use argosy_tests::fleet::{
    CONTROL, Cluster, Fleet, GATE, GATES, History, LIMIT, PULL, PUSH, one_step, steps, twice_gated, until,
    waits_at,
};
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// The node with this display name.
pub(crate) fn node<'a>(workflow: &'a Workflow, name: &str) -> Option<&'a Value> {
    let nodes = workflow.status.as_ref()?.get("nodes")?.as_object()?;
    nodes.values().find(|node| node["displayName"] == name)
}

fn is_final(workflow: &Workflow) -> bool {
    workflow::is_final(workflow::phase(workflow.status.as_ref()))
}

/// Opens the fleet. Returns it with the name of a run on `cluster` that waits for its user, as the
/// control cluster shows.
async fn waiting(cluster: &str, name: &str) -> Result<(Fleet, String)> {
    let fleet = Fleet::using(&[cluster]).await?;
    let name = fleet.control()?.gated_run(cluster, name).await?;
    Ok((fleet, name))
}

/// The name of a run on `cluster` that waits at two gates at the same time, as the control cluster
/// shows.
pub(crate) async fn waiting_twice(fleet: &Fleet, cluster: &str) -> Result<String> {
    let control = fleet.control()?;
    let name = control
        .create_workflow(&twice_gated(cluster, "gates"))
        .await?
        .name_any();
    let waits = |workflow: &Workflow| GATES.iter().all(|gate| waits_at(workflow, gate));
    control
        .workflow_when(&name, LIMIT, "waits at both gates", waits)
        .await?;
    Ok(name)
}

/// Waits for the end on the control cluster, and checks that the run has not started there.
pub(crate) async fn ends(fleet: &Fleet, name: &str, phase: &str) -> Result<Workflow> {
    let control = fleet.control()?;
    let ended = control.workflow_when(name, LIMIT, "ends", is_final).await?;
    assert_eq!(
        workflow::phase(ended.status.as_ref()),
        phase,
        "{:#}",
        json!(ended.status)
    );
    assert!(
        control.pods_of(name).await?.is_empty(),
        "{name} has pods on {CONTROL}"
    );
    assert_eq!(ended.labels()[names::ARGO_PHASE_LABEL], phase);
    Ok(ended)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_workflow_that_nobody_suspended_runs_on_its_cluster_only_and_is_not_shown_as_suspended()
-> Result<()> {
    let (fleet, name) = waiting(PULL, "plain").await?;
    let control = fleet.control()?;
    // Argo counts before it lists, and fails if another Workflow is deleted in between.
    let only = format!("metadata.name={name}");
    let list = control.argo(&["list", "--field-selector", &only]).await?;
    let line = list
        .lines()
        .find(|line| line.contains(&name))
        .context("not listed")?;
    assert!(line.contains("Running") && !line.contains("Suspended"), "{line}");
    control.argo(&["resume", &name]).await?;
    ends(&fleet, &name, "Succeeded").await?;
    assert_eq!(fleet.clusters_with_pods(&name).await?, [PULL]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn argo_stop_ends_the_run_and_its_exit_handler_still_runs() -> Result<()> {
    let (fleet, name) = waiting(PUSH, "stopped").await?;
    fleet.control()?.argo(&["stop", &name]).await?;
    let ended = ends(&fleet, &name, "Failed").await?;
    let exit = node(&ended, &format!("{name}.onExit")).context("no exit handler")?;
    assert_eq!(exit["phase"], "Succeeded");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn argo_terminate_ends_the_run_without_its_exit_handler() -> Result<()> {
    let (fleet, name) = waiting(PULL, "terminated").await?;
    fleet.control()?.argo(&["terminate", &name]).await?;
    let ended = ends(&fleet, &name, "Failed").await?;
    assert!(
        node(&ended, &format!("{name}.onExit")).is_none(),
        "the exit handler ran"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn argo_resume_of_one_step_makes_that_step_go_on_and_no_other() -> Result<()> {
    let fleet = Fleet::using(&[PUSH]).await?;
    let name = waiting_twice(&fleet, PUSH).await?;
    let [left, right] = GATES;
    let control = fleet.control()?;
    let selector = |gate: &str| format!("displayName={gate}");
    control
        .argo(&["resume", &name, "--node-field-selector", &selector(left)])
        .await?;
    let has_gone_on = |workflow: &Workflow| !waits_at(workflow, left);
    let shown = control
        .workflow_when(&name, LIMIT, "shows one gate passed", has_gone_on)
        .await?;
    assert!(waits_at(&shown, right), "the other gate was passed as well");
    control
        .argo(&["resume", &name, "--node-field-selector", &selector(right)])
        .await?;
    ends(&fleet, &name, "Succeeded").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn argo_stop_of_one_step_fails_that_step_with_its_message() -> Result<()> {
    let (fleet, name) = waiting(PULL, "refused").await?;
    let selector = format!("displayName={GATE}");
    let verb = [
        "stop",
        &name,
        "--node-field-selector",
        &selector,
        "--message",
        "not today",
    ];
    fleet.control()?.argo(&verb).await?;
    let ended = ends(&fleet, &name, "Failed").await?;
    let gate = node(&ended, GATE).context("no gate")?;
    assert_eq!(
        (&gate["phase"], &gate["message"]),
        (&json!("Failed"), &json!("not today"))
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn outputs_that_argo_node_sets_reach_the_next_step() -> Result<()> {
    let (fleet, name) = waiting(PULL, "answered").await?;
    let selector = format!("displayName={GATE}");
    let control = fleet.control()?;
    control
        .argo(&[
            "node",
            "set",
            &name,
            "--output-parameter",
            "answer=yes",
            "--node-field-selector",
            &selector,
        ])
        .await?;
    let is_answered = |workflow: &Workflow| {
        node(workflow, GATE).is_some_and(|gate| gate["outputs"]["parameters"][0]["value"] == "yes")
    };
    control
        .workflow_when(&name, LIMIT, "shows the answer of its cluster", is_answered)
        .await?;
    control.argo(&["resume", &name]).await?;
    let ended = ends(&fleet, &name, "Succeeded").await?;
    let print = node(&ended, "print").context("no print")?;
    assert_eq!(print["inputs"]["parameters"][0]["value"], "yes");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_button_of_the_ui_that_resumes_makes_each_step_go_on() -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PUSH]).await?;
    let name = waiting_twice(&fleet, PUSH).await?;
    for gate in GATES {
        let selector = format!("displayName={gate}");
        let options = json!({ "name": name, "namespace": "argo", "nodeFieldSelector": selector });
        fleet.argo_server.verb(&name, "resume", &options).await?;
    }
    ends(&fleet, &name, "Succeeded").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_button_of_the_ui_that_stops_ends_the_run() -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PULL]).await?;
    let name = fleet.control()?.gated_run(PULL, "button").await?;
    let options = json!({ "name": name, "namespace": "argo" });
    fleet.argo_server.verb(&name, "stop", &options).await?;
    ends(&fleet, &name, "Failed").await?;
    Ok(())
}

/// Suspends a run with `how` during its first step, lets the step end, checks that the second step does not
/// start, and resumes.
async fn suspends(cluster: &str, how: impl AsyncFn(&Cluster, &str) -> Result<()>) -> Result<()> {
    let fleet = Fleet::using(&[cluster]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(cluster)?);
    let until_told = "until [ -e /tmp/end ]; do sleep 0.2; done";
    let run = steps(cluster, "suspended", &[until_told, "echo second"]);
    let name = control.create_workflow(&run).await?.name_any();
    wec.workflow_when(&name, LIMIT, "runs", |workflow| node(workflow, "step0").is_some())
        .await?;
    how(control, &name).await?;
    let is_suspended = |workflow: &Workflow| workflow.spec.get("suspend") == Some(&json!(true));
    wec.workflow_when(&name, LIMIT, "is suspended", is_suspended)
        .await?;
    let pod = wec.pods_of(&name).await?.pop().context("it has no pod")?;
    let touch = ["exec", &pod, "-c", "main", "--", "touch", "/tmp/end"];
    until(LIMIT, "its first step to be told to end", async || {
        Ok(wec.kubectl(&touch).await.ok())
    })
    .await?;
    let first_is_over =
        |workflow: &Workflow| node(workflow, "step0").is_some_and(|first| first["phase"] == "Succeeded");
    let there = wec
        .workflow_when(&name, LIMIT, "its first step ends", first_is_over)
        .await?;
    assert!(node(&there, "step1").is_none(), "the second step has started");
    control.argo(&["resume", &name]).await?;
    ends(&fleet, &name, "Succeeded").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_patch_of_spec_suspend_suspends_the_run_and_argo_resume_resumes_it() -> Result<()> {
    suspends(PULL, async |control, name| {
        let patch = r#"{"spec":{"suspend":true}}"#;
        control
            .kubectl(&["patch", "workflow", name, "--type=merge", "-p", patch])
            .await
            .map(drop)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_annotation_suspends_the_run_and_argo_resume_resumes_it() -> Result<()> {
    suspends(PUSH, async |control, name| {
        let annotation = format!("{}=true", names::SUSPEND_ANNOTATION);
        control
            .kubectl(&["annotate", "workflow", name, &annotation])
            .await
            .map(drop)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn argosy_suspend_suspends_the_run_and_argo_resume_resumes_it() -> Result<()> {
    suspends(PULL, async |control, name| {
        control.argosy(&["suspend", name]).await.map(drop)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_run_that_is_applied_from_a_file_again_is_not_suspended_by_it() -> Result<()> {
    let fleet = Fleet::using(&[PULL]).await?;
    let control = fleet.control()?;
    let mut workflow = one_step(PULL, "applied", "sleep 8");
    workflow.metadata.generate_name = None;
    let name = format!("applied-{}", std::process::id());
    workflow.metadata.name = Some(name.clone());
    workflow.spec["suspend"] = json!(true);
    let file = std::env::temp_dir().join(format!("{name}.json"));
    std::fs::write(&file, json!(workflow).to_string())?;
    let path = file.to_string_lossy().into_owned();
    control.kubectl(&["apply", "-f", &path]).await?;
    let wec = fleet.cluster(PULL)?;
    wec.workflow_when(&name, LIMIT, "runs", |workflow| {
        workflow::phase(workflow.status.as_ref()) == "Running"
    })
    .await?;
    control.kubectl(&["apply", "-f", &path]).await?;
    let history = History::follow(control, &name, LIMIT).await?;
    assert_eq!(history.end(), "Succeeded");
    assert_eq!(fleet.clusters_with_pods(&name).await?, [PULL]);
    control.delete_workflow(&name).await?;
    std::fs::remove_file(file)?;
    Ok(())
}
