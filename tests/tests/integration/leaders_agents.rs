//! Two agents of one cluster. Only one of them works, and the other one continues when the first
//! one stops. No Workflow is created twice.

#![expect(clippy::print_stderr, reason = "how long a hand-over takes is worth a look")]

use std::sync::Arc;

use anyhow::{Result, ensure};
use argosy_api::names;
use argosy_tests::testenv::{
    Fixture, Member, TestEnv,
    binaries::{AgentSettings, Binary},
    objects::{self, create, phase},
    waiting::until,
};
use kube::ResourceExt;
use tokio::{task::JoinSet, time::Instant};

use super::{
    crashes::{Births, outcome_of, play, settled},
    leaders::{held_by, note, replica, were_born_once},
};

const WORKFLOWS: usize = 40;

/// A fixture with a cluster that has two agents, `one` and `two`.
async fn two_agents(name: &str) -> Result<(Fixture, Arc<Member>, Binary)> {
    let env = TestEnv::own_replicated(name, replica("one", 9)).await?;
    let fixture = Fixture::on(env, name).await?;
    let member = fixture.pull().await?;
    held_by(&member.wec, &names::agent_lease(&member.cluster), "one").await?;
    let settings = AgentSettings {
        lease_seconds: 30,
        artifact_namespace: fixture.namespace.clone(),
    };
    let its = fixture.env.control.kubeconfig();
    let two = Binary::agent(
        &member.cluster,
        its,
        &member.kubeconfig,
        &settings,
        &replica("two", 9),
    )
    .await?;
    ensure!(member.agent()?.leads().await? && !two.leads().await?);
    Ok((fixture, Arc::new(member), two))
}

#[tokio::test]
async fn when_the_leading_agent_is_killed_under_load_each_run_is_created_once() -> Result<()> {
    let (fixture, member, two) = two_agents("leaders-agents").await?;
    let (objects, reports) = (Births::default(), Births::default());
    let mut tasks = JoinSet::new();
    tasks.spawn(play(member.clone(), objects.clone()));
    tasks.spawn(note(member.works(), reports.clone()));
    let mut killed = Instant::now();
    for number in 0..WORKFLOWS {
        create(
            &fixture.workflows(),
            &objects::workflow(&format!("run-{number}"), &member.cluster),
        )
        .await?;
        if number == WORKFLOWS / 2 {
            member.agent()?.kill()?;
            killed = Instant::now();
        }
    }
    held_by(&member.wec, &names::agent_lease(&member.cluster), "two").await?;
    let taken = killed.elapsed();
    for number in 0..WORKFLOWS {
        let name = format!("run-{number}");
        until(&fixture.workflows(), &name, "its end is shown", |workflow| {
            phase(workflow) == outcome_of(&name)
        })
        .await?;
        settled(&fixture, &member, &name).await?;
    }
    // And back: the next leader does not create ended runs again.
    member.agent()?.start_again().await?;
    ensure!(two.terminate()?.success());
    held_by(&member.wec, &names::agent_lease(&member.cluster), "one").await?;
    fixture.submit("run-1001", &member).await?;
    until(&fixture.workflows(), "run-1001", "its end is shown", |workflow| {
        phase(workflow) == outcome_of("run-1001")
    })
    .await?;
    if let Some(ended) = tasks.try_join_next() {
        ended??;
    }
    were_born_once(&objects, WORKFLOWS + 1);
    were_born_once(&reports, WORKFLOWS + 1);
    eprintln!("killed with a lease of 9 s: the other agent led after {taken:?}");
    Ok(())
}

#[tokio::test]
async fn an_agent_that_was_stopped_past_its_lease_creates_nothing_when_it_goes_on() -> Result<()> {
    let (fixture, member, two) = two_agents("leaders-agents-stopped").await?;
    fixture.round_trip("before", &member).await?;
    let (one, lease) = (member.agent()?, names::agent_lease(&member.cluster));
    one.freeze()?;
    held_by(&member.wec, &lease, "two").await?;
    fixture.round_trip("meanwhile", &member).await?;
    ensure!(two.terminate()?.success());
    held_by(&member.wec, &lease, "").await?;
    let workflow = fixture.submit("waiting", &member).await?;
    let work = names::work_name(&workflow.uid().unwrap_or_default());
    let sent = until(&member.works(), &work, "it is in the mailbox", |_| true).await?;
    one.thaw()?;
    let ended = one.ended().await?;
    ensure!(!ended.success(), "it ended with {ended}");
    assert!(member.workflows().get_opt("waiting").await?.is_none());
    let now = member.works().get(&work).await?;
    assert_eq!(now.resource_version(), sent.resource_version());
    one.start_again().await?;
    until(&member.workflows(), "waiting", "it is created", |_| true).await?;
    Ok(())
}
