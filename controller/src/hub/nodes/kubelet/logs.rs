//! The answer to a request for the log of a container: that of the agent of the pod's cluster.
//!
//! Not here: the check of the request (`admit`), and the bytes of the answer (`relay`).

use axum::{
    Extension,
    body::Body,
    extract::{Path, Request, State},
    http::{self, HeaderValue, Response, header::CONTENT_TYPE},
};

use super::{
    Reach,
    account::Account,
    admit::{Endpoint, Refusal, is_name},
    relay,
};

/// Maximum length of a query in bytes.
const LONGEST_QUERY: usize = 1024;

/// Name of an option, and the form of its value.
type LogOption = (&'static str, fn(&str) -> bool);

/// Options of a log that are passed on (PodLogOptions of Kubernetes), each with the form of its value.
const OPTIONS: [LogOption; 7] = [
    ("follow", is_flag),
    ("previous", is_flag),
    ("timestamps", is_flag),
    ("sinceSeconds", is_number),
    ("tailLines", is_number),
    ("limitBytes", is_number),
    ("sinceTime", is_time),
];

fn is_flag(value: &str) -> bool {
    ["true", "false", "1", "0"].contains(&value)
}

fn is_number(value: &str) -> bool {
    (1..=18).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// RFC 3339, possibly percent-encoded.
fn is_time(value: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-:.+%".contains(&byte);
    (1..=64).contains(&value.len()) && value.bytes().all(is_part)
}

/// The options of a query that a log may have, encoded again.
pub(super) fn options(query: &str) -> String {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let known = pairs.filter(|(name, value)| {
        OPTIONS
            .iter()
            .any(|(option, has_form)| option == name && has_form(value))
    });
    known.fold(String::new(), |text, (name, value)| {
        format!("{text}&{name}={value}")
    })
}

/// Answers `GET /containerLogs/NAMESPACE/POD/CONTAINER`.
pub(super) async fn answer<R: Reach>(
    State(endpoint): State<Endpoint<R>>,
    Extension(account): Extension<Account>,
    Path(path): Path<(String, String, String)>,
    request: Request,
) -> Response<Body> {
    let query = request.uri().query().unwrap_or_default();
    let opened = endpoint.open_log(&account, path, query).await;
    endpoint.answered(opened)
}

impl<R: Reach> Endpoint<R> {
    async fn open_log(
        &self,
        account: &Account,
        (namespace, pod, container): (String, String, String),
        query: &str,
    ) -> Result<Response<Body>, Refusal> {
        if query.len() > LONGEST_QUERY || !is_name(&container) {
            return Err(Refusal::Malformed);
        }
        let admitted = self.admit(account, "get", &namespace, &pod).await?;
        let path = format!(
            "/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}{}",
            options(query)
        );
        let request = http::Request::get(path).body(Body::empty());
        let (head, body) = admitted.ask(request).await?.into_parts();
        let mut answer = Response::new(relay::relayed(
            body,
            &admitted.shown.cluster,
            (admitted.place, self.metrics.opened()),
        ));
        let kind = head.headers.get(CONTENT_TYPE).cloned();
        let kind = kind.unwrap_or_else(|| HeaderValue::from_static("text/plain"));
        answer.headers_mut().insert(CONTENT_TYPE, kind);
        Ok(answer)
    }
}
