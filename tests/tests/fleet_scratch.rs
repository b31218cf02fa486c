//! scratch
use std::time::Duration;
use anyhow::{Context as _, Result};
use argosy_tests::{fleet::*, ui::Browser};
const PAGE: Duration = Duration::from_secs(30);
const NODE: &str = ".graph svg g.node";
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scratch() -> Result<()> {
    let fleet = Fleet::open().await?;
    let control = fleet.control()?;
    let name = control.create(&Sample::find(CONTROL, "dag-diamond")?.file).await?;
    Browser::visit(&fleet, "dag", async |browser| {
        browser.open(&format!("workflows/{NAMESPACE}/{name}")).await?;
        browser.count(&format!("{NODE}.Succeeded"), PAGE, |count| count >= 1).await?;
        browser.screenshot("s-dag-running").await?;
        let h = History::follow(control, &name, Duration::from_mins(2)).await?;
        println!("{:?}", h.states); h.went_forward()?;
        browser.count(&format!("{NODE}.Succeeded"), PAGE, |count| count == 5).await?;
        println!("{:?}", browser.texts_now(".graph svg text.node-label").await?);
        println!("{:?}", browser.texts_now(".graph svg g.node").await?);
        browser.screenshot("s-dag-ended").await?;
        let status = h.last.status.clone().context("s")?;
        let (node, _) = status["nodes"].as_object().unwrap().iter().find(|(_, node)| node["type"] == "Pod").unwrap();
        browser.open(&format!("workflows/{NAMESPACE}/{name}?nodeId={node}&tab=workflow&sidePanel=logs:{node}:main")).await?;
        println!("{:?}", browser.texts(".workflow-logs-viewer", PAGE, |t| t.iter().any(|x| x.contains("start-"))).await);
        browser.screenshot("s-log").await?;
        browser.open(&format!("workflows/{NAMESPACE}")).await?;
        let rows = ".workflows-list__row-container";
        println!("{:?}", browser.texts(rows, PAGE, |r| r.iter().any(|x| x.contains(&name))).await?);
        let row = format!("//a[contains(@href, '/{name}')]/ancestor::div[contains(@class, 'argo-table-list__row')]");
        browser.has(&format!("{row}//i[contains(@class, 'status-icon--success')]"), PAGE).await?;
        browser.screenshot("s-list").await?;
        println!("{}", serde_json::to_string_pretty(&tree(&h.last)?)?);
        for a in Artifact::all(&status) { println!("{a:?} {} {}", fleet.argo_server.artifact(&name, &a.node, &a.name).await?.len(), fleet.store.get(&a.key).await?.len()); }
        Ok(())
    })
    .await
}
