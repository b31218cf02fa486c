//! Cordons the pull cluster. The test of the push cluster is among those that do not take minutes.

use anyhow::Result;
use argosy_tests::fleet::PULL;

use crate::disturbing::cordon::assert_cordon_holds;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_cordoned_cluster_that_pulls_is_drained_and_takes_what_waits_when_it_is_open_again() -> Result<()> {
    assert_cordon_holds(PULL).await
}
