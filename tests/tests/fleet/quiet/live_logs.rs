//! Logs of steps that run on another cluster, read on the control cluster while they run: with
//! kubectl, argo, argo-server and the Argo UI. Every line is there once.

use anyhow::{Context as _, Result, ensure};
use argosy_api::{names, workflow};
use argosy_tests::{
    fleet::{
        Artifact, CONTROL, Cluster, Fleet, Following, History, LIMIT, NAMESPACE, PULL, PUSH, one_step, steps,
        until,
    },
    ui::Browser,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::Value;

/// The step prints a line every half second for 25 seconds.
const LINES: usize = 50;

/// As many lines as a panel of the UI shows without scrolling.
const LINES_OF_PANEL: usize = 15;

/// The command of a step that prints [`LINES`] lines.
pub(crate) fn printing() -> String {
    printing_lines(LINES)
}

fn printing_lines(count: usize) -> String {
    format!("i=0; while [ $i -lt {count} ]; do i=$((i+1)); echo \"line $i of the step\"; sleep 0.5; done")
}

/// The lines of [`printing`].
pub(crate) fn printed() -> Vec<String> {
    printed_lines(LINES)
}

fn printed_lines(count: usize) -> Vec<String> {
    (1..=count)
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
pub(crate) fn of_the_step(lines: Vec<String>) -> Vec<String> {
    let is_of_executor = |line: &String| line.ends_with(" argo=true") || line.contains(" argo=true ");
    lines.into_iter().filter(|line| !is_of_executor(line)).collect()
}

/// The next line that `following` prints.
async fn next_line(following: &mut Following) -> Result<String> {
    following.line(LIMIT).await?.context("no line")
}

async fn assert_live(fleet: &Fleet, cluster: &str) -> Result<()> {
    let control = fleet.control()?;
    let live = one_step(cluster, "live", &printing());
    let name = control.create_workflow(&live).await?.name_any();
    // It waits for the pod, as a user does.
    let mut argo = control.follow_argo(&["logs", "-f", "--no-color", &name])?;
    let visible = async {
        let pod = until(LIMIT, "the pod to be shown", async || {
            Ok(control.shadow_pods_of(&name).await?.pop())
        })
        .await?;
        let mut kubectl = control.follow_kubectl(&["logs", "-f", &pod])?;
        let first = next_line(&mut kubectl).await?;
        anyhow::Ok((pod, kubectl, first))
    };
    let (visible, first_of_argo) = tokio::join!(visible, next_line(&mut argo));
    let ((pod, kubectl, first_of_kubectl), first_of_argo) = (visible?, first_of_argo?);
    // The benchmark measures how soon they came.
    let run = control.workflow(&name).await?.context("the Workflow is gone")?;
    let phase = workflow::phase(run.status.as_ref());
    assert_eq!(phase, "Running", "{cluster}: its lines came after its end");
    let server = fleet.argo_server.log(&name, &pod, "main");
    let (kubectl, argo, server) = tokio::join!(kubectl.end(LIMIT), argo.end(LIMIT), server);
    let (kubectl, argo) = (kubectl?, argo?);
    assert_eq!(kubectl.code, Some(0), "{kubectl:?}");
    let lines = [first_of_kubectl].into_iter().chain(kubectl.lines).collect();
    assert_eq!(of_the_step(lines), printed(), "kubectl");
    assert_eq!(of_the_step(server?), printed(), "argo-server");
    assert_eq!(argo.code, Some(0), "{argo:?}");
    let prefix = format!("{pod}: ");
    let lines = [first_of_argo]
        .into_iter()
        .chain(argo.lines)
        .map(|line| line.strip_prefix(&prefix).unwrap_or(&line).to_owned())
        .collect();
    assert_eq!(of_the_step(lines), printed(), "argo");
    let status = History::follow(control, &name, LIMIT).await?.last.status;
    assert_eq!(archived(fleet, &status.context("no status")?).await?, printed());
    // The log is in S3 now, so nothing is left to be shown.
    until(LIMIT, "the shadow pod to be gone", async || {
        Ok(control.shadow_pods_of(&name).await?.is_empty().then_some(()))
    })
    .await
}

/// The lines of the archived log of the only step of a run with this status.
async fn archived(fleet: &Fleet, status: &Value) -> Result<Vec<String>> {
    let logs = Artifact::all(status)
        .into_iter()
        .find(|artifact| artifact.name == "main-logs");
    let archived = fleet.store.get(&logs.context("no archived log")?.key).await?;
    Ok(String::from_utf8(archived)?.lines().map(str::to_owned).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_log_of_a_running_step_is_followed_line_by_line_on_the_control_cluster() -> Result<()> {
    let fleet = Fleet::open().await?;
    tokio::try_join!(assert_live(&fleet, PULL), assert_live(&fleet, PUSH))?;
    Ok(())
}

async fn assert_options(control: &Cluster, cluster: &str) -> Result<()> {
    // The step goes on until it is terminated, so that its log is live however slow the machine is.
    let command = format!("{}; exec sleep 3600", printing());
    let (name, pod) = shown(control, cluster, "options", &command).await?;
    // The first line is two seconds old when there are ten.
    let tail = until(LIMIT, "its log has ten lines", async || {
        let log = control.kubectl(&["logs", &pod]).await?;
        let is_long = log.lines().any(|line| line == "line 10 of the step");
        let tail = control.kubectl(&["logs", "--tail=1", &pod]).await?;
        Ok(is_long.then_some(tail))
    });
    let tail = tail.await?;
    assert_eq!(tail.lines().count(), 1, "{tail}");
    let mut following = control.follow_kubectl(&["logs", "-f", "--tail=1", &pod])?;
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
    let printed = printed();
    let mut followed = vec![next_line(&mut following).await?];
    while followed.last() != printed.last() {
        followed.push(next_line(&mut following).await?);
    }
    // Nine lines came before the last one that it began with.
    let is_tail = printed.ends_with(&followed) && followed.len() <= LINES - 9;
    assert!(is_tail, "{cluster}: {followed:?}");
    control.argo(&["terminate", &name]).await?;
    let ended = following.end(LIMIT).await?;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    // The executor says how the step ended.
    let is_repeated = ended.lines.iter().any(|line| printed.contains(line));
    assert!(!is_repeated, "{cluster}: {:?}", ended.lines);
    assert_eq!(History::follow(control, &name, LIMIT).await?.end(), "Failed");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_options_of_kubectl_logs_choose_lines_and_containers() -> Result<()> {
    let fleet = Fleet::open().await?;
    let control = fleet.control()?;
    tokio::try_join!(assert_options(control, PULL), assert_options(control, PUSH))?;
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

/// The node ID of the only pod of the Workflow `name`.
async fn node_of(control: &Cluster, name: &str) -> Result<String> {
    let status = control.workflow(name).await?.and_then(|run| run.status);
    let status = status.context("no status")?;
    let mut nodes = status["nodes"].as_object().context("no nodes")?.iter();
    let (node, _) = nodes.find(|(_, node)| node["type"] == "Pod").context("no pod")?;
    Ok(node.clone())
}

/// The rows of a panel that are lines of the step, without the name of the pod. A line of Argo's
/// executor may take two rows.
fn rows_of_the_step(rows: &[String]) -> Vec<&str> {
    let lines = rows
        .iter()
        .map(|row| row.split_once(": ").map_or(row.as_str(), |(_, line)| line));
    let is_other = |row: &&str| row.is_empty() || row.contains("argo=true") || row.starts_with("time=");
    lines.filter(|row| !is_other(row)).collect()
}

/// Looks at the panels of the step of the run `name`, which prints its lines and goes on until it is
/// told to end. Then compares the panel of the step with the archived log.
async fn assert_panels(fleet: &Fleet, browser: &Browser, cluster: &str, run: (&str, &str)) -> Result<()> {
    let (control, (name, pod)) = (fleet.control()?, run);
    let node = node_of(control, name).await?;
    let open = async |panel: &str| {
        let page = format!("workflows/{NAMESPACE}/{name}?tab=workflow&sidePanel={panel}");
        browser.open(&page).await
    };
    for (panel, container, expected) in [
        ("logs::main".to_owned(), "main", "line 1 of the step"),
        (format!("logs:{node}:wait"), "wait", "level="),
    ] {
        until(LIMIT, &format!("the log of {container}"), async || {
            let log = control.kubectl(&["logs", "-c", container, pod]).await?;
            Ok(log.contains(expected).then_some(()))
        })
        .await?;
        open(&panel).await?;
        let is_shown = |texts: &[String]| texts.iter().any(|text| text.contains(expected));
        browser
            .texts(".workflow-logs-viewer", LIMIT, is_shown)
            .await
            .with_context(|| panel.clone())?;
    }
    open(&format!("logs:{node}:main")).await?;
    let expected = printed_lines(LINES_OF_PANEL);
    let is_whole =
        |rows: &[String]| rows_of_the_step(rows).last() == Some(&expected[LINES_OF_PANEL - 1].as_str());
    let rows = browser
        .texts(".workflow-logs-viewer .xterm-rows > div", LIMIT, is_whole)
        .await?;
    browser.screenshot(&format!("live-log-{cluster}")).await?;
    let end = ["exec", pod, "-c", "main", "--", "touch", "/tmp/end"];
    fleet.cluster(cluster)?.kubectl(&end).await?;
    let status = History::follow(control, name, LIMIT).await?.last.status;
    let archived = archived(fleet, &status.context("no status")?).await?;
    assert_eq!(archived, expected, "{cluster}");
    assert_eq!(rows_of_the_step(&rows), archived, "{cluster}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_logs_panel_of_the_ui_shows_the_lines_of_a_step_while_it_runs() -> Result<()> {
    let fleet = Fleet::longest(&[CONTROL, PULL, PUSH]).await?;
    let control = fleet.control()?;
    let command = format!(
        "{}; while [ ! -e /tmp/end ]; do sleep 0.2; done",
        printing_lines(LINES_OF_PANEL)
    );
    Browser::visit(&fleet, "live-log", async |browser| {
        // Not before: the browser may have been in use for long.
        let (pulled, pushed) = tokio::try_join!(
            shown(control, PULL, "panel", &command),
            shown(control, PUSH, "panel", &command)
        )?;
        for (cluster, (name, pod)) in [(PULL, &pulled), (PUSH, &pushed)] {
            assert_panels(&fleet, browser, cluster, (name, pod)).await?;
        }
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
        for label in ["kubernetes.io/os", "kubernetes.io/arch"] {
            let found = node.labels().keys().find(|key| key.ends_with(label));
            assert_eq!(found, None, "{cluster}");
        }
        let spec = node.spec.unwrap_or_default();
        assert_eq!(spec.provider_id, None, "{cluster}");
        let taints = spec.taints.unwrap_or_default();
        assert!(
            taints.iter().any(|taint| taint.effect == "NoSchedule"),
            "{cluster}"
        );
        let status = node.status.unwrap_or_default();
        let capacity = status.capacity.unwrap_or_default();
        assert!(
            capacity.contains_key("cpu") && capacity.contains_key("memory"),
            "{cluster}"
        );
        let version = status.node_info.unwrap_or_default().kubelet_version;
        assert!(version.starts_with("v1."), "{cluster}: {version}");
        let addresses = status.addresses.unwrap_or_default();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn argosy_doctor_finds_that_the_agents_of_both_clusters_can_be_asked_for_logs() -> Result<()> {
    let fleet = Fleet::open().await?;
    for cluster in [PULL, PUSH] {
        until(LIMIT, "doctor says that all links hold", async || {
            let findings = fleet.control()?.doctor().await?;
            let of_node = |finding: &&Value| finding["cluster"] == cluster && finding["check"] == "node";
            let found: Vec<&Value> = findings.iter().filter(of_node).collect();
            let is_well = found.iter().all(|finding| finding["outcome"] != "failed");
            let is_asked = found.iter().any(|finding| {
                let message = finding["message"].as_str().unwrap_or_default();
                message.contains("reaches the agent for logs and Events")
            });
            ensure!(is_well && is_asked, "{cluster}: {found:#?}");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}
