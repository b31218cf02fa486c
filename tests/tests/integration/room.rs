//! The room that an agent reports: its source, the right to watch pods, and the choice that follows.

use anyhow::Result;
use argosy_api::{ManagedCluster, names};
use argosy_tests::testenv::{
    Fixture, Member, admission::eventually, binaries::argosy, charts, definitions, fixture::conditions,
    objects, objects::create, objects::create_namespace, server::Server, waiting::until,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

/// The account of the agent that the chart installs.
const ACCOUNT: &str = "system:serviceaccount:argosy:argosy-agent";

/// A cluster with one node, on an API server of its own.
async fn server(fixture: &Fixture) -> Result<Server> {
    let server = Server::start_restricted(&fixture.env.servers.store, &fixture.namespace).await?;
    let client = server.client().await?;
    definitions::install_for_agent(&client).await?;
    definitions::install_argo(&client).await?;
    create_namespace(&client, &fixture.namespace).await?;
    let nodes: Api<Node> = Api::all(client);
    let mut node = Node::default();
    node.metadata.name = Some("one".to_owned());
    create(&nodes, &node).await?;
    let amounts = json!({ "cpu": "10", "memory": "16Gi" });
    let status = json!({ "status": { "capacity": amounts, "allocatable": amounts } });
    nodes
        .patch_status("one", &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(server)
}

/// The rights that the chart grants with this value.
fn grant(fixture: &Fixture, server: &Server, cluster: &str, capacity: &str) -> Result<()> {
    let namespace = &fixture.namespace;
    let values = format!(r#"clusterName="{cluster}",artifactNamespace="{namespace}",capacity="{capacity}""#);
    charts::apply_agent(server, &values)
}

/// The claim about the room, as JSON; null if there is none.
fn room(cluster: &ManagedCluster) -> Value {
    let claims = cluster.status.iter().flat_map(|status| &status.cluster_claims);
    let mut claims = claims.filter(|claim| claim.name == names::ROOM_CLAIM);
    let claim = claims.next().map(|claim| claim.value.as_str());
    claim
        .and_then(|value| serde_json::from_str(value).ok())
        .unwrap_or_default()
}

async fn until_room(fixture: &Fixture, member: &Member, cpu: Value) -> Result<()> {
    let what = format!("the claim says {cpu} of CPU");
    until(&fixture.clusters(), &member.cluster, &what, |cluster| {
        room(cluster)["cpu"] == cpu
    })
    .await?;
    Ok(())
}

async fn until_counted(fixture: &Fixture, member: &Member, status: &str, reason: &str) -> Result<()> {
    let what = format!("PodsCounted is {status}");
    until(&fixture.clusters(), &member.cluster, &what, |cluster| {
        let told = conditions(cluster).remove("PodsCounted");
        told == Some((status.to_owned(), reason.to_owned()))
    })
    .await?;
    Ok(())
}

/// A pod on the node that asks for CPU.
fn pod(name: &str, cpu: &str, owner: Option<&str>) -> Result<Pod> {
    let owners: Vec<Value> = owner
        .iter()
        .map(|uid| {
            json!({ "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "w", "uid": uid, "controller": true })
        })
        .collect();
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name, "ownerReferences": owners },
        "spec": {
            "nodeName": "one",
            "containers": [{ "name": "main", "image": "none", "resources": { "requests": { "cpu": cpu } } }],
        },
    }))?)
}

