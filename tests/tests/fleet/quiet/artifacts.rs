//! Lists, event streams, logs and artifacts of dispatched runs, fetched through the control
//! cluster's argo-server as the Argo UI does.

use std::time::Duration;

use anyhow::{Context as _, Result};
use argosy_tests::fleet::{Artifact, CONTROL, Fleet, History, LIMIT, PULL, PUSH, Sample, until};
use serde_json::Value;
use tokio::time::timeout;

/// The time by which the lists of argo-server may lag behind its event stream.
const LISTED: Duration = Duration::from_secs(30);

/// Creates the sample on the control cluster and waits for its end. Returns its name and its status
/// there.
async fn run(fleet: &Fleet, cluster: &str, sample: &str) -> Result<(String, Value)> {
    let control = fleet.control()?;
    let name = control.create(&Sample::find(cluster, sample)?.file).await?;
    let last = History::follow(control, &name, LIMIT).await?.last;
    let status = last.status.context("no status")?;
    let phase = status.get("phase").and_then(Value::as_str);
    assert_eq!(phase, Some("Succeeded"), "{name}: {status}");
    Ok((name, status))
}

/// Every artifact of the run, fetched as the UI does and directly from the bucket: name of the node
/// (without the name of the Workflow), name of the artifact, content.
async fn contents(fleet: &Fleet, name: &str, status: &Value) -> Result<Vec<(String, String, Vec<u8>)>> {
    let mut found = Vec::new();
    for artifact in Artifact::all(status) {
        let shown = fleet
            .argo_server
            .artifact(name, &artifact.node, &artifact.name)
            .await?;
        let stored = fleet.store.get(&artifact.key).await?;
        assert_eq!(shown, stored, "{} of {}", artifact.name, artifact.node_name);
        assert!(
            !shown.is_empty() || artifact.name == "main-logs",
            "{artifact:?} is empty"
        );
        found.push((artifact.node_name.replace(name, ""), artifact.name, shown));
    }
    Ok(found)
}

fn find<'a>(contents: &'a [(String, String, Vec<u8>)], node: &str, name: &str) -> Option<&'a [u8]> {
    let is_it = |entry: &&(String, String, Vec<u8>)| entry.0.ends_with(node) && entry.1 == name;
    contents.iter().find(is_it).map(|entry| entry.2.as_slice())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn logs_and_artifacts_of_a_dispatched_dag_are_those_in_s3_and_those_of_a_run_without_argosy()
