//! Makes streaming lists consistent.
//!
//! kube asks for them with `resourceVersion=0`, which an API server may answer with any state that it
//! has, also with one that is older than what it has answered before. Without a version, the answer
//! contains all that was written before the request (KEP-3157). Argosy concludes from an absence in a
//! list that there is no such object, so it needs the latter. Not here: lists by pages, which kube
//! asks for without a version.

use axum::http::{Request, Uri, uri::PathAndQuery};

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
    let path_and_query = format!("{}?{}", uri.path(), kept.join("&"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path_and_query).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, Config, api::WatchParams};
    use tokio::{
        io::{AsyncBufReadExt, BufReader},
        net::TcpListener,
    };

    use crate::runtime::{
        client::build,
        leader::gate::Gate,
        metrics::{Counted, Metrics, Space},
        telemetry,
    };

    /// The first line that a client sends for a watch from version 0.
    async fn sent(parameters: WatchParams, through: Option<(Counted, &Gate)>) -> String {
        telemetry::install_crypto();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let api: Api<ConfigMap> = Api::all(build(Config::new(url.parse().unwrap()), through).unwrap());
        let asking = tokio::spawn(async move { api.watch(&parameters, "0").await.err() });
        let (stream, _) = listener.accept().await.unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).await.unwrap();
        asking.abort();
        line
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