/// The check of the cluster's size by `argosy doctor`.
async fn doctor(fixture: &Fixture, member: &Member) -> Result<String> {
    let arguments = ["doctor", "--cluster", &member.cluster];
    let said = argosy(fixture.env.control.kubeconfig(), &arguments).await?;
    Ok(said.output.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The cluster as `argosy get clusters` lists it.
async fn listed(fixture: &Fixture, member: &Member) -> Result<Value> {
    let arguments = ["get", "clusters", &member.cluster, "-o", "json"];
    let said = argosy(fixture.env.control.kubeconfig(), &arguments).await?;
    let listed: Value = serde_json::from_str(&said.output)?;
    Ok(match listed {
        Value::Array(mut all) => all.pop().unwrap_or_default(),
        one => one,
    })
}

/// Pods of others and of the run that `owner` is the UID of come and go.
async fn assert_counted(fixture: &Fixture, member: &Member, client: &Client, owner: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &fixture.namespace);
    create(&pods, &pod("foreign", "2", None)?).await?;
    create(&pods, &pod("own", "5", Some(owner))?).await?;
    until_room(
        fixture,
        member,
        json!({ "node": "10", "foreign": "2", "own": "5" }),
    )
    .await?;
    eventually("the controller's rule counts them", async || {
        let listed = listed(fixture, member).await?;
        Ok(listed["room"] == "cpu=8,memory=16Gi" && listed["reservedPercent"] == 62)
    })
    .await?;
    // One has ended, and the other one is deleted.
    let ended = json!({ "status": { "phase": "Succeeded" } });
    pods.patch_status("foreign", &PatchParams::default(), &Patch::Merge(ended))
        .await?;
    pods.delete("own", &DeleteParams::default().grace_period(0))
        .await?;
    until_room(fixture, member, json!({ "node": "10" })).await
}

#[tokio::test]
async fn an_agent_that_counts_pods_tells_those_of_others_and_of_runs_and_goes_on_without_the_right()
-> Result<()> {
    let fixture = Fixture::new("room-pods").await?;
    let server = server(&fixture).await?;
    let mut member = fixture
        .register("own", &server.kubeconfig_restricted(ACCOUNT)?)
        .await?;
    create_namespace(&fixture.control, &member.cluster).await?;
    grant(&fixture, &server, &member.cluster, "nodes")?;
    member.wec = server.client().await?;
    let counts = [("ARGOSY_CAPACITY", "pods".to_owned())];
    fixture.start_agent_with(&mut member, 3, &counts).await?;
    until_counted(&fixture, &member, "False", "Refused").await?;
    until_room(&fixture, &member, json!({ "node": "10" })).await?;
    let said = doctor(&fixture, &member).await?;
    assert!(said.contains("may not watch the pods of its cluster"), "{said}");
    fixture.round_trip("beside", &member).await?;

    let mut run = objects::workflow("w", &member.cluster);
    run.spec["templates"][0]["container"]["resources"] = json!({ "requests": { "cpu": "3" } });
    create(&fixture.workflows(), &run).await?;
    let object = until(&member.workflows(), "w", "it is on its cluster", |_| true).await?;
    grant(&fixture, &server, &member.cluster, "pods")?;
    until_counted(&fixture, &member, "True", "Ready").await?;
    let owner = object.uid().unwrap_or_default();
    assert_counted(&fixture, &member, &server.client().await?, &owner).await?;

    // Its pods request more than its specification tells, so it reserves what they request, on every
    // kind of cluster.
    let node = |phase: &str| json!({ "id": "w", "name": "w", "type": "Pod", "templateName": "main", "phase": phase });
    let three = json!({ "phase": "Running", "nodes": { "w-1": node("Running"), "w-2": node("Pending"), "w-3": node("Succeeded") } });
    member.argo().report("w", three).await?;
    until(&fixture.workflows(), "w", "two pods are reserved", |run| {
        let claim = run.annotations().get(names::CLAIM_ANNOTATION);
        claim.is_some_and(|claim| claim.contains(r#""pods":"cpu=6,memory=400Mi""#))
    })
    .await?;
    assert_eq!(listed(&fixture, &member).await?["reserved"], "cpu=6,memory=400Mi");

    // Another source is chosen.
    fixture
        .start_agent_with(&mut member, 3, &[("ARGOSY_CAPACITY", "none".to_owned())])
        .await?;
    until(
        &fixture.clusters(),
        &member.cluster,
        "it tells no room",
        |cluster| {
            let is_empty = cluster
                .status
                .as_ref()
                .is_some_and(|status| status.allocatable.is_empty());
            room(cluster).is_null() && is_empty && !conditions(cluster).contains_key("PodsCounted")
        },
    )
    .await?;
    Ok(())
}
