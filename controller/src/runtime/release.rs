//! Removes a finalizer from all objects that have it, so that none waits for a process that no
//! longer exists.
//!
//! Running Workflows go on, but are no longer reported. Workflows that wait for a cluster are
//! handed back suspended. Only some metadata of an object is read, so none is too large or too odd
//! to be released, and only one page is in memory. Not here: the selection of the objects
//! (`hub::uninstall`, `agent::uninstall`).

use std::{collections::BTreeMap, time::Duration};

use argosy_api::names;
use argosy_core::{
    Failure,
    model::{handback, json_patch::JsonPatch},
};
use futures::{StreamExt, stream};
use kube::{
    Client,
    api::ListParams,
    core::{ObjectList, ObjectMeta, Request, request},
};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::time::{Instant, sleep};

use super::requests::{call, found, json_patch, patching};

/// Time until all API servers have noticed that the webhook and the admission policies were
/// deleted.
const UNREGISTERED_WITHIN: Duration = Duration::from_mins(1);

/// Interval between attempts until then.
const AGAIN: Duration = Duration::from_millis(500);

/// Page size of a list. The metadata of one object may have 1.5 MiB, mostly managed fields.
const PAGE: u32 = 100;

/// Number of objects that are released concurrently.
const AT_ONCE: usize = 32;

/// Maximum number of lists. A list that takes longer than the API server keeps its versions, five
/// minutes, fails; the next list skips the objects that were released by then.
const MOST_LISTINGS: usize = 100;

/// The part of an object that is read.
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
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl From<Marks> for ObjectMeta {
    fn from(marks: Marks) -> Self {
        Self {
            name: Some(marks.name),
            namespace: marks.namespace,
            uid: Some(marks.uid),
            resource_version: Some(marks.resource_version),
            finalizers: Some(marks.finalizers),
            labels: Some(marks.labels),
            annotations: Some(marks.annotations),
            ..Self::default()
        }
    }
}

/// A selection of objects of one kind to release.
pub(crate) struct Release<'a> {
    pub(crate) client: &'a Client,
    /// Path of the kind, in a namespace or in all.
    pub(crate) path: fn(Option<&str>) -> String,
    /// A label selector.
    pub(crate) labels: String,
    pub(crate) finalizer: &'a str,
    pub(crate) manager: &'a str,
    /// Returns true if a refusal with this message is temporary, because it comes from something
    /// that was deleted.
    pub(crate) is_passing: fn(&str) -> bool,
}

impl Release<'_> {
    /// Releases every object. A refusal does not delay the others; the first one is returned at the
    /// end.
    pub(crate) async fn all(&self) -> Result<usize, Failure> {
        let (mut released, mut refusal, mut listings) = (0, Ok(()), 1);
        let mut params = ListParams::default().labels(&self.labels).limit(PAGE);
        loop {
            let Some(page) = self.page(&params).await? else {
                if listings == MOST_LISTINGS {
                    return Err(Failure::Unreachable(
                        "no list of the objects could be read to its end".to_owned(),
                    ));
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

    /// Returns a page of the objects; `None` if the continue token has expired.
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

    /// Retries while another client, such as Argo, writes the object at the same time, and while an
    /// API server still calls the deleted webhook or policies.
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
                    if (self.is_passing)(&message) && Instant::now() < deadline =>
                {
                    sleep(AGAIN).await;
                }
                Err(failure) => return Err(failure),
                // The webhook restores the finalizer while it is still called.
                Ok(Some(written)) if self.holds(&written) => {
                    if Instant::now() >= deadline {
                        let finalizer = self.finalizer;
                        let message = format!("{name}: another client adds the finalizer {finalizer} again");
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

    /// Removes the finalizer. Also lifts the hold of a Workflow that waits for a cluster: it would
    /// never start, and look as if it had ended.
    fn patch(&self, marks: Marks) -> JsonPatch {
        let mut others = marks.finalizers.clone();
        others.retain(|known| known != self.finalizer);
        let guard = JsonPatch::guarded(&marks.uid, &marks.resource_version);
        let waiting = (self.finalizer == names::CONTROLLER_FINALIZER)
            .then(|| handback::of_waiting(&ObjectMeta::from(marks)))
            .flatten();
        waiting.unwrap_or(guard).set("/metadata/finalizers", others)
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
