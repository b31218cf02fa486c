//! Installs the charts on a real API server, which accepts every object under strict validation.
//! Nothing runs there, because there are no nodes.

use std::path::Path;

use anyhow::{Result, ensure};
use argosy_api::{BindingPolicy, ManagedCluster, names};
use argosy_tests::testenv::{
    definitions,
    server::Server,
    store::{Durability, Store},
};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Namespace, Secret},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, CustomResourceExt, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::helm::{Said, helm};

/// A separate API server that helm installs to.
struct Cluster {
    _store: Store,
    server: Server,
}

impl Cluster {
    async fn start(name: &str) -> Result<Self> {
        let store = Store::start(Durability::Unsynced)?;
        let server = Server::start(&store, name).await?;
        Ok(Self {
            _store: store,
            server,
        })
    }

    fn kubeconfig(&self) -> &Path {
        self.server.kubeconfig()
    }

    /// `helm VERB CHART …` in namespace argosy. Paths are relative to the checkout.
    fn helm(&self, arguments: &[&str]) -> Result<Said> {
        let kubeconfig = self.kubeconfig().to_string_lossy().into_owned();
        let common = ["--kubeconfig", &kubeconfig, "--namespace", "argosy"];
        helm(&[arguments, &common].concat())
    }

    fn install(&self, chart: &str, flags: &[&str]) -> Result<Said> {
        let path = format!("charts/{chart}");
        let install = ["upgrade", "--install", chart, &path, "--create-namespace"];
        self.helm(&[&install, flags].concat())
    }

    fn installs(&self, chart: &str, flags: &[&str]) -> Result<String> {
        let said = self.install(chart, flags)?;
        ensure!(said.is_well, "{chart} {flags:?}: {}", said.text);
        Ok(said.text)
    }

    async fn definition(&self, name: &str) -> Result<Option<CustomResourceDefinition>> {
        let api: Api<CustomResourceDefinition> = Api::all(self.server.client().await?);
        Ok(api.get_opt(name).await?)
    }
}

/// Values that do not depend on other projects.
const PLAIN: [&str; 2] = [
    "--set",
    "metrics.alertsConfigMap.enabled=true,metrics.dashboard.enabled=true,networkPolicy.enabled=true",
];

const POLICIES: &str = "bindingpolicies.control.kubestellar.io";
const CLUSTERS: &str = "managedclusters.cluster.open-cluster-management.io";

/// Creates the namespace of Argo, in which the charts create roles.
async fn argo_namespace(cluster: &Cluster) -> Result<()> {
    let api: Api<Namespace> = Api::all(cluster.server.client().await?);
    let namespace = serde_json::from_value(json!({"metadata": {"name": "argo"}}))?;
    api.create(&PostParams::default(), &namespace).await?;
    Ok(())
}

