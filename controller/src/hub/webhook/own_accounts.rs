//! The accounts of Argosy itself, whose writes neither the webhook nor the policies check.

use std::time::Duration;

use argosy_core::Failure;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{Api, Client};
use serde_json::Value;

use crate::runtime::requests::{call, creating};

/// Delay before the API server is asked again for our user name.
const AGAIN: Duration = Duration::from_secs(2);

/// The identity of Argosy at the API server of the WDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ourselves {
    /// Every service account of this namespace: the release Job has its own.
    Namespace(String),
    /// This user only.
    User(String),
}

impl Ourselves {
    fn of(username: &str) -> Self {
        let account = username.strip_prefix("system:serviceaccount:");
        match account.and_then(|account| account.split_once(':')) {
            Some((namespace, _)) => Self::Namespace(namespace.to_owned()),
            None => Self::User(username.to_owned()),
        }
    }

    /// CEL: the request comes from another user.
    pub(super) fn is_not_asking(&self) -> String {
        match self {
            Self::Namespace(namespace) => {
                let group = literal(&format!("system:serviceaccounts:{namespace}"));
                format!("!has(request.userInfo.groups) || !({group} in request.userInfo.groups)")
            }
            Self::User(name) => format!("request.userInfo.username != {}", literal(name)),
        }
    }
}

/// Retries until the API server responds.
pub(super) async fn ask(wds: &Client) -> Ourselves {
    loop {
        match ask_once(wds).await {
            Ok(ourselves) => return ourselves,
            Err(failure) => {
                tracing::warn!(
                    error = %failure,
                    "cannot read the controller's own user name from the API server of the WDS, trying again"
                );
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

async fn ask_once(wds: &Client) -> Result<Ourselves, Failure> {
    let api: Api<SelfSubjectReview> = Api::all(wds.clone());
    let params = creating(argosy_api::names::CONTROLLER);
    let review = call(api.create(&params, &SelfSubjectReview::default())).await?;
    let user = review.status.and_then(|status| status.user_info);
    user.and_then(|user| user.username)
        .map(|username| Ourselves::of(&username))
        .ok_or_else(|| Failure::Refused("the SelfSubjectReview has no user name".to_owned()))
}

/// A CEL string literal. JSON and CEL have the same escapes.
pub(super) fn literal(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_account_of_the_controllers_namespace_is_ours() {
        let ourselves = Ourselves::of("system:serviceaccount:argosy:argosy-controller");
        assert_eq!(ourselves, Ourselves::Namespace("argosy".to_owned()));
        assert_eq!(
            ourselves.is_not_asking(),
            r#"!has(request.userInfo.groups) || !("system:serviceaccounts:argosy" in request.userInfo.groups)"#
        );
    }

    #[test]
    fn a_user_is_ours_alone() {
        let ourselves = Ourselves::of(r#"the "lab""#);
        assert_eq!(
            ourselves.is_not_asking(),
            r#"request.userInfo.username != "the \"lab\"""#
        );
    }
}
