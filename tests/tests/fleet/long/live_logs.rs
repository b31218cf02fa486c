//! Live logs while links are cut and the leading controller goes away: a log that breaks off says
//! so, and logs are there again soon after.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use argosy_tests::fleet::{CONTROL, Cluster, Fleet, PULL, one_step, until};
use kube::ResourceExt as _;
use tokio::time::Instant;

const LIMIT: Duration = Duration::from_mins(3);

/// Time until logs are there again after the link is there again.
const BACK: Duration = Duration::from_secs(5);

/// Time until logs are there again after the pod of the leading controller is gone: another one must
/// lead, and the agent must find it.
const NEXT_CONTROLLER: Duration = Duration::from_mins(1);

const PRINTING: &str = "i=0; while [ ! -e /tmp/end ]; do i=$((i+1)); echo line $i; sleep 0.2; done";

/// A step on the cluster that pulls, which prints until it is ended. Returns its Workflow and pod.
async fn printing(control: &Cluster, name: &str) -> Result<(String, String)> {
    let name = control
        .create_workflow(&one_step(PULL, name, PRINTING))
        .await?
        .name_any();
    let pod = until(LIMIT, "the pod to be shown", async || {
        Ok(control.shadow_pods_of(&name).await?.pop())
    });
    let pod = pod.await?;
    Ok((name, pod))
}

/// The time until the log of `pod` can be read.
async fn readable(control: &Cluster, pod: &str) -> Result<Duration> {
    let began = Instant::now();
    until(LIMIT, "the log to be readable again", async || {
        Ok(control.kubectl(&["logs", "--tail=1", pod]).await.ok())
    })
    .await?;
    Ok(began.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_log_that_is_cut_off_says_so_and_logs_are_back_when_the_link_is() -> Result<()> {
    let fleet = Fleet::disturbing(&[PULL], &[CONTROL]).await?;
    let control = fleet.control()?;
    let (name, pod) = printing(control, "cut").await?;
    readable(control, &pod).await?;
    let mut following = control.follow_kubectl(&["logs", "-f", &pod])?;
    following.line(LIMIT).await?.context("no line")?;
    let mut argosy = control.follow_argosy(&["logs", "-f", "--no-prefix", &name])?;
    argosy.line(LIMIT).await?.context("no line")?;
    fleet.script(&["cut", PULL]).await?;
    let ended = following.rest(LIMIT).await;
    fleet.script(&["heal", PULL]).await?;
    let back = readable(control, &pod).await?;
    let last = ended?.pop().context("no line")?;
    assert!(last.starts_with("argosy: this log is cut off here"), "{last}");
    ensure!(back <= BACK, "logs were back after {back:?} only");
    // argosy goes on by itself, after the line that it has printed last.
    control
        .kubectl(&["exec", &pod, "-c", "main", "--", "touch", "/tmp/end"])
        .await?;
    let lines = argosy.rest(LIMIT).await?;
    let numbers: Vec<usize> = lines
        .iter()
        .map(|line| {
            Ok(line
                .strip_prefix("line ")
                .context("no line of the step")?
                .parse()?)
        })
        .collect::<Result<_>>()?;
    let expected: Vec<usize> = (2..numbers.len() + 2).collect();
    assert_eq!(numbers, expected);
    Ok(())
}

/// The pod of the leading controller.
async fn leader(control: &Cluster) -> Result<String> {
    let holder = ["get", "lease", "argosy-controller-wds1", "--namespace=argosy"];
    control
        .kubectl(&[&holder[..], &["--output=jsonpath={.spec.holderIdentity}"]].concat())
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn after_the_pod_of_the_leading_controller_is_gone_the_next_one_serves_logs() -> Result<()> {
    let fleet = Fleet::disturbing(&[CONTROL], &[PULL]).await?;
    let control = fleet.control()?;
    let (name, pod) = printing(control, "killed").await?;
    readable(control, &pod).await?;
    let mut following = control.follow_kubectl(&["logs", "-f", &pod])?;
    following.line(LIMIT).await?.context("no line")?;
    let leader = leader(control).await?;
    control
        .kubectl(&[
            "delete",
            "pod",
            &leader,
            "--namespace=argosy",
            "--grace-period=0",
            "--force",
            "--wait=false",
        ])
        .await?;
    following.rest(LIMIT).await?;
    let back = readable(control, &pod).await?;
    ensure!(back <= NEXT_CONTROLLER, "logs were back after {back:?} only");
    ensure!(self::leader(control).await? != leader, "{leader} still leads");
    control.argo(&["stop", &name]).await?;
    Ok(())
}
