//! One of several clusters is chosen for each Workflow: by what it asks for, by what the clusters
//! have, and by the unfinished runs.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result};
use argosy_api::{BindingPolicy, names, workflow};
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    admission::eventually,
    binaries::{argosy, argosy_prints},
    definitions::install_argo_templates,
    env::LONG,
    fixture::conditions,
    objects::{create, create_template, workflow as suspended},
    waiting::{persistently, until},
};
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};

/// A multiple of the sum of the clusters' sizes.
const WORKFLOWS: usize = 90;

/// A policy that chooses one of the clusters for the Workflows with its name as their label.
async fn policy(fixture: &Fixture, members: &[&Member], when_full: &str) -> Result<String> {
    let name = format!("{}-best", fixture.namespace);
    let selectors: Vec<_> = members
        .iter()
        .map(|member| json!({ "matchLabels": { "name": member.cluster } }))
        .collect();
    let policy: BindingPolicy = serde_json::from_value(json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": name, "annotations": {
            names::RUNS_ANNOTATION: names::BEST_CLUSTER, names::WHEN_FULL_ANNOTATION: when_full,
        } },
        "spec": {
            "clusterSelectors": selectors,
            "downsync": [{
                "apiGroup": "argoproj.io", "resources": ["workflows"], "namespaces": [fixture.namespace],
                "objectSelectors": [{ "matchLabels": { names::KUBESTELLAR_CLUSTER_LABEL: name } }],
                "wantSingletonReportedState": true,
            }],
        },
    }))?;
    create(&Api::all(fixture.control.clone()), &policy).await?;
    Ok(name)
}

/// The number of claimed Workflows of each cluster.
async fn spread(fixture: &Fixture) -> Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    let claimed = ListParams::default().labels(names::CLUSTER_LABEL);
    let workflows = fixture.workflows();
    // The API server may be too busy to answer.
    let listing = persistently("the claimed Workflows", async || {
        workflows.list_metadata(&claimed).await
    });
    for run in listing.await? {
        let cluster = run
            .labels()
            .get(names::CLUSTER_LABEL)
            .context("it is selected by it")?;
        *counts.entry(cluster.clone()).or_default() += 1;
    }
    Ok(counts)
}

async fn assert_spread(env: std::sync::Arc<TestEnv>, namespace: &str) -> Result<()> {
    let fixture = Fixture::on(env, namespace).await?;
    let (pull, push) = tokio::try_join!(fixture.pull(), fixture.push())?;
    fixture.set_room(&pull, "cpu=1").await?;
    fixture.set_room(&push, "cpu=2").await?;
    let policy = policy(&fixture, &[&pull, &push], "send").await?;
    assert_planned(&fixture, &policy).await?;
    let workflows = fixture.workflows();
    let all = (0..WORKFLOWS).map(|number| {
        let (workflows, name) = (workflows.clone(), format!("w{number}"));
        let workflow = suspended(&name, &policy);
        async move { create(&workflows, &workflow).await }
    });
    try_join_all(all).await?;
    let mut counts = BTreeMap::new();
    eventually("all are claimed", async || {
        counts = spread(&fixture).await?;
        Ok(counts.values().sum::<usize>() == WORKFLOWS)
    })
    .await?;
    // A claim that has met another write is chosen anew, by the loads of that moment.
    let smaller = counts.get(&pull.cluster).copied().unwrap_or_default();
    assert!(smaller.abs_diff(WORKFLOWS / 3) <= 1, "{counts:?}");
    // The choice is told, and the run comes back from where it went.
    let first = workflows.get("w0").await?;
    let chosen = first
        .labels()
        .get(names::CLUSTER_LABEL)
        .context("it is claimed")?;
    let member = if *chosen == pull.cluster { &pull } else { &push };
    until(&member.workflows(), "w0", "it is on its cluster", |_| true).await?;
    argosy_prints(
        fixture.env.control.kubeconfig(),
        &["why", "w0", "-n", namespace],
        &["the best of 2"],
    )
    .await?;
    member.argo().finish("w0", "Succeeded").await?;
    until(&workflows, "w0", "its end has come back", |run| {
        workflow::phase(run.status.as_ref()) == "Succeeded"
    })
    .await?;
    Ok(())
}

