//! `argosy get clusters`.

use std::{
    cell::Cell,
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{anyhow, bail};
use argosy_api::{ManagedCluster, Workflow, conditions::managed_cluster as types, names};
use argosy_core::{
    Failure,
    explain::{QueuePlace, Unfinished},
};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::Time};
use kube::{Api, Client, ResourceExt, api::ListParams, core::PartialObjectMeta};
use schemars::JsonSchema;
use serde::Serialize;

use super::{ClustersArgs, Common, Inventory, Output, Selection, age::human, table::Row};
use crate::{
    cli::spaces::inventory,
    runtime::{client, lenient::Lenient, requests},
};

/// Maximum number of Workflows in an answer of the API server, each of which may be large.
const PAGE: u32 = 100;

/// Time in which the Workflows are not counted again, however many clusters change.
const RECENT: Duration = Duration::from_secs(5);

/// One cluster for users who run Workflows.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Listed {
    /// Name of the ManagedCluster.
    name: String,
    /// Status of the condition `ManagedClusterConditionAvailable`; empty while it is unknown.
    reachable: String,
    /// `pull` or `push`; empty if the Secrets that decide it may not be listed.
    mode: String,
    /// Status of the condition `ArgoReady`; empty while it is unknown.
    argo: String,
    /// Version of Argo that the agent has found; empty if it found none.
    argo_version: String,
    /// Status of the condition `ArtifactRepositoryReady`; empty while it is unknown.
    artifacts: String,
    /// Workflows that were sent there and have not ended.
    running: u64,
    /// The largest part of a resource that the unfinished Workflows there reserve, in percent; absent
    /// if nobody says what the cluster has.
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_percent: Option<u64>,
    /// The amounts that the unfinished Workflows there reserve, as in `cpu=2,memory=4Gi`.
    reserved: String,
    /// The room for runs, as in `cpu=2,memory=4Gi`.
    room: String,
    /// Workflows of the fleet that wait until a cluster has room, without reruns: the same number for each
    /// cluster.
    waiting: u64,
    /// Version of its API server; empty if the agent has not reported it.
    kubernetes: String,
    /// Version of the agent; empty if it was not reported.
    agent: String,
    /// CPU of its nodes for pods, as a Kubernetes quantity: `3800m`.
    cpu: String,
    /// Memory of its nodes for pods, as a Kubernetes quantity: `15Gi`.
    memory: String,
    /// Creation time of the ManagedCluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    created_at: Option<Timestamp>,
    /// Message of the first condition that reports a problem.
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

/// The Workflows on the control cluster that matter to the clusters.
#[derive(Debug, Default)]
struct Counted {
    /// Those that were sent and have not ended.
    unfinished: Unfinished,
    /// The number of those that wait for room.
    waiting: u64,
}

impl Listed {
    fn new(cluster: &ManagedCluster, counted: &Counted, hosted: Option<&Hosted>) -> Self {
        let status = cluster.status.clone().unwrap_or_default();
        let condition = |type_: &str| status.conditions.iter().find(|known| known.type_ == type_);
        let told = |type_: &str| {
            condition(type_)
                .map(|known| known.status.clone())
                .unwrap_or_default()
        };
        let amount = |resource: &str| {
            let known = status.allocatable.get(resource);
            known.map(|amount| amount.0.clone()).unwrap_or_default()
        };
        let mode = hosted.map(|hosted| {
            let is_hosted = hosted.contains(&cluster.name_any());
            if is_hosted { "push" } else { "pull" }
        });
        let kinds = [
            types::AVAILABLE,
            types::ARGO_READY,
            types::ARTIFACT_REPOSITORY_READY,
            types::PODS_COUNTED,
        ];
        let load = counted.unfinished.load(cluster);
        let wrong = kinds
            .iter()
            .filter_map(|type_| condition(type_))
            .find(|known| known.status != "True");
        Self {
            name: cluster.name_any(),
            reachable: told(types::AVAILABLE),
            mode: mode.unwrap_or_default().to_owned(),
            argo: told(types::ARGO_READY),
            argo_version: claimed(cluster, names::ARGO_VERSION_CLAIM).to_owned(),
            artifacts: told(types::ARTIFACT_REPOSITORY_READY),
            running: load.runs,
            reserved_percent: load.percent,
            reserved: load.reserved,
            room: load.room,
            waiting: counted.waiting,
            kubernetes: status.version.kubernetes.clone(),
            agent: claimed(cluster, names::AGENT_VERSION_CLAIM).to_owned(),
            cpu: amount("cpu"),
            memory: amount("memory"),
            created_at: cluster.creation_timestamp().map(|time| time.0),
            message: wrong.map(|known| known.message.clone()).unwrap_or_default(),
        }
    }
}

