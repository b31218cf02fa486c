//! Live logs while links are cut and the leading controller goes away: a log that breaks off says
//! so, logs are there again soon after, and only `argosy logs -f` goes on by itself.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use argosy_tests::fleet::{CONTROL, Cluster, Fleet, LIMIT, PULL, PUSH, one_step, until};
use kube::ResourceExt as _;
use serde_json::Value;
use tokio::time::Instant;

use crate::quiet::live_logs::of_the_step;

/// Time until logs are there again after the link is there again.
const BACK: Duration = Duration::from_secs(5);

/// Time until logs are there again after the pod of the leading controller is gone: another one must
/// lead, and the agent must find it.
const NEXT_CONTROLLER: Duration = Duration::from_mins(1);

const PRINTING: &str = "i=0; while [ ! -e /tmp/end ]; do i=$((i+1)); echo line $i; sleep 0.2; done";

/// Time for which a step prints nothing.
const SILENCE: Duration = Duration::from_secs(150);

/// Beginning of the line that ends a log which is cut off.
const CUT: &str = "argosy: this log is cut off here";

/// A step on `cluster` that prints until it is ended. Returns its Workflow and pod.
async fn printing(control: &Cluster, cluster: &str, name: &str) -> Result<(String, String)> {
    let name = control
        .create_workflow(&one_step(cluster, name, PRINTING))
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

/// Waits until `argosy doctor` says that the agent of `cluster` has no tunnel.
async fn told_by_doctor(control: &Cluster, cluster: &str) -> Result<()> {
    let words = format!("the agent of cluster {cluster} has no tunnel to the control cluster since 20");
    until(LIMIT, "doctor says that the tunnel is down", async || {
        let findings = control.doctor().await?;
        let is_it = |finding: &Value| {
            let message = finding["message"].as_str().unwrap_or_default();
            finding["cluster"] == cluster && finding["outcome"] == "failed" && message.contains(&words)
        };
        Ok(findings.iter().any(is_it).then_some(()))
    })
    .await
}

/// Cuts the link of `cluster` while three tools follow a log of it, and restores it. Returns the time
/// after which logs could be read again.
async fn assert_cut(cluster: &'static str) -> Result<Duration> {
    let fleet = Fleet::disturbing(&[cluster], &[CONTROL]).await?;
    let control = fleet.control()?;
    let (name, pod) = printing(control, cluster, "cut").await?;
    readable(control, &pod).await?;
    let mut kubectl = control.follow_kubectl(&["logs", "-f", &pod])?;
    let mut argo = control.follow_argo(&["logs", "-f", "--no-color", &name])?;
    let mut argosy = control.follow_argosy(&["logs", "-f", "--no-prefix", &name])?;
    for following in [&mut kubectl, &mut argo, &mut argosy] {
        following.line_with("line ", LIMIT).await?;
    }
    fleet.script(&["cut", cluster]).await?;
    let (kubectl, last_of_argo) = tokio::join!(kubectl.end(LIMIT), argo.line_with(CUT, LIMIT));
    // A push cluster has no tunnel.
    let told = if cluster == PULL {
        told_by_doctor(control, cluster).await
    } else {
        Ok(())
    };
    fleet.script(&["heal", cluster]).await?;
    let back = readable(control, &pod).await?;
    told?;
    let kubectl = kubectl?;
    let last = kubectl.lines.last().context("no line")?;
    assert!(last.starts_with(CUT), "{last}");
    // The API server does not pass on that the log has broken off.
    assert_eq!(kubectl.code, Some(0), "{}", kubectl.errors);
    assert!(last_of_argo?.starts_with(&format!("{pod}: {CUT}")));

    let there = fleet.cluster(cluster)?;
    let end = ["exec", &pod, "-c", "main", "--", "touch", "/tmp/end"];
    until(LIMIT, "the step to be told to end", async || {
        there.kubectl(&end).await.map(Some)
    })
    .await?;
    let (argo, argosy) = tokio::join!(argo.end(LIMIT), argosy.end(LIMIT));
    // argo waits for the end of the run, and does not begin again.
    let argo = argo?;
    assert_eq!((argo.code, argo.lines), (Some(0), vec![]), "{}", argo.errors);
    // argosy goes on by itself, after the line that it has printed last.
    let argosy = argosy?;
    assert_eq!(argosy.code, Some(0), "{}", argosy.errors);
    let numbers: Vec<usize> = argosy
        .lines
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
    Ok(back)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_log_that_is_cut_off_says_so_and_logs_are_back_when_the_link_is() -> Result<()> {
    let back = assert_cut(PULL).await?;
    ensure!(back <= BACK, "logs were back after {back:?} only");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn a_log_of_a_push_cluster_that_is_cut_off_says_so_and_is_followed_again_when_the_link_is_back()
-> Result<()> {
    // No tunnel is opened again: the controller uses its kubeconfig for each request.
    assert_cut(PUSH).await.map(drop)
}

/// Follows the log of a step that is silent for longer than any request may take, from its beginning and
/// from the middle of the silence.
async fn assert_silent(control: &Cluster, cluster: &str) -> Result<()> {
    let silent = format!("echo first; sleep {}; echo last", SILENCE.as_secs());
    let name = control
        .create_workflow(&one_step(cluster, "silent", &silent))
        .await?
        .name_any();
    let pod = until(LIMIT, "the pod to be shown", async || {
        Ok(control.shadow_pods_of(&name).await?.pop())
    });
    let pod = pod.await?;
    let mut whole = control.follow_kubectl(&["logs", "-f", &pod])?;
    whole.line_with("first", LIMIT).await?;
    let end = control.follow_kubectl(&["logs", "-f", "--tail=0", &pod])?;
    let limit = SILENCE + LIMIT;
    let (whole, end) = tokio::join!(whole.end(limit), end.end(limit));
    for followed in [whole?, end?] {
        assert_eq!(followed.code, Some(0), "{cluster}: {}", followed.errors);
        assert_eq!(of_the_step(followed.lines), ["last"], "{cluster}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn the_log_of_a_step_that_is_silent_for_minutes_is_followed_to_its_end() -> Result<()> {
    let fleet = Fleet::open().await?;
    let control = fleet.control()?;
    tokio::try_join!(assert_silent(control, PULL), assert_silent(control, PUSH))?;
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
    let (name, pod) = printing(control, PULL, "killed").await?;
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
