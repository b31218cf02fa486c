//! The part of an environment that belongs to one test: a namespace for its Workflows, and clusters with
//! mailboxes, policies and agents.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result};
use argosy_api::{AppliedManifestWork, ManagedCluster, ManifestWork, WorkStatus, Workflow, names};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use super::{
    FakeArgo, TestEnv,
    binaries::{AgentSettings, Binary, Variables},
    fake_argo,
    objects::{self, create, create_namespace},
    server::{Server, client_of},
    waiting::until,
};

/// The part of an environment that belongs to one test.
#[derive(Clone)]
pub struct Fixture {
    /// The environment that it shares with other tests.
    pub env: Arc<TestEnv>,
    /// The namespace of its Workflows on every cluster, and the prefix of its clusters' names.
    pub namespace: String,
    /// Client of WDS and ITS.
    pub control: Client,
}

/// A cluster of the inventory.
pub struct Member {
    /// Its name.
    pub cluster: String,
    /// Client of its API server.
    pub wec: Client,
    /// The kubeconfig of its API server.
    pub kubeconfig: PathBuf,
    its: Client,
    namespace: String,
    agent: Option<Binary>,
}

impl Fixture {
    /// A fixture on the environment that all tests share. `name` must be unique.
    pub async fn new(name: &str) -> Result<Self> {
        Self::on(TestEnv::shared().await?, name).await
    }

    /// A fixture on `environment`.
    pub async fn on(env: Arc<TestEnv>, name: &str) -> Result<Self> {
        let control = env.control.client().await?;
        create_namespace(&control, name).await?;
        for wec in &env.servers.wecs {
            create_namespace(&wec.client().await?, name).await?;
        }
        Ok(Self {
            env,
            namespace: name.to_owned(),
            control,
        })
    }

    /// A cluster on the first WEC server with its own agent process, mailbox and policy.
    pub async fn pull(&self) -> Result<Member> {
        self.join_pull("pull", 30).await
    }

    /// Like [`Fixture::pull`], with another name and Lease duration.
    pub async fn join_pull(&self, suffix: &str, lease_seconds: u64) -> Result<Member> {
        let kubeconfig = self.env.servers.wecs[0].kubeconfig();
        self.join_pull_through(suffix, kubeconfig, lease_seconds).await
    }

    /// Like [`Fixture::join_pull`], with an agent that uses `kubeconfig` for the cluster.
    pub async fn join_pull_through(
        &self,
        suffix: &str,
        kubeconfig: &Path,
        lease_seconds: u64,
    ) -> Result<Member> {
        let mut member = self.join_through(suffix, kubeconfig).await?;
        self.start_agent(&mut member, lease_seconds).await?;
        Ok(member)
    }

    /// A cluster on the second WEC server with an agent hosted by the controller, mailbox and
    /// policy.
    pub async fn push(&self) -> Result<Member> {
        let kubeconfig = self.env.servers.wecs[1].kubeconfig();
        self.join_push_through("push", kubeconfig).await
    }

    /// Like [`Fixture::push`], with another name and a controller that uses `kubeconfig` for the
    /// cluster.
    pub async fn join_push_through(&self, suffix: &str, kubeconfig: &Path) -> Result<Member> {
        let member = self.join_through(suffix, kubeconfig).await?;
        let secret = objects::kubeconfig_secret(&member.cluster, fs::read(&member.kubeconfig)?);
        create(
            &Api::namespaced(self.control.clone(), objects::CONTROLLER_NAMESPACE),
            &secret,
        )
        .await?;
        until(
            &self.clusters(),
            &member.cluster,
            "its hosted agent has joined",
            is_available,
        )
        .await?;
        Ok(member)
    }

    /// A cluster with mailbox and policy, but without an agent.
    pub async fn join(&self, suffix: &str, server: &Server) -> Result<Member> {
        self.join_through(suffix, server.kubeconfig()).await
    }

    async fn join_through(&self, suffix: &str, kubeconfig: &Path) -> Result<Member> {
        let member = self.register(suffix, kubeconfig).await?;
        create_namespace(&self.control, &member.cluster).await?;
        Ok(member)
    }

    /// A cluster with a policy, but without mailbox and agent.
    pub async fn register(&self, suffix: &str, kubeconfig: &Path) -> Result<Member> {
        let cluster = format!("{}-{suffix}", self.namespace);
        create(&self.clusters(), &objects::managed_cluster(&cluster)).await?;
        let policy = objects::policy(&cluster, &self.namespace, &cluster)?;
        create(&Api::all(self.control.clone()), &policy).await?;
        Ok(Member {
            wec: client_of(kubeconfig).await?,
            kubeconfig: kubeconfig.to_owned(),
            its: self.control.clone(),
            namespace: self.namespace.clone(),
            agent: None,
            cluster,
        })
    }

    /// Starts the agent of a cluster that has none.
    pub async fn start_agent(&self, member: &mut Member, lease_seconds: u64) -> Result<()> {
        self.start_agent_with(member, lease_seconds, &self.env.variables)
            .await
    }