/// The value of a cluster claim; empty if there is none.
pub(in crate::cli) fn claimed<'a>(cluster: &'a ManagedCluster, name: &str) -> &'a str {
    let claims = cluster.status.iter().flat_map(|status| &status.cluster_claims);
    let mut claims = claims.filter(|claim| claim.name == name);
    claims
        .next()
        .map(|claim| claim.value.as_str())
        .unwrap_or_default()
}

impl Row for Listed {
    const COLUMNS: &'static [&'static str] = &[
        "NAME",
        "REACHABLE",
        "MODE",
        "ARGO",
        "ARTIFACTS",
        "RUNNING",
        "RESERVED",
        "CPU",
        "MEMORY",
        "AGENT",
        "AGE",
        "ROOM",
        "KUBERNETES",
        "MESSAGE",
    ];
    const WIDE: usize = 3;

    fn name(&self) -> String {
        format!("managedcluster.cluster.open-cluster-management.io/{}", self.name)
    }

    fn is_of_same(&self, other: &Self) -> bool {
        self.name == other.name
    }

    fn cells(&self, now: Timestamp) -> Vec<String> {
        let age = self.created_at.map(|created| human(now.duration_since(created)));
        let reserved = self.reserved_percent.map(|percent| format!("{percent}%"));
        let is_version_known = self.argo == "True" && !self.argo_version.is_empty();
        let argo = if is_version_known {
            &self.argo_version
        } else {
            &self.argo
        };
        vec![
            self.name.clone(),
            self.reachable.clone(),
            self.mode.clone(),
            argo.clone(),
            self.artifacts.clone(),
            self.running.to_string(),
            reserved.unwrap_or_default(),
            self.cpu.clone(),
            self.memory.clone(),
            self.agent.clone(),
            age.unwrap_or_default(),
            self.room.clone(),
            self.kubernetes.clone(),
            self.message.clone(),
        ]
    }
}

/// Lists clusters, and watches them with `--watch`.
pub(super) async fn get(wds: Client, args: &ClustersArgs) -> anyhow::Result<()> {
    let is_table = matches!(args.common.output, Output::Text | Output::Wide);
    let (said, last) = (Cell::new(0), Cell::new(None));
    let told = async |clusters: Vec<ManagedCluster>| {
        let recent = last
            .take()
            .filter(|(read_at, ..): &(Instant, _, _)| read_at.elapsed() < RECENT);
        let (read_at, counted, hosted) = if let Some(recent) = recent {
            recent
        } else {
            let counted = counted(&wds).await;
            let counted = counted.map_err(|failure| anyhow!("cannot list Workflows: {failure}"))?;
            let hosted = hosted_clusters(&wds, &args.namespace).await.ok();
            (Instant::now(), counted, hosted)
        };
        if is_table && said.replace(counted.waiting) != counted.waiting {
            say_waiting(counted.waiting);
        }
        let listed = clusters
            .iter()
            .map(|cluster| Listed::new(cluster, &counted, hosted.as_ref()))
            .collect();
        last.set(Some((read_at, counted, hosted)));
        Ok(listed)
    };
    list_or_watch(&args.inventory, &args.common, told).await
}

#[expect(
    clippy::print_stderr,
    reason = "the table is on standard output, for other programs"
)]
fn say_waiting(waiting: u64) {
    match waiting {
        0 => eprintln!("no Workflow waits for room any more"),
        1 => eprintln!("1 Workflow waits until a cluster has room for it"),
        _ => eprintln!("{waiting} Workflows wait until a cluster has room for them"),
    }
}

async fn counted(wds: &Client) -> Result<Counted, Failure> {
    Ok(Counted {
        unfinished: unfinished(wds).await?,
        waiting: waiting_for_room(wds).await?,
    })
}

/// The number of Workflows that wait on the control cluster until a cluster has room. Reruns that wait
/// have a cluster already and do not count, because all runs would have to be read to find them.
async fn waiting_for_room(wds: &Client) -> Result<u64, Failure> {
    let mut waiting = 0;
    let unsent = format!("!{}", names::CLUSTER_LABEL);
    each_waiting(Api::all(wds.clone()), &unsent, |_| waiting += 1).await?;
    Ok(waiting)
}

/// Calls `note` for each Workflow of `api` with these labels that waits on the control cluster until a
/// cluster has room.
pub(in crate::cli) async fn each_waiting(
    api: Api<Lenient<Workflow>>,
    labels: &str,
    mut note: impl FnMut(QueuePlace),
) -> Result<(), Failure> {
    let comma = if labels.is_empty() { "" } else { "," };
    let unfinished = format!(
        "{labels}{comma}{} notin (Succeeded,Failed,Error)",
        names::ARGO_PHASE_LABEL
    );
    let params = ListParams::default().labels(&unfinished).limit(PAGE);
    requests::each(&api, params, |run| {
        if let Some(place) = QueuePlace::of(&run) {
            note(place);
        }
    })
    .await
}

