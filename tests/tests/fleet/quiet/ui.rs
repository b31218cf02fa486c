//! The real Argo UI on the control cluster, in a real browser, with a dispatched run.
//!
//! Each test stores screenshots in the fleet's folder `screenshots`.

use std::time::Duration;

use anyhow::{Context as _, Result};
use argosy_tests::{
    fleet::{CONTROL, Fleet, History, LIMIT, NAMESPACE, PULL, PUSH, Sample, steps},
    ui::Browser,
};
use kube::ResourceExt as _;

const PAGE: Duration = Duration::from_secs(30);

/// A node in the drawn DAG. Its phase is a CSS class.
const NODE: &str = ".graph svg g.node";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_list_shows_a_dispatched_run_with_its_phase() -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PULL]).await?;
    let control = fleet.control()?;
    let name = control.create(&Sample::find(PULL, "hello-world")?.file).await?;
    Browser::visit(&fleet, "list", async |browser| {
        browser.open(&format!("workflows/{NAMESPACE}")).await?;
        let rows = ".workflows-list__row-container";
        let is_listed = |rows: &[String]| rows.iter().any(|row| row.contains(&name));
        browser.texts(rows, PAGE, is_listed).await?;
        History::follow(control, &name, LIMIT).await?;
        let row = format!(
            "//a[contains(@href, '/{name}')]/ancestor::div[contains(@class, 'argo-table-list__row')]"
        );
        browser
            .has(
                &format!("{row}//i[contains(@class, 'status-icon--success')]"),
                PAGE,
            )
            .await?;
        let texts = browser.texts(rows, PAGE, is_listed).await?;
        let text = texts
            .iter()
            .find(|text| text.contains(&name))
            .context("not listed")?;
        assert!(text.contains("1/1"), "its row says {text}");
        browser.screenshot("list").await
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_list_shows_the_cluster_of_each_run_in_a_column() -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PULL, PUSH]).await?;
    let control = fleet.control()?;
    let mut runs = Vec::new();
    for cluster in [PULL, PUSH] {
        let workflow = steps(cluster, "column", &["true"]);
        runs.push((cluster, control.create_workflow(&workflow).await?.name_any()));
    }
    Browser::visit(&fleet, "column", async |browser| {
        browser.open(&format!("workflows/{NAMESPACE}")).await?;
        let head = "//div[contains(@class, 'argo-table-list__head')]";
        browser
            .has(&format!("{head}//div[normalize-space() = 'Cluster']"), PAGE)
            .await?;
        for (cluster, name) in &runs {
            let row = format!(
                "//a[contains(@href, '/{name}')]/ancestor::div[contains(@class, 'argo-table-list__row')]"
            );
            // A cell of its own: the name and the message of a Workflow may contain the cluster's, too.
            let cell = "div[contains(@class, 'columns') and normalize-space() = ";
            browser.has(&format!("{row}//{cell}'{cluster}']"), PAGE).await?;
        }
        browser.screenshot("column").await
    })
    .await?;
    for (_, name) in &runs {
        History::follow(control, name, LIMIT).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_dag_of_a_dispatched_run_is_drawn_while_it_runs_and_after() -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PUSH]).await?;
    let control = fleet.control()?;
    let name = control.create(&Sample::find(PUSH, "dag-diamond")?.file).await?;
    Browser::visit(&fleet, "dag", async |browser| {
        browser.open(&format!("workflows/{NAMESPACE}/{name}")).await?;
        // The first step has ended, a later one has not, and the page was not reloaded.
        browser
            .count(&format!("{NODE}.Succeeded"), LIMIT, |count| count >= 1)
            .await?;
        browser
            .count(&format!("{NODE}.Running, {NODE}.Pending"), PAGE, |count| {
                count >= 1
            })
            .await?;
        browser.screenshot("dag-running").await?;
        History::follow(control, &name, LIMIT).await?;
        browser
            .count(&format!("{NODE}.Succeeded"), PAGE, |count| count == 5)
            .await?;
        browser
            .count(&format!("{NODE}.Running, {NODE}.Pending"), PAGE, |count| {
                count == 0
            })
            .await?;
        let labels = browser
            .texts(".graph svg text.node-label", PAGE, |labels| labels.len() == 5)
            .await?;
        for label in ["A", "B", "C", "D"] {
            assert!(
                labels.iter().any(|shown| shown == label),
                "{label} is not among {labels:?}"
            );
        }
        browser.screenshot("dag-ended").await
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_log_of_a_step_of_a_dispatched_run_opens() -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PULL]).await?;
    let control = fleet.control()?;
    let name = control
        .create_workflow(&steps(PULL, "logged", &["echo land in sight"]))
        .await?
        .name_any();
    let status = History::follow(control, &name, LIMIT)
        .await?
        .last
        .status
        .context("no status")?;
    let nodes = status["nodes"].as_object().context("no nodes")?;
    let (node, _) = nodes
        .iter()
        .find(|(_, node)| node["type"] == "Pod")
        .context("no pod")?;
    Browser::visit(&fleet, "log", async |browser| {
        browser
            .open(&format!(
                "workflows/{NAMESPACE}/{name}?nodeId={node}&tab=workflow&sidePanel=logs:{node}:main"
            ))
            .await?;
        let is_shown = |texts: &[String]| texts.iter().any(|text| text.contains("land in sight"));
        browser.texts(".workflow-logs-viewer", PAGE, is_shown).await?;
        browser.screenshot("log").await
    })
    .await
}
