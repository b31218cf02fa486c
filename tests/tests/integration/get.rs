//! `argosy get`: tables and lists of a fleet.

use anyhow::{Context, Result};
use argosy_api::{ManifestWork, workflow};
use argosy_tests::testenv::{
    Fixture,
    binaries::{argosy, argosy_prints},
    fixture::conditions,
    objects::{create, deployment, phase},
    waiting::until,
};
use kube::{
    Api, Resource,
    api::{ListParams, Request},
};
use serde_json::{Value, json};

#[tokio::test]
async fn workflows_are_listed_with_their_cluster_and_watched_as_they_change() -> Result<()> {
    let fixture = Fixture::new("get-workflows").await?;
    let member = fixture.pull().await?;
    let (namespace, cluster) = (fixture.namespace.as_str(), member.cluster.as_str());
    let control = fixture.env.control.kubeconfig();
    fixture.dispatch("hello", &member).await?;
    member.argo().start("hello").await?;
    until(&fixture.workflows(), "hello", "it runs", |workflow| {
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
    // Indented if it existed at the start, on one line if it came later.
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
async fn a_cluster_or_namespace_that_is_not_there_is_named_and_one_without_workflows_is_not_an_error()
-> Result<()> {
    let fixture = Fixture::new("get-nothing").await?;
    let member = fixture.pull().await?;
    let (namespace, cluster) = (fixture.namespace.as_str(), member.cluster.as_str());
    let control = fixture.env.control.kubeconfig();
    for (arguments, missing) in [
        (["-A", "--cluster", "nope"].as_slice(), "ManagedCluster nope"),
        (
            &["-n", namespace, "--cluster", "nope", "--watch"],
            "ManagedCluster nope",
        ),
        (&["-n", "nosuch"], "namespace nosuch"),
        (&["hello", "-n", "nosuch"], "namespace nosuch"),
    ] {
        let said = argosy(control, &[&["get", "workflows"], arguments].concat()).await?;
        assert_eq!(said.code, Some(1), "{said:?}");
        assert_eq!(said.errors, format!("argosy: there is no {missing}\n"));
    }
    let said = argosy(
        control,
        &["get", "workflows", "-n", namespace, "--cluster", cluster],
    )
    .await?;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.output.contains("no Workflows found in namespace"),
        "{said:?}"
    );
    Ok(())
}

#[tokio::test]
async fn clusters_are_listed_with_what_they_run_and_how_they_are_served() -> Result<()> {
    let fixture = Fixture::new("get-clusters").await?;
    let hosted = fixture.push().await?;
    let mut member = fixture.join("pull", &fixture.env.servers.wecs[0]).await?;
    // With the image of Argo's own manifests.
    let mut argo = deployment("workflow-controller")?;
    let pods = argo.spec.as_mut().and_then(|spec| spec.template.spec.as_mut());
    let container = pods
        .and_then(|pods| pods.containers.first_mut())
        .context("a container")?;
    container.image = Some("quay.io/argoproj/workflow-controller:v3.7.15".to_owned());
    create(&Api::namespaced(member.wec.clone(), &fixture.namespace), &argo).await?;
    fixture.start_agent(&mut member, 30).await?;
    let control = fixture.env.control.kubeconfig();
    for name in ["one", "two"] {
        fixture.dispatch(name, &member).await?;
    }
    fixture.round_trip("over", &member).await?;
    until(
        &fixture.clusters(),
        &member.cluster,
        "it is described",
        |cluster| conditions(cluster).contains_key("ArgoReady"),
    )
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

#[tokio::test]
async fn kubectl_shows_of_a_manifest_work_what_kind_of_object_it_is_of() -> Result<()> {
    let fixture = Fixture::new("get-works").await?;
    let member = fixture.pull().await?;
    fixture.dispatch("hello", &member).await?;
    let path = ManifestWork::url_path(&(), Some(&member.cluster));
    let mut request = Request::new(path).list(&ListParams::default())?;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io".parse()?;
    request.headers_mut().insert("accept", table);
    let table: Value = fixture.control.request(request).await?;
    let columns: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|column| column["name"].as_str())
        .collect();
    assert_eq!(columns, ["Name", "KIND", "ORIGIN", "APPLIED", "REASON", "AGE"]);
    let cells = &table["rows"][0]["cells"];
    assert_eq!((&cells[1], &cells[2]), (&json!(workflow::KIND), &json!("hello")));
    Ok(())
}
