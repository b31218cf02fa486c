//! The baseline: the cost of copying on this machine with one request each way, without any program in
//! between. The baseline gives none of Argosy's guarantees; it only shows which part of a time is not
//! Argosy's. It has more requests in flight than Argosy, and connections with the same options: without
//! `TCP_NODELAY`, some of its times were 40 ms.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use argosy_api::Workflow;
use futures::{StreamExt, pin_mut};
use kube::{
    Api, Client, Error, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    core::ObjectMeta,
    runtime::watcher::{self, Event, watcher},
};
use serde_json::json;
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

/// Label of the Workflows that the baseline copies. Its value is the number of the WEC server.
pub(super) const LABEL: &str = "baseline.argosy-bench/server";

/// Requests in flight for what changes on one API server.
const IN_FLIGHT: usize = 64;

/// Tries of one request. If all fail, the Workflow never arrives.
const TRIES: usize = 5;

const PATIENCE: Duration = Duration::from_secs(30);

/// Copies both ways between `control` and `wecs` until the tasks are dropped.
pub(super) fn start(tasks: &mut JoinSet<()>, control: &Client, wecs: &[Client]) {
    let all = |client: &Client| Api::<Workflow>::all(client.clone());
    let down: BTreeMap<String, Client> = (0..)
        .map(|at: usize| at.to_string())
        .zip(wecs.iter().cloned())
        .collect();
    tasks.spawn(copy(all(control), move |workflow| {
        let target = workflow
            .labels()
            .get(LABEL)
            .and_then(|server| down.get(server))
            .cloned();
        async move {
            if let (Some(target), None) = (target, &workflow.status) {
                create(&target, &workflow).await;
            }
        }
    }));
    for wec in wecs {
        let control = control.clone();
        tasks.spawn(copy(all(wec), move |workflow| {
            let control = control.clone();
            async move { report(&control, &workflow).await }
        }));
    }
}

/// Calls `one` for every change: in sequence for one Workflow, concurrently for different ones.
async fn copy<F: Future<Output = ()> + Send>(
    from: Api<Workflow>,
    one: impl Fn(Workflow) -> F + Clone + Send + 'static,
) {
    let mut modes = JoinSet::new();
    let senders: Vec<_> = (0..IN_FLIGHT)
        .map(|_| {
            let (sender, mut changes) = mpsc::unbounded_channel();
            let one = one.clone();
            modes.spawn(async move {
                while let Some(workflow) = changes.recv().await {
                    one(workflow).await;
                }
            });
            sender
        })
        .collect();
    // Round-robin, so that the modes have equal shares.
    let mut mode_of: HashMap<String, usize> = HashMap::new();
    let events = watcher(from, watcher::Config::default().labels(LABEL));
    pin_mut!(events);
    while let Some(event) = events.next().await {
        let Ok(Event::Apply(workflow)) = event else {
            continue;
        };
        let next = mode_of.len() % IN_FLIGHT;
        let mode = *mode_of.entry(workflow.name_any()).or_insert(next);
        if let Some(sender) = senders.get(mode) {
            // Fails only after the modes have ended.
            let _ = sender.send(workflow);
        }
    }
}

async fn create(target: &Client, workflow: &Workflow) {
    let namespace = workflow.namespace().unwrap_or_default();
    let api: Api<Workflow> = Api::namespaced(target.clone(), &namespace);
    let mut copy = workflow.clone();
    copy.metadata = ObjectMeta {
        name: Some(workflow.name_any()),
        labels: workflow.metadata.labels.clone(),
        ..ObjectMeta::default()
    };
    for _ in 0..TRIES {
        let created = timeout(PATIENCE, api.create(&PostParams::default(), &copy)).await;
        // If the name is taken, an earlier change was already copied.
        if matches!(created, Ok(Ok(_) | Err(Error::Api(_)))) {
            return;
        }
    }
}

async fn report(control: &Client, workflow: &Workflow) {
    let Some(status) = &workflow.status else { return };
    let namespace = workflow.namespace().unwrap_or_default();
    let api: Api<Workflow> = Api::namespaced(control.clone(), &namespace);
    let patch = Patch::Merge(json!({ "status": status }));
    let (name, params) = (workflow.name_any(), PatchParams::default());
    for _ in 0..TRIES {
        if matches!(
            timeout(PATIENCE, api.patch(&name, &params, &patch)).await,
            Ok(Ok(_))
        ) {
            return;
        }
    }
}

/// Assigns a Workflow to the baseline only.
pub(super) fn claim(workflow: &mut Workflow, server: usize) {
    workflow.metadata.labels = Some([(LABEL.to_owned(), server.to_string())].into());
}
