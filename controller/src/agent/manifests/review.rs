//! Checks the rights of a ManifestWork's executor: the agent must not do anything for an account
//! that the account may not do itself.
//!
//! The verbs are those of OCM. Not here: the agent's own rights, which the API server checks with
//! each request.

use argosy_api::manifest_work::ExecutorAccount;
use argosy_core::{
    Failure,
    agent::manifests::{GroupVersion, ObjectKey, Resource},
};
use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};

use crate::runtime::requests::call;

/// Verbs that an account needs to have an object applied.
const VERBS: [&str; 5] = ["create", "update", "patch", "get", "delete"];

/// Fails if `account` lacks one of these rights.
pub(super) async fn check(wec: &Client, account: &ExecutorAccount, key: &ObjectKey) -> Result<(), Failure> {
    if key.resource.api.group.as_ref() == "rbac.authorization.k8s.io" {
        // A review does not show if the object would escalate someone's rights, and the API
        // server's own check covers only the agent's.
        return Err(Failure::Refused(format!(
            "{key} is not applied for an executor: a SubjectAccessReview cannot check if the executor may \
            grant these rights"
        )));
    }
    try_join_all(VERBS.map(|verb| ask(wec, account, key, verb)))
        .await
        .map(|_| ())
}

/// Fails if `account` may not read the object.
pub(super) async fn check_read(
    wec: &Client,
    account: &ExecutorAccount,
    key: &ObjectKey,
) -> Result<(), Failure> {
    ask(wec, account, key, "get").await
}

/// Fails if `account` may not create the namespace.
pub(super) async fn check_namespace(
    wec: &Client,
    account: &ExecutorAccount,
    name: &str,
) -> Result<(), Failure> {
    let namespaces = Resource::new(GroupVersion::parse("v1"), "namespaces");
    ask(wec, account, &ObjectKey::new(namespaces, "", name), "create").await
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
