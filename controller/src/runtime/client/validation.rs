//! Spares API servers the second decoding of each body that is written.
//!
//! By default, an API server decodes a body a second time, strictly, to warn of fields that it does
//! not know (KEP-2885). Nobody reads these warnings of a controller, and the fields are dropped in
//! either case. Not here: the commands of `argosy`, whose users read them.

use axum::http::{Method, Request, Uri, uri::PathAndQuery};

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
    let extended = format!("{}?{query}{separator}{IGNORED}", uri.path());
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(extended).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
