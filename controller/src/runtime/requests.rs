//! Converts the responses of API servers to outcomes, in one place for all requests.

use std::{fmt::Debug, time::Duration};

use argosy_core::{Failure, model::json_patch::JsonPatch};
use axum::http::{HeaderValue, header::ACCEPT};
use jiff::SignedDuration;
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
    core::{ObjectList, PartialObjectMeta, Request, Status},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::runtime::{
    leader::gate::AtOnce,
    lenient::{Lenient, Readable},
};

/// Timeout of one request. A link that drops packets must not block a key for longer.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Converts the duration of a flag to the type that the indexes use.
pub fn lifetime(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

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

/// Returns the object of the response, as far as it can be parsed.
pub async fn read<K: Readable>(
    request: impl Future<Output = kube::Result<Lenient<K>>>,
) -> Result<K, Failure> {
    call(request).await.map(Lenient::into_object)
}

/// Returns the objects of a list, each as far as it can be parsed.
pub async fn list<K: Readable + Clone>(
    request: impl Future<Output = kube::Result<ObjectList<Lenient<K>>>>,
) -> Result<Vec<K>, Failure> {
    let list = call(request).await?;
    Ok(list.items.into_iter().map(Lenient::into_object).collect())
}

/// Lists page by page and calls `each` with every object, as far as it can be parsed. One page is
/// in memory at a time.
///
/// # Errors
///
/// A page could not be read; `each` has received the objects of earlier pages.
pub async fn each<K>(api: &Api<Lenient<K>>, params: ListParams, each: impl FnMut(K)) -> Result<(), Failure>
where
    K: Readable + Clone + Debug,
{
    each_of_pages(api, params, usize::MAX, each).await
}

/// Like [`each`], but reads at most so many pages.
///
/// # Errors
///
/// A page could not be read; `each` has received the objects of earlier pages.
pub async fn each_of_pages<K>(
    api: &Api<Lenient<K>>,
    mut params: ListParams,
    pages: usize,
    mut each: impl FnMut(K),
) -> Result<(), Failure>
where
    K: Readable + Clone + Debug,
{
    for _ in 0..pages {
        let page = call(api.list(&params)).await?;
        page.items
            .into_iter()
            .map(Lenient::into_object)
            .for_each(&mut each);
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            break;
        }
        // The token contains the version of the list.
        (params.version_match, params.resource_version) = (None, None);
    }
    Ok(())
}

/// Deletes an object, and returns it as long as it has finalizers; `None` if it is gone.
pub async fn left<K>(api: &Api<Lenient<K>>, name: &str, params: &DeleteParams) -> Result<Option<K>, Failure>
where
    K: Readable + Clone,
{
    let deleted = found(call(delete(api, name, params)).await)?;
    Ok(deleted.flatten().map(Lenient::into_object))
}

/// Deletes an object, and returns it as long as it has finalizers. Kube's method reads the answer as a
/// tree of values first, which may be far larger than the object.
pub async fn delete<V>(api: &Api<V>, name: &str, params: &DeleteParams) -> kube::Result<Option<V>>
where
    V: Resource + Clone + DeserializeOwned,
{
    #[derive(Deserialize)]
    struct Answer {
        #[serde(default)]
        kind: String,
    }

    let request = Request::new(api.resource_url())
        .delete(name, params)
        .map_err(kube::Error::BuildRequest)?;
    let text = api.clone().into_client().request_text(request).await?;
    let object = serde_json::from_str(&text).and_then(|Answer { kind }| {
        let is_object = kind != "Status";
        is_object.then(|| serde_json::from_str(&text)).transpose()
    });
    object.map_err(kube::Error::SerdeError)
}

