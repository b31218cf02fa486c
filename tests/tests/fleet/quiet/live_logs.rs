//! Logs of steps that run on another cluster, read on the control cluster while they run: with
//! kubectl, argo, argo-server and the Argo UI. Every line is there once.

use std::time::Duration;

use anyhow::{Context as _, Result};
use argosy_api::names;
use argosy_tests::{
    fleet::{Artifact, CONTROL, Cluster, Fleet, History, NAMESPACE, PULL, PUSH, one_step, steps, until},
    ui::Browser,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::Value;

const LIMIT: Duration = Duration::from_mins(3);

/// The step prints a line every half second for 25 seconds.
const LINES: usize = 50;

/// A step that prints until its Workflow is terminated.
const UNTIL_STOPPED: &str = "echo line 1 of the step; while true; do sleep 1; echo on; done";

fn printing() -> String {
    format!("i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo \"line $i of the step\"; sleep 0.5; done")
}

fn printed() -> Vec<String> {
    (1..=LINES)
        .map(|line| format!("line {line} of the step"))
        .collect()
}

/// Creates a Workflow for `cluster` whose step runs `command`. Returns its name, and the name of its
/// pod once the control cluster shows it.
async fn shown(control: &Cluster, cluster: &str, name: &str, command: &str) -> Result<(String, String)> {
    let workflow = one_step(cluster, name, command);
    let name = control.create_workflow(&workflow).await?.name_any();
    let pod = until(LIMIT, "the pod to be shown", async || {
        Ok(control.shadow_pods_of(&name).await?.pop())
    });
    let pod = pod.await?;
    Ok((name, pod))
}

/// The lines of the step, without those of Argo's executor, which Argo's own tools leave out, too.
fn of_the_step(lines: Vec<String>) -> Vec<String> {
    let is_of_executor = |line: &String| line.ends_with(" argo=true") || line.contains(" argo=true ");
    lines.into_iter().filter(|line| !is_of_executor(line)).collect()
}

async fn assert_live(fleet: &Fleet, cluster: &str) -> Result<()> {
    let control = fleet.control()?;
    let (name, pod) = shown(control, cluster, "live", &printing()).await?;
    let mut kubectl = control.follow_kubectl(&["logs", "-f", &pod])?;
    let mut argo = control.follow_argo(&["logs", "-f", "--no-color", &name])?;
    let first = kubectl.line(LIMIT).await?.context("no line")?;
    let server = fleet.argo_server.log(&name, &pod, "main");
    let (rest, argo, server) = tokio::join!(kubectl.rest(LIMIT), argo.rest(LIMIT), server);
    let kubectl: Vec<String> = [first].into_iter().chain(rest?).collect();
    assert_eq!(of_the_step(kubectl), printed(), "kubectl");
    assert_eq!(of_the_step(server?), printed(), "argo-server");
    let prefix = format!("{pod}: ");
    let argo: Vec<String> = argo?
        .iter()
        .map(|line| line.strip_prefix(&prefix).unwrap_or(line).to_owned())
        .collect();
    assert_eq!(of_the_step(argo), printed(), "argo");
    let status = History::follow(control, &name, LIMIT).await?.last.status;
    assert_archived(fleet, &status.context("no status")?).await?;
    // The log is in S3 now, so nothing is left to be shown.
    until(LIMIT, "the shadow pod to be gone", async || {
        Ok(control.shadow_pods_of(&name).await?.is_empty().then_some(()))
    })
    .await
}

async fn assert_archived(fleet: &Fleet, status: &Value) -> Result<()> {
    let logs = Artifact::all(status)
        .into_iter()
        .find(|artifact| artifact.name == "main-logs");
    let archived = fleet.store.get(&logs.context("no archived log")?.key).await?;
    let lines: Vec<String> = String::from_utf8(archived)?.lines().map(str::to_owned).collect();
    assert_eq!(lines, printed());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_log_of_a_running_step_is_followed_line_by_line_on_the_control_cluster() -> Result<()> {
    let fleet = Fleet::open().await?;
    tokio::try_join!(assert_live(&fleet, PULL), assert_live(&fleet, PUSH))?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_options_of_kubectl_logs_choose_lines_and_containers() -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PULL]).await?;
    let control = fleet.control()?;
    let (_, pod) = shown(control, PULL, "options", &printing()).await?;
    // The first line is two seconds old when there are ten.
    let tail = until(LIMIT, "its log has ten lines", async || {
        let log = control.kubectl(&["logs", &pod]).await?;
        let is_long = log.lines().any(|line| line == "line 10 of the step");
        let tail = control.kubectl(&["logs", "--tail=1", &pod]).await?;
        Ok(is_long.then_some(tail))
    });
    let tail = tail.await?;
    assert_eq!(tail.lines().count(), 1, "{tail}");
    let stamped = control.kubectl(&["logs", "--timestamps", &pod]).await?;
    assert!(stamped.contains("Z line 1 of"), "{stamped}");
    let limited = control.kubectl(&["logs", "--limit-bytes=60", &pod]).await?;
    assert_eq!(limited.len(), 60, "{limited}");
    let since = control.kubectl(&["logs", "--since=2s", &pod]).await?;
    assert!(!since.lines().any(|line| line == "line 1 of the step"), "{since}");
    let executor = control.kubectl(&["logs", "-c", "wait", &pod]).await?;
    assert!(executor.contains("level="), "{executor}");
    let previous = control.kubectl(&["logs", "--previous", &pod]).await;
    let previous = format!("{:#}", previous.err().context("there was a previous container")?);
    assert!(previous.contains("previous terminated container"), "{previous}");
    Ok(())
}

