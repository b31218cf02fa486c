//! The fields of a ManagedCluster besides the conditions: version, resources, claims and taints, as
//! the clients of Open Cluster Management expect them.

use anyhow::Result;
use argosy_api::ManagedCluster;
use argosy_tests::testenv::{
    Fixture, Member, definitions,
    fixture::conditions,
    objects::{create, create_namespace},
    server::Server,
    waiting::{until, until_gone},
};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Node},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

/// A separate cluster without an agent, because nodes and definitions are not namespaced.
async fn bare(fixture: &Fixture) -> Result<(Server, Member)> {
    let server = Server::start(&fixture.env.servers.store, &fixture.namespace).await?;
    let client = server.client().await?;
    definitions::install_for_agent(&client).await?;
    definitions::install_argo(&client).await?;
    create_namespace(&client, &fixture.namespace).await?;
    let member = fixture.join("own", &server).await?;
    Ok((server, member))
}

async fn add_node(wec: &Client, name: &str, is_cordoned: bool, cpu: &str, memory: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(wec.clone());
    let mut node = Node::default();
    node.metadata.name = Some(name.to_owned());
    node.spec.get_or_insert_default().unschedulable = Some(is_cordoned);
    create(&nodes, &node).await?;
    let amounts = json!({ "cpu": cpu, "memory": memory });
    let status = json!({ "status": { "capacity": amounts, "allocatable": amounts } });
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}

fn status(cluster: &ManagedCluster) -> Value {
    serde_json::to_value(&cluster.status).unwrap_or_default()
}

fn taints(cluster: &ManagedCluster) -> Vec<&str> {
    cluster
        .spec
        .taints
        .iter()
        .map(|taint| taint.key.as_str())
        .collect()
}

#[tokio::test]
async fn the_hub_is_told_version_resources_and_identity_of_a_cluster() -> Result<()> {
    let fixture = Fixture::new("inventory-facts").await?;
    let (_server, mut member) = bare(&fixture).await?;
    add_node(&member.wec, "one", false, "4", "16777216Ki").await?;
    add_node(&member.wec, "two", true, "2", "8Gi").await?;
    let by_others = json!({ "status": {
        "capacity": { "core_worker": "3" },
        "clusterClaims": [{ "name": "region", "value": "eu" }],
    } });
    fixture
        .clusters()
        .patch_status(&member.cluster, &PatchParams::default(), &Patch::Merge(by_others))
        .await?;
    until(&fixture.clusters(), &member.cluster, "it is tainted", |cluster| {
        taints(cluster) == ["cluster.open-cluster-management.io/unreachable"]
    })
    .await?;
    fixture.start_agent(&mut member, 3).await?;
    let cluster = until(
        &fixture.clusters(),
        &member.cluster,
        "its facts are told",
        |cluster| taints(cluster).is_empty() && status(cluster)["version"]["kubernetes"].is_string(),
    )
    .await?;
    let told = status(&cluster);
    let version = member.wec.apiserver_version().await?.git_version;
    let namespaces: Api<Namespace> = Api::all(member.wec.clone());
    let id = namespaces.get("kube-system").await?.uid();
    assert_eq!(told["version"], json!({ "kubernetes": version }));
    assert_eq!(
        told["capacity"],
        json!({ "cpu": "6", "memory": "24Gi", "core_worker": "3" })
    );
    assert_eq!(told["allocatable"], json!({ "cpu": "4", "memory": "16Gi" }));
    assert_eq!(
        told["clusterClaims"],
        json!([
            { "name": "region", "value": "eu" },
            { "name": "id.k8s.io", "value": id },
            { "name": "kubeversion.open-cluster-management.io", "value": version },
            { "name": "agentversion.argosy.dev", "value": env!("CARGO_PKG_VERSION") },
            { "name": "room.argosy.dev", "value": r#"{"cpu":{"node":"4"},"memory":{"node":"16Gi"}}"# },
        ])
    );
    let leases: Api<Lease> = Api::namespaced(fixture.control.clone(), &member.cluster);
    let lease = leases.get("managed-cluster-lease").await?;
    assert_eq!(
        lease.labels()["open-cluster-management.io/cluster-name"],
        member.cluster,
        "OCM's hub does not see it"
    );
    member.agent()?.kill()?;
    until(
        &fixture.clusters(),
        &member.cluster,
        "it is tainted again",
        |cluster| taints(cluster) == ["cluster.open-cluster-management.io/unreachable"],
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn the_facts_are_left_to_ocms_registration_agent_where_there_is_one() -> Result<()> {
    let fixture = Fixture::new("inventory-ocm").await?;
    let (_server, mut member) = bare(&fixture).await?;
    definitions::install_cluster_claims(&member.wec).await?;
    let claims: Api<DynamicObject> = Api::all_with(
        member.wec.clone(),
        &ApiResource {
            group: "cluster.open-cluster-management.io".to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: "cluster.open-cluster-management.io/v1alpha1".to_owned(),
            kind: "ClusterClaim".to_owned(),
            plural: "clusterclaims".to_owned(),
        },
    );
    // The claim of an earlier agent about a repository that is not configured any more.
    let stale: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "cluster.open-cluster-management.io/v1alpha1",
        "kind": "ClusterClaim",
        "metadata": { "name": "artifactrepository.argosy.dev" },
        "spec": { "value": "s3://gone" },
    }))?;
    create(&claims, &stale).await?;
    // Written as OCM does.
    let by_ocm = json!({ "status": {
        "conditions": [{
            "type": "ManagedClusterJoined", "status": "True", "reason": "ManagedClusterJoined",
            "message": "Managed cluster joined", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
        "version": { "kubernetes": "v1.2.3" },
        "clusterClaims": [{ "name": "id.k8s.io", "value": "as OCM says" }],
    } });
    fixture
        .clusters()
        .patch_status(&member.cluster, &PatchParams::default(), &Patch::Merge(by_ocm))
        .await?;
    fixture.start_agent(&mut member, 3).await?;
    until_gone(&claims, "artifactrepository.argosy.dev", "the claim is taken off").await?;
    until(&claims, "agentversion.argosy.dev", "OCM is to tell it", |claim| {
        claim.data["spec"]["value"] == env!("CARGO_PKG_VERSION")
    })
    .await?;
    let cluster = until(
        &fixture.clusters(),
        &member.cluster,
        "the conditions are told",
        |cluster| conditions(cluster).contains_key("ArgoReady"),
    )
    .await?;
    let told = status(&cluster);
    assert_eq!(told["version"], json!({ "kubernetes": "v1.2.3" }));
    assert_eq!(
        told["clusterClaims"],
        json!([{ "name": "id.k8s.io", "value": "as OCM says" }])
    );
    assert_eq!(
        conditions(&cluster)["ManagedClusterJoined"].1,
        "ManagedClusterJoined"
    );
    Ok(())
}