/// Returns `None` if the object does not exist, although its kind is served.
pub fn found<T>(result: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match result {
        Ok(answer) => Ok(Some(answer)),
        Err(Failure::NotFound { .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Returns true if the error means that the object exists already.
pub fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "AlreadyExists")
}

/// The words of etcd, and of the API server's connection to it, about an object that is larger than etcd
/// stores. The API server passes them on as an error of its own.
const TOO_LARGE: [&str; 2] = ["request is too large", "message larger than max"];

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
            // The response about a kind that is not served names no object.
            None => Failure::Unserved(status.message),
        },
        409 if status.reason == "AlreadyExists" => Failure::Foreign(status.message),
        // The field belongs to another manager: a newer version of the object would not change
        // that.
        409 if is_about_managers(&status) => Failure::Refused(status.message),
        409 => Failure::Conflict,
        // It would be as large the next time.
        500 if TOO_LARGE.iter().any(|words| status.message.contains(words)) => {
            Failure::Refused(status.message)
        }
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

/// Joins an error and its causes into one line.
pub fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    for cause in sources(error) {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
    }
    text
}

/// The causes of an error, the outermost one first.
pub fn sources(error: &dyn std::error::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |cause| cause.source())
}

/// Converts a decision's patch for kube. It contains only operations of the crate `json_patch`, so
/// this always succeeds.
pub fn json_patch(patch: &JsonPatch) -> Result<Patch<()>, Failure> {
    serde_json::from_value(patch.to_value())
        .map(Patch::Json)
        .map_err(|error| Failure::Refused(format!("the patch is malformed: {error}")))
}

/// Creates an object. Serializes it directly, without copying the parts that are not sent: these
/// may be fifty times as large.
pub fn create<K, V>(
    api: &Api<V>,
    manager: &str,
    object: &K,
) -> impl Future<Output = kube::Result<V>> + Send + use<K, V>
where
    K: Serialize,
    V: Resource + Clone + DeserializeOwned + Send,
{
    let request = creation(api, manager, object);
    let client = api.clone().into_client();
    async move { client.request(request?).await }
}

fn creation<V: Resource + Clone>(
    api: &Api<V>,
    manager: &str,
    object: &impl Serialize,
) -> kube::Result<axum::http::Request<Vec<u8>>> {
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    Request::new(api.resource_url())
        .create(&creating(manager), body)
        .map_err(kube::Error::BuildRequest)
}

/// The response that contains only the metadata of an object.
const METADATA: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// Like [`create`], but returns only the metadata of the new object: the sender knows the rest, and
/// the API server need not encode it.
pub fn create_for_metadata<K, V>(
    api: &Api<V>,
    manager: &str,
    object: &K,
) -> impl Future<Output = kube::Result<Lenient<PartialObjectMeta<K>>>> + Send + use<K, V>
where
    K: Serialize + Resource,
    V: Resource + Clone,
    PartialObjectMeta<K>: Readable,
{
    let request = creation(api, manager, object);
    answered_by_metadata(api.clone().into_client(), request)
}

/// Like [`create_for_metadata`], but refused if this process may not write just now: something that
/// was read just before allows it, and does so only for a while.
pub fn create_at_once<K, V>(
    api: &Api<V>,
    manager: &str,
    object: &K,
) -> impl Future<Output = kube::Result<Lenient<PartialObjectMeta<K>>>> + Send + use<K, V>
where
    K: Serialize + Resource,
    V: Resource + Clone,
    PartialObjectMeta<K>: Readable,
{
    let request = creation(api, manager, object).map(|mut request| {
        request.extensions_mut().insert(AtOnce);
        request
    });
    answered_by_metadata(api.clone().into_client(), request)
}

/// Sends a write, and has only the metadata of the object sent back.
async fn answered_by_metadata<K>(
    client: Client,
    request: kube::Result<axum::http::Request<Vec<u8>>>,
) -> kube::Result<Lenient<PartialObjectMeta<K>>>
where
    PartialObjectMeta<K>: Readable,
{
    let mut request = request?;
    request.headers_mut().insert(ACCEPT, METADATA);
    client.request(request).await
}

