//! Sessions in the containers of a step that runs on another cluster: exec, cp,
//! port-forward and attach.

use std::{env, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use argosy_tests::fleet::{Cluster, Fleet, LIMIT, PULL, PUSH, one_step, until};
use kube::ResourceExt as _;
use tokio::{
    io::{AsyncReadExt as _, BufReader},
    net::TcpStream,
    time::timeout,
};

/// Bytes that a command prints in the container.
const BYTES: usize = 100_000_000;

/// Bytes that are copied out of the container, and back.
const COPIED: usize = 10_000_000;

/// The step answers on port 8080, and ends when there is a file `end`.
const SERVING: &str = "(while true; do echo hello from the step | nc -lp 8080; done) & \
    while [ ! -e /tmp/end ]; do sleep 0.2; echo on; done";

fn sum(path: &Path) -> Result<String> {
    let output = Command::new("md5sum").arg(path).output()?;
    ensure!(output.status.success(), "md5sum failed");
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split_whitespace().next().context("no sum")?.to_owned())
}

async fn assert_sessions(control: &Cluster, cluster: &str) -> Result<()> {
    let name = control
        .create_workflow(&one_step(cluster, "sessions", SERVING))
        .await?
        .name_any();
    let pod = until(LIMIT, "the pod to be shown", async || {
        Ok(control.shadow_pods_of(&name).await?.pop())
    })
    .await?;
    let exec = async |command: &str| {
        control
            .kubectl(&["exec", &pod, "-c", "main", "--", "sh", "-c", command])
            .await
    };
    assert_eq!(exec("echo out; echo err >&2").await?.trim(), "out");
    let failed = exec("exit 7").await.err().context("it has failed")?;
    assert!(format!("{failed:#}").contains("exit code 7"), "{failed:#}");

    let there = exec(&format!(
        "head -c {BYTES} /dev/urandom > /tmp/all; head -c {COPIED} /tmp/all > /tmp/many; md5sum /tmp/all /tmp/many"
    ))
    .await?;
    let sums: Vec<&str> = there
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let many = env::temp_dir().join(format!("{pod}-many"));
    // The last bytes of a command that ends may be lost (kubernetes/kubernetes#60140), so it ends when they have come.
    let command = "cat /tmp/all; until [ -e /tmp/read ]; do sleep 0.2; done";
    let mut reading = control.follow_kubectl(&["exec", &pod, "-c", "main", "--", "sh", "-c", command])?;
    fs::write(&many, reading.bytes(BYTES, LIMIT).await?)?;
    exec("touch /tmp/read").await?;
    let ended = reading.end(LIMIT).await?;
    ensure!(
        ended.code == Some(0) && ended.lines.is_empty(),
        "{cluster}: {ended:?}"
    );
    assert_eq!(Some(&*sum(&many)?), sums.first().copied(), "{cluster}");
    let (from, to) = (format!("{pod}:/tmp/many"), many.display().to_string());
    // On a busy machine Kubernetes itself may cut the last bytes off (kubernetes/kubernetes#60140); kubectl
    // then continues.
    control
        .kubectl(&["cp", "--retries", "20", "-c", "main", &from, &to])
        .await?;
    assert_eq!(Some(&*sum(&many)?), sums.get(1).copied(), "{cluster}");
    let back = format!("{pod}:/tmp/back");
    control.kubectl(&["cp", "-c", "main", &to, &back]).await?;
    fs::remove_file(&many)?;
    assert_eq!(
        exec("cmp /tmp/many /tmp/back && echo same").await?.trim(),
        "same",
        "{cluster}"
    );

    let mut forwarding = control.follow_kubectl(&["port-forward", &pod, ":8080"])?;
    let line = forwarding.line(LIMIT).await?.context("nothing is forwarded")?;
    let address = line.split_whitespace().nth(2).context("no address")?;
    let mut connection = BufReader::new(TcpStream::connect(address).await?);
    let mut text = String::new();
    timeout(LIMIT, connection.read_to_string(&mut text)).await??;
    assert_eq!(text.trim(), "hello from the step", "{cluster}");
    let mut attached = control.follow_kubectl(&["attach", &pod, "-c", "main"])?;
    assert_eq!(attached.line(LIMIT).await?.as_deref(), Some("on"), "{cluster}");
    exec("touch /tmp/end").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a fleet: scripts/install-all.sh, then source .fleet/env"]
async fn in_a_step_on_another_cluster_one_can_run_commands_copy_files_and_forward_ports() -> Result<()> {
    let fleet = Fleet::open().await?;
    let control = fleet.control()?;
    tokio::try_join!(assert_sessions(control, PULL), assert_sessions(control, PUSH))?;
    Ok(())
}
