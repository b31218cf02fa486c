//! Whether the executor of a ManifestWork may write or read an object: the agent must not do for somebody what they may not do themselves.
//!
//! The verbs are OCM's. Not here: the agent's own rights, which the API server checks with the request.

use argosy_api::manifest_work::ExecutorAccount;
use argosy_core::{Failure, apply::ObjectKey};
use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};

use crate::outcome::call;

/// What whoever has an object applied must be allowed to do with it.
const VERBS: [&str; 5] = ["create", "update", "patch", "get", "delete"];

/// Fails where `account` may not do all that.
pub(super) async fn check(wec: &Client, account: &ExecutorAccount, key: &ObjectKey) -> Result<(), Failure> {
    if key.resource.api.group.as_ref() == "rbac.authorization.k8s.io" {
        // A review does not tell whether these would raise somebody's rights, and the agent's own say nothing of the executor's.
        return Err(Failure::Refused(format!(
            "{key} is not applied for an executor: whether it may grant what this grants cannot be reviewed"
        )));
    }
    try_join_all(VERBS.map(|verb| ask(wec, account, key, verb)))
        .await
        .map(|_| ())
}

/// Fails where `account` may not read the object.
pub(super) async fn check_read(
    wec: &Client,
    account: &ExecutorAccount,
    key: &ObjectKey,
) -> Result<(), Failure> {
    ask(wec, account, key, "get").await
}

async fn ask(wec: &Client, account: &ExecutorAccount, key: &ObjectKey, verb: &str) -> Result<(), Failure> {
    let ExecutorAccount { namespace, name } = account;
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{namespace}:{name}")),
            groups: Some(vec![
                "system:serviceaccounts".to_owned(),
                "system:authenticated".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
            ]),
            resource_attributes: Some(ResourceAttributes {
                group: Some(key.resource.api.group.to_string()),
                version: Some(key.resource.api.version.to_string()),
                resource: Some(key.resource.plural.to_string()),
                namespace: Some(key.namespace.to_string()),
                name: Some(key.name.to_string()),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(wec.clone());
    let answer = call(reviews.create(&PostParams::default(), &review)).await?;
    if answer.status.is_some_and(|status| status.allowed) {
        return Ok(());
    }
    Err(Failure::Refused(format!(
        "the executor {namespace}/{name} is not allowed to {verb} {key}"
    )))
}
