//! One review: the bytes that an API server posts, and the bytes that it gets.

use argosy_api::Workflow;
use argosy_core::admission::{Admission, Answer, Request};
use k8s_openapi::ByteString;
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};

/// What is read of an AdmissionReview, and nothing else, so that little can be wrong with it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "T: DeserializeOwned")]
struct Review<T> {
    api_version: String,
    kind: String,
    request: Asked<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "T: DeserializeOwned")]
struct Asked<T> {
    uid: String,
    #[serde(default)]
    namespace: String,
    /// Empty while the API server has yet to generate it.
    #[serde(default)]
    name: String,
    object: Option<T>,
    old_object: Option<T>,
}

/// The answer as it is sent: the request is always allowed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reviewed {
    api_version: String,
    kind: String,
    response: Response,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    uid: String,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// The answer to the review in `body`; an error says why there is none.
pub(super) fn answer(admission: &Admission, body: &[u8]) -> Result<Vec<u8>, String> {
    match read::<Workflow>(body) {
        Ok(review) => write(
            review.api_version,
            review.kind,
            reviewed(admission, review.request),
        ),
        Err(error) => let_through(body, &error),
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<Review<T>, serde_json::Error> {
    serde_json::from_slice(body)
}

fn reviewed(admission: &Admission, asked: Asked<Workflow>) -> Response {
    let Some(new) = asked.object else {
        return response(asked.uid, Answer::default());
    };
    let request = Request {
        namespace: asked.namespace,
        name: asked.name,
        old: asked.old_object,
        new,
    };
    response(asked.uid, admission.review(&request))
}

/// A Workflow that cannot be read is let through: to refuse it is the API server's business, and whatever else is in it is
/// none of ours.
fn let_through(body: &[u8], error: &serde_json::Error) -> Result<Vec<u8>, String> {
    let review: Review<IgnoredAny> =
        read(body).map_err(|error| format!("this is not an AdmissionReview: {error}"))?;
    let Asked {
        uid, namespace, name, ..
    } = review.request;
    tracing::warn!(kind = "Workflow", namespace, name, %error, "a Workflow cannot be read; it is let through as it is");
    let warning = format!("Argosy cannot read this Workflow and leaves it as it is: {error}");
    let answer = Answer {
        warnings: vec![warning],
        ..Answer::default()
    };
    write(review.api_version, review.kind, response(uid, answer))
}

fn response(uid: String, answer: Answer) -> Response {
    let Answer { patch, warnings } = answer;
    // Values always become JSON.
    let patch = Some(patch)
        .filter(|patch| !patch.is_empty())
        .and_then(|patch| serde_json::to_vec(&patch).ok());
    Response {
        uid,
        allowed: true,
        patch_type: patch.is_some().then_some("JSONPatch"),
        patch: patch.map(ByteString),
        warnings,
    }
}

fn write(api_version: String, kind: String, response: Response) -> Result<Vec<u8>, String> {
    let reviewed = Reviewed {
        api_version,
        kind,
        response,
    };
    serde_json::to_vec(&reviewed).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn asked(request: &Value) -> Result<Value, String> {
        let review =
            json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request });
        let answered = answer(&Admission::default(), review.to_string().as_bytes())?;
        Ok(serde_json::from_slice(&answered).unwrap())
    }

    #[test]
    fn what_no_policy_selects_is_allowed_without_a_patch() {
        let workflow = json!({ "metadata": { "generateName": "a-" }, "spec": {} });
        let answered =
            asked(&json!({ "uid": "u1", "operation": "CREATE", "oldObject": null, "object": workflow }));
        let wanted = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": { "uid": "u1", "allowed": true },
        });
        assert_eq!(answered, Ok(wanted));
    }

    #[test]
    fn a_workflow_that_cannot_be_read_is_let_through_with_a_warning() {
        let odd = json!({ "metadata": { "labels": ["a"] }, "spec": {} });
        let answered = asked(&json!({ "uid": "u1", "object": odd })).unwrap();
        assert_eq!(answered["response"]["allowed"], true);
        let warning = answered["response"]["warnings"][0].as_str().unwrap();
        assert!(
            warning.starts_with("Argosy cannot read this Workflow"),
            "{warning}"
        );
    }

    #[test]
    fn what_is_no_review_gets_an_error_that_says_so() {
        let admission = Admission::default();
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"apiVersion":"v1","kind":"AdmissionReview","request":{}}"#,
        ] {
            let error = answer(&admission, bad.as_bytes()).unwrap_err();
            assert!(error.starts_with("this is not an AdmissionReview"), "{error}");
        }
    }
}