/// Follows a run whose first step is too short to be seen live, so its log comes from S3, as does that
/// of the last one; the log of the second one comes from its cluster.
async fn assert_followed(fleet: &Fleet, cluster: &str) -> Result<()> {
    let control = fleet.control()?;
    let commands = ["echo first", &printing(), "echo last"];
    let name = control
        .create_workflow(&steps(cluster, "followed", &commands))
        .await?
        .name_any();
    let mut argosy = control.follow_argosy(&["logs", "-f", "--no-prefix", &name])?;
    let live = async {
        until(LIMIT, "the pod of the second step to be shown", async || {
            Ok(control.shadow_pods_of(&name).await?.pop())
        })
        .await
    };
    let (lines, shown) = tokio::join!(argosy.rest(LIMIT), live);
    shown?;
    let expected: Vec<String> = ["first".to_owned()]
        .into_iter()
        .chain(printed())
        .chain(["last".to_owned()])
        .collect();
    assert_eq!(of_the_step(lines?), expected);
    assert_eq!(History::follow(control, &name, LIMIT).await?.end(), "Succeeded");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn argosy_logs_follows_a_run_from_its_first_step_to_its_last() -> Result<()> {
    let fleet = Fleet::open().await?;
    tokio::try_join!(assert_followed(&fleet, PULL), assert_followed(&fleet, PUSH))?;
    Ok(())
}

async fn assert_events(control: &Cluster, cluster: &str) -> Result<()> {
    let workflow = one_step(cluster, "events", "echo done");
    let name = control.create_workflow(&workflow).await?.name_any();
    let pod = format!("pod/{name}");
    until(LIMIT, "the Events of the pod", async || {
        let listed = control.argosy(&["events", &name]).await?;
        let mut lines = listed.lines();
        Ok(lines
            .any(|line| line.contains("Scheduled") && line.contains(&pod))
            .then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_events_of_a_pod_are_listed_on_the_control_cluster() -> Result<()> {
    let fleet = Fleet::open().await?;
    let control = fleet.control()?;
    tokio::try_join!(assert_events(control, PULL), assert_events(control, PUSH))?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_logs_panel_of_the_ui_shows_a_step_while_it_runs() -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PUSH]).await?;
    let control = fleet.control()?;
    Browser::visit(&fleet, "live-log", async |browser| {
        // Not before: the browser may have been in use for long.
        let (name, _) = shown(control, PUSH, "panel", UNTIL_STOPPED).await?;
        let run = control.workflow(&name).await?.and_then(|run| run.status);
        let run = run.context("no status")?;
        let nodes = run["nodes"].as_object().context("no nodes")?;
        let (node, _) = nodes
            .iter()
            .find(|(_, node)| node["type"] == "Pod")
            .context("no pod")?;
        for (panel, expected) in [
            (format!("logs:{node}:main"), "line 1 of the step"),
            ("logs::main".to_owned(), "line 1 of the step"),
            (format!("logs:{node}:wait"), "level="),
        ] {
            let page = format!("workflows/{NAMESPACE}/{name}?tab=workflow&sidePanel={panel}");
            browser.open(&page).await?;
            let is_shown = |texts: &[String]| texts.iter().any(|text| text.contains(expected));
            browser
                .texts(".workflow-logs-viewer", Duration::from_secs(15), is_shown)
                .await
                .with_context(|| panel.clone())?;
        }
        browser.screenshot("live-log").await?;
        control.argo(&["terminate", &name]).await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn every_cluster_is_a_node_on_which_nothing_is_scheduled() -> Result<()> {
    let fleet = Fleet::open().await?;
    let control = fleet.control()?;
    let nodes: Api<Node> = Api::all(control.client());
    for cluster in [PULL, PUSH] {
        let name = names::virtual_node(cluster);
        let node = until(LIMIT, "the Node to be ready", async || {
            let node = nodes.get(&name).await?;
            let conditions = node.status.as_ref().and_then(|status| status.conditions.clone());
            let is_ready = conditions
                .into_iter()
                .flatten()
                .any(|condition| condition.type_ == "Ready" && condition.status == "True");
            Ok(is_ready.then_some(node))
        })
        .await?;
        let os = node.labels().keys().find(|key| key.ends_with("kubernetes.io/os"));
        assert_eq!(os, None, "{cluster}");
        let addresses = node
            .status
            .and_then(|status| status.addresses)
            .unwrap_or_default();
        let types: Vec<&str> = addresses.iter().map(|address| address.type_.as_str()).collect();
        assert_eq!(types, ["Hostname"], "{cluster}");
        let pods: Api<Pod> = Api::all(control.client());
        let here = ListParams::default().fields(&format!("spec.nodeName={name}"));
        for pod in pods.list(&here).await? {
            assert!(
                pod.labels().contains_key(names::SHADOW_OF_LABEL),
                "{}",
                pod.name_any()
            );
        }
    }
    Ok(())
}
