//! The transform of `samples/policies` that differs for each cluster: one Workflow, sent to two
//! clusters, gets its values on one of them.

use anyhow::{Context as _, Result};
use argosy_tests::fleet::{CONTROL, Fleet, History, LIMIT, PULL, PUSH, one_step};
use kube::ResourceExt as _;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_workflow_gets_the_values_of_the_cluster_on_which_it_runs() -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PULL, PUSH]).await?;
    let control = fleet.control()?;
    for (cluster, place, priority) in [(PULL, "nowhere", Value::Null), (PUSH, PUSH, json!(10))] {
        let mut workflow = one_step(
            cluster,
            "overrides",
            &format!("test '{{{{workflow.parameters.where}}}}' = {place}"),
        );
        workflow.spec["arguments"] = json!({ "parameters": [{ "name": "where", "value": "nowhere" }] });
        workflow
            .labels_mut()
            .insert("example".to_owned(), "per-cluster".to_owned());
        let name = control.create_workflow(&workflow).await?.name_any();
        assert_eq!(
            History::follow(control, &name, LIMIT).await?.end(),
            "Succeeded",
            "{name}"
        );
        let there = fleet.cluster(cluster)?.workflow(&name).await?;
        let there = there.with_context(|| format!("{name} is not on {cluster}"))?;
        let value = &there.spec["arguments"]["parameters"][0]["value"];
        assert_eq!(
            (value, &there.spec["priority"]),
            (&json!(place), &priority),
            "{cluster}"
        );
        control.delete_workflow(&name).await?;
    }
    Ok(())
}
