//! An agent with nothing to do sends hardly any requests to the ITS, and still notices a dead link.

#![allow(clippy::print_stdout, reason = "the figure is for the reader of the log")]

use std::{collections::HashSet, fs, time::Duration};

use anyhow::{Context, Result, ensure};
use argosy_tests::testenv::{Fixture, TestEnv, admission::eventually, binaries::Binary, env::LONG};
use tokio::time::sleep;

/// The time over which requests are counted.
const COUNTED: Duration = Duration::from_mins(10);

/// The number of requests to the ITS that an agent has sent.
async fn requests(agent: &Binary) -> Result<u64> {
    let mut sum = 0;
    for line in agent.metrics().await?.lines() {
        if line.starts_with("argosy_requests_total{") && line.contains("space=\"its\"") {
            sum += line.rsplit(' ').next().unwrap_or_default().parse::<u64>()?;
        }
    }
    Ok(sum)
}

#[tokio::test]
#[ignore = "counts for ten minutes"]
async fn an_agent_with_nothing_to_do_sends_at_most_nine_requests_a_minute_to_the_its() -> Result<()> {
    let env = TestEnv::own_guarded("idle", LONG).await?;
    let fixture = Fixture::on(env, "idle").await?;
    let member = fixture.pull().await?;
    fixture.round_trip("first", &member).await?;
    let agent = member.agent()?;
    let before = requests(agent).await?;
    sleep(COUNTED).await;
    let sent = requests(agent).await? - before;
    println!("{sent} requests in {} s", COUNTED.as_secs());
    ensure!(sent > 0, "an agent renews its Lease");
    ensure!(sent <= 90, "{sent} requests, where 0.15 a second are 90");
    fixture.round_trip("last", &member).await?;
    Ok(())
}

/// Sockets of established connections to `port`, separated into those with and without an active
/// keep-alive timer (proc_net_tcp: timer 2).
fn connections(pid: u32, port: u16) -> Result<(HashSet<String>, HashSet<String>)> {
    let mut sockets = HashSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let Ok(target) = fs::read_link(entry?.path()) else {
            continue;
        };
        let name = target.to_string_lossy().into_owned();
        sockets.extend(
            name.strip_prefix("socket:[")
                .and_then(|rest| rest.strip_suffix(']'))
                .map(str::to_owned),
        );
    }
    let (mut kept, mut other) = (HashSet::new(), HashSet::new());
    for line in fs::read_to_string("/proc/net/tcp")?.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (peer, state, timer, inode) = (fields[2], fields[3], fields[5], fields[9]);
        let is_to_port = peer.ends_with(&format!(":{port:04X}"));
        if is_to_port && state == "01" && sockets.contains(inode) {
            let is_kept = timer.starts_with("02:");
            if is_kept { &mut kept } else { &mut other }.insert(inode.to_owned());
        }
    }
    Ok((kept, other))
}

fn port_of(kubeconfig: &std::path::Path) -> Result<u16> {
    let text = fs::read_to_string(kubeconfig)?;
    let (_, rest) = text.split_once("https://127.0.0.1:").context("its address")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Ok(digits.parse()?)
}

#[tokio::test]
async fn the_kernel_keeps_every_connection_of_controller_and_agent_alive() -> Result<()> {
    let fixture = Fixture::new("kept").await?;
    let member = fixture.pull().await?;
    for process in [&fixture.env.controller, member.agent()?] {
        let port = port_of(fixture.env.control.kubeconfig())?;
        // While a connection waits for an answer, it has another timer for some milliseconds.
        eventually("all connections are kept alive", async || {
            let (kept, other) = connections(process.pid(), port)?;
            Ok(kept.len() >= 4 && other.is_empty())
        })
        .await?;
    }
    Ok(())
}
