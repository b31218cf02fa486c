//! Live logs while links are cut and the controller is killed: a stream that is cut ends with an
//! error, and logs are there again soon after.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use argosy_tests::fleet::{CONTROL, Cluster, Fleet, PULL, one_step, until};
use kube::ResourceExt as _;
use tokio::time::Instant;

const LIMIT: Duration = Duration::from_mins(3);

/// Time until logs are there again after the link is there again.
const BACK: Duration = Duration::from_secs(5);

/// Time until logs are there again after the controller was killed: another one must lead, and the
/// agent must find it.
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
async fn a_stream_that_is_cut_ends_with_an_error_and_logs_are_back_when_the_link_is() -> Result<()> {
    let fleet = Fleet::disturbing(&[PULL], &[CONTROL]).await?;
    let control = fleet.control()?;
    let (name, pod) = printing(control, "cut").await?;
    let mut following = control.follow_kubectl(&["logs", "-f", &pod])?;
    following.line(LIMIT).await?.context("no line")?;
    fleet.script(&["cut", PULL]).await?;
    let ended = async {
        following.rest(LIMIT).await?;
        following.failure(LIMIT).await
    };
    let ended = ended.await;
    fleet.script(&["heal", PULL]).await?;
    let back = readable(control, &pod).await?;
    println!("the cut stream said {:?}; logs were back after {back:?}", ended?);
    ensure!(back <= BACK, "logs were back after {back:?} only");
    control.argo(&["stop", &name]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn after_the_leading_controller_was_killed_the_next_one_serves_logs() -> Result<()> {
    let fleet = Fleet::disturbing(&[CONTROL], &[PULL]).await?;
    let control = fleet.control()?;
    let (name, pod) = printing(control, "killed").await?;
    let mut following = control.follow_kubectl(&["logs", "-f", &pod])?;
    following.line(LIMIT).await?.context("no line")?;
    fleet.script(&["kill", CONTROL, "argosy-controller"]).await?;
    following.rest(LIMIT).await?;
    following.failure(LIMIT).await?;
    let back = readable(control, &pod).await?;
    println!("logs were back after {back:?}");
    ensure!(back <= NEXT_CONTROLLER, "logs were back after {back:?} only");
    control.argo(&["stop", &name]).await?;
    Ok(())
}
