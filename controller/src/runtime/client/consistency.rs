//! Makes streaming lists consistent.
//!
//! kube asks for them with `resourceVersion=0`, which an API server may answer with any state that it
//! has, also with one that is older than what it has answered before. Without a version, the answer
//! contains all that was written before the request (KEP-3157). Argosy concludes from an absence in a
//! list that there is no such object, so it needs the latter. Not here: lists by pages, which kube
//! asks for without a version.

use axum::http::{Request, Uri};

use super::with_query;

/// Query parameter of a streaming list.
const STREAMING: &str = "sendInitialEvents=true";

/// Query parameter that allows any state.
const ANY: &str = "resourceVersion=0";

/// Removes `resourceVersion=0` from a streaming list.
pub(super) fn most_recent<B>(mut request: Request<B>) -> Request<B> {
    if let Some(uri) = consistent(request.uri()) {
        *request.uri_mut() = uri;
    }
    request
}

fn consistent(uri: &Uri) -> Option<Uri> {
    let pairs = || uri.query().unwrap_or_default().split('&');
    if !pairs().any(|pair| pair == STREAMING) {
        return None;
    }
    let kept: Vec<&str> = pairs().filter(|pair| *pair != ANY).collect();
    with_query(uri, &kept.join("&"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, api::WatchParams};

    use crate::runtime::{
        client::sent::first_line,
        leader::gate::Gate,
        metrics::{Counted, Metrics, Space},
    };

    /// The first line that a client sends for a watch from version 0.
    async fn sent(parameters: WatchParams, through: Option<(Counted, &Gate)>) -> String {
        first_line(through, async move |client| {
            let api: Api<ConfigMap> = Api::all(client);
            drop(api.watch(&parameters, "0").await.err());
        })
        .await
    }

    #[tokio::test]
    async fn a_streaming_list_contains_all_that_was_written_before() {
        let counted = Metrics::default().requests(Space::Its);
        let gate = Gate::open();
        for through in [Some((counted, &gate)), None] {
            let line = sent(WatchParams::default().initial_events(), through).await;
            assert!(line.contains("sendInitialEvents=true"), "{line}");
            assert!(!line.contains("resourceVersion="), "{line}");
        }
    }

    #[tokio::test]
    async fn a_watch_begins_at_the_version_that_it_asks_for() {
        let line = sent(WatchParams::default(), None).await;
        assert!(line.contains("resourceVersion=0"), "{line}");
    }
}
