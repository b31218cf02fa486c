//! The right to use a Node's kubelet: a SubjectAccessReview for `nodes/proxy`, as a kubelet asks for
//! it (`pkg/kubelet/server/auth.go`).
//!
//! The certificates of agents come from the same authority as that of the API server, so a valid
//! certificate gives no right. Answers are kept for a while, as a kubelet keeps them. Not here: the
//! account of a request (`account`).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use argosy_core::Failure;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};
use tokio::{sync::Semaphore, time::Instant};

use super::account::Account;
use crate::runtime::requests::call;

/// Time for which a permission is kept, and a refusal: the defaults of a kubelet.
const ALLOWED: Duration = Duration::from_mins(5);
const DENIED: Duration = Duration::from_secs(30);

/// Maximum number of answers that are kept.
const KEPT: usize = 1024;

/// Maximum number of concurrent reviews.
const AT_ONCE: usize = 8;

/// Every authenticated account is in this group.
const AUTHENTICATED: &str = "system:authenticated";

/// Asks the API server for the rights of accounts. Clones share the answers.
#[derive(Clone)]
pub(super) struct Reviews {
    wds: Client,
    known: Arc<Mutex<HashMap<Asked, Answer>>>,
    turns: Arc<Semaphore>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Asked {
    account: Account,
    verb: &'static str,
    /// `None` for all Nodes.
    node: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    is_allowed: bool,
    ends: Instant,
}

impl Reviews {
    pub(super) fn new(wds: Client) -> Self {
        Self {
            wds,
            known: Arc::default(),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// True if `account` may use the kubelet of `node`, or of every Node: with the verb `get` for logs,
    /// and `create` for sessions.
    pub(super) async fn may(
        &self,
        account: &Account,
        verb: &'static str,
        node: Option<&str>,
    ) -> Result<bool, Failure> {
        let asked = Asked {
            account: account.clone(),
            verb,
            node: node.map(str::to_owned),
        };
        if let Some(known) = self.known(&asked) {
            return Ok(known);
        }
        let Ok(_turn) = self.turns.acquire().await else {
            return Ok(false);
        };
        // Another request may have asked the same meanwhile.
        if let Some(known) = self.known(&asked) {
            return Ok(known);
        }
        let review: Api<SubjectAccessReview> = Api::all(self.wds.clone());
        let answered = call(review.create(&PostParams::default(), &asked.review())).await?;
        let is_allowed = answered.status.is_some_and(|status| status.allowed);
        self.keep(asked, is_allowed);
        Ok(is_allowed)
    }

    fn known(&self, asked: &Asked) -> Option<bool> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = known.get(asked).filter(|answer| answer.ends > Instant::now())?;
        Some(answer.is_allowed)
    }

    fn keep(&self, asked: Asked, is_allowed: bool) {
        let now = Instant::now();
        let ends = now + if is_allowed { ALLOWED } else { DENIED };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
            known.retain(|_, answer| answer.ends > now);
        }
        // More accounts and Nodes than that are asked about each time.
        if known.len() < KEPT {
            known.insert(asked, Answer { is_allowed, ends });
        }
    }
}

impl Asked {
    fn review(&self) -> SubjectAccessReview {
        let mut groups = self.account.groups.clone();
        groups.push(AUTHENTICATED.to_owned());
        SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(self.account.user.clone()),
                groups: Some(groups),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(self.verb.to_owned()),
                    resource: Some("nodes".to_owned()),
                    subresource: Some("proxy".to_owned()),
                    version: Some("v1".to_owned()),
                    name: self.node.clone(),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        }
    }
}