/// The words of a page, which has lines of a limited width.
fn words(page: &str) -> String {
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What would become of as many Workflows, without creating any.
async fn assert_planned(fixture: &Fixture, policy: &str) -> Result<()> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.json", fixture.namespace));
    std::fs::write(&file, serde_json::to_vec(&suspended("planned", policy))?)?;
    let file = file.to_str().context("it is text")?;
    let kubeconfig = fixture.env.control.kubeconfig();
    let plan = ["why", "-n", &fixture.namespace, "-f", file];
    let said = words(&argosy(kubeconfig, &plan).await?.output);
    assert!(
        said.contains("will be sent to") && said.contains("the best of 2: 0 runs"),
        "{said}"
    );
    let count = WORKFLOWS.to_string();
    let plan = [&plan[..], &["--count", &count]].concat();
    let said = words(&argosy(kubeconfig, &plan).await?.output);
    assert!(
        said.contains("30, then 30 runs") && said.contains("60, then 60 runs"),
        "{said}"
    );
    assert!(
        fixture
            .workflows()
            .list(&ListParams::default())
            .await?
            .items
            .is_empty()
    );
    Ok(())
}

/// A suspended Workflow whose pod asks for one of a resource.
async fn asking(fixture: &Fixture, name: &str, policy: &str, resource: &str) -> Result<()> {
    let mut workflow = suspended(name, policy);
    let requests = json!({ "resources": { "limits": { resource: 1 } } });
    workflow.spec["entrypoint"] = json!("asks");
    workflow.spec["templates"] = json!([{ "name": "asks", "container": requests }]);
    create(&fixture.workflows(), &workflow).await?;
    Ok(())
}