/// Lists and watches clusters as rows that `told` builds: one for each cluster that it is given, which
/// are all of the list at once, and then one at a time.
pub(in crate::cli) async fn list_or_watch<T: Row + Serialize + PartialEq>(
    args: &Inventory,
    common: &Common,
    told: impl AsyncFn(Vec<ManagedCluster>) -> anyhow::Result<Vec<T>>,
) -> anyhow::Result<()> {
    let wds = client::connect_as_user(common.kubeconfig.as_deref()).await?;
    let api: Api<Lenient<ManagedCluster>> = Api::all(inventory(&wds, args.its_kubeconfig.as_deref()).await?);
    let selection = Selection::new(args.selector.as_deref(), args.name.as_deref());
    let list = requests::list(api.list(&selection.list)).await;
    let list = list.map_err(|failure| {
        anyhow!("cannot list ManagedClusters ({failure}); is this the control cluster?")
    })?;
    if let (Some(name), true) = (&args.name, list.is_empty()) {
        bail!("there is no ManagedCluster {name}");
    }
    let listed = told(list).await?;
    common.print(&listed, "no ManagedClusters found; has any cluster joined?")?;
    if !common.watch {
        return Ok(());
    }
    let one = async |cluster| Ok(told(vec![cluster]).await?.pop());
    common.follow(api, selection.watch, listed, one).await
}

/// Names of the clusters whose agent the controller hosts.
pub(in crate::cli) type Hosted = BTreeSet<String>;

/// Returns the clusters with a kubeconfig Secret in the controller's `namespace`. Reads only the
/// labels of the Secrets.
pub(in crate::cli) async fn hosted_clusters(wds: &Client, namespace: &str) -> Result<Hosted, Failure> {
    let api: Api<Lenient<PartialObjectMeta<Secret>>> = Api::namespaced(wds.clone(), namespace);
    let params = ListParams::default().labels(names::WEC_KUBECONFIG_LABEL);
    let secrets = requests::list(api.list(&params)).await?;
    let named = secrets
        .iter()
        .filter_map(|secret| secret.labels().get(names::WEC_KUBECONFIG_LABEL));
    Ok(named.cloned().collect())
}

/// The Workflows that were sent to a cluster and have not ended.
pub(in crate::cli) async fn unfinished(wds: &Client) -> Result<Unfinished, Failure> {
    let api: Api<Lenient<PartialObjectMeta<Workflow>>> = Api::all(wds.clone());
    let mut unfinished = Unfinished::default();
    let params = ListParams::default().labels(names::CLUSTER_LABEL);
    let count = |run: PartialObjectMeta<Workflow>| unfinished.count(&run.metadata);
    requests::each(&api, params, count).await?;
    Ok(unfinished)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_is_shown_with_what_it_runs_and_what_is_wrong_with_it() {
        let told = |type_: &str, status: &str, message: &str| json!({ "type": type_, "status": status, "reason": "R", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let cluster: ManagedCluster = serde_json::from_value(json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": { "name": "one", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": {},
            "status": {
                "conditions": [told(types::AVAILABLE, "True", "fine"), told(types::ARGO_READY, "False", "no CRD")],
                "allocatable": { "cpu": "3800m", "memory": "15Gi" },
                "version": { "kubernetes": "v1.34.4" },
                "clusterClaims": [
                    { "name": names::ARGO_VERSION_CLAIM, "value": "v3.7.15" },
                    { "name": names::AGENT_VERSION_CLAIM, "value": "0.1.0" },
                ],
            },
        }))
        .unwrap();
        let (mut counted, hosted) = (Counted::default(), ["one".to_owned()].into());
        counted.waiting = 3;
        let claim = json!({ "cluster": "one", "attempt": 1, "needs": "cpu=1", "uid": "u" }).to_string();
        let run = json!({ "uid": "u", "annotations": { names::CLAIM_ANNOTATION: claim } });
        counted.unfinished.count(&serde_json::from_value(run).unwrap());
        let mut listed = Listed::new(&cluster, &counted, Some(&hosted));
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        let mut expected = [
            "one",
            "True",
            "push",
            "False",
            "",
            "1",
            "26%",
            "3800m",
            "15Gi",
            "0.1.0",
            "24h",
            "cpu=3800m,memory=15Gi",
            "v1.34.4",
            "no CRD",
        ];
        assert_eq!(
            listed.cells(now),
            expected,
            "a version of what is not ready says nothing"
        );
        listed.argo = "True".to_owned();
        expected[3] = "v3.7.15";
        assert_eq!(listed.cells(now), expected);
        assert_eq!(
            listed.name(),
            "managedcluster.cluster.open-cluster-management.io/one"
        );
        let printed = serde_json::to_value(&listed).unwrap();
        assert_eq!((&printed["running"], &printed["waiting"]), (&json!(1), &json!(3)));
        let unknown = Listed::new(&cluster, &counted, None);
        assert_eq!(unknown.mode, "");
        let pulling = Listed::new(&cluster, &counted, Some(&Hosted::new()));
        assert_eq!(pulling.mode, "pull");
    }
}