    /// Like [`Fixture::start_agent`], with environment variables. An agent that the cluster has is
    /// ended before.
    pub async fn start_agent_with(
        &self,
        member: &mut Member,
        lease_seconds: u64,
        variables: &Variables,
    ) -> Result<()> {
        member.agent = None;
        let settings = AgentSettings {
            lease_seconds,
            artifact_namespace: self.namespace.clone(),
        };
        let its = self.env.control.kubeconfig();
        let (cluster, wec) = (&member.cluster, &member.kubeconfig);
        member.agent = Some(Binary::agent(cluster, its, wec, &settings, variables).await?);
        self.has_joined(member).await
    }

    /// Starts the agent of a cluster that has none. The agent requests a certificate with the
    /// kubeconfig `bootstrap`. A fixture can have only one such agent, because its Secret is in the
    /// fixture's namespace.
    pub async fn start_agent_with_certificate(&self, member: &mut Member, bootstrap: &Path) -> Result<()> {
        let settings = AgentSettings {
            lease_seconds: 15,
            artifact_namespace: self.namespace.clone(),
        };
        let wec = &member.kubeconfig;
        let agent = Binary::agent_with_certificate(&member.cluster, bootstrap, wec, &settings).await?;
        member.agent = Some(agent);
        self.has_joined(member).await
    }

    /// Annotates a cluster with its room, which counts in place of its nodes. Without it, the choice
    /// between two clusters depends on time: an agent reports that it has no nodes after it has joined.
    pub async fn set_room(&self, member: &Member, room: &str) -> Result<()> {
        let patch = json!({ "metadata": { "annotations": { names::ROOM_ANNOTATION: room } } });
        let params = PatchParams::default();
        self.clusters()
            .patch(&member.cluster, &params, &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    async fn has_joined(&self, member: &Member) -> Result<()> {
        let name = &member.cluster;
        until(&self.clusters(), name, "its agent has joined", is_available).await?;
        Ok(())
    }

    /// The fixture's Workflows in the WDS.
    pub fn workflows(&self) -> Api<Workflow> {
        Api::namespaced(self.control.clone(), &self.namespace)
    }

    /// The inventory.
    pub fn clusters(&self) -> Api<ManagedCluster> {
        Api::all(self.control.clone())
    }

    /// Creates a suspended Workflow for `member`.
    pub async fn submit(&self, name: &str, member: &Member) -> Result<Workflow> {
        create(&self.workflows(), &objects::workflow(name, &member.cluster)).await
    }

    /// Creates a suspended Workflow for `member` and waits until its object exists on the cluster.
    /// Returns both.
    pub async fn dispatch(&self, name: &str, member: &Member) -> Result<(Workflow, Workflow)> {
        let workflow = self.submit(name, member).await?;
        let object = until(&member.workflows(), name, "the object is on the cluster", |_| {
            true
        })
        .await?;
        Ok((workflow, object))
    }

    /// Sends a Workflow to `member` and waits until its status has come back. After this, all
    /// effects of earlier writes on other Workflows of `member` have happened.
    pub async fn round_trip(&self, name: &str, member: &Member) -> Result<()> {
        self.dispatch(name, member).await?;
        member.argo().finish(name, "Succeeded").await?;
        until(
            &self.workflows(),
            name,
            "the sentinel has come back",
            |workflow| objects::phase(workflow) == "Succeeded",
        )
        .await?;
        Ok(())
    }
}

impl Member {
    /// The fixture's Workflows on the cluster.
    pub fn workflows(&self) -> Api<Workflow> {
        Api::namespaced(self.wec.clone(), &self.namespace)
    }

    /// The ManifestWorks in its mailbox.
    pub fn works(&self) -> Api<ManifestWork> {
        Api::namespaced(self.its.clone(), &self.cluster)
    }

    /// The WorkStatuses in its mailbox.
    pub fn reports(&self) -> Api<WorkStatus> {
        Api::namespaced(self.its.clone(), &self.cluster)
    }

    /// The records on the cluster.
    pub fn records(&self) -> Api<AppliedManifestWork> {
        Api::all(self.wec.clone())
    }

    /// Deletes a Workflow of the cluster together with its finalizers, like a forced deletion.
    /// Returns its last state.
    pub async fn destroy(&self, name: &str) -> Result<Workflow> {
        let last = fake_argo::edit(&self.workflows(), name, |object| {
            object.metadata.finalizers = None;
        })
        .await?;
        self.workflows().delete(name, &DeleteParams::default()).await?;
        Ok(last)
    }

    /// Plays Argo on the cluster.
    pub fn argo(&self) -> FakeArgo {
        FakeArgo::new(self.workflows())
    }

    /// Its agent's process.
    pub fn agent(&self) -> Result<&Binary> {
        self.agent
            .as_ref()
            .context("this cluster has no agent of its own")
    }
}

/// The name of all objects in ITS and WEC that belong to `workflow` of the WDS.
pub fn work_name(workflow: &Workflow) -> String {
    names::work_name(&workflow.uid().unwrap_or_default())
}

/// Status and reason of the ManagedCluster's conditions, by type.
pub fn conditions(cluster: &ManagedCluster) -> BTreeMap<String, (String, String)> {
    let known = cluster
        .status
        .as_ref()
        .map(|status| status.conditions.clone())
        .unwrap_or_default();
    known
        .into_iter()
        .map(|known| (known.type_, (known.status, known.reason)))
        .collect()
}

fn is_available(cluster: &ManagedCluster) -> bool {
    let available = conditions(cluster).remove("ManagedClusterConditionAvailable");
    available.is_some_and(|(status, _)| status == "True")
}