/// Changes an object by a JSON patch (RFC 6902); see [`create`].
pub fn patch<V, P>(
    api: &Api<V>,
    manager: &str,
    name: &str,
    patch: &P,
) -> impl Future<Output = kube::Result<V>> + Send + use<V, P>
where
    V: Resource + Clone + DeserializeOwned + Send,
    P: Serialize,
{
    let request = patch_request(api, manager, name, patch);
    let client = api.clone().into_client();
    async move { client.request(request?).await }
}

/// Like [`patch`], but returns only the metadata of the object; see [`create_for_metadata`].
pub fn patch_for_metadata<K, V, P>(
    api: &Api<V>,
    manager: &str,
    name: &str,
    patch: &P,
) -> impl Future<Output = kube::Result<Lenient<PartialObjectMeta<K>>>> + Send + use<K, V, P>
where
    K: Resource,
    V: Resource + Clone,
    P: Serialize,
    PartialObjectMeta<K>: Readable,
{
    let request = patch_request(api, manager, name, patch);
    answered_by_metadata(api.clone().into_client(), request)
}

fn patch_request<V: Resource + Clone>(
    api: &Api<V>,
    manager: &str,
    name: &str,
    patch: &impl Serialize,
) -> kube::Result<axum::http::Request<Vec<u8>>> {
    // The body is replaced, because kube would need a copy of each value.
    let empty: Patch<()> = serde_json::from_value(json!([]))
        .map(Patch::Json)
        .map_err(kube::Error::SerdeError)?;
    let mut request = Request::new(api.resource_url())
        .patch(name, &patching(manager), &empty)
        .map_err(kube::Error::BuildRequest)?;
    *request.body_mut() = serde_json::to_vec(patch).map_err(kube::Error::SerdeError)?;
    Ok(request)
}

/// The value of `metadata.managedFields` by which a write removes all of them ("Clearing managedFields"
/// in Kubernetes' description of server-side apply). From then on, the API server records none until
/// somebody applies the object server-side, which saves it time with each later write. Only for objects
/// whose fields belong to Argosy alone.
pub const NO_MANAGED_FIELDS: [NoManager; 1] = [NoManager {}];

/// An entry of `metadata.managedFields` without content.
#[derive(Serialize)]
pub struct NoManager {}

/// Replaces the status; a merge would keep errors that are fixed by now.
pub fn whole_status(status: &impl Serialize) -> Result<Patch<()>, Failure> {
    serde_json::from_value(json!([{ "op": "add", "path": "/status", "value": status }]))
        .map(Patch::Json)
        .map_err(|error| Failure::Refused(format!("cannot encode the status: {error}")))
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

/// Parameters that delete exactly the object with `uid`, in the background.
pub fn deleting(uid: &str) -> DeleteParams {
    DeleteParams::background().preconditions(Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    })
}

/// Like [`deleting`], but the dependents of the object stay.
pub fn orphaning(uid: &str) -> DeleteParams {
    DeleteParams {
        propagation_policy: Some(PropagationPolicy::Orphan),
        ..deleting(uid)
    }
}

/// Like [`deleting`], for exactly the version that the decision was about.
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
    fn an_object_that_is_too_large_is_told_and_not_tried_for_ever() {
        for (code, message) in [
            (500, "etcdserver: request is too large"),
            (
                500,
                "rpc error: code = ResourceExhausted desc = trying to send message larger than max (3 vs. 2)",
            ),
            (413, "Request entity too large: limit is 3145728"),
        ] {
            let answer = serde_json::json!({ "code": code, "message": message });
            assert_eq!(
                classify_status(serde_json::from_value(answer).unwrap()),
                Failure::Refused(message.to_owned())
            );
        }
        assert_eq!(
            classify_status(status(500, "InternalError", "")),
            Failure::Unreachable("said".to_owned())
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