/// Waits until a Workflow is claimed for a cluster, or has a condition with this reason.
async fn until_said(fixture: &Fixture, name: &str, expected: &str) -> Result<()> {
    until(&fixture.workflows(), name, expected, |run| {
        let conditions = run.status.as_ref().map(|status| status["conditions"].to_string());
        let is_said = conditions.is_some_and(|text| text.contains(&format!("\"{expected}: ")));
        is_said
            || run
                .labels()
                .get(names::CLUSTER_LABEL)
                .is_some_and(|cluster| cluster == expected)
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_workflow_goes_where_its_resources_are_and_waits_there_for_room() -> Result<()> {
    let fixture = Fixture::on(TestEnv::shared().await?, "best-gpu").await?;
    let (pull, push) = tokio::try_join!(fixture.pull(), fixture.push())?;
    fixture.set_room(&pull, "cpu=100").await?;
    fixture.set_room(&push, "cpu=1,example.com/gpu=8,runs=1").await?;
    let policy = policy(&fixture, &[&pull, &push], "wait").await?;
    asking(&fixture, "first", &policy, "example.com/gpu").await?;
    until_said(&fixture, "first", &push.cluster).await?;
    asking(&fixture, "second", &policy, "example.com/gpu").await?;
    until_said(&fixture, "second", "NoRoom").await?;
    asking(&fixture, "third", &policy, "example.com/fpga").await?;
    until_said(&fixture, "third", "NoClusterFits").await?;
    let why = |name| ["why", name, "-n", &fixture.namespace];
    let kubeconfig = fixture.env.control.kubeconfig();
    let said = words(&argosy(kubeconfig, &why("second")).await?.output);
    assert!(said.contains("the first one in the queue"), "{said}");
    let listed = argosy(kubeconfig, &["get", "clusters"]).await?;
    assert!(
        listed.errors.contains("until a cluster has room for"),
        "{listed:?}"
    );
    let listed = argosy(kubeconfig, &["get", "clusters", "-o", "json"]).await?;
    let clusters: Vec<Value> = serde_json::from_str(&listed.output)?;
    let waits = |cluster: &Value| cluster["waiting"].as_u64() >= Some(1);
    assert!(!clusters.is_empty() && clusters.iter().all(waits), "{listed:?}");
    let said = words(&argosy(kubeconfig, &why("third")).await?.output);
    assert!(said.contains("CANNOT run it: has no example.com/fpga"), "{said}");
    assert!(
        said.contains("has 1 run of 1"),
        "the run counts here, too: {said}"
    );
    until(&push.workflows(), "first", "it is on its cluster", |_| true).await?;
    push.argo().finish("first", "Succeeded").await?;
    until_said(&fixture, "second", &push.cluster).await?;
    fixture.set_room(&pull, "cpu=100,example.com/fpga=1").await?;
    until_said(&fixture, "third", &pull.cluster).await?;
    assert_eq!(spread(&fixture).await?.values().sum::<usize>(), 3);
    Ok(())
}

#[tokio::test]
async fn a_workflow_whose_template_is_an_object_goes_where_the_pods_of_the_template_fit() -> Result<()> {
    let fixture = Fixture::on(TestEnv::shared().await?, "best-template").await?;
    let (pull, push) = tokio::try_join!(fixture.pull(), fixture.push())?;
    fixture.set_room(&pull, "cpu=100").await?;
    fixture.set_room(&push, "cpu=1,example.com/gpu=8").await?;
    let policy = policy(&fixture, &[&pull, &push], "send").await?;
    let pod = json!({ "name": "main", "container": { "resources": { "limits": { "example.com/gpu": 1 } } } });
    let spec = json!({ "entrypoint": "main", "templates": [pod] });
    install_argo_templates(&fixture.control).await?;
    eventually("the controller watches the templates", async || {
        let metrics = fixture.env.controller.metrics().await?;
        let mut lists = metrics
            .lines()
            .filter(|line| line.starts_with("argosy_watch_lists_total"));
        Ok(lists.any(|line| line.contains("\"WorkflowTemplate\"") && !line.ends_with(" 0")))
    })
    .await?;
    create_template(&fixture.control, &fixture.namespace, "train", &spec).await?;
    let mut workflow = suspended("first", &policy);
    workflow.spec = json!({ "suspend": true, "workflowTemplateRef": { "name": "train" } });
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.json", fixture.namespace));
    std::fs::write(&file, serde_json::to_vec(&workflow)?)?;
    let file = file.to_str().context("it is text")?;
    let plan = ["why", "-n", &fixture.namespace, "-f", file];
    let said = words(&argosy(fixture.env.control.kubeconfig(), &plan).await?.output);
    assert!(
        said.contains(&format!("will be sent to {}", push.cluster))
            && said.contains("has no example.com/gpu"),
        "{said}"
    );
    // The watch of the controller may be later than the template.
    let mut number = 0;
    eventually("it goes where its pods fit", async || {
        number += 1;
        let name = format!("try{number}");
        workflow.metadata.name = Some(name.clone());
        create(&fixture.workflows(), &workflow).await?;
        let claimed = until(&fixture.workflows(), &name, "it is claimed", |run| {
            run.labels().contains_key(names::CLUSTER_LABEL)
        })
        .await?;
        Ok(claimed.labels().get(names::CLUSTER_LABEL) == Some(&push.cluster))
    })
    .await
}

/// A cluster without an agent, whose Lease does not expire during the test.
async fn alive(fixture: &Fixture, number: usize) -> Result<Member> {
    let member = fixture
        .join(&format!("m{number}"), &fixture.env.servers.wecs[0])
        .await?;
    let mut lease = Lease {
        spec: Some(LeaseSpec {
            lease_duration_seconds: Some(3600),
            renew_time: Some(MicroTime(jiff::Timestamp::now())),
            ..LeaseSpec::default()
        }),
        ..Lease::default()
    };
    lease.metadata.name = Some(names::CLUSTER_LEASE.to_owned());
    create(&Api::namespaced(fixture.control.clone(), &member.cluster), &lease).await?;
    fixture.set_room(&member, "cpu=1000,memory=4Ti").await?;
    until(
        &fixture.clusters(),
        &member.cluster,
        "it is available",
        |cluster| {
            let available = conditions(cluster).remove("ManagedClusterConditionAvailable");
            available.is_some_and(|(status, _)| status == "True")
        },
    )
    .await?;
    Ok(member)
}

/// Requests in flight.
const IN_FLIGHT: usize = 64;

#[tokio::test]
async fn a_thousand_workflows_at_once_over_ten_equal_clusters_are_a_hundred_each() -> Result<()> {
    let fixture = Fixture::on(TestEnv::own_guarded("best-burst", LONG).await?, "best-burst").await?;
    let members = try_join_all((0..10).map(|number| alive(&fixture, number))).await?;
    let policy = policy(&fixture, &members.iter().collect::<Vec<_>>(), "send").await?;
    let workflows = fixture.workflows();
    stream::iter(0..1000)
        .map(|number| {
            let (workflows, workflow) = (workflows.clone(), suspended(&format!("w{number}"), &policy));
            async move { create(&workflows, &workflow).await }
        })
        .buffer_unordered(IN_FLIGHT)
        .try_for_each(async |_| Ok(()))
        .await?;
    let mut counts = BTreeMap::new();
    eventually("all are claimed", async || {
        counts = spread(&fixture).await?;
        Ok(counts.values().sum::<usize>() == 1000)
    })
    .await?;
    assert!(
        counts.len() == 10 && counts.values().all(|count| (99..=101).contains(count)),
        "{counts:?}"
    );
    Ok(())
}

#[tokio::test]
async fn many_workflows_at_once_spread_over_the_clusters_as_their_sizes() -> Result<()> {
    assert_spread(TestEnv::shared().await?, "best-spread").await
}

#[tokio::test]
async fn with_the_webhook_they_spread_in_the_same_way() -> Result<()> {
    assert_spread(TestEnv::guarded().await?, "best-guarded").await
}
