//! What an API server's answer means, said once for all requests.

use std::time::Duration;

use argosy_core::{Failure, patch::JsonPatch};
use either::Either;
use kube::{
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::{ObjectList, Status},
};
use serde::Serialize;
use serde_json::json;

use crate::tolerant::{Readable, Tolerant};

/// The longest that one request may take. A link that swallows packets must not hold a key for longer.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Waits for one request, at most [`REQUEST_TIMEOUT`].
pub async fn call<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(classify(error)),
        Err(_) => Err(Failure::Unreachable(format!(
            "no answer within {} s",
            REQUEST_TIMEOUT.as_secs()
        ))),
    }
}

/// The object that comes back, as much of it as can be read.
pub async fn read<K: Readable>(
    request: impl Future<Output = kube::Result<Tolerant<K>>>,
) -> Result<K, Failure> {
    call(request).await.map(Tolerant::into_object)
}

/// The objects of a list, as much of each as can be read.
pub async fn list<K: Readable + Clone>(
    request: impl Future<Output = kube::Result<ObjectList<Tolerant<K>>>>,
) -> Result<Vec<K>, Failure> {
    let list = call(request).await?;
    Ok(list.items.into_iter().map(Tolerant::into_object).collect())
}

/// The object as it is after the request to delete it; `None` where it is not there any more.
pub async fn left<K: Readable>(
    request: impl Future<Output = kube::Result<Either<Tolerant<K>, Status>>>,
) -> Result<Option<K>, Failure> {
    let deleted = found(call(request).await)?;
    Ok(deleted.and_then(Either::left).map(Tolerant::into_object))
}

/// `None` where the object is not there, although its kind is served.
pub fn found<T>(result: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match result {
        Ok(answer) => Ok(Some(answer)),
        Err(Failure::NotFound { .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Whether an error says that the object exists already.
pub fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "AlreadyExists")
}

fn classify(error: kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) => classify_status(*status),
        other => Failure::Unreachable(with_sources(&other)),
    }
}

fn classify_status(status: Status) -> Failure {
    match status.code {
        404 => match status.details.filter(|details| !details.name.is_empty()) {
            Some(details) => Failure::NotFound {
                namespace: details.kind == "namespaces",
                message: status.message,
            },
            // The answer about a kind that is not served names no object.
            None => Failure::Unserved(status.message),
        },
        409 if status.reason == "AlreadyExists" => Failure::Foreign(status.message),
        // A field is another manager's: no newer version of the object changes that.
        409 if is_about_managers(&status) => Failure::Refused(status.message),
        409 => Failure::Conflict,
        429 | 500.. => Failure::Unreachable(status.message),
        _ => Failure::Refused(status.message),
    }
}

fn is_about_managers(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .any(|cause| cause.reason == "FieldManagerConflict")
}

/// The error with everything that caused it, in one line.
pub fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// A decision's patch as kube sends it. Every operation in it is one that `json_patch` knows, so it always converts.
pub fn json_patch(patch: &JsonPatch) -> Result<Patch<()>, Failure> {
    serde_json::from_value(patch.to_value())
        .map(Patch::Json)
        .map_err(|error| Failure::Refused(format!("the patch is malformed: {error}")))
}

/// Replaces the status; a merge would keep errors that are mended.
pub fn whole_status(status: &impl Serialize) -> Result<Patch<()>, Failure> {
    serde_json::from_value(json!([{ "op": "add", "path": "/status", "value": status }]))
        .map(Patch::Json)
        .map_err(|error| Failure::Refused(format!("the status cannot be written: {error}")))
}

/// Parameters of a patch by `manager`.
pub fn patching(manager: &str) -> PatchParams {
    PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    }
}

/// Parameters of a creation by `manager`.
pub fn creating(manager: &str) -> PostParams {
    PostParams {
        field_manager: Some(manager.to_owned()),
        ..PostParams::default()
    }
}

/// Parameters of the deletion of exactly the object with `uid`, in the background.
pub fn deleting(uid: &str) -> DeleteParams {
    DeleteParams::background().preconditions(Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    })
}

/// The same, of exactly the version that it was decided on.
pub fn deleting_version(uid: &str, resource_version: &str) -> DeleteParams {
    let preconditions = Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: Some(resource_version.to_owned()),
    };
    DeleteParams::background().preconditions(preconditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, reason: &str, kind: &str) -> Status {
        serde_json::from_value(serde_json::json!({
            "code": code, "reason": reason, "message": "said", "details": { "name": "n", "kind": kind }
        }))
        .unwrap()
    }

    #[test]
    fn a_missing_namespace_is_told_from_a_missing_object() {
        let missing = |namespace| Failure::NotFound {
            namespace,
            message: "said".to_owned(),
        };
        assert_eq!(
            classify_status(status(404, "NotFound", "namespaces")),
            missing(true)
        );
        assert_eq!(
            classify_status(status(404, "NotFound", "workflows")),
            missing(false)
        );
    }

    #[test]
    fn a_kind_that_is_not_served_says_nothing_about_its_objects() {
        let page =
            serde_json::from_value(serde_json::json!({ "code": 404, "message": "404 page not found" }));
        assert_eq!(
            classify_status(page.unwrap()),
            Failure::Unserved("404 page not found".to_owned())
        );
    }

    #[test]
    fn a_stale_write_is_a_conflict_and_a_taken_name_is_not() {
        assert_eq!(classify_status(status(409, "Conflict", "")), Failure::Conflict);
        assert_eq!(
            classify_status(status(409, "AlreadyExists", "")),
            Failure::Foreign("said".to_owned())
        );
    }

    #[test]
    fn a_field_of_another_manager_is_told_and_not_taken_for_a_stale_write() {
        let conflict = serde_json::json!({
            "code": 409, "reason": "Conflict", "message": "Apply failed with 1 conflict",
            "details": { "causes": [{ "reason": "FieldManagerConflict", "field": ".data.a" }] },
        });
        assert_eq!(
            classify_status(serde_json::from_value(conflict).unwrap()),
            Failure::Refused("Apply failed with 1 conflict".to_owned())
        );
    }

    #[test]
    fn overload_is_tried_again_and_a_refusal_is_told() {
        assert_eq!(
            classify_status(status(429, "TooManyRequests", "")),
            Failure::Unreachable("said".to_owned())
        );
        assert_eq!(
            classify_status(status(422, "Invalid", "")),
            Failure::Refused("said".to_owned())
        );
    }
}
