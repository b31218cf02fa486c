//! `argosy logs -f` of runs whose policy shows pods only if they are asked for: the command asks for
//! them, and a user who may not ask reads the logs of steps that have ended.

use anyhow::{Context as _, Result};
use argosy_api::names;
use argosy_tests::fleet::{Cluster, Fleet, LIMIT, NAMESPACE, PULL, one_step, until};
use kube::ResourceExt as _;
use serde_json::json;

use super::live_logs::{of_the_step, printed, printing};

/// Name of the policy, and the label of its Workflows.
const ASKED: &str = "shown-if-asked";

/// Creates the policy, which alone selects the Workflows with the label [`ASKED`].
async fn create_policy(control: &Cluster) -> Result<()> {
    let policy = json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": ASKED, "annotations": { names::PODS_ANNOTATION: "asked" } },
        "spec": {
            "clusterSelectors": [{ "matchLabels": { "name": PULL } }],
            "downsync": [{
                "apiGroup": "argoproj.io", "resources": ["workflows"], "namespaces": [NAMESPACE],
                "objectSelectors": [{ "matchLabels": { names::KUBESTELLAR_CLUSTER_LABEL: ASKED } }],
                "wantSingletonReportedState": true,
            }],
        },
    });
    control.apply(&policy).await.map(drop)
}

/// Creates a Workflow whose step prints for 25 seconds, and returns its name when its cluster has
/// run it for longer than pods run that are shown without being asked for.
async fn long_running(fleet: &Fleet, name: &str) -> Result<String> {
    let (control, cluster) = (fleet.control()?, fleet.cluster(PULL)?);
    let workflow = one_step(ASKED, name, &printing());
    let name = control.create_workflow(&workflow).await?.name_any();
    // Two lines a second.
    until(
        LIMIT,
        "its cluster has the line of the twelfth second",
        async || {
            let pod = cluster.pods_of(&name).await?.pop().context("no pod")?;
            let log = cluster.kubectl(&["logs", "-c", "main", &pod]).await?;
            Ok(log
                .lines()
                .any(|line| line == "line 24 of the step")
                .then_some(()))
        },
    )
    .await?;
    Ok(name)
}

async fn assert_asked_for(fleet: &Fleet) -> Result<()> {
    let control = fleet.control()?;
    let name = long_running(fleet, "asked").await?;
    let unasked = control.shadow_pods_of(&name).await?;
    assert!(unasked.is_empty(), "nobody has asked for {unasked:?}");
    let following = control.follow_argosy(&["logs", "-f", "--no-prefix", &name])?;
    let (ended, shown) = tokio::join!(
        following.end(LIMIT),
        until(LIMIT, "the pod to be shown to the command", async || {
            Ok(control.shadow_pods_of(&name).await?.pop())
        })
    );
    shown?;
    let ended = ended?;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(of_the_step(ended.lines), printed());
    assert!(!ended.errors.contains("you may not"), "{}", ended.errors);
    Ok(())
}

async fn assert_refused(fleet: &Fleet) -> Result<()> {
    let control = fleet.control()?;
    let reader = control.as_reader("log-reader").await?;
    let workflow = one_step(ASKED, "refused", &printing());
    let name = control.create_workflow(&workflow).await?.name_any();
    let following = reader.follow_argosy(&["logs", "-f", "--no-prefix", &name])?;
    let (ended, running) = tokio::join!(
        following.end(LIMIT),
        until(LIMIT, "the step has printed for 20 seconds", async || {
            let cluster = fleet.cluster(PULL)?;
            let pod = cluster.pods_of(&name).await?.pop().context("no pod")?;
            let log = cluster.kubectl(&["logs", "-c", "main", &pod]).await?;
            let is_late = log.lines().any(|line| line == "line 40 of the step");
            let shown = control.shadow_pods_of(&name).await?;
            Ok(is_late.then_some(shown))
        })
    );
    let shown = running?;
    assert!(shown.is_empty(), "{shown:?} are shown to one who may not ask");
    let ended = ended?;
    // The archived log.
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.lines, printed());
    let told = ended
        .errors
        .matches("you may not ask for the running pods to be shown")
        .count();
    assert_eq!(told, 1, "{}", ended.errors);
    assert!(ended.errors.contains("cannot patch resource"), "{}", ended.errors);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn argosy_logs_asks_for_pods_that_are_not_shown_and_says_if_it_may_not() -> Result<()> {
    let fleet = Fleet::open().await?;
    let control = fleet.control()?;
    create_policy(control).await?;
    tokio::try_join!(assert_asked_for(&fleet), assert_refused(&fleet))?;
    control.kubectl(&["delete", "bindingpolicy", ASKED]).await?;
    Ok(())
}
