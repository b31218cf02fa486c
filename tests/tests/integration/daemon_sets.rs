//! DaemonSets beside a virtual Node, with Kubernetes' own controllers and scheduler. No kubelet runs:
//! the pods on the ordinary Node are marked as ready by hand.

use anyhow::{Context, Result, ensure};
use argosy_api::names;
use argosy_tests::{
    daemon_sets::{REVISION, by_node, daemon_set, is_ready, is_unschedulable},
    testenv::{
        Fixture,
        admission::eventually,
        folder,
        objects::create,
        process::{Launch, Process},
        server::Server,
        signing::Signing,
        toolchain,
        waiting::until,
    },
};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Node, Pod},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

/// Name of the ordinary Node.
const ORDINARY: &str = "ordinary";

/// Name of the DaemonSet that selects no operating system, and of the one that does.
const EVERYWHERE: &str = "everywhere";
const LINUX: &str = "linux";

/// The controllers and the scheduler of a control cluster.
struct Kubernetes {
    _controllers: Process,
    _scheduler: Process,
}

impl Kubernetes {
    fn start(control: &Server) -> Result<Self> {
        let launch = |program: &str| -> Result<Launch> {
            let log = folder::create(program)?.join("log");
            let launch = Launch::new(toolchain::binary(program)?, log);
            Ok(launch
                .flag("--kubeconfig", control.kubeconfig())
                .flag("--secure-port", "0")
                // A boolean flag takes its value only after `=`.
                .argument("--leader-elect=false"))
        };
        let controllers = launch("kube-controller-manager")?;
        let controllers = controllers.flag(
            "--controllers",
            "daemonset-controller,garbage-collector-controller",
        );
        Ok(Self {
            _controllers: Process::start(controllers)?,
            _scheduler: Process::start(launch("kube-scheduler")?)?,
        })
    }
}

struct Lab {
    pods: Api<Pod>,
    sets: Api<DaemonSet>,
    nodes: Api<Node>,
    /// The virtual Node.
    shown: String,
}

impl Lab {
    async fn new(control: &Client, namespace: &str, cluster: &str) -> Result<Self> {
        let nodes: Api<Node> = Api::all(control.clone());
        let shown = names::virtual_node(cluster);
        until(&nodes, &shown, "the virtual Node is there", |_| true).await?;
        let labels = json!({ "kubernetes.io/os": "linux" });
        let node: Node =
            serde_json::from_value(json!({ "metadata": { "name": ORDINARY, "labels": labels } }))?;
        create(&nodes, &node).await?;
        let room = json!({ "cpu": "4", "memory": "8Gi", "pods": "110" });
        let ready = json!([{ "type": "Ready", "status": "True", "reason": "Played" }]);
        let status = json!({ "status": { "capacity": room, "allocatable": room, "conditions": ready } });
        nodes
            .patch_status(ORDINARY, &PatchParams::default(), &Patch::Merge(status))
            .await?;
        Ok(Self {
            pods: Api::namespaced(control.clone(), namespace),
            sets: Api::namespaced(control.clone(), namespace),
            nodes,
            shown,
        })
    }

    async fn apply(&self, name: &str, selector: &Value, revision: &str) -> Result<()> {
        let set = daemon_set(name, selector, revision);
        let params = PatchParams::apply("user").force();
        self.sets.patch(name, &params, &Patch::Apply(set)).await?;
        Ok(())
    }

    /// Waits until this version has a ready pod on the ordinary Node, and all other pods satisfy
    /// `are_so`, which takes the names of their Nodes.
    async fn rolled_out(
        &self,
        name: &str,
        revision: &str,
        are_so: impl Fn(&[(String, Pod)]) -> bool,
    ) -> Result<()> {
        let labels = ListParams::default().labels(&format!("app={name},{REVISION}={revision}"));
        eventually("the version is rolled out", async || {
            let mut pods = by_node(self.pods.list(&labels).await?.items)?;
            let Some(pod) = pods.remove(ORDINARY) else {
                return Ok(false);
            };
            let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
            if is_bound && !is_ready(&pod) {
                self.run(&pod).await?;
            }
            let others: Vec<(String, Pod)> = pods.into_iter().collect();
            Ok(is_ready(&pod) && are_so(&others))
        })
        .await
        .with_context(|| format!("{name} {revision}"))
    }

    /// Plays the kubelet: the pod runs.
    async fn run(&self, pod: &Pod) -> Result<()> {
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        let status = json!({ "status": { "phase": "Running", "conditions": ready } });
        let params = PatchParams::default();
        self.pods
            .patch_status(&pod.name_any(), &params, &Patch::Strategic(status))
            .await?;
        Ok(())
    }

    async fn uid(&self) -> Result<String> {
        self.nodes.get(&self.shown).await?.uid().context("no UID")
    }
}

#[tokio::test]
async fn a_pod_of_a_daemon_set_for_a_virtual_node_is_bound_nowhere_and_goes_with_its_daemon_set() -> Result<()>
{
    let (signing, _) = Signing::with_nodes("daemon-sets").await?;
    let fixture = Fixture::on(signing.env.clone(), "daemon-sets").await?;
    let member = fixture.pull().await?;
    let lab = Lab::new(&fixture.control, &fixture.namespace, &member.cluster).await?;
    let before = lab.uid().await?;
    let _kubernetes = Kubernetes::start(&signing.env.control)?;
    let linux = json!({ "kubernetes.io/os": "linux" });
    for revision in ["one", "two"] {
        lab.apply(EVERYWHERE, &json!({}), revision).await?;
        lab.apply(LINUX, &linux, revision).await?;
        let waits = |others: &[(String, Pod)]| {
            others.len() == 1
                && others
                    .iter()
                    .all(|(node, pod)| *node == lab.shown && is_unschedulable(pod))
        };
        lab.rolled_out(EVERYWHERE, revision, waits).await?;
        lab.rolled_out(LINUX, revision, <[_]>::is_empty).await?;
    }
    for name in [EVERYWHERE, LINUX] {
        lab.sets.delete(name, &DeleteParams::foreground()).await?;
    }
    eventually("nothing is left of the DaemonSets", async || {
        let sets = lab.sets.list(&ListParams::default()).await?;
        let pods = lab.pods.list(&ListParams::default()).await?;
        Ok(sets.items.is_empty() && pods.items.is_empty())
    })
    .await?;
    ensure!(lab.uid().await? == before, "the virtual Node was made anew");
    Ok(())
}
