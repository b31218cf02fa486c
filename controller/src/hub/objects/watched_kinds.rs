//! Starts and stops the watches of the WDS: one for each kind that a policy can select.
//!
//! Discovery runs at the start, when a CustomResourceDefinition changes, and periodically, because
//! kinds of aggregated API servers are announced nowhere else.

use std::{collections::HashMap, sync::Arc, time::Duration};

use argosy_api::{WorkStatus, names};
use argosy_core::{
    Failure, Intake,
    hub::objects::{
        DownsyncInput, ObservedObject, ObservedReport, WantedKind, WantedKinds,
        kind::{Kind, KindName},
    },
};
use futures::{StreamExt, pin_mut};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::ListParams,
    core::{ApiResource, DynamicObject, PartialObjectMeta},
    runtime::{WatchStreamExt, watcher::watcher},
};
use tokio::{
    sync::{Notify, mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};

use crate::runtime::{
    discovery,
    lenient::Lenient,
    requests::call,
    watch::{Projected, follow_kind, follow_projected, reconnect_policy, refusal, selecting, streaming},
};

/// Interval of discovery without a known change.
const EVERY: Duration = Duration::from_mins(5);

/// Delay after a change: definitions come in groups, and a kind is served shortly after its
/// definition is written.
const SETTLE: Duration = Duration::from_millis(300);

/// Interval between attempts to list a kind without the right to do so: the role may be changed.
const REFUSED: Duration = Duration::from_mins(1);

/// Interval of discovery while the WDS does not respond, or may soon serve a new kind.
const AGAIN: Duration = Duration::from_secs(2);

/// Keeps one watch for each wanted kind. Returns when one of them ends by itself, or the receiver
/// of `inputs` is dropped.
pub(super) async fn run(
    wds: Client,
    its: Client,
    inputs: mpsc::Sender<DownsyncInput>,
    mut wanted: watch::Receiver<Arc<WantedKinds>>,
) {
    let mut watches = Watches {
        wds: wds.clone(),
        its,
        inputs: inputs.clone(),
        tasks: JoinSet::new(),
        running: HashMap::new(),
        run_reports: JoinSet::new(),
    };
    let changed = Arc::new(Notify::new());
    let definitions = follow_definitions(wds.clone(), Arc::clone(&changed));
    let discovering = discover(wds, inputs, changed);
    pin_mut!(definitions, discovering);
    loop {
        tokio::select! {
            () = &mut definitions => return,
            () = &mut discovering => return,
            Some(ended) = watches.tasks.join_next() => match ended {
                Err(error) if error.is_cancelled() => {}
                Err(error) => std::panic::resume_unwind(error.into_panic()),
                Ok(()) => return,
            },
            Some(ended) = watches.run_reports.join_next() => match ended {
                Err(error) => std::panic::resume_unwind(error.into_panic()),
                Ok(()) => return,
            },
            change = wanted.changed() => {
                if change.is_err() {
                    return;
                }
                let newest = Arc::clone(&wanted.borrow_and_update());
                if watches.follow_only(&newest).await.is_err() {
                    return;
                }
            }
        }
    }
}

struct Watches {
    wds: Client,
    its: Client,
    inputs: mpsc::Sender<DownsyncInput>,
    tasks: JoinSet<()>,
    running: HashMap<KindName, (WantedKind, AbortHandle)>,
    /// The watch of the reports of Workflows, if it is wanted.
    run_reports: JoinSet<()>,
}

impl Watches {
    /// Starts wanted watches and stops unwanted ones. Fails if the receiver of the inputs was
    /// dropped.
    async fn follow_only(&mut self, wanted: &WantedKinds) -> Result<(), ()> {
        self.follow_run_reports(wanted.run_reports).await?;
        let stale: Vec<KindName> = self
            .running
            .iter()
            .filter(|(name, (known, _))| wanted.get(name) != Some(known))
            .map(|(name, _)| name.clone())
            .collect();
        for name in stale {
            if let Some((_, task)) = self.running.remove(&name) {
                task.abort();
            }
            if wanted.get(&name).is_none() {
                tracing::info!(kind = %name, "no longer watched");
                let told = self.inputs.send(DownsyncInput::Unwatched(name)).await;
                told.map_err(|_| ())?;
            }
        }
        for (name, wanted) in wanted.iter() {
            if !self.running.contains_key(name) {
                tracing::info!(kind = %name, label = wanted.label, "watching");
                let task = self.begin(name, wanted);
                self.running.insert(name.clone(), (wanted.clone(), task));
            }
        }
        Ok(())
    }

    async fn follow_run_reports(&mut self, are_wanted: bool) -> Result<(), ()> {
        match (are_wanted, self.run_reports.is_empty()) {
            (false, false) => {
                // The watch must end first, so that no report arrives after the others are
                // forgotten.
                self.run_reports.shutdown().await;
                let told = self.inputs.send(DownsyncInput::RunReportsUnwatched).await;
                told.map_err(|_| ())
            }
            (true, true) => {
                let reports: Api<Projected<WorkStatus, ObservedReport>> = Api::all(self.its.clone());
                let config = streaming(names::ORIGIN_UID_LABEL);
                let (inputs, intake) = (self.inputs.clone(), Intake::default());
                let see = move |seen: Projected<WorkStatus, ObservedReport>| seen.into_view().by(&intake);
                let following = follow_projected(reports, config, inputs, see, DownsyncInput::RunReport);
                self.run_reports.spawn(following);
                Ok(())
            }
            (true, false) | (false, true) => Ok(()),
        }
    }

    fn begin(&mut self, name: &KindName, wanted: &WantedKind) -> AbortHandle {
        let kind = Arc::clone(&wanted.kind);
        let (inputs, title) = (self.inputs.clone(), name.to_string());
        let (wds, resource) = (self.wds.clone(), discovery::resource(&kind));
        let name = name.clone();
        if is_counted_only(&kind) {
            let config = streaming(&wanted.label);
            let api: Api<Lenient<PartialObjectMeta<DynamicObject>>> =
                Api::all_with(self.wds.clone(), &resource);
            return self.tasks.spawn(async move {
                until_readable(&wds, &resource, &name, &inputs).await;
                let refused = |error: &_| Some(DownsyncInput::Unreadable(name.clone(), refusal(error)?));
                let see = |object: Lenient<_>| ObservedObject::from(outline(object.into_object(), &kind));
                let input = |change| DownsyncInput::Object(Arc::clone(&kind), change);
                follow_kind(title, api, config, inputs, see, input, refused).await;
            });
        }
        // By pages: an extension API server may ignore that a streaming list is asked for.
        let config = selecting(&wanted.label);
        let api: Api<Projected<DynamicObject, ObservedObject>> = Api::all_with(self.wds.clone(), &resource);
        self.tasks.spawn(async move {
            until_readable(&wds, &resource, &name, &inputs).await;
            let refused = |error: &_| Some(DownsyncInput::Unreadable(name.clone(), refusal(error)?));
            let input = |change| DownsyncInput::Object(Arc::clone(&kind), change);
            follow_kind(title, api, config, inputs, Projected::into_view, input, refused).await;
        })
    }
}

/// Waits while the kind may not be listed. A policy without a list of kinds selects many that no
/// role of the controller covers, and an attempt every few seconds would not help.
async fn until_readable(
    wds: &Client,
    resource: &ApiResource,
    name: &KindName,
    inputs: &mpsc::Sender<DownsyncInput>,
) {
    let api: Api<Lenient<PartialObjectMeta<DynamicObject>>> = Api::all_with(wds.clone(), resource);
    while let Err(Failure::Refused(message)) = call(api.list(&ListParams::default().limit(1))).await {
        tracing::debug!(kind = %name, error = message, "the controller is not allowed to list this kind");
        if inputs
            .send(DownsyncInput::Unreadable(name.clone(), message))
            .await
            .is_err()
        {
            return;
        }
        sleep(REFUSED).await;
    }
}

/// Returns true if only the metadata of a kind is needed, which decides the selection. Workflows
/// belong to the other engine.
fn is_counted_only(kind: &Kind) -> bool {
    kind.is_run()
}

/// Builds an object from its metadata alone, without managed fields.
fn outline(object: PartialObjectMeta<DynamicObject>, kind: &Kind) -> DynamicObject {
    let mut whole = DynamicObject::new("", &discovery::resource(kind));
    whole.metadata = object.metadata;
    whole.metadata.managed_fields = None;
    whole
}

/// Notifies `changed` when a definition changes.
async fn follow_definitions(wds: Client, changed: Arc<Notify>) {
    let definitions: Api<Lenient<PartialObjectMeta<CustomResourceDefinition>>> = Api::all(wds);
    let events = watcher(definitions, selecting("")).backoff(reconnect_policy());
    pin_mut!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(_) => changed.notify_one(),
            Err(error) => tracing::debug!(%error, "cannot watch CustomResourceDefinitions"),
        }
    }
}

/// Sends the kinds that the WDS serves whenever they have changed. Returns when the receiver is
/// dropped.
async fn discover(wds: Client, inputs: mpsc::Sender<DownsyncInput>, changed: Arc<Notify>) {
    let mut known: Option<Vec<Kind>> = None;
    // After a change, discovery runs twice: the WDS may serve a new definition only some moments
    // later.
    let mut asks_again = false;
    loop {
        match discovery::kinds(&wds).await {
            Ok(mut kinds) => {
                kinds.sort();
                if known.as_ref() != Some(&kinds) {
                    known = Some(kinds.clone());
                    if inputs.send(DownsyncInput::Kinds(kinds)).await.is_err() {
                        return;
                    }
                }
            }
            Err(failure) => {
                tracing::warn!(error = %failure, "cannot read the kinds that the WDS serves, trying again");
                sleep(AGAIN).await;
                continue;
            }
        }
        if asks_again {
            asks_again = false;
            sleep(AGAIN).await;
            continue;
        }
        if timeout(EVERY, changed.notified()).await.is_ok() {
            sleep(SETTLE).await;
            asks_again = true;
        }
    }
}