#[tokio::test]
async fn a_control_cluster_takes_the_charts_in_their_order_and_says_so_in_the_other() -> Result<()> {
    let cluster = Cluster::start("charts-hub").await?;
    argo_namespace(&cluster).await?;
    let registered = [
        "--set-json",
        r#"clusters=[{"name":"one","mode":"pull"},{"name":"two","mode":"push","node":false}]"#,
    ];
    let early = cluster.install("argosy", &registered)?;
    ensure!(
        !early.is_well && early.text.contains("ensure CRDs are installed first"),
        "{}",
        early.text
    );
    let bare = cluster.installs("argosy", &PLAIN)?;
    ensure!(bare.contains("helm install argosy-crds"), "{bare}");

    let notes = cluster.installs("argosy-crds", &["--wait", "--timeout", "1m"])?;
    ensure!(notes.contains("helm install argosy "), "{notes}");
    let notes = cluster.installs("argosy", &[PLAIN, registered].concat())?;
    ensure!(!notes.contains("argosy-crds"), "{notes}");
    ensure!(
        notes.contains("one (pull)") && notes.contains("two (push)"),
        "{notes}"
    );
    let clusters: Api<ManagedCluster> = Api::all(cluster.server.client().await?);
    for (name, expected) in [("one", None), ("two", Some(names::NODE_OFF))] {
        let node = clusters
            .get(name)
            .await?
            .annotations()
            .get(names::NODE_ANNOTATION)
            .cloned();
        ensure!(node.as_deref() == expected, "{name}: {node:?}");
    }
    let deployments: Api<Deployment> = Api::namespaced(cluster.server.client().await?, "argosy");
    ensure!(
        deployments.get_opt("argosy-controller").await?.is_some(),
        "the controller"
    );

    // Without nodes, nothing would run the Job.
    let gone = cluster.helm(&["uninstall", "argosy", "--no-hooks"])?;
    ensure!(gone.is_well, "{}", gone.text);
    let gone = cluster.helm(&["uninstall", "argosy-crds"])?;
    ensure!(gone.is_well, "{}", gone.text);
    for name in [POLICIES, CLUSTERS] {
        ensure!(
            cluster.definition(name).await?.is_some(),
            "{name} went with the chart"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_token_that_never_ends_is_made_where_it_is_asked_for_and_taken_from_nobody() -> Result<()> {
    let cluster = Cluster::start("charts-token").await?;
    argo_namespace(&cluster).await?;
    cluster.installs("argosy-crds", &["--wait", "--timeout", "1m"])?;
    let secrets: Api<Secret> = Api::namespaced(cluster.server.client().await?, "one");
    let has_token =
        async || -> Result<bool> { Ok(secrets.get_opt(names::AGENT_TOKEN_SECRET).await?.is_some()) };
    let (plain, asked) = (
        r#"clusters=[{"name":"one","mode":"pull"}]"#,
        r#"clusters=[{"name":"one","mode":"pull","token":true}]"#,
    );
    cluster.installs("argosy", &["--set-json", plain])?;
    ensure!(!has_token().await?, "nobody has asked for it");
    cluster.installs("argosy", &["--set-json", asked])?;
    ensure!(has_token().await?, "it was asked for");
    // An earlier chart has created it by default, and an agent depends on it.
    cluster.installs("argosy", &["--set-json", plain])?;
    ensure!(has_token().await?, "it was taken from an agent");
    let params = DeleteParams::default();
    secrets.delete(names::AGENT_TOKEN_SECRET, &params).await?;
    cluster.installs("argosy", &["--set-json", plain])?;
    ensure!(!has_token().await?, "it was withdrawn");
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_runs_workflows_takes_its_charts() -> Result<()> {
    let cluster = Cluster::start("charts-wec").await?;
    argo_namespace(&cluster).await?;
    let settings = [
        "--set",
        "clusterName=one,metrics.alertsConfigMap.enabled=true,networkPolicy.enabled=true",
    ];
    let notes = cluster.installs("argosy-agent", &settings)?;
    ensure!(notes.contains("helm install argosy-crds"), "{notes}");
    cluster.installs(
        "argosy-crds",
        &["--set", "hub=false,agent=true", "--wait", "--timeout", "1m"],
    )?;
    let notes = cluster.installs("argosy-agent", &settings)?;
    ensure!(!notes.contains("argosy-crds"), "{notes}");
    let notes = cluster.installs("argosy-agent", &["--set", "clusterName=one,mode=push"])?;
    ensure!(
        notes.contains("argosy-agent release --cluster-name one"),
        "{notes}"
    );
    Ok(())
}

#[tokio::test]
async fn definitions_that_were_applied_without_helm_become_the_charts_but_for_those_of_ocm() -> Result<()> {
    let cluster = Cluster::start("charts-adoption").await?;
    definitions::install_on_control(&cluster.server.client().await?).await?;
    let former = json!({"spec": {"names": {"shortNames": ["former"]}}});
    let api: Api<CustomResourceDefinition> = Api::all(cluster.server.client().await?);
    api.patch(POLICIES, &PatchParams::default(), &Patch::Merge(former))
        .await?;
    let refused = cluster.install("argosy-crds", &[])?;
    ensure!(
        !refused.is_well && refused.text.contains("invalid ownership metadata"),
        "{}",
        refused.text
    );

    let adopting = ["--take-ownership", "--wait", "--timeout", "1m"];
    cluster.installs("argosy-crds", &[&adopting[..], &["--set", "ocm=false"]].concat())?;
    let is_of_chart = |definition: Option<CustomResourceDefinition>| {
        definition.is_some_and(|known| known.labels().contains_key("app.kubernetes.io/managed-by"))
    };
    let policies = cluster.definition(POLICIES).await?;
    let names = policies
        .as_ref()
        .and_then(|known| known.spec.names.short_names.clone());
    ensure!(
        names == BindingPolicy::crd().spec.names.short_names,
        "it was not brought up to date"
    );
    ensure!(is_of_chart(policies), "KubeStellar's was not taken over");
    ensure!(
        !is_of_chart(cluster.definition(CLUSTERS).await?),
        "OCM's was taken over"
    );

    // In an upgrade, Helm 3 claims to take an object over but does not change it (it patches a
    // definition by the difference between two manifests). So the chart is installed again; the
    // existing objects stay.
    let gone = cluster.helm(&["uninstall", "argosy-crds"])?;
    ensure!(gone.is_well, "{}", gone.text);
    cluster.installs("argosy-crds", &adopting)?;
    for name in [POLICIES, CLUSTERS] {
        ensure!(
            is_of_chart(cluster.definition(name).await?),
            "{name} was not taken over"
        );
    }
    // From now on, it is an upgrade like any other.
    cluster.installs("argosy-crds", &["--wait", "--timeout", "1m"])?;
    Ok(())
}
