//! Two controllers of one control cluster. Only one of them writes. The other one continues when
//! the first one stops, however that happens.

#![expect(clippy::print_stderr, reason = "how long a hand-over takes is worth a look")]

use std::{
    sync::{Arc, mpsc::RecvTimeoutError},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use argosy::runtime::{
    admin::Readiness,
    args::LeaderElectArgs,
    leader::{Election, Leadership, LeaseSettings, start_election},
    metrics::Metrics,
};
use argosy_api::names;
use argosy_tests::testenv::{
    Fixture, TestEnv,
    binaries::{Binary, IDENTITY},
    env::CONTROLLER_USER,
    objects::{self, create, phase},
    waiting::until,
};
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::watcher::{self, Event, watcher},
};
use serde::de::DeserializeOwned;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::crashes::{Births, outcome_of, play, settled};

const WORKFLOWS: usize = 60;

/// Environment variables of the replica `identity`, with a Lease of `lease` seconds.
pub(super) fn replica(identity: &str, lease: u64) -> Vec<(&'static str, String)> {
    vec![
        (IDENTITY, identity.to_owned()),
        ("ARGOSY_LEADER_ELECT_LEASE_DURATION", lease.to_string()),
        ("ARGOSY_LEADER_ELECT_RENEW_DEADLINE", (lease * 2 / 3).to_string()),
        ("ARGOSY_LEADER_ELECT_RETRY_PERIOD", "1".to_owned()),
    ]
}

/// Waits until the Lease is held by `identity`.
pub(super) async fn held_by(client: &Client, lease: &str, identity: &str) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), objects::CONTROLLER_NAMESPACE);
    let holder = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
    let is_it = |lease: &Lease| holder(lease).as_deref() == Some(identity);
    until(&leases, lease, "it has another holder", is_it).await?;
    Ok(())
}

/// Records the UIDs of the objects of `api` by name, without end.
pub(super) async fn note<K>(api: Api<K>, births: Births) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let events = watcher(api, watcher::Config::default());
    pin_mut!(events);
    while let Some(event) = events.next().await {
        if let Event::Apply(object) | Event::InitApply(object) = event? {
            let mut births = births.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let uids = births.entry(object.name_any()).or_default();
            uids.insert(object.uid().unwrap_or_default());
        }
    }
    Ok(())
}

/// Each of `count` objects was created exactly once.
#[track_caller]
pub(super) fn were_born_once(births: &Births, count: usize) {
    let births = births.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (name, uids) in births.iter() {
        assert_eq!(uids.len(), 1, "{name} was created {} times", uids.len());
    }
    assert_eq!(births.len(), count);
}

/// An environment whose controller is `one`, and a second controller, `two`.
async fn two_controllers(name: &str, lease: u64) -> Result<(Arc<TestEnv>, Binary)> {
    let env = TestEnv::own_replicated(name, replica("one", lease)).await?;
    held_by(
        &env.control.client().await?,
        &names::controller_lease(name),
        "one",
    )
    .await?;
    let kubeconfig = env.control.kubeconfig_as(CONTROLLER_USER)?;
    let two = Binary::controller_with(&kubeconfig, name, None, &replica("two", lease)).await?;
    Ok((env, two))
}

