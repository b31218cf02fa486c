//! `argosy get`: tables and lists of a fleet.

use anyhow::Result;
use argosy_tests::lab::{
    Scene,
    binaries::{argosy, argosy_prints},
    objects::phase,
    scene::conditions,
    waiting::until,
};
use serde_json::Value;

#[tokio::test]
async fn workflows_are_listed_with_their_cluster_and_watched_as_they_change() -> Result<()> {
    let scene = Scene::new("get-workflows").await?;
    let member = scene.pull().await?;
    let (namespace, cluster) = (scene.namespace.as_str(), member.cluster.as_str());
    let control = scene.stage.control.kubeconfig();
    scene.dispatch("hello", &member).await?;
    member.argo().start("hello").await?;
    until(&scene.workflows(), "hello", "it runs", |workflow| {
        phase(workflow) == "Running"
    })
    .await?;

    let table = argosy(control, &["get", "workflows", "-n", namespace]).await?;
    assert_eq!(table.code, Some(0), "{table:?}");
    let line = table.output.lines().nth(1).unwrap_or_default();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(
        cells[..5],
        [namespace, "hello", cluster, "Running", "0/1"],
        "{table:?}"
    );

    let arguments = ["get", "wf", "hello", "-n", namespace, "--watch", "-o", "json"];
    let argo = member.argo();
    let (printed, ended) = tokio::join!(
        argosy_prints(control, &arguments, &["Succeeded"]),
        argo.finish("hello", "Succeeded"),
    );
    ended?;
    // Pretty where it was there from the start, one line where it came later.
    assert!(printed?.contains("Succeeded"));

    let list = argosy(control, &["get", "wf", "-A", "--cluster", cluster, "-o", "json"]).await?;
    let list: Value = serde_json::from_str(&list.output)?;
    assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
    assert_eq!(list[0]["cluster"], cluster);

    let missing = argosy(control, &["get", "wf", "nobody", "-n", namespace]).await?;
    assert_eq!(missing.code, Some(1));
    assert_eq!(
        missing.errors,
        format!("argosy: there is no Workflow {namespace}/nobody\n")
    );
    Ok(())
}

#[tokio::test]
async fn clusters_are_listed_with_what_they_run() -> Result<()> {
    let scene = Scene::new("get-clusters").await?;
    let member = scene.pull().await?;
    let control = scene.stage.control.kubeconfig();
    for name in ["one", "two"] {
        scene.dispatch(name, &member).await?;
    }
    scene.round_trip("over", &member).await?;
    until(&scene.clusters(), &member.cluster, "it is described", |cluster| {
        conditions(cluster).contains_key("ArgoReady")
    })
    .await?;
    let list = argosy(control, &["get", "clusters", &member.cluster, "-o", "json"]).await?;
    assert_eq!(list.code, Some(0), "{list:?}");
    let list: Value = serde_json::from_str(&list.output)?;
    assert_eq!(list[0]["reachable"], "True");
    assert_eq!(list[0]["argo"], "True");
    assert_eq!(list[0]["running"], 2);
    Ok(())
}
