//! What is generated from the code and committed: the CRDs in the charts. `UPDATE=1 cargo test` rewrites them.

use std::path::Path;

use argosy::cli::{CrdsArgs, crds_yaml};

#[track_caller]
#[expect(
    clippy::expect_used,
    reason = "clippy does not see that a function beside a test is part of it"
)]
fn is_up_to_date(path: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, generated).expect("the chart's folder can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "{} is out of date; run UPDATE=1 cargo test -p argosy",
        path.display()
    );
}

#[test]
fn the_charts_hold_the_definitions_that_the_types_generate() {
    let print = |ocm, agent| crds_yaml(&CrdsArgs { ocm, agent }).unwrap();
    is_up_to_date("charts/argosy/crds/kubestellar.yaml", &print(false, false));
    is_up_to_date(
        "charts/argosy/crds/open-cluster-management.yaml",
        &print(true, false),
    );
    is_up_to_date(
        "charts/argosy-agent/crds/applied-manifest-work.yaml",
        &print(false, true),
    );
}
