//! The samples for the best cluster, as they stand in `samples/workflows`.

use std::path::Path;

use anyhow::{Context as _, Result};
use argosy_api::{Workflow, names};
use argosy_tests::fleet::{CONTROL, Fleet, History, LIMIT, PULL, PUSH};
use kube::ResourceExt as _;

async fn assert_chosen(fleet: &Fleet, sample: &str, needs: &str) -> Result<()> {
    let control = fleet.control()?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples/workflows/best-cluster");
    let sample: Workflow = serde_saphyr::from_str(&std::fs::read_to_string(folder.join(sample))?)?;
    let name = control.create_workflow(&sample).await?.name_any();
    let history = History::follow(control, &name, LIMIT).await?;
    assert_eq!(history.end(), "Succeeded", "{name}");
    let run = control.workflow(&name).await?.context("it is there")?;
    let cluster = &run.labels()[names::CLUSTER_LABEL];
    assert!([PULL, PUSH].contains(&cluster.as_str()), "{cluster}");
    assert!(
        fleet.cluster(cluster)?.workflow(&name).await?.is_some(),
        "{cluster}"
    );
    let claim = &run.annotations()[names::CLAIM_ANNOTATION];
    assert!(claim.contains("the best of 2"), "{claim}");
    assert!(claim.contains(&format!("\"needs\":\"{needs}\"")), "{claim}");
    control.delete_workflow(&name).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_samples_for_the_best_cluster_run_on_one_of_them_and_say_why() -> Result<()> {
    let fleet = Fleet::using(&[CONTROL, PULL, PUSH]).await?;
    tokio::try_join!(
        assert_chosen(&fleet, "parallel.yaml", "cpu=500m,memory=160Mi"),
        assert_chosen(&fleet, "queued.yaml", "cpu=100m,memory=16Mi")
    )?;
    Ok(())
}
