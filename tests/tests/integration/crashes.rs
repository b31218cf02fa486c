//! Controller and agent are killed again and again while many Workflows run. Each starts once, and
//! the final status of each is shown.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use argosy_api::{Workflow, names};
use argosy_tests::testenv::{
    Fixture, Member, TestEnv, fake_argo,
    fixture::work_name,
    objects::{self, create, phase},
    waiting::until,
};
use futures::{StreamExt, pin_mut};
use kube::{
    ResourceExt,
    api::DeleteParams,
    runtime::watcher::{self, Event, watcher},
};
use tokio::task::JoinSet;

const WORKFLOWS: usize = 30;

/// UIDs of the objects that were seen, by name.
pub(super) type Births = Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>;

/// Plays Argo for every Workflow of the fixture on the cluster: starts it, ends it, and deletes every
/// second one, as a TTL does.
pub(super) async fn play(member: Arc<Member>, births: Births) -> Result<()> {
    let events = watcher(member.workflows(), watcher::Config::default());
    pin_mut!(events);
    while let Some(event) = events.next().await {
        let (Event::Apply(object) | Event::InitApply(object)) = event? else {
            continue;
        };
        let name = object.name_any();
        let uid = object.uid().unwrap_or_default();
        births
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(name.clone())
            .or_default()
            .insert(uid);
        play_one(&member, &object)
            .await
            .with_context(|| format!("playing {name}"))?;
    }
    Ok(())
}

async fn play_one(member: &Member, object: &Workflow) -> Result<()> {
    let name = object.name_any();
    // The event may be older than the last write for an earlier event.
    let Some(now) = member.workflows().get_opt(&name).await? else {
        return Ok(());
    };
    match phase(&now) {
        "" => member.argo().start(&name).await.map(|_| ()),
        "Running" => member.argo().finish(&name, outcome_of(&name)).await.map(|_| ()),
        _ if is_deleted_after(&name) && now.metadata.deletion_timestamp.is_none() => {
            member.workflows().delete(&name, &DeleteParams::default()).await?;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn number_of(name: &str) -> usize {
    name.rsplit('-')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

fn is_deleted_after(name: &str) -> bool {
    number_of(name) % 2 == 1
}

pub(super) fn outcome_of(name: &str) -> &'static str {
    if number_of(name).is_multiple_of(5) {
        "Failed"
    } else {
        "Succeeded"
    }
}

/// Pseudo-random numbers; the same seed gives the same ones.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

fn seed() -> Result<u64> {
    match env::var("ARGOSY_SEED") {
        Ok(text) => text.parse().context("ARGOSY_SEED"),
        Err(_) => Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() | 1),
    }
}

/// Kills the controller or the agent at random moments, often during a start.
async fn kill_at_random(
    fixture: Fixture,
    member: Arc<Member>,
    seed: u64,
    kills: Arc<AtomicUsize>,
) -> Result<()> {
    let mut dice = Dice(seed);
    loop {
        tokio::time::sleep(Duration::from_millis(dice.roll(400))).await;
        let victim = if dice.roll(2) == 0 {
            &fixture.env.controller
        } else {
            member.agent()?
        };
        victim.kill()?;
        kills.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(dice.roll(100))).await;
        victim.start_again().await?;
    }
}

#[tokio::test]
async fn every_workflow_starts_once_and_ends_as_it_ended_whatever_is_killed() -> Result<()> {
    let seed = seed()?;
    let fixture = Fixture::on(TestEnv::own("crashes").await?, "crashes").await?;
    let (pull, push) = (Arc::new(fixture.pull().await?), Arc::new(fixture.push().await?));
    let births = Births::default();
    let mut tasks = JoinSet::new();
    tasks.spawn(play(pull.clone(), births.clone()));
    tasks.spawn(play(push.clone(), births.clone()));
    let mut killer = JoinSet::new();
    let kills = Arc::new(AtomicUsize::new(0));
    killer.spawn(kill_at_random(fixture.clone(), pull.clone(), seed, kills.clone()));

    let submitted = async {
        for number in 0..WORKFLOWS {
            let member = if number % 3 == 0 { &push } else { &pull };
            let name = format!("run-{number}");
            create(&fixture.workflows(), &objects::workflow(&name, &member.cluster)).await?;
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
        anyhow::Ok(())
    };
    submitted.await?;
    for number in 0..WORKFLOWS {
        let name = format!("run-{number}");
        until(&fixture.workflows(), &name, "its end is shown", |workflow| {
            phase(workflow) == outcome_of(&name)
        })
        .await
        .with_context(|| format!("ARGOSY_SEED={seed}"))?;
    }
    if let Some(ended) = killer.try_join_next() {
        ended??;
    }
    assert_ne!(kills.load(Ordering::Relaxed), 0, "nothing was killed");
    killer.abort_all();
    fixture.env.controller.restart().await?;
    pull.agent()?.restart().await?;
    if let Some(ended) = tasks.try_join_next() {
        ended??;
    }
    for number in 0..WORKFLOWS {
        settled(
            &fixture,
            if number % 3 == 0 { &push } else { &pull },
            &format!("run-{number}"),
        )
        .await?;
    }
    let births = births.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, uids) in births.iter() {
        assert_eq!(
            uids.len(),
            1,
            "{name} was created {} times, ARGOSY_SEED={seed}",
            uids.len()
        );
    }
    assert_eq!(births.len(), WORKFLOWS);
    Ok(())
}

/// Checks the final state of a run: a complete status, a record, and an object that is released or
/// gone.
pub(super) async fn settled(fixture: &Fixture, member: &Member, name: &str) -> Result<()> {
    let workflow = fixture.workflows().get(name).await?;
    let mut status = workflow.status.clone().unwrap_or_default();
    let mut wanted = fake_argo::ended(name, outcome_of(name));
    for status in [&mut status, &mut wanted] {
        if let Some(fields) = status.as_object_mut() {
            fields.remove("conditions");
        }
    }
    assert_eq!(status, wanted, "{name}");
    let record = until(
        &member.records(),
        &work_name(&workflow),
        "its end is recorded",
        |_| true,
    )
    .await?;
    assert_eq!(
        record.annotations()[names::OUTCOME_ANNOTATION],
        "Finished",
        "{name}"
    );
    if is_deleted_after(name) {
        argosy_tests::testenv::waiting::until_gone(&member.workflows(), name, "the object is gone").await
    } else {
        until(&member.workflows(), name, "the object is let go", |object| {
            object.finalizers().is_empty()
        })
        .await?;
        Ok(())
    }
}