#[tokio::test]
async fn when_the_leader_is_killed_under_load_nothing_is_lost_and_nothing_is_doubled() -> Result<()> {
    let (env, two) = two_controllers("leaders-killed", 9).await?;
    let one = &env.controller;
    ensure!(one.leads().await? && !two.leads().await?);
    let (_, text) = two.ask("/readyz?verbose").await?;
    assert!(text.contains("[+]follows ok"), "{text}");

    let fixture = Fixture::on(env.clone(), "leaders-killed").await?;
    let member = Arc::new(fixture.pull().await?);
    let (objects, works) = (Births::default(), Births::default());
    let mut tasks = JoinSet::new();
    tasks.spawn(play(member.clone(), objects.clone()));
    tasks.spawn(note(member.works(), works.clone()));
    let mut killed = None;
    for number in 0..WORKFLOWS {
        create(
            &fixture.workflows(),
            &objects::workflow(&format!("run-{number}"), &member.cluster),
        )
        .await?;
        if number == WORKFLOWS / 2 {
            one.kill()?;
            killed = Some(Instant::now());
        }
    }
    let client = env.control.client().await?;
    held_by(&client, &names::controller_lease("leaders-killed"), "two").await?;
    let taken = killed.context("it was killed")?.elapsed();
    ensure!(two.leads().await?);
    let mut first = None;
    for number in 0..WORKFLOWS {
        let name = format!("run-{number}");
        until(&fixture.workflows(), &name, "its end is shown", |workflow| {
            phase(workflow) == outcome_of(&name)
        })
        .await?;
        settled(&fixture, &member, &name).await?;
        first.get_or_insert_with(|| killed.map(|killed| killed.elapsed()));
    }
    if let Some(ended) = tasks.try_join_next() {
        ended??;
    }
    were_born_once(&objects, WORKFLOWS);
    were_born_once(&works, WORKFLOWS);
    eprintln!("killed with a lease of 9 s: the other one led after {taken:?}");
    Ok(())
}

#[tokio::test]
async fn a_leader_that_is_asked_to_end_gives_the_lease_back() -> Result<()> {
    let (env, two) = two_controllers("leaders-ended", 15).await?;
    let fixture = Fixture::on(env.clone(), "leaders-ended").await?;
    let member = fixture.pull().await?;
    fixture.round_trip("before", &member).await?;
    for number in 0..20 {
        fixture.submit(&format!("load-{number}"), &member).await?;
    }
    let asked = Instant::now();
    let ended = env.controller.terminate()?;
    ensure!(ended.success(), "it ended with {ended}");
    let gone = asked.elapsed();
    let client = env.control.client().await?;
    held_by(&client, &names::controller_lease("leaders-ended"), "two").await?;
    let taken = asked.elapsed();
    fixture.round_trip("after", &member).await?;
    let sent = asked.elapsed();
    ensure!(two.leads().await?);
    for number in 0..20 {
        let name = format!("load-{number}");
        until(&member.workflows(), &name, "it is on the cluster", |_| true).await?;
    }
    eprintln!(
        "asked to end: gone after {gone:?}, another led after {taken:?}, a new Workflow was there and back after {sent:?}"
    );
    ensure!(taken < gone + Duration::from_secs(2), "{taken:?}, {gone:?}");
    Ok(())
}

#[tokio::test]
async fn a_leader_that_was_stopped_past_its_lease_writes_nothing_when_it_goes_on() -> Result<()> {
    let (env, two) = two_controllers("leaders-stopped", 9).await?;
    let fixture = Fixture::on(env.clone(), "leaders-stopped").await?;
    let member = fixture.pull().await?;
    fixture.round_trip("before", &member).await?;
    let one = &env.controller;
    one.freeze()?;
    let client = env.control.client().await?;
    let lease = names::controller_lease("leaders-stopped");
    held_by(&client, &lease, "two").await?;
    fixture.round_trip("meanwhile", &member).await?;
    // When it continues, no other process writes, and there is something to write that it receives
    // at once.
    ensure!(two.terminate()?.success());
    held_by(&client, &lease, "").await?;
    let waiting = fixture.submit("waiting", &member).await?;
    one.thaw()?;
    let ended = one.ended().await?;
    ensure!(!ended.success(), "it ended with {ended}");
    ensure!(one.log()?.contains("no longer leads"), "{}", one.log()?);
    let now = fixture.workflows().get("waiting").await?;
    assert_eq!(now.resource_version(), waiting.resource_version());
    one.start_again().await?;
    until(&member.workflows(), "waiting", "it is sent", |_| true).await?;
    Ok(())
}

