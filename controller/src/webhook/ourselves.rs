//! Whose writes are Argosy's own, so that neither webhook nor policies look at them.

use std::time::Duration;

use argosy_core::Failure;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{Api, Client};
use serde_json::Value;

use crate::outcome::{call, creating};

/// Until the API server is asked again who we are.
const AGAIN: Duration = Duration::from_secs(2);

/// How the API server of the WDS knows Argosy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ourselves {
    /// Every service account of this namespace: the release Job has one of its own.
    Namespace(String),
    /// A user.
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

    /// CEL: somebody else asks.
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

/// Asks until there is an answer.
pub(super) async fn ask(wds: &Client) -> Ourselves {
    loop {
        match ask_once(wds).await {
            Ok(ourselves) => return ourselves,
            Err(failure) => {
                tracing::warn!(error = %failure, "the API server of the WDS does not say who we are, asking again");
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

/// A CEL string. JSON's escapes are CEL's.
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
