//! Creates Workflows, one at a time or many at once, and waits until they have their statuses.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Client,
    api::{PostParams, Request},
};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use super::{
    environment::{Environment, Line, Mode, Station},
    fake_argo::{self, Script},
    timeline::{Mark, Place},
};

/// Requests in flight.
const IN_FLIGHT: usize = 64;

const PATIENCE: Duration = Duration::from_secs(30);

/// Tries of one creation. On an overloaded machine, a connection may time out.
const TRIES: usize = 5;

/// Creates a Workflow at `station`.
pub(super) async fn create(environment: &Environment, station: &Station, name: &str) -> Result<()> {
    let body = serde_json::to_vec(&station.workflow(name))?;
    environment.timeline.note(name, Mark::Asked, Instant::now());
    let mut last = None;
    for _ in 0..TRIES {
        let sent = send(&environment.control, &station.namespace, body.clone());
        match timeout(PATIENCE, sent).await {
            Ok(Ok(())) => return Ok(()),
            // An earlier try has succeeded after all.
            Ok(Err(kube::Error::Api(status))) if last.is_some() && status.reason == "AlreadyExists" => {
                return Ok(());
            }
            Ok(Err(error)) => last = Some(anyhow::Error::from(error)),
            Err(late) => last = Some(late.into()),
        }
    }
    Err(last.unwrap_or_else(|| anyhow::anyhow!("never tried")))
        .with_context(|| format!("cannot create {name}"))
}

async fn send(control: &Client, namespace: &str, body: Vec<u8>) -> kube::Result<()> {
    let path = format!("/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows");
    let request = Request::new(path).create(&PostParams::default(), body);
    let request = request.map_err(kube::Error::BuildRequest)?;
    control.request_text(request).await?;
    Ok(())
}

/// The names of the `count` Workflows of a measurement.
pub(super) fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number}")).collect()
}

/// Sends one Workflow, and writes each of its statuses after the previous one has arrived.
pub(super) async fn one(
    environment: &Environment,
    line: &Line,
    number: usize,
    name: &str,
    script: Script,
) -> Result<()> {
    let station = line.station(number)?;
    create(environment, station, name).await?;
    let timeline = &environment.timeline;
    timeline
        .until_one(name, "on its cluster", |trip| trip.at(Mark::Applied).is_some())
        .await?;
    // A policy may have chosen the cluster.
    let server = timeline.trip(name).server;
    let wec = server.and_then(|server| environment.wecs.get(server));
    let wec = wec.context("it was seen on a server")?;
    for status in 1..=script.statuses {
        fake_argo::write(wec, &station.namespace, name, script, status).await?;
        timeline
            .until_one(name, "shown on the control cluster", |trip| {
                trip.status_at(status, Place::Control).is_some()
            })
            .await?;
    }
    Ok(())
}

/// Waits until the finalizers of these Workflows are removed on their clusters, if they have ended.
pub(super) async fn until_let_go(
    environment: &Environment,
    line: &Line,
    names: &[String],
    script: Script,
) -> Result<()> {
    if !script.ends || line.mode == Mode::Baseline {
        return Ok(());
    }
    let timeline = &environment.timeline;
    timeline
        .until(names, "let go", patience(names.len(), script), |trip| {
            trip.at(Mark::LetGo).is_some()
        })
        .await
}

/// Plays Argo for Workflows whose names begin with `prefix`, until the returned tasks are dropped.
pub(super) fn play(environment: &Environment, prefix: &str, script: Script) -> JoinSet<()> {
    let mut player = JoinSet::new();
    let arrivals = environment.door.open();
    // With a dash, because `c-pull-1` is also a prefix of `c-pull-10`.
    player.spawn(fake_argo::play(
        environment.wecs.clone(),
        arrivals,
        format!("{prefix}-"),
        script,
    ));
    player
}

/// Sends all of `names` at once and waits until each has its last status on the control cluster.
pub(super) async fn many(
    environment: &Environment,
    line: &Line,
    prefix: &str,
    names: &[String],
    script: Script,
) -> Result<()> {
    let _player = play(environment, prefix, script);
    let patience = patience(names.len(), script);
    stream::iter(names.iter().enumerate())
        .map(async |(number, name)| create(environment, line.station(number)?, name).await)
        .buffer_unordered(IN_FLIGHT)
        .try_collect::<()>()
        .await?;
    let timeline = &environment.timeline;
    timeline
        .until(names, "on their clusters", patience, |trip| {
            trip.at(Mark::Applied).is_some()
        })
        .await?;
    timeline
        .until(names, "shown with their last status", patience, |trip| {
            trip.status_at(script.statuses, Place::Control).is_some()
        })
        .await
}

/// The longest that this many Workflows may take, so that a stall ends the wait.
fn patience(count: usize, script: Script) -> Duration {
    let writes = u32::try_from(count)
        .unwrap_or(u32::MAX)
        .saturating_mul(10 + script.statuses);
    let pauses = script.every * script.statuses;
    Duration::from_mins(2) + Duration::from_millis(15).saturating_mul(writes) + pauses
}
