//! Spares API servers the second decoding of each body that is written.
//!
//! By default, an API server decodes a body a second time, strictly, to warn of fields that it does
//! not know (KEP-2885). Nobody reads these warnings of a controller, and the fields are dropped in
//! either case. Not here: the commands of `argosy`, whose users read them.

use axum::http::{Method, Request, Uri};

use super::with_query;

/// Query parameter of a write.
const IGNORED: &str = "fieldValidation=Ignore";

/// Adds `fieldValidation=Ignore` to a write that does not say anything else.
pub(super) fn unvalidated<B>(mut request: Request<B>) -> Request<B> {
    let is_write = [Method::POST, Method::PUT, Method::PATCH].contains(request.method());
    if is_write && let Some(uri) = extended(request.uri()) {
        *request.uri_mut() = uri;
    }
    request
}

fn extended(uri: &Uri) -> Option<Uri> {
    let query = uri.query().unwrap_or_default();
    let mut names = query.split('&').filter_map(|pair| pair.split('=').next());
    if names.any(|name| name == "fieldValidation") {
        return None;
    }
    // kube writes a query that begins with `&`.
    let separator = if query.is_empty() || query.ends_with('&') {
        ""
    } else {
        "&"
    };
    with_query(uri, &format!("{query}{separator}{IGNORED}"))
}

#[cfg(test)]
mod tests {
    use kube::client::Body;

    use super::*;
    use crate::runtime::{
        client::sent::first_line,
        leader::gate::Gate,
        metrics::{Counted, Metrics, Space},
    };

    /// The first line that a client sends for a creation.
    async fn sent(through: Option<(Counted, &Gate)>) -> String {
        first_line(through, async |client| {
            let request = Request::post("/apis/b").body(Body::empty()).unwrap();
            drop(client.send(request).await.err());
        })
        .await
    }

    #[tokio::test]
    async fn the_client_of_a_loop_ignores_unknown_fields_and_that_of_a_command_does_not() {
        let counted = Metrics::default().requests(Space::Its);
        let of_loop = sent(Some((counted, &Gate::open()))).await;
        assert_eq!(of_loop.trim(), "POST /apis/b?fieldValidation=Ignore HTTP/1.1");
        assert_eq!(sent(None).await.trim(), "POST /apis/b HTTP/1.1");
    }

    #[test]
    fn a_write_asks_the_api_server_not_to_decode_it_twice() {
        for (method, uri, expected) in [
            (
                "POST",
                "https://a:1/apis/b?",
                "https://a:1/apis/b?fieldValidation=Ignore",
            ),
            (
                "PATCH",
                "/apis/b?&fieldManager=argosy",
                "/apis/b?&fieldManager=argosy&fieldValidation=Ignore",
            ),
            ("PUT", "/apis/b", "/apis/b?fieldValidation=Ignore"),
            (
                "PUT",
                "/apis/b?fieldValidation=Strict",
                "/apis/b?fieldValidation=Strict",
            ),
            ("GET", "/apis/b?limit=1", "/apis/b?limit=1"),
            ("DELETE", "/apis/b", "/apis/b"),
        ] {
            let request = Request::builder().method(method).uri(uri).body(()).unwrap();
            assert_eq!(unvalidated(request).uri().to_string(), expected, "{method} {uri}");
        }
    }
}
