//! Somebody applies a shipped sample server-side again and again, as Flux and Argo CD do. Its run
//! continues.

use anyhow::Result;
use argosy_api::workflow;
use argosy_tests::fleet::{Fleet, History, LIMIT, PULL, PUSH, Sample};
use serde_json::json;

/// The options of kubectl, Flux and Argo CD.
const APPLIES: [&[&str]; 3] = [
    &["--server-side"],
    &[
        "--server-side",
        "--force-conflicts",
        "--field-manager=kustomize-controller",
    ],
    &[
        "--server-side",
        "--force-conflicts",
        "--field-manager=argocd-controller",
    ],
];

async fn assert_goes_on(cluster: &str) -> Result<()> {
    let fleet = Fleet::using(&[cluster]).await?;
    let (control, wec) = (fleet.control()?, fleet.cluster(cluster)?);
    let mut sample = Sample::find(cluster, "dag")?.workflow()?;
    // An applied object needs a name.
    let name = format!("applied-{cluster}");
    sample.metadata.generate_name = None;
    sample.metadata.name = Some(name.clone());
    control.delete_workflow(&name).await?;

    let object = json!(sample);
    assert_eq!(object["spec"]["suspend"], true, "the sample is another one");
    for arguments in APPLIES {
        control.apply_with(&object, arguments).await?;
        control.apply_with(&object, arguments).await?;
    }
    wec.workflow_when(&name, LIMIT, "runs", |run| {
        workflow::phase(run.status.as_ref()) == "Running"
    })
    .await?;
    for arguments in APPLIES {
        control.apply_with(&object, arguments).await?;
    }
    let why = control.argosy(&["why", &name]).await?;
    assert!(
        !why.contains("it is suspended") && !why.contains("Suspended=True"),
        "{why}"
    );
    let history = History::follow(control, &name, LIMIT).await?;
    assert_eq!(history.end(), "Succeeded", "{:#}", json!(history.last.status));
    assert_eq!(fleet.clusters_with_pods(&name).await?, [cluster]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_sample_that_is_applied_server_side_again_and_again_succeeds_on_the_cluster_that_pulls()
-> Result<()> {
    assert_goes_on(PULL).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_sample_that_is_applied_server_side_again_and_again_succeeds_on_the_cluster_that_is_pushed_to()
-> Result<()> {
    assert_goes_on(PUSH).await
}
