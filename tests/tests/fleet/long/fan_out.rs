//! Runs the large sample, with 31 pods, on every cluster of a fleet, with all assertions of the
//! other samples.

use anyhow::Result;
use argosy_tests::fleet::{CONTROL, PULL, PUSH};

use crate::quiet::samples::{
    LARGE, assert_labels, assert_ran_only_on, assert_same_tree, assert_unclaimed, assert_went_forward,
    run_those,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_large_sample_ends_on_every_cluster_as_the_others_do() -> Result<()> {
    let is_large = |sample: &argosy_tests::fleet::Sample| sample.name == LARGE;
    let direct = run_those(CONTROL, is_large).await?;
    assert_ran_only_on(CONTROL, &direct);
    assert_unclaimed(&direct);
    for cluster in [PULL, PUSH] {
        let runs = run_those(cluster, is_large).await?;
        assert_ran_only_on(cluster, &runs);
        for run in &runs {
            assert_went_forward(run)?;
            assert_labels(run);
            assert_same_tree(run, &direct).await?;
        }
    }
    Ok(())
}
