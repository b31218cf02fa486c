//! The answer to a request for the Events of a run: that of the agent of its cluster, shortened.
//!
//! A kubelet has no such path, so the API server asks for it only by `nodes/proxy`, and decides who
//! may. Not here: the check of the request (`admit`), and the choice of the Events (the agent).

use argosy_core::agent::events::{RunEvent, newest};
use axum::{
    Extension,
    body::{Body, to_bytes},
    extract::{Path, State},
    http::{self, Response, header::CONTENT_TYPE},
    response::IntoResponse,
};
use tokio::time::timeout;

use super::{
    Reach,
    account::Account,
    admit::{ANSWER, Endpoint, Refusal},
};

/// Maximum bytes of an agent's answer. As many Events as are shown have fewer.
const LONGEST: usize = 1 << 20;

/// Answers `GET /events/NAMESPACE/WORKFLOW`.
pub(super) async fn answer<R: Reach>(
    State(endpoint): State<Endpoint<R>>,
    Extension(account): Extension<Account>,
    Path((namespace, workflow)): Path<(String, String)>,
) -> Response<Body> {
    let found = endpoint.events(&account, &namespace, &workflow).await;
    endpoint.answered(found.map(|events| {
        // There is nothing in them that JSON cannot hold.
        let text = serde_json::to_string(&events).unwrap_or_default();
        ([(CONTENT_TYPE, "application/json")], text).into_response()
    }))
}

impl<R: Reach> Endpoint<R> {
    async fn events(
        &self,
        account: &Account,
        namespace: &str,
        workflow: &str,
    ) -> Result<Vec<RunEvent>, Refusal> {
        let admitted = self.admit_run(account, namespace, workflow).await?;
        let path = format!("/api/v1/namespaces/{namespace}/workflows/{workflow}/events");
        let response = admitted.ask(http::Request::get(path).body(Body::empty())).await?;
        let read = timeout(ANSWER, to_bytes(response.into_body(), LONGEST)).await;
        read.ok()
            .and_then(Result::ok)
            .and_then(|text| bounded(&text))
            .ok_or_else(|| {
                let cluster = &admitted.shown.cluster;
                Refusal::Unavailable(format!(
                    "the agent of cluster {cluster} has sent no list of Events"
                ))
            })
    }
}

/// The Events of an answer. The agent has shortened them, if it is ours.
fn bounded(text: &[u8]) -> Option<Vec<RunEvent>> {
    let mut events: Vec<RunEvent> = serde_json::from_slice(text).ok()?;
    newest(&mut events);
    Some(events.into_iter().map(RunEvent::bounded).collect())
}

#[cfg(test)]
mod tests {
    use argosy_core::agent::events::MOST;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_agent_that_was_taken_over_sends_neither_many_events_nor_long_ones() {
        let event = json!({ "message": "m".repeat(5000), "reason": "\u{1b}]0;", "more": [] });
        let events = bounded(json!(vec![event; MOST + 3]).to_string().as_bytes()).unwrap();
        assert_eq!(events.len(), MOST);
        for event in events {
            assert!(event.message.len() < 1100, "{event:?}");
            assert_eq!(event.reason, "\u{fffd}]0;");
        }
        for text in ["", "{}", "[1]", "<html>"] {
            assert_eq!(bounded(text.as_bytes()), None, "{text}");
        }
    }
}
