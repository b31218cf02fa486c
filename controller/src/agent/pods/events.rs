//! Answers the controller's requests for the Kubernetes Events of a run: those about its pods and
//! about the Workflow.
//!
//! A list of Events cannot be selected by the run, so those of the whole namespace are read, page by
//! page, and all others are left out here. Not here: that rule (`argosy_core::agent::events`).

use argosy_api::{Workflow, names};
use argosy_core::{
    Failure,
    agent::{events::Events, pods},
};
use axum::{
    body::Body,
    extract::{Path, Request, State},
    http::{HeaderMap, Response, header::CONTENT_TYPE},
    response::IntoResponse,
};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{
    Api,
    api::ListParams,
    core::{ObjectMeta, PartialObjectMeta},
};
use tokio::time::timeout;

use super::{Pods, Refusal, is_name, late, origin_in};
use crate::runtime::{
    lenient::Lenient,
    requests::{REQUEST_TIMEOUT, each_of_pages, read},
};

/// Number of objects on a page. Each page is in memory as a whole.
const PAGE: u32 = 50;

/// Maximum number of pages that are read. An API server forgets Events after an hour.
const PAGES: usize = 100;

/// Answers `GET /api/v1/namespaces/NAMESPACE/workflows/NAME/events`.
pub(super) async fn answer(
    State(pods): State<Pods>,
    Path((namespace, name)): Path<(String, String)>,
    request: Request,
) -> Response<Body> {
    let found = timeout(REQUEST_TIMEOUT, pods.events(&namespace, &name, request.headers())).await;
    match found {
        Ok(Ok(events)) => {
            // There is nothing in them that JSON cannot hold.
            let text = serde_json::to_string(&events.finish()).unwrap_or_default();
            ([(CONTENT_TYPE, "application/json")], text).into_response()
        }
        Ok(Err(refusal)) => refusal.into_response(),
        Err(_) => late(),
    }
}

impl Pods {
    async fn events(&self, namespace: &str, name: &str, headers: &HeaderMap) -> Result<Events, Refusal> {
        let run = self.run(namespace, name, headers).await?;
        let mut events = Events::new(run);
        let api: Api<Lenient<PartialObjectMeta<Pod>>> = Api::namespaced(self.wec.clone(), namespace);
        let params = ListParams::default().limit(PAGE);
        let of_run = params
            .clone()
            .labels(&format!("{}={name}", names::ARGO_WORKFLOW_LABEL));
        let pods = each_of_pages(&api, of_run, PAGES, |pod| events.learn_pod(&pod.metadata));
        pods.await.map_err(Refusal::Failed)?;
        let api: Api<Lenient<Event>> = Api::namespaced(self.wec.clone(), namespace);
        let listed = each_of_pages(&api, params, PAGES, |event| events.learn(&event));
        listed.await.map_err(Refusal::Failed)?;
        Ok(events)
    }

    /// The run of the Workflow of the WDS with the UID in `headers`.
    async fn run(&self, namespace: &str, name: &str, headers: &HeaderMap) -> Result<ObjectMeta, Refusal> {
        let unknown = || Refusal::UnknownRun(format!("{namespace}/{name}"));
        // The name becomes a part of a path and of a selector, so it must be a name.
        if !is_name(namespace) || !is_name(name) {
            return Err(unknown());
        }
        let api: Api<Lenient<PartialObjectMeta<Workflow>>> = Api::namespaced(self.wec.clone(), namespace);
        let run = read(api.get(name)).await.map_err(|failure| match failure {
            Failure::NotFound { .. } | Failure::Unserved(_) => unknown(),
            failure => Refusal::Failed(failure),
        })?;
        pods::is_run(&run.metadata, origin_in(headers), self.cluster.as_str())
            .then_some(run.metadata)
            .ok_or_else(unknown)
    }
}
