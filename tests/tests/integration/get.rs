//! `argosy get`: tables and lists of a fleet.

use anyhow::{Context, Result};
use argosy_tests::lab::{
    Scene,
    binaries::{argosy, argosy_prints},
    objects::{create, deployment, phase},
    scene::conditions,
    waiting::until,
};
use kube::Api;
use serde_json::{Value, json};

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
    assert!(
        list[0]["arrivedAt"].is_string(),
        "when it was created on its cluster: {list}"
    );
    for (phases, names) in [
        ("succeeded,Failed", "workflow.argoproj.io/hello\n"),
        ("Running", ""),
    ] {
        let named = argosy(
            control,
            &["get", "wf", "-n", namespace, "--phase", phases, "-o", "name"],
        )
        .await?;
        assert_eq!(
            (named.code, named.output.as_str()),
            (Some(0), names),
            "{phases}: {named:?}"
        );
    }

    let missing = argosy(control, &["get", "wf", "nobody", "-n", namespace]).await?;
    assert_eq!(missing.code, Some(1));
    assert_eq!(
        missing.errors,
        format!("argosy: there is no Workflow {namespace}/nobody\n")
    );
    Ok(())
}

#[tokio::test]
async fn clusters_are_listed_with_what_they_run_and_how_they_are_served() -> Result<()> {
    let scene = Scene::new("get-clusters").await?;
    let hosted = scene.push().await?;
    let mut member = scene.join("pull", &scene.stage.servers.wecs[0]).await?;
    // As Argo's own manifests have it.
    let mut argo = deployment("workflow-controller")?;
    let pods = argo.spec.as_mut().and_then(|spec| spec.template.spec.as_mut());
    let container = pods
        .and_then(|pods| pods.containers.first_mut())
        .context("a container")?;
    container.image = Some("quay.io/argoproj/workflow-controller:v3.7.15".to_owned());
    create(&Api::namespaced(member.wec.clone(), &scene.namespace), &argo).await?;
    scene.start_agent(&mut member, 30).await?;
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
    assert_eq!(
        (&list[0]["argo"], &list[0]["argoVersion"]),
        (&json!("True"), &json!("v3.7.15"))
    );
    assert_eq!(list[0]["running"], 2);
    assert_eq!(
        (&list[0]["mode"], &list[0]["agent"]),
        (&json!("pull"), &json!(env!("CARGO_PKG_VERSION")))
    );
    let list = argosy(
        control,
        &[
            "get",
            "clusters",
            "-l",
            &format!("name={}", hosted.cluster),
            "-o",
            "yaml",
        ],
    )
    .await?;
    assert!(list.output.contains("mode: push"), "{list:?}");
    assert!(!list.output.contains(&member.cluster), "{list:?}");

    let version = argosy(control, &["version", "-o", "json"]).await?;
    assert_eq!(version.code, Some(0), "{version:?}");
    let version: Value = serde_json::from_str(&version.output)?;
    assert_eq!(version["client"]["version"], env!("CARGO_PKG_VERSION"));
    let told = version["clusters"].as_array().into_iter().flatten();
    let told: Vec<&Value> = told
        .filter(|told| told["name"] == member.cluster.as_str())
        .collect();
    assert_eq!(told[0]["argo"], "v3.7.15");
    Ok(())
}
