//! A watch of the Workflows of one namespace that records the time of each state.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use argosy_api::Workflow;
use futures::{StreamExt, pin_mut};
use kube::{
    Api, ResourceExt,
    runtime::watcher::{self, Event, watcher},
};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, timeout},
};

/// The longest that one step may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// The sightings with their times.
pub(super) struct WorkflowWatch {
    sightings: mpsc::UnboundedReceiver<(Instant, Sighting)>,
    _watch: JoinSet<()>,
}

enum Sighting {
    Ready,
    There(Box<Workflow>),
    Gone(String),
}

impl WorkflowWatch {
    /// Starts the watch and waits until it has begun.
    pub(super) async fn build(api: Api<Workflow>) -> Result<Self> {
        let (sender, sightings) = mpsc::unbounded_channel();
        let mut watch = JoinSet::new();
        watch.spawn(look_out(api, sender));
        let mut workflow_watch = Self {
            sightings,
            _watch: watch,
        };
        workflow_watch
            .next(|sighting| matches!(sighting, Sighting::Ready))
            .await
            .context("the watch begins")?;
        Ok(workflow_watch)
    }

    /// The time at which `test` first held for the Workflow `name`, counted from the last call.
    pub(super) async fn saw(
        &mut self,
        name: &str,
        what: &str,
        test: impl Fn(&Workflow) -> bool,
    ) -> Result<Instant> {
        let is_it = |sighting: &Sighting| match sighting {
            Sighting::There(workflow) => workflow.name_any() == name && test(workflow),
            Sighting::Gone(_) | Sighting::Ready => false,
        };
        self.next(is_it).await.with_context(|| format!("{name}: {what}"))
    }

    /// The time at which the Workflow `name` was gone.
    pub(super) async fn saw_gone(&mut self, name: &str) -> Result<Instant> {
        let is_it = |sighting: &Sighting| matches!(sighting, Sighting::Gone(gone) if gone == name);
        self.next(is_it).await.with_context(|| format!("{name} is gone"))
    }

    async fn next(&mut self, test: impl Fn(&Sighting) -> bool) -> Result<Instant> {
        let search = async {
            while let Some((at, sighting)) = self.sightings.recv().await {
                if test(&sighting) {
                    return Ok(at);
                }
            }
            bail!("the watch has ended")
        };
        timeout(PATIENCE, search)
            .await
            .with_context(|| format!("not within {} s", PATIENCE.as_secs()))?
    }
}

async fn look_out(api: Api<Workflow>, sender: mpsc::UnboundedSender<(Instant, Sighting)>) {
    let events = watcher(api, watcher::Config::default());
    pin_mut!(events);
    while let Some(event) = events.next().await {
        let at = Instant::now();
        let sighting = match event {
            Ok(Event::InitDone) => Sighting::Ready,
            Ok(Event::Apply(workflow) | Event::InitApply(workflow)) => Sighting::There(Box::new(workflow)),
            Ok(Event::Delete(workflow)) => Sighting::Gone(workflow.name_any()),
            // The next try lists again.
            Ok(Event::Init) | Err(_) => continue,
        };
        if sender.send((at, sighting)).is_err() {
            return;
        }
    }
}
