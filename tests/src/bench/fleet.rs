//! Measures on the running local fleet, on cluster1 with its real Argo. The Workflows wait in a
//! `suspend` step, so that no pod is needed, and are then terminated on their cluster.

use std::{env, path::Path};

use anyhow::{Context, Result};
use argosy_api::Workflow;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use super::{samples::Row, workflow_watch::WorkflowWatch};
use crate::testenv::{
    objects::{self, create, phase},
    server::client_of,
};

const NAMESPACE: &str = "argo";
const CLUSTER: &str = "cluster1";

/// Measures `count` Workflows.
pub(super) async fn measure(count: usize) -> Result<Vec<Row>> {
    let control = workflows("KUBECONFIG_CONTROL").await?;
    let wec = workflows("KUBECONFIG_CLUSTER1").await?;
    let mut down = Row::new("create on the control cluster to object on cluster1");
    let mut up = Row::new("status on cluster1 to the control cluster");
    let mut ends = Ends {
        control_watch: WorkflowWatch::build(control.clone()).await?,
        wec_watch: WorkflowWatch::build(wec.clone()).await?,
        control,
        wec,
    };
    for number in 0..count {
        let name = format!("bench-{}-{number}", std::process::id());
        let sampled = ends.sample(&name, &mut down, &mut up).await;
        // Deletes the Workflow even if the sample failed.
        ends.control.delete(&name, &DeleteParams::default()).await?;
        sampled?;
        ends.control_watch.saw_gone(&name).await?;
    }
    Ok(vec![down, up])
}

/// Both ends of the fleet.
struct Ends {
    control: Api<Workflow>,
    wec: Api<Workflow>,
    control_watch: WorkflowWatch,
    wec_watch: WorkflowWatch,
}

impl Ends {
    /// Sends one Workflow, and waits until it is suspended and until it has failed.
    async fn sample(&mut self, name: &str, down: &mut Row, up: &mut Row) -> Result<()> {
        create(&self.control, &waiting(name)).await?;
        let begin = self
            .control_watch
            .saw(name, "it is on the control cluster", |_| true)
            .await?;
        let end = self.wec_watch.saw(name, "it is on cluster1", |_| true).await?;
        down.samples.add(end - begin);

        let begin = self
            .wec_watch
            .saw(name, "it waits on cluster1", is_waiting)
            .await?;
        let end = self
            .control_watch
            .saw(name, "it is shown waiting", is_waiting)
            .await?;
        up.samples.add(end - begin);

        let terminate = Patch::Merge(json!({ "spec": { "shutdown": "Terminate" } }));
        self.wec.patch(name, &PatchParams::default(), &terminate).await?;
        let begin = self
            .wec_watch
            .saw(name, "it has failed on cluster1", has_failed)
            .await?;
        let end = self
            .control_watch
            .saw(name, "it is shown failed", has_failed)
            .await?;
        up.samples.add(end - begin);
        Ok(())
    }
}

fn has_failed(workflow: &Workflow) -> bool {
    phase(workflow) == "Failed"
}

async fn workflows(variable: &str) -> Result<Api<Workflow>> {
    let path = env::var(variable).with_context(|| format!("{variable} is not set; source .fleet/env"))?;
    Ok(Api::namespaced(client_of(Path::new(&path)).await?, NAMESPACE))
}

/// A Workflow whose only step waits.
fn waiting(name: &str) -> Workflow {
    let mut workflow = objects::workflow(name, CLUSTER);
    workflow.spec = json!({
        "suspend": true,
        "entrypoint": "main",
        "templates": [{ "name": "main", "suspend": {} }],
    });
    workflow
}

fn is_waiting(workflow: &Workflow) -> bool {
    let nodes = workflow
        .status
        .as_ref()
        .and_then(|status| status.get("nodes"))
        .and_then(|nodes| nodes.as_object());
    phase(workflow) == "Running"
        && nodes.is_some_and(|nodes| {
            nodes
                .values()
                .any(|node| node["type"] == "Suspend" && node["phase"] == "Running")
        })
}