/// Waits until the metrics of `one` say that it leads, or does not.
async fn until_leads(one: &Binary, leads: bool) -> Result<()> {
    let asking = async {
        while one.leads().await? != leads {
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    };
    let asked = timeout(Duration::from_mins(1), asking).await;
    asked.with_context(|| format!("argosy_leader is not {}", u8::from(leads)))?
}

#[tokio::test]
async fn a_leader_whose_api_server_stalls_past_the_deadline_goes_on_without_a_new_start() -> Result<()> {
    let name = "leaders-stalled";
    let env = TestEnv::own_replicated(name, replica("one", 9)).await?;
    let client = env.control.client().await?;
    held_by(&client, &names::controller_lease(name), "one").await?;
    let fixture = Fixture::on(env.clone(), name).await?;
    let member = fixture.pull().await?;
    fixture.round_trip("before", &member).await?;
    let one = &env.controller;
    env.control.freeze()?;
    until_leads(one, false).await?;
    env.control.thaw()?;
    until_leads(one, true).await?;
    fixture.round_trip("after", &member).await?;
    let log = one.log()?;
    ensure!(log.contains("writes nothing until it has renewed it"), "{log}");
    ensure!(!log.contains("no longer leads"), "{log}");
    Ok(())
}

/// Waits until the Lease was renewed twice.
async fn renewed_twice(client: Client, lease: &str) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(client, objects::CONTROLLER_NAMESPACE);
    let renewal = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
    let mut known = renewal(&until(&leases, lease, "it exists", |_| true).await?);
    for _ in 0..2 {
        let is_later = |lease: &Lease| renewal(lease) > known;
        known = renewal(&until(&leases, lease, "it was renewed", is_later).await?);
    }
    Ok(())
}

/// The time that a loop may take in the tests below.
const LONGEST_TURN: Duration = Duration::from_secs(3);

/// The election for the Lease `lease`, in which `one` is the only candidate.
fn only_candidate(client: &Client, lease: &str, metrics: &Metrics) -> Result<(Election, Leadership)> {
    let args = LeaderElectArgs {
        leader_elect: true,
        leader_elect_lease_duration: Duration::from_secs(9),
        leader_elect_renew_deadline: Duration::from_secs(6),
        leader_elect_retry_period: Duration::from_secs(1),
        leader_elect_identity: Some("one".to_owned()),
    };
    let post = LeaseSettings {
        namespace: objects::CONTROLLER_NAMESPACE.to_owned(),
        lease: lease.to_owned(),
        manager: "argosy-test",
        parts: &[],
        longest_turn: LONGEST_TURN,
    };
    start_election(&args, post, client, metrics, &Readiness::default())
}

/// The controller has this number of threads on one processor, beside that of its loops.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_leader_whose_loop_does_not_pause_for_some_seconds_renews_its_lease() -> Result<()> {
    let client = TestEnv::shared().await?.control.client().await?;
    let (election, leadership) = only_candidate(&client, "busy", &Metrics::default())?;
    let (tell, told) = std::sync::mpsc::channel();
    let mut outcome = Err(RecvTimeoutError::Disconnected);
    let work = async {
        leadership.begins().await;
        tokio::spawn(async move { tell.send(renewed_twice(client, "busy").await) });
        // Like a loop that learns a long list: it does not give its thread back.
        outcome = told.recv_timeout(Duration::from_mins(1));
    };
    election.hold(work).await;
    outcome.context("the Lease was not renewed")?
}

#[tokio::test]
async fn a_leader_one_of_whose_loops_hangs_gives_up_its_leadership() -> Result<()> {
    let client = TestEnv::shared().await?.control.client().await?;
    let metrics = Metrics::default();
    let (election, leadership) = only_candidate(&client, "hung", &metrics)?;
    let mut begun = None;
    let work = async {
        leadership.begins().await;
        let hanging = metrics.reactions("workflows");
        begun = Some(hanging.busy());
        std::future::pending::<()>().await;
    };
    timeout(Duration::from_mins(1), election.hold(work))
        .await
        .context("it still leads")?;
    ensure!(begun.context("it led")?.elapsed() >= LONGEST_TURN);
    ensure!(metrics.text().contains("argosy_leader 0"), "{}", metrics.text());
    Ok(())
}
