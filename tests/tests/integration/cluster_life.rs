//! `argosy cluster`: a cluster joins, is cordoned and drained, gets a new certificate, and is
//! removed from the fleet.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use argosy_api::{ManagedCluster, ManifestWork, issued::certificates, names};
use argosy_tests::testenv::{
    Fixture, Member,
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

struct TestEnv {
    signing: Arc<Signing>,
    fixture: Fixture,
}

impl TestEnv {
    async fn new(name: &str) -> Result<Self> {
        let signing = Signing::shared().await?;
        let fixture = Fixture::on(signing.env.clone(), name).await?;
        Ok(Self { signing, fixture })
    }

    /// Runs `argosy cluster` with these words.
    async fn cluster(&self, words: &[&str]) -> Result<Answer> {
        let words: Vec<&str> = ["cluster"].into_iter().chain(words.iter().copied()).collect();
        argosy(self.signing.env.control.kubeconfig(), &words).await
    }

    async fn succeeds(&self, words: &[&str]) -> Result<String> {
        let answer = self.cluster(words).await?;
        ensure!(answer.code == Some(0), "{words:?}: {answer:?}");
        Ok(answer.output)
    }

    /// A cluster that has joined with the command, with an agent that has its certificate.
    async fn joined(&self, suffix: &str) -> Result<Member> {
        Ok(self.joined_by(suffix).await?.0)
    }

    /// The same, with the file in which the agent finds the output of `argosy cluster join`.
    async fn joined_by(&self, suffix: &str) -> Result<(Member, PathBuf)> {
        let wec = self.signing.env.servers.wecs[0].kubeconfig();
        let mut member = self.fixture.register(suffix, wec).await?;
        let path = folder::create("join")?.join("kubeconfig");
        self.join(&member.cluster, &path).await?;
        self.fixture
            .start_agent_with_certificate(&mut member, &path)
            .await?;
        Ok((member, path))
    }

    async fn join(&self, cluster: &str, path: &Path) -> Result<()> {
        let kubeconfig = self.succeeds(&["join", cluster, "-o", "kubeconfig"]).await?;
        Ok(fs::write(path, kubeconfig)?)
    }

    /// Waits until the agent of `cluster` is denied a certificate, because the cluster is not
    /// accepted.
    async fn is_denied(&self, cluster: &str) -> Result<()> {
        let requests: Api<CertificateSigningRequest> = Api::all(self.fixture.control.clone());
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

    /// Starts Workflow `runs` on `member` and waits until the control cluster shows it.
    async fn runs(&self, member: &Member) -> Result<()> {
        self.fixture.dispatch("runs", member).await?;
        member.argo().start("runs").await?;
        until(&self.fixture.workflows(), "runs", "it runs", |workflow| {
            phase(workflow) == "Running"
        })
        .await?;
        Ok(())
    }

    /// Deletes only the ManagedCluster, and waits until Workflow `runs` says that its cluster is
    /// gone.
    async fn loses_managed_cluster(&self, cluster: &str) -> Result<()> {
        self.fixture
            .clusters()
            .delete(cluster, &DeleteParams::default())
            .await?;
        until(
            &self.fixture.workflows(),
            "runs",
            "its cluster is missed",
            |one| says(one, "ClusterReachable", "False", "ClusterGone"),
        )
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
    let env = TestEnv::new("life-joins").await?;
    let member = env.joined("own").await?;
    let name = member.cluster.as_str();
    env.fixture.round_trip("hello", &member).await?;
    let told = env.succeeds(&["join", name, "--wait", "-o", "values"]).await?;
    assert!(
        told.contains("identity: certificate") && told.contains(&format!("clusterName: {name}")),
        "{told}"
    );
    let command = env.succeeds(&["join", name]).await?;
    assert!(
        command.starts_with("helm upgrade --install argosy-agent "),
        "{command}"
    );
    let listed = env.listed(name).await?;
    assert_eq!(
        (&listed["accepted"], &listed["joined"], &listed["available"]),
        (&json!(true), &json!(true), &json!("True"))
    );
    assert!(listed["certificateEnds"].is_string(), "{listed}");
    let rotated = env.succeeds(&["rotate", name, "--timeout", "1m"]).await?;
    assert!(rotated.contains("has a new certificate"), "{rotated}");
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_is_not_accepted_gets_no_certificate_before_it_is() -> Result<()> {
    let env = TestEnv::new("life-accepts").await?;
    let wec = env.signing.env.servers.wecs[0].kubeconfig();
    let mut member = env.fixture.register("own", wec).await?;
    let name = member.cluster.clone();
    env.succeeds(&["join", &name, "--accept=false"]).await?;
    // Only requests another token.
    let path = folder::create("join")?.join("kubeconfig");
    env.join(&name, &path).await?;
    assert_eq!(env.listed(&name).await?["accepted"], json!(false));
    let joining = env.fixture.start_agent_with_certificate(&mut member, &path);
    let accepting = async {
        env.is_denied(&name).await?;
        let known: ManagedCluster = env.fixture.clusters().get(&name).await?;
        ensure!(certificates(&known).is_empty(), "one is recorded: {known:?}");
        env.succeeds(&["accept", &name]).await
    };
    tokio::try_join!(joining, accepting)?;
    env.fixture.round_trip("hello", &member).await?;
    let nobody = env.cluster(&["accept", "nobody"]).await?;
    assert_eq!(nobody.code, Some(1), "{nobody:?}");
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_joins_again_keeps_its_labels_and_whether_it_is_accepted() -> Result<()> {
    let env = TestEnv::new("life-repeats").await?;
    let name = format!("{}-own", env.fixture.namespace);
    let labels = async || anyhow::Ok(env.fixture.clusters().get(&name).await?.labels().clone());
    let has = |labels: &BTreeMap<String, String>, wanted: &[(&str, &str)]| {
        let of = |key: &str| labels.get(key).map(String::as_str);
        wanted.iter().all(|(key, value)| of(key) == Some(*value))
    };
    env.succeeds(&["join", &name, "--label", "location-group=edge", "--accept=false"])
        .await?;
    let first = [("name", name.as_str()), ("location-group", "edge")];
    assert!(has(&labels().await?, &first));
    env.succeeds(&["join", &name]).await?;
    assert!(has(&labels().await?, &first));
    assert_eq!(env.listed(&name).await?["accepted"], json!(false));
    env.succeeds(&["join", &name, "--label", "tier=gold", "--accept=true"])
        .await?;
    let all = [first[0], first[1], ("tier", "gold")];
    assert!(has(&labels().await?, &all));
    assert_eq!(env.listed(&name).await?["accepted"], json!(true));
    // A changed label `name` is kept, too.
    env.succeeds(&["join", &name, "--label", "name=edge"]).await?;
    env.succeeds(&["join", &name]).await?;
    assert!(has(&labels().await?, &[("name", "edge")]));
    Ok(())
}

#[tokio::test]
async fn a_namespace_of_somebody_else_becomes_no_mailbox_and_is_not_deleted() -> Result<()> {
    let env = TestEnv::new("life-foreign").await?;
    // The namespace of the fixture, which has its Workflows.
    let name = env.fixture.namespace.as_str();
    let refused = env.cluster(&["join", name]).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.errors.contains("is not labeled as the mailbox"),
        "{refused:?}"
    );
    let known: Option<ManagedCluster> = env.fixture.clusters().get_opt(name).await?;
    assert!(known.is_none(), "{known:?}");
    let refused = env.cluster(&["remove", name, "--yes"]).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.errors.contains("is not labeled as a mailbox"),
        "{refused:?}"
    );
    let namespaces: Api<Namespace> = Api::all(env.fixture.control.clone());
    let left = namespaces.get(name).await?;
    assert!(left.metadata.deletion_timestamp.is_none(), "{left:?}");
    // The controller's own namespace is protected, too, whatever its label is.
    let own = env
        .cluster(&["remove", name, "--yes", "--namespace", name])
        .await?;
    assert_eq!(own.code, Some(1), "{own:?}");
    Ok(())
}

#[tokio::test]
async fn a_cluster_whose_managed_cluster_was_deleted_is_removed_as_any_other() -> Result<()> {
    let env = TestEnv::new("life-orphaned").await?;
    let member = env.joined("own").await?;
    let name = member.cluster.as_str();
    env.runs(&member).await?;
    env.loses_managed_cluster(name).await?;
    let refused = env.cluster(&["remove", name, "--yes"]).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    env.succeeds(&["remove", name, "--yes", "--force", "--timeout", "40s"])
        .await?;
    let given_up = env.fixture.workflows().get("runs").await?;
    assert!(
        says(&given_up, "ClusterReachable", "False", "ClusterRemoved"),
        "{given_up:?}"
    );
    let mailboxes: Api<Namespace> = Api::all(env.fixture.control.clone());
    until_gone(&mailboxes, name, "the mailbox is gone").await?;
    until_gone(&env.fixture.clusters(), name, "and the ManagedCluster").await?;
    // The run continues on the cluster: its agent has deleted nothing.
    assert_eq!(phase(&member.workflows().get("runs").await?), "Running");
    Ok(())
}

#[tokio::test]
async fn what_runs_on_a_cluster_of_which_nothing_is_left_is_given_up() -> Result<()> {
    let env = TestEnv::new("life-nothing").await?;
    let member = env.joined("own").await?;
    let name = member.cluster.as_str();
    env.runs(&member).await?;
    member.agent()?.kill()?;
    env.loses_managed_cluster(name).await?;
    let released = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    for work in member.works().list(&ListParams::default()).await? {
        member
            .works()
            .patch(&work.name_any(), &PatchParams::default(), &released)
            .await?;
    }
    let mailboxes: Api<Namespace> = Api::all(env.fixture.control.clone());
    mailboxes.delete(name, &DeleteParams::default()).await?;
    until_gone(&mailboxes, name, "the mailbox is gone").await?;
    let refused = env.cluster(&["remove", name, "--yes"]).await?;
    assert!(
        refused.code == Some(1) && refused.errors.contains("/runs"),
        "{refused:?}"
    );
    env.succeeds(&["remove", name, "--yes", "--force", "--timeout", "40s"])
        .await?;
    let given_up = env.fixture.workflows().get("runs").await?;
    assert!(
        says(&given_up, "ClusterReachable", "False", "ClusterRemoved"),
        "{given_up:?}"
    );
    let again = env.succeeds(&["remove", name, "--yes"]).await?;
    assert!(again.contains("removed from the fleet"), "{again}");
    Ok(())
}

#[tokio::test]
async fn a_cordoned_cluster_keeps_what_it_has_and_a_drained_one_waits_until_that_has_ended() -> Result<()> {
    let env = TestEnv::new("life-drains").await?;
    let member = env.joined("own").await?;
    let name = member.cluster.as_str();
    env.runs(&member).await?;
    env.succeeds(&["cordon", name]).await?;
    assert_eq!(env.listed(name).await?["cordoned"], json!("cordoned"));
    env.fixture.submit("waits", &member).await?;
    until(
        &env.fixture.workflows(),
        "waits",
        "it says that it waits",
        |workflow| says(workflow, "Dispatched", "False", "ClusterCordoned"),
    )
    .await?;
    let early = env.cluster(&["drain", name, "--timeout", "1s"]).await?;
    assert_eq!(early.code, Some(1), "{early:?}");
    assert!(early.output.contains("/runs"), "{early:?}");
    let ends = async {
        member.argo().finish("runs", "Succeeded").await?;
        Ok(())
    };
    let words = ["drain", name, "--timeout", "40s"];
    let (drained, ended) = tokio::join!(env.cluster(&words), ends);
    let ended: Result<()> = ended;
    ended?;
    let drained = drained?;
    assert_eq!(drained.code, Some(0), "{drained:?}");
    env.succeeds(&["uncordon", name]).await?;
    until(&member.workflows(), "waits", "it is sent after all", |_| true).await?;
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_is_removed_is_cut_off_and_what_ran_there_is_given_up_and_not_run_again() -> Result<()>
{
    let env = TestEnv::new("life-removes").await?;
    let member = env.joined("own").await?;
    let name = member.cluster.as_str();
    let secret: Secret = identity(&env.fixture, &member)
        .get(names::IDENTITY_SECRET)
        .await?;
    let agent = client_of(&kept_kubeconfig(&secret)?).await?;
    env.fixture.dispatch("runs", &member).await?;
    member.argo().start("runs").await?;
    env.fixture.round_trip("ended", &member).await?;
    until(&env.fixture.workflows(), "runs", "it runs", |workflow| {
        phase(workflow) == "Running"
    })
    .await?;
    let refused = env.cluster(&["remove", name, "--yes"]).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    env.succeeds(&["remove", name, "--yes", "--force", "--timeout", "40s"])
        .await?;
    // Its agent still runs, but has no rights any more.
    let works: Api<ManifestWork> = Api::namespaced(agent, name);
    let denied = works.list(&ListParams::default()).await;
    assert!(
        matches!(&denied, Err(kube::Error::Api(status)) if status.code == 403 || status.code == 401),
        "{denied:?}"
    );
    let given_up = env.fixture.workflows().get("runs").await?;
    assert!(
        says(&given_up, "ClusterReachable", "False", "ClusterRemoved"),
        "{given_up:?}"
    );
    assert_eq!(phase(&given_up), "Running", "its last known status is kept");
    let ended = env.fixture.workflows().get("ended").await?;
    assert_eq!(
        (phase(&ended), condition(&ended, "ClusterReachable", "False")),
        ("Succeeded", None)
    );
    until_gone(&env.fixture.clusters(), name, "the ManagedCluster is gone").await?;
    until_gone(
        &Api::<Namespace>::all(env.fixture.control.clone()),
        name,
        "the mailbox is gone",
    )
    .await?;
    // The run continues on the cluster: its agent has deleted nothing.
    assert_eq!(phase(&member.workflows().get("runs").await?), "Running");
    // The next cluster that matches does not get the Workflow.
    let other = env
        .fixture
        .register("other", env.signing.env.servers.wecs[1].kubeconfig())
        .await?;
    let label = json!({ "metadata": { "labels": { "name": name } } });
    let params = PatchParams::default();
    env.fixture
        .clusters()
        .patch(&other.cluster, &params, &Patch::Merge(label))
        .await?;
    env.fixture.submit("next", &member).await?;
    until(
        &env.fixture.workflows(),
        "next",
        "it goes to the other",
        |workflow| workflow.labels().get(names::CLUSTER_LABEL) == Some(&other.cluster),
    )
    .await?;
    let still = env.fixture.workflows().get("runs").await?;
    assert_eq!(
        still.labels().get(names::CLUSTER_LABEL).map(String::as_str),
        Some(name)
    );
    // Its user can delete it.
    env.fixture
        .workflows()
        .delete("runs", &DeleteParams::default())
        .await?;
    until_gone(&env.fixture.workflows(), "runs", "it is gone").await?;
    let again = env.succeeds(&["remove", name, "--yes"]).await?;
    assert!(again.contains("removed from the fleet"), "{again}");
    let known: Option<ManagedCluster> = env.fixture.clusters().get_opt(name).await?;
    known.is_none().then_some(()).context("it is gone for good")
}

#[tokio::test]
async fn a_cluster_that_was_removed_joins_again_under_its_name_and_its_agent_gets_another_certificate()
-> Result<()> {
    let env = TestEnv::new("life-returns").await?;
    let (member, bootstrap) = env.joined_by("own").await?;
    let name = member.cluster.as_str();
    env.fixture.round_trip("before", &member).await?;
    env.succeeds(&["remove", name, "--yes"]).await?;

    create(&env.fixture.clusters(), &managed_cluster(name)).await?;
    env.join(name, &bootstrap).await?;
    env.fixture.round_trip("after", &member).await?;
    until(
        &env.fixture.clusters(),
        name,
        "a certificate is recorded",
        |cluster| !certificates(cluster).is_empty(),
    )
    .await?;
    Ok(())
}
