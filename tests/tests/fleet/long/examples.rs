//! The rest of Argo's examples that name other objects and can run on a fleet.

use anyhow::Result;
use argosy_tests::argo::Lists;

use crate::examples::assert_same_trees;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn all_other_examples_of_argo_end_on_a_cluster_without_the_objects_that_they_name_as_on_one_with_them()
-> Result<()> {
    assert_same_trees(&Lists::read()?.long, "argo-examples-more", 6).await
}
