//! `argosy cluster`: a cluster joins, is cordoned, drained, gets another certificate, and is taken out of the fleet.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use argosy_api::{ManagedCluster, ManifestWork, issued::certificates, names};
use argosy_tests::lab::{
    Member, Scene,
    binaries::{Answer, argosy},
    folder,
    objects::{condition, create, managed_cluster, phase, says},
    server::client_of,
    signing::{Signing, identity, kept_kubeconfig},
    waiting::{PATIENCE, until, until_gone},
};
use k8s_openapi::api::{
    certificates::v1::CertificateSigningRequest,
    core::v1::{Namespace, Secret},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

struct Stage {
    signing: Arc<Signing>,
    scene: Scene,
}

impl Stage {
    async fn new(name: &str) -> Result<Self> {
        let signing = Signing::shared().await?;
        let scene = Scene::on(signing.stage.clone(), name).await?;
        Ok(Self { signing, scene })
    }

    /// `argosy cluster` with these words.
    async fn cluster(&self, words: &[&str]) -> Result<Answer> {
        let words: Vec<&str> = ["cluster"].into_iter().chain(words.iter().copied()).collect();
        argosy(self.signing.stage.control.kubeconfig(), &words).await
    }

    async fn succeeds(&self, words: &[&str]) -> Result<String> {
        let answer = self.cluster(words).await?;
        ensure!(answer.code == Some(0), "{words:?}: {answer:?}");
        Ok(answer.output)
    }

    /// A cluster that has joined by the command, with an agent that has its certificate.
    async fn joined(&self, suffix: &str) -> Result<Member> {
        Ok(self.joined_by(suffix).await?.0)
    }

    /// The same, with the file from which the agent reads what `argosy cluster join` has printed.
    async fn joined_by(&self, suffix: &str) -> Result<(Member, PathBuf)> {
        let wec = self.signing.stage.servers.wecs[0].kubeconfig();
        let mut member = self.scene.register(suffix, wec).await?;
        let path = folder::create("join")?.join("kubeconfig");
        self.join(&member.cluster, &path).await?;
        self.scene
            .start_agent_with_certificate(&mut member, &path)
            .await?;
        Ok((member, path))
    }

    async fn join(&self, cluster: &str, path: &Path) -> Result<()> {
        let kubeconfig = self.succeeds(&["join", cluster, "-o", "kubeconfig"]).await?;
        Ok(fs::write(path, kubeconfig)?)
    }

    /// Waits until the agent of `cluster` was denied a certificate, because that is not accepted.
    async fn is_denied(&self, cluster: &str) -> Result<()> {
        let requests: Api<CertificateSigningRequest> = Api::all(self.scene.control.clone());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let all = requests.list(&ListParams::default()).await?;
            let own = all.iter().filter(|one| {
                one.spec
                    .username
                    .as_ref()
                    .is_some_and(|user| user.contains(cluster))
            });
            let mut said = own.filter_map(|one| one.status.as_ref()?.conditions.as_ref()?.first());
            if said
                .any(|said| (said.type_.as_str(), said.reason.as_deref()) == ("Denied", Some("NotAccepted")))
            {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "its agent was not denied: {all:?}");
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Workflow `runs` runs on `member`, and here it is seen.
    async fn runs(&self, member: &Member) -> Result<()> {
        self.scene.dispatch("runs", member).await?;
        member.argo().start("runs").await?;
        until(&self.scene.workflows(), "runs", "it runs", |workflow| {
            phase(workflow) == "Running"
        })
        .await?;
        Ok(())
    }

    /// Somebody deletes the ManagedCluster only, and Workflow `runs` says that its cluster is missed.
    async fn loses_managed_cluster(&self, cluster: &str) -> Result<()> {
        self.scene
            .clusters()
            .delete(cluster, &DeleteParams::default())
            .await?;
        until(&self.scene.workflows(), "runs", "its cluster is missed", |one| {
            says(one, "ClusterReachable", "False", "ClusterGone")
        })
        .await?;
        Ok(())
    }

    async fn listed(&self, cluster: &str) -> Result<Value> {
        let list = self.succeeds(&["list", cluster, "-o", "json"]).await?;
        Ok(serde_json::from_str::<Value>(&list)?[0].clone())
    }
}

#[tokio::test]
async fn a_cluster_joins_with_what_is_printed_and_gets_another_certificate() -> Result<()> {
    let stage = Stage::new("life-joins").await?;
    let member = stage.joined("own").await?;
    let name = member.cluster.as_str();
    stage.scene.round_trip("hello", &member).await?;
    let told = stage.succeeds(&["join", name, "--wait", "-o", "values"]).await?;
    assert!(
        told.contains("identity: certificate") && told.contains(&format!("clusterName: {name}")),
        "{told}"
    );
    let command = stage.succeeds(&["join", name]).await?;
    assert!(
        command.starts_with("helm upgrade --install argosy-agent "),
        "{command}"
    );
    let listed = stage.listed(name).await?;
    assert_eq!(
        (&listed["accepted"], &listed["joined"], &listed["available"]),
        (&json!(true), &json!(true), &json!("True"))
    );
    assert!(listed["certificateEnds"].is_string(), "{listed}");
    let rotated = stage.succeeds(&["rotate", name, "--timeout", "1m"]).await?;
    assert!(rotated.contains("has another certificate"), "{rotated}");
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_is_not_accepted_gets_no_certificate_before_it_is() -> Result<()> {
    let stage = Stage::new("life-accepts").await?;
    let wec = stage.signing.stage.servers.wecs[0].kubeconfig();
    let mut member = stage.scene.register("own", wec).await?;
    let name = member.cluster.clone();
    stage.succeeds(&["join", &name, "--accept=false"]).await?;
    // Another token, and no more than that.
    let path = folder::create("join")?.join("kubeconfig");
    stage.join(&name, &path).await?;
    assert_eq!(stage.listed(&name).await?["accepted"], json!(false));
    let joining = stage.scene.start_agent_with_certificate(&mut member, &path);
    let accepting = async {
        stage.is_denied(&name).await?;
        let known: ManagedCluster = stage.scene.clusters().get(&name).await?;
        ensure!(certificates(&known).is_empty(), "one is recorded: {known:?}");
        stage.succeeds(&["accept", &name]).await
    };
    tokio::try_join!(joining, accepting)?;
    stage.scene.round_trip("hello", &member).await?;
    let nobody = stage.cluster(&["accept", "nobody"]).await?;
    assert_eq!(nobody.code, Some(1), "{nobody:?}");
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_joins_again_keeps_its_labels_and_whether_it_is_accepted() -> Result<()> {
    let stage = Stage::new("life-repeats").await?;
    let name = format!("{}-own", stage.scene.namespace);
    let labels = async || anyhow::Ok(stage.scene.clusters().get(&name).await?.labels().clone());
    let has = |labels: &BTreeMap<String, String>, wanted: &[(&str, &str)]| {
        let of = |key: &str| labels.get(key).map(String::as_str);
        wanted.iter().all(|(key, value)| of(key) == Some(*value))
    };
    stage
        .succeeds(&["join", &name, "--label", "location-group=edge", "--accept=false"])
        .await?;
    let first = [("name", name.as_str()), ("location-group", "edge")];
    assert!(has(&labels().await?, &first));
    stage.succeeds(&["join", &name]).await?;
    assert!(has(&labels().await?, &first));
    assert_eq!(stage.listed(&name).await?["accepted"], json!(false));
    stage
        .succeeds(&["join", &name, "--label", "tier=gold", "--accept=true"])
        .await?;
    let all = [first[0], first[1], ("tier", "gold")];
    assert!(has(&labels().await?, &all));
    assert_eq!(stage.listed(&name).await?["accepted"], json!(true));
    // That of its name, too, if somebody has chosen another one.
    stage.succeeds(&["join", &name, "--label", "name=edge"]).await?;
    stage.succeeds(&["join", &name]).await?;
    assert!(has(&labels().await?, &[("name", "edge")]));
    Ok(())
}

#[tokio::test]
async fn a_namespace_of_somebody_else_becomes_no_mailbox_and_is_not_deleted() -> Result<()> {
    let stage = Stage::new("life-foreign").await?;
    // That of the scene, where its Workflows are.
    let name = stage.scene.namespace.as_str();
    let refused = stage.cluster(&["join", name]).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.errors.contains("is not labelled as the mailbox"),
        "{refused:?}"
    );
    let known: Option<ManagedCluster> = stage.scene.clusters().get_opt(name).await?;
    assert!(known.is_none(), "{known:?}");
    let refused = stage.cluster(&["remove", name, "--yes"]).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.errors.contains("is not labelled as a mailbox"),
        "{refused:?}"
    );
    let namespaces: Api<Namespace> = Api::all(stage.scene.control.clone());
    let left = namespaces.get(name).await?;
    assert!(left.metadata.deletion_timestamp.is_none(), "{left:?}");
    // Nor that of the controller, whatever its label says.
    let own = stage
        .cluster(&["remove", name, "--yes", "--namespace", name])
        .await?;
    assert_eq!(own.code, Some(1), "{own:?}");
    Ok(())
}

#[tokio::test]
async fn a_cluster_whose_managed_cluster_was_deleted_is_removed_as_any_other() -> Result<()> {
    let stage = Stage::new("life-orphaned").await?;
    let member = stage.joined("own").await?;
    let name = member.cluster.as_str();
    stage.runs(&member).await?;
    stage.loses_managed_cluster(name).await?;
    let refused = stage.cluster(&["remove", name, "--yes"]).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    stage
        .succeeds(&["remove", name, "--yes", "--force", "--timeout", "40s"])
        .await?;
    let given_up = stage.scene.workflows().get("runs").await?;
    assert!(
        says(&given_up, "ClusterReachable", "False", "ClusterRemoved"),
        "{given_up:?}"
    );
    let mailboxes: Api<Namespace> = Api::all(stage.scene.control.clone());
    until_gone(&mailboxes, name, "the mailbox is gone").await?;
    until_gone(&stage.scene.clusters(), name, "and the ManagedCluster").await?;
    // On the cluster it runs on, and its agent has deleted nothing.
    assert_eq!(phase(&member.workflows().get("runs").await?), "Running");
    Ok(())
}

#[tokio::test]
async fn what_runs_on_a_cluster_of_which_nothing_is_left_is_given_up() -> Result<()> {
    let stage = Stage::new("life-nothing").await?;
    let member = stage.joined("own").await?;
    let name = member.cluster.as_str();
    stage.runs(&member).await?;
    member.agent()?.kill()?;
    stage.loses_managed_cluster(name).await?;
    let released = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    for work in member.works().list(&ListParams::default()).await? {
        member
            .works()
            .patch(&work.name_any(), &PatchParams::default(), &released)
            .await?;
    }
    let mailboxes: Api<Namespace> = Api::all(stage.scene.control.clone());
    mailboxes.delete(name, &DeleteParams::default()).await?;
    until_gone(&mailboxes, name, "the mailbox is gone").await?;
    let refused = stage.cluster(&["remove", name, "--yes"]).await?;
    assert!(
        refused.code == Some(1) && refused.errors.contains("/runs"),
        "{refused:?}"
    );
    stage
        .succeeds(&["remove", name, "--yes", "--force", "--timeout", "40s"])
        .await?;
    let given_up = stage.scene.workflows().get("runs").await?;
    assert!(
        says(&given_up, "ClusterReachable", "False", "ClusterRemoved"),
        "{given_up:?}"
    );
    let again = stage.succeeds(&["remove", name, "--yes"]).await?;
    assert!(again.contains("is not in the fleet"), "{again}");
    Ok(())
}

#[tokio::test]
async fn a_cordoned_cluster_keeps_what_it_has_and_a_drained_one_waits_until_that_has_ended() -> Result<()> {
    let stage = Stage::new("life-drains").await?;
    let member = stage.joined("own").await?;
    let name = member.cluster.as_str();
    stage.runs(&member).await?;
    stage.succeeds(&["cordon", name]).await?;
    assert_eq!(stage.listed(name).await?["closed"], json!("cordoned"));
    stage.scene.submit("waits", &member).await?;
    until(
        &stage.scene.workflows(),
        "waits",
        "it says that it waits",
        |workflow| says(workflow, "Dispatched", "False", "ClusterCordoned"),
    )
    .await?;
    let early = stage.cluster(&["drain", name, "--timeout", "1s"]).await?;
    assert_eq!(early.code, Some(1), "{early:?}");
    assert!(early.output.contains("/runs"), "{early:?}");
    let ends = async {
        member.argo().finish("runs", "Succeeded").await?;
        Ok(())
    };
    let words = ["drain", name, "--timeout", "40s"];
    let (drained, ended) = tokio::join!(stage.cluster(&words), ends);
    let ended: Result<()> = ended;
    ended?;
    let drained = drained?;
    assert_eq!(drained.code, Some(0), "{drained:?}");
    stage.succeeds(&["uncordon", name]).await?;
    until(&member.workflows(), "waits", "it is sent after all", |_| true).await?;
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_is_removed_is_cut_off_and_what_ran_there_is_given_up_and_not_run_again() -> Result<()>
{
    let stage = Stage::new("life-removes").await?;
    let member = stage.joined("own").await?;
    let name = member.cluster.as_str();
    let secret: Secret = identity(&stage.scene, &member)
        .get(names::IDENTITY_SECRET)
        .await?;
    let agent = client_of(&kept_kubeconfig(&secret)?).await?;
    stage.scene.dispatch("runs", &member).await?;
    member.argo().start("runs").await?;
    stage.scene.round_trip("ended", &member).await?;
    until(&stage.scene.workflows(), "runs", "it runs", |workflow| {
        phase(workflow) == "Running"
    })
    .await?;
    let refused = stage.cluster(&["remove", name, "--yes"]).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    stage
        .succeeds(&["remove", name, "--yes", "--force", "--timeout", "40s"])
        .await?;
    // Its agent, which still runs, may do nothing.
    let works: Api<ManifestWork> = Api::namespaced(agent, name);
    let denied = works.list(&ListParams::default()).await;
    assert!(
        matches!(&denied, Err(kube::Error::Api(status)) if status.code == 403 || status.code == 401),
        "{denied:?}"
    );
    let given_up = stage.scene.workflows().get("runs").await?;
    assert!(
        says(&given_up, "ClusterReachable", "False", "ClusterRemoved"),
        "{given_up:?}"
    );
    assert_eq!(phase(&given_up), "Running", "its last known status is kept");
    let ended = stage.scene.workflows().get("ended").await?;
    assert_eq!(
        (phase(&ended), condition(&ended, "ClusterReachable", "False")),
        ("Succeeded", None)
    );
    until_gone(&stage.scene.clusters(), name, "the ManagedCluster is gone").await?;
    until_gone(
        &Api::<Namespace>::all(stage.scene.control.clone()),
        name,
        "the mailbox is gone",
    )
    .await?;
    // On the cluster it runs on, and its agent has deleted nothing.
    assert_eq!(phase(&member.workflows().get("runs").await?), "Running");
    // Whoever matches next does not get it.
    let other = stage
        .scene
        .register("other", stage.signing.stage.servers.wecs[1].kubeconfig())
        .await?;
    let label = json!({ "metadata": { "labels": { "name": name } } });
    let params = PatchParams::default();
    stage
        .scene
        .clusters()
        .patch(&other.cluster, &params, &Patch::Merge(label))
        .await?;
    stage.scene.submit("next", &member).await?;
    until(
        &stage.scene.workflows(),
        "next",
        "it goes to the other",
        |workflow| workflow.labels().get(names::CLUSTER_LABEL) == Some(&other.cluster),
    )
    .await?;
    let still = stage.scene.workflows().get("runs").await?;
    assert_eq!(
        still.labels().get(names::CLUSTER_LABEL).map(String::as_str),
        Some(name)
    );
    // And its user can delete it.
    stage
        .scene
        .workflows()
        .delete("runs", &DeleteParams::default())
        .await?;
    until_gone(&stage.scene.workflows(), "runs", "it is gone").await?;
    let again = stage.succeeds(&["remove", name, "--yes"]).await?;
    assert!(again.contains("is not in the fleet"), "{again}");
    let known: Option<ManagedCluster> = stage.scene.clusters().get_opt(name).await?;
    known.is_none().then_some(()).context("it is gone for good")
}

#[tokio::test]
async fn a_cluster_that_was_removed_joins_again_under_its_name_and_its_agent_gets_another_certificate()
-> Result<()> {
    let stage = Stage::new("life-returns").await?;
    let (member, bootstrap) = stage.joined_by("own").await?;
    let name = member.cluster.as_str();
    stage.scene.round_trip("before", &member).await?;
    stage.succeeds(&["remove", name, "--yes"]).await?;

    create(&stage.scene.clusters(), &managed_cluster(name)).await?;
    stage.join(name, &bootstrap).await?;
    stage.scene.round_trip("after", &member).await?;
    until(
        &stage.scene.clusters(),
        name,
        "a certificate is recorded",
        |cluster| !certificates(cluster).is_empty(),
    )
    .await?;
    Ok(())
}
