//! Uninstalling: take Argosy's finalizer off every Workflow it stands on, and OCM's off the
//! records of other objects, so that nothing waits for a process that is gone.
//!
//! Workflows that run go on running; they are no longer reported. ManifestWorks are left for their agents. Of an object a few marks are
//! read and nothing else, so that none is too large or too odd to be released, and however many there are, a page of them is in memory.

use std::time::Duration;

use argosy_api::{AppliedManifestWork, Workflow, names};
use argosy_core::{ClusterName, Failure, patch::JsonPatch};
use futures::{StreamExt, stream};
use kube::{
    Client, Resource,
    api::ListParams,
    core::{ObjectList, Request, request},
};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::time::{Instant, sleep};

use crate::{
    outcome::{call, found, json_patch, patching},
    webhook::{is_refusal_of_guard, unregister},
};

/// How long API servers may take to notice that webhook and admission policies are gone.
const UNREGISTERED_WITHIN: Duration = Duration::from_mins(1);

/// Between two tries while they have not.
const AGAIN: Duration = Duration::from_millis(500);

/// Objects of a page. The metadata of one may have 1.5 MiB, most of it about who wrote which field.
const PAGE: u32 = 100;

/// Objects that are released at once.
const AT_ONCE: usize = 32;

/// How often listing may begin anew. A listing that takes longer than the API server keeps its versions, five minutes, ends; what was
/// released by then is passed over the next time.
const MOST_LISTINGS: usize = 100;

/// What is read of an object.
#[derive(Clone, Debug, Deserialize)]
struct Marked {
    metadata: Marks,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Marks {
    name: String,
    namespace: Option<String>,
    uid: String,
    resource_version: String,
    finalizers: Vec<String>,
}

/// Whose finalizer is taken off, and where.
struct Release<'a> {
    client: &'a Client,
    /// Where the kind is found, in a namespace or everywhere.
    path: fn(Option<&str>) -> String,
    /// A selector of labels.
    labels: String,
    finalizer: &'a str,
    manager: &'a str,
}

/// Releases every Workflow of a WEC that `cluster`'s agent holds, and every record of objects of other kinds, and returns how many
/// those were. The objects themselves wait for nobody.
pub async fn release_wec(wec: &Client, cluster: &ClusterName) -> Result<usize, Failure> {
    let workflows = Release {
        client: wec,
        path: |namespace| Workflow::url_path(&(), namespace),
        labels: format!("{}={cluster},{}", names::CLUSTER_LABEL, names::ORIGIN_UID_LABEL),
        finalizer: names::AGENT_FINALIZER,
        manager: names::AGENT,
    };
    let records = Release {
        client: wec,
        path: |namespace| AppliedManifestWork::url_path(&(), namespace),
        labels: format!("{}={cluster},!{}", names::CLUSTER_LABEL, names::ORIGIN_UID_LABEL),
        finalizer: names::APPLIED_MANIFEST_WORK_FINALIZER,
        manager: names::AGENT,
    };
    Ok(workflows.all().await? + records.all().await?)
}

/// Takes away the webhook and the admission policies, which would keep the finalizers where they are, and the webhook's Secret
/// in `namespace`; then releases every Workflow of the WDS that the controller holds and returns how many those were.
pub async fn release_wds(wds: &Client, namespace: &str) -> Result<usize, Failure> {
    unregister(wds, namespace).await?;
    let workflows = Release {
        client: wds,
        path: |namespace| Workflow::url_path(&(), namespace),
        // One that is held and not claimed has no label of ours.
        labels: String::new(),
        finalizer: names::CONTROLLER_FINALIZER,
        manager: names::CONTROLLER,
    };
    let released = workflows.all().await?;
    if unregister(wds, namespace).await? > 0 {
        let message = "argosy-controller runs and registers its webhook again; stop it, then release again";
        return Err(Failure::Refused(message.to_owned()));
    }
    Ok(released)
}

impl Release<'_> {
    /// Releases every object. One that refuses keeps no other waiting; the first refusal is told at the end.
    async fn all(&self) -> Result<usize, Failure> {
        let (mut released, mut refusal, mut listings) = (0, Ok(()), 1);
        let mut params = ListParams::default().labels(&self.labels).limit(PAGE);
        loop {
            let Some(page) = self.page(&params).await? else {
                if listings == MOST_LISTINGS {
                    return Err(Failure::Unreachable("no listing comes to its end".to_owned()));
                }
                listings += 1;
                params.continue_token = None;
                continue;
            };
            let held = page.items.into_iter().filter(|object| self.holds(object));
            let mut outcomes = stream::iter(held.map(|object| self.one(object))).buffer_unordered(AT_ONCE);
            while let Some(outcome) = outcomes.next().await {
                match outcome {
                    Ok(is_released) => released += usize::from(is_released),
                    Err(Failure::Refused(message)) => refusal = refusal.and(Err(Failure::Refused(message))),
                    Err(failure) => return Err(failure),
                }
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                return refusal.map(|()| released);
            }
        }
    }

    /// A page of the objects; `None` where the API server does not know any more what the pages before were of.
    async fn page(&self, params: &ListParams) -> Result<Option<ObjectList<Marked>>, Failure> {
        let request = Request::new((self.path)(None)).list_metadata(params);
        let page = call(async {
            match self.send(request).await {
                Err(kube::Error::Api(status)) if status.code == 410 => Ok(None),
                page => page.map(Some),
            }
        });
        page.await
    }

    /// Tries again while somebody else, such as Argo, writes the object at the same time, and while an API server still asks the
    /// webhook or the policies that were taken away.
    async fn one(&self, object: Marked) -> Result<bool, Failure> {
        let Marks { name, namespace, .. } = object.metadata.clone();
        let requests = Request::new((self.path)(namespace.as_deref()));
        let deadline = Instant::now() + UNREGISTERED_WITHIN;
        let mut known = Some(object);
        while let Some(object) = known.filter(|object| self.holds(object)) {
            let patch = json_patch(&self.patch(object.metadata))?;
            let patch = requests.patch_metadata(&name, &patching(self.manager), &patch);
            match found(call(self.send::<Marked>(patch)).await) {
                Err(Failure::Conflict) => {}
                Err(Failure::Refused(message))
                    if is_refusal_of_guard(&message) && Instant::now() < deadline =>
                {
                    sleep(AGAIN).await;
                }
                Err(failure) => return Err(failure),
                // The webhook puts the finalizer back while it is still asked.
                Ok(Some(written)) if self.holds(&written) => {
                    if Instant::now() >= deadline {
                        let finalizer = self.finalizer;
                        let message = format!("{name}: something puts the finalizer {finalizer} back");
                        return Err(Failure::Refused(message));
                    }
                    sleep(AGAIN).await;
                }
                Ok(_) => return Ok(true),
            }
            let again = requests.get_metadata(&name, &kube::api::GetParams::default());
            known = found(call(self.send(again)).await)?;
        }
        Ok(false)
    }

    fn holds(&self, object: &Marked) -> bool {
        object
            .metadata
            .finalizers
            .iter()
            .any(|known| known == self.finalizer)
    }

    fn patch(&self, marks: Marks) -> JsonPatch {
        let mut others = marks.finalizers;
        others.retain(|known| known != self.finalizer);
        JsonPatch::guarded(&marks.uid, &marks.resource_version).set("/metadata/finalizers", others)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: Result<axum::http::Request<Vec<u8>>, request::Error>,
    ) -> kube::Result<T> {
        self.client
            .request(request.map_err(kube::Error::BuildRequest)?)
            .await
    }
}