-> Result<()> {
    let fleet = Fleet::open().await?;
    let runs = tokio::try_join!(
        run(&fleet, PULL, "dag"),
        run(&fleet, PUSH, "dag"),
        run(&fleet, CONTROL, "dag")
    )?;
    let (pulled, pushed, direct) = (
        contents(&fleet, &runs.0.0, &runs.0.1).await?,
        contents(&fleet, &runs.1.0, &runs.1.1).await?,
        contents(&fleet, &runs.2.0, &runs.2.1).await?,
    );
    for dispatched in [&pulled, &pushed] {
        assert_eq!(
            find(dispatched, ".generate", "main-logs"),
            Some("mast\nanchor\nkeel\nsail\noar\nrudder\n".as_bytes())
        );
        let report = "6 words, sorted:\nanchor\nkeel\nmast\noar\nrudder\nsail\n".as_bytes();
        assert_eq!(find(dispatched, ".report", "report"), Some(report));
        // An archive contains its creation time. Its content is compared through the report.
        let plain = |all: &[(String, String, Vec<u8>)]| -> Vec<_> {
            all.iter()
                .filter(|(_, _, content)| !content.starts_with(b"\x1f\x8b"))
                .cloned()
                .collect()
        };
        assert_eq!(plain(dispatched), plain(&direct));
        let names = |all: &[(String, String, Vec<u8>)]| -> Vec<_> {
            all.iter()
                .map(|(node, name, _)| (node.clone(), name.clone()))
                .collect()
        };
        assert_eq!(names(dispatched), names(&direct));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_artifact_that_a_condition_has_chosen_opens_from_the_control_cluster() -> Result<()> {
    let fleet = Fleet::open().await?;
    let opens = |cluster| assert_chosen_artifact_opens(&fleet, cluster);
    tokio::try_join!(opens(PULL), opens(PUSH))?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_event_stream_of_a_dispatched_run_tells_its_phases_and_lists_filter_by_them() -> Result<()> {
    let fleet = Fleet::open().await?;
    let told = |cluster| assert_stream_tells_all(&fleet, cluster);
    tokio::try_join!(told(PULL), told(PUSH))?;
    Ok(())
}

async fn assert_chosen_artifact_opens(fleet: &Fleet, cluster: &str) -> Result<()> {
    let (name, status) = run(fleet, cluster, "conditional-artifacts").await?;
    let contents = contents(fleet, &name, &status).await?;
    let side = String::from_utf8(
        find(&contents, ".flip-coin", "main-logs")
            .context("no log of the coin")?
            .to_vec(),
    )?;
    let side = side.trim();
    assert!(["heads", "tails"].contains(&side), "the coin shows {side}");
    let written = format!("it was {side}\n");
    assert_eq!(
        find(&contents, &format!(".{side}"), "result"),
        Some(written.as_bytes()),
        "{cluster}"
    );
    let root = fleet.argo_server.artifact(&name, &name, "result").await?;
    assert_eq!(
        root,
        written.as_bytes(),
        "the artifact of the whole, on {cluster}"
    );
    Ok(())
}

async fn assert_stream_tells_all(fleet: &Fleet, cluster: &str) -> Result<()> {
    let name = fleet
        .control()?
        .create(&Sample::find(cluster, "dag-diamond")?.file)
        .await?;
    let mut events = fleet.argo_server.events(&name).await?;
    let (mut phases, mut progress) = (Vec::new(), Vec::new());
    let last = timeout(LIMIT, async {
        loop {
            let object = events.next().await?;
            let status = object.get("status").unwrap_or(&Value::Null);
            let phase = status["phase"].as_str().unwrap_or_default().to_owned();
            if phases.last() != Some(&phase) {
                phases.push(phase.clone());
            }
            if phase == "Running" && progress.is_empty() {
                until_listed(fleet, &name, "Running").await?;
            }
            progress.extend(status["progress"].as_str().map(ToOwned::to_owned));
            if ["Succeeded", "Failed", "Error"].contains(&phase.as_str()) {
                return anyhow::Ok(object);
            }
        }
    });
    let last = last.await.with_context(|| format!("{name} has not ended"))??;
    assert_eq!(
        phases.iter().rev().take(2).rev().collect::<Vec<_>>(),
        ["Running", "Succeeded"],
        "{phases:?}"
    );
    progress.dedup();
    assert_eq!(progress.last().map(String::as_str), Some("4/4"));
    assert!(progress.len() >= 3, "the stream told no progress: {progress:?}");
    assert_eq!(
        last.pointer("/metadata/name").and_then(Value::as_str),
        Some(name.as_str())
    );
    until_listed(fleet, &name, "Succeeded").await?;
    Ok(())
}

/// Waits until the list of this phase has the Workflow and the list of all other phases does not.
/// argo-server lists from a store that its own watch fills (3.6 and later), so the event stream may
/// be ahead of its lists.
async fn until_listed(fleet: &Fleet, name: &str, phase: &str) -> Result<()> {
    let others: Vec<&str> = ["Pending", "Running", "Succeeded", "Failed", "Error"]
        .into_iter()
        .filter(|other| *other != phase)
        .collect();
    let what = format!("{name} in the list of phase {phase}, and in no other");
    until(LISTED, &what, async || {
        let listed = fleet.argo_server.list(&[phase]).await?;
        let elsewhere = fleet.argo_server.list(&others).await?;
        let here = listed.contains(&(name.to_owned(), phase.to_owned()));
        Ok((here && elsewhere.iter().all(|(other, _)| other != name)).then_some(()))
    })
    .await
}
