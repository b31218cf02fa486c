//! Clusters that lack something or are unreachable. A condition says so, and the run continues when
//! the cause is fixed.

use std::collections::BTreeMap;

use anyhow::Result;
use argosy_tests::testenv::{
    Fixture,
    admission::eventually,
    definitions,
    fixture::{conditions, work_name},
    objects::{
        CONTROLLER_NAMESPACE, condition, create, create_namespace, kubeconfig_secret, message, phase, says,
    },
    server::Server,
    store::free_port,
    waiting::until,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};

#[tokio::test]
async fn a_workflow_says_when_its_cluster_is_away_and_goes_on_when_it_is_back() -> Result<()> {
    let fixture = Fixture::new("clusters-away").await?;
    let member = fixture.join_pull("pull", 3).await?;
    fixture.dispatch("hello", &member).await?;
    member.agent()?.kill()?;
    until(
        &fixture.clusters(),
        &member.cluster,
        "it is unavailable",
        |cluster| {
            conditions(cluster).get("ManagedClusterConditionAvailable")
                == Some(&("Unknown".to_owned(), "LeaseExpired".to_owned()))
        },
    )
    .await?;
    until(
        &fixture.workflows(),
        "hello",
        "it says that its cluster is unreachable",
        |workflow| says(workflow, "ClusterReachable", "False", "LeaseExpired"),
    )
    .await?;
    member.argo().finish("hello", "Succeeded").await?;
    member.agent()?.start_again().await?;
    let ended = until(&fixture.workflows(), "hello", "it ends", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    assert_eq!(condition(&ended, "ClusterReachable", "False"), None);
    Ok(())
}

#[tokio::test]
async fn a_workflow_for_a_cluster_that_never_joined_waits_and_says_so() -> Result<()> {
    let fixture = Fixture::new("clusters-never").await?;
    let mut member = fixture.join("pull", &fixture.env.servers.wecs[0]).await?;
    fixture.submit("hello", &member).await?;
    until(
        &fixture.workflows(),
        "hello",
        "it says that its cluster never joined",
        |workflow| says(workflow, "ClusterReachable", "False", "NeverJoined"),
    )
    .await?;
    fixture.start_agent(&mut member, 30).await?;
    until(
        &member.workflows(),
        "hello",
        "the object is on the cluster",
        |_| true,
    )
    .await?;
    until(
        &fixture.workflows(),
        "hello",
        "it no longer says so",
        |workflow| condition(workflow, "ClusterReachable", "False").is_none(),
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_cluster_without_argo_is_reported_and_served_once_argo_is_there() -> Result<()> {
    let fixture = Fixture::new("clusters-bare").await?;
    let server = Server::start(&fixture.env.servers.store, "bare").await?;
    let client = server.client().await?;
    definitions::install_for_agent(&client).await?;
    create_namespace(&client, &fixture.namespace).await?;
    let mut member = fixture.join("pull", &server).await?;
    fixture.start_agent(&mut member, 3).await?;
    fixture.submit("hello", &member).await?;
    until(
        &fixture.workflows(),
        "hello",
        "it says that Argo is missing",
        |workflow| says(workflow, "Dispatched", "False", "ArgoMissing"),
    )
    .await?;
    until(
        &fixture.clusters(),
        &member.cluster,
        "it says that Argo is missing",
        |cluster| {
            conditions(cluster).get("ArgoReady") == Some(&("False".to_owned(), "ArgoMissing".to_owned()))
        },
    )
    .await?;
    definitions::install_argo(&client).await?;
    until(
        &member.workflows(),
        "hello",
        "the object is on the cluster",
        |_| true,
    )
    .await?;
    until(
        &fixture.workflows(),
        "hello",
        "it says that it is sent",
        |workflow| says(workflow, "Dispatched", "True", "Claimed"),
    )
    .await?;
    until(
        &fixture.clusters(),
        &member.cluster,
        "it says that Argo is there",
        |cluster| {
            conditions(cluster).get("ArgoReady") == Some(&("True".to_owned(), "ArgoPresent".to_owned()))
        },
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_missing_mailbox_is_reported_and_used_once_it_is_there() -> Result<()> {
    let fixture = Fixture::new("clusters-mailbox").await?;
    let mut member = fixture
        .register("pull", fixture.env.servers.wecs[0].kubeconfig())
        .await?;
    let other = fixture.push().await?;
    fixture.submit("hello", &member).await?;
    until(
        &fixture.workflows(),
        "hello",
        "it says that the mailbox is missing",
        |workflow| says(workflow, "Dispatched", "False", "MailboxMissing"),
    )
    .await?;
    fixture.round_trip("meanwhile", &other).await?;
    create_namespace(&fixture.control, &member.cluster).await?;
    fixture.start_agent(&mut member, 30).await?;
    until(
        &member.workflows(),
        "hello",
        "the object is on the cluster",
        |_| true,
    )
    .await?;
    until(
        &fixture.workflows(),
        "hello",
        "it says that it is sent",
        |workflow| says(workflow, "Dispatched", "True", "Claimed"),
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_namespace_that_the_cluster_lacks_is_reported_and_used_once_it_is_there() -> Result<()> {
    let fixture = Fixture::new("clusters-namespace").await?;
    let server = Server::start(&fixture.env.servers.store, "no-namespace").await?;
    let client = server.client().await?;
    definitions::install_for_agent(&client).await?;
    definitions::install_argo(&client).await?;
    let mut member = fixture.join("pull", &server).await?;
    fixture.start_agent(&mut member, 30).await?;
    fixture.submit("hello", &member).await?;
    let told = until(
        &fixture.workflows(),
        "hello",
        "it says that the namespace is missing",
        |workflow| says(workflow, "Dispatched", "False", "NamespaceMissing"),
    )
    .await?;
    assert_eq!(
        (phase(&told), message(&told)),
        (
            "Pending",
            "NamespaceMissing: namespace clusters-namespace is not on clusters-namespace-pull; create it there, and the run starts"
        )
    );
    create_namespace(&client, &fixture.namespace).await?;
    until(
        &member.workflows(),
        "hello",
        "the object is on the cluster",
        |_| true,
    )
    .await?;
    member.argo().start("hello").await?;
    let running = until(&fixture.workflows(), "hello", "it runs", |workflow| {
        phase(workflow) == "Running"
    })
    .await?;
    assert_eq!(message(&running), "");
    Ok(())
}

#[tokio::test]
async fn an_s3_that_does_not_answer_is_reported_on_the_cluster_and_workflows_go_on() -> Result<()> {
    let fixture = Fixture::new("clusters-s3").await?;
    let mut member = fixture.join("pull", &fixture.env.servers.wecs[0]).await?;
    let endpoint = format!("127.0.0.1:{}", free_port()?);
    let repository = format!(
        "s3: {{endpoint: '{endpoint}', bucket: b, insecure: true, accessKeySecret: {{name: s3, key: k}}, secretKeySecret: {{name: s3, key: k}}}}"
    );
    let mut config = ConfigMap {
        data: Some([("artifactRepository".to_owned(), repository)].into()),
        ..ConfigMap::default()
    };
    config.metadata.name = Some("workflow-controller-configmap".to_owned());
    create(&Api::namespaced(member.wec.clone(), &fixture.namespace), &config).await?;
    let mut secret = Secret {
        string_data: Some(BTreeMap::from([("k".to_owned(), "v".to_owned())])),
        ..Secret::default()
    };
    secret.metadata.name = Some("s3".to_owned());
    create(&Api::namespaced(member.wec.clone(), &fixture.namespace), &secret).await?;
    fixture.start_agent(&mut member, 30).await?;
    let cluster = until(
        &fixture.clusters(),
        &member.cluster,
        "it says that the bucket does not answer",
        |cluster| {
            conditions(cluster).get("ArtifactRepositoryReady")
                == Some(&("False".to_owned(), "Unreachable".to_owned()))
        },
    )
    .await?;
    let message = cluster
        .status
        .unwrap_or_default()
        .conditions
        .into_iter()
        .find(|known| known.reason == "Unreachable");
    assert!(
        message.is_some_and(|known| known.message.contains(&endpoint)),
        "the message names the address"
    );
    fixture.round_trip("hello", &member).await
}

#[tokio::test]
async fn a_cluster_without_an_artifact_repository_is_reported() -> Result<()> {
    let fixture = Fixture::new("clusters-no-s3").await?;
    let member = fixture.pull().await?;
    until(
        &fixture.clusters(),
        &member.cluster,
        "it says that there is none",
        |cluster| {
            conditions(cluster).get("ArtifactRepositoryReady")
                == Some(&("False".to_owned(), "NotConfigured".to_owned()))
        },
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_run_whose_cluster_leaves_the_inventory_says_so_and_goes_on() -> Result<()> {
    let fixture = Fixture::new("clusters-gone").await?;
    let member = fixture.pull().await?;
    fixture.dispatch("hello", &member).await?;
    member.argo().start("hello").await?;
    until(
        &fixture.workflows(),
        "hello",
        "it is shown as running",
        |workflow| phase(workflow) == "Running",
    )
    .await?;
    fixture
        .clusters()
        .delete(&member.cluster, &DeleteParams::default())
        .await?;
    until(
        &fixture.workflows(),
        "hello",
        "it says that its cluster is gone",
        |workflow| says(workflow, "ClusterReachable", "False", "ClusterGone"),
    )
    .await?;
    member.argo().finish("hello", "Succeeded").await?;
    until(&fixture.workflows(), "hello", "its end is shown", |workflow| {
        phase(workflow) == "Succeeded"
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_hosted_agent_whose_secret_goes_stops_and_comes_back_with_it() -> Result<()> {
    let fixture = Fixture::new("clusters-secret").await?;
    let member = fixture.push().await?;
    let secrets: Api<Secret> = Api::namespaced(fixture.control.clone(), CONTROLLER_NAMESPACE);
    let secret = secrets.get(&member.cluster).await?;
    secrets.delete(&member.cluster, &DeleteParams::default()).await?;
    // Another cluster's Secret, which is handled after the deletion.
    let other = fixture.join("other", &fixture.env.servers.wecs[1]).await?;
    create(
        &secrets,
        &kubeconfig_secret(&other.cluster, std::fs::read(&other.kubeconfig)?),
    )
    .await?;
    fixture.round_trip("sentinel", &other).await?;
    fixture.submit("hello", &member).await?;
    let work = work_name(&fixture.workflows().get("hello").await?);
    until(&member.works(), &work, "it waits in the mailbox", |_| true).await?;
    fixture.round_trip("second-sentinel", &other).await?;
    assert!(
        member.workflows().get_opt("hello").await?.is_none(),
        "the agent has not stopped"
    );
    let kubeconfig = secret
        .data
        .unwrap_or_default()
        .remove("kubeconfig")
        .unwrap_or_default();
    create(&secrets, &kubeconfig_secret(&member.cluster, kubeconfig.0)).await?;
    until(
        &member.workflows(),
        "hello",
        "the object is on the cluster",
        |_| true,
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_kubeconfig_that_opens_a_file_is_refused_by_name_until_it_is_mended() -> Result<()> {
    let fixture = Fixture::new("clusters-refused").await?;
    let member = fixture.join("refused", &fixture.env.servers.wecs[1]).await?;
    let secrets: Api<Secret> = Api::namespaced(fixture.control.clone(), CONTROLLER_NAMESPACE);
    let good = std::fs::read_to_string(&member.kubeconfig)?;
    let opening = good.replace("token:", "tokenFile:");
    assert_ne!(opening, good);
    let mut secret = create(&secrets, &kubeconfig_secret(&member.cluster, opening.into())).await?;
    let told = format!(
        "Secret {CONTROLLER_NAMESPACE}/{}: users[lab].user.tokenFile opens a file; use token instead",
        member.cluster
    );
    eventually("the log names the Secret and the field", async || {
        Ok(fixture.env.controller.log()?.contains(&told))
    })
    .await?;
    secret.data = kubeconfig_secret(&member.cluster, good.into()).data;
    secrets
        .replace(&member.cluster, &PostParams::default(), &secret)
        .await?;
    fixture.round_trip("mended", &member).await?;
    Ok(())
}
