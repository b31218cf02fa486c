//! The decision on a certificate request: a sequence of checks, of which the first that fails
//! denies the request.

use argosy_api::{conditions::reason, names};
use jiff::SignedDuration;

use super::{Member, SigningRequest};
use crate::ClusterName;

/// The decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// True if the request is approved.
    pub is_approved: bool,
    /// The reason, in one word.
    pub reason: &'static str,
    /// The reason as a sentence, and a remedy.
    pub message: String,
}

/// The facts that a request is judged by.
pub(super) struct Context<'a> {
    /// The cluster of the agent that the request names.
    pub(super) cluster: &'a ClusterName,
    /// The ManagedCluster, if there is one.
    pub(super) member: Option<&'a Member>,
    /// A request of the same cluster that is approved and not signed yet.
    pub(super) pending: Option<&'a str>,
    /// The longest time that a certificate may be valid.
    pub(super) longest: SignedDuration,
}

/// The usages that a request must have, each once. `key encipherment` is not among them, because
/// the key of an elliptic curve enciphers nothing.
const USAGES: [&str; 2] = ["client auth", "digital signature"];

pub(super) fn judge(request: &SigningRequest, context: &Context<'_>) -> Verdict {
    let verdict = asks_for_no_more(request, context)
        .and_then(|()| requester(request, context))
        .and_then(|requester| {
            let member = is_member(context)?;
            shows_its_certificate(request, &requester, member)?;
            is_alone(context)?;
            Ok(requester)
        });
    match verdict {
        Ok(Requester::Bootstrap) => Verdict {
            is_approved: true,
            reason: reason::AGENT_JOINS,
            message: format!("the agent of {} asks for its first certificate", context.cluster),
        },
        Ok(Requester::Agent) => Verdict {
            is_approved: true,
            reason: reason::AGENT_RENEWS,
            message: format!("the agent of {} asks for its next certificate", context.cluster),
        },
        Err((reason, message)) => Verdict {
            is_approved: false,
            reason,
            message,
        },
    }
}

type Denial = (&'static str, String);

/// The user that made the request.
enum Requester {
    Bootstrap,
    Agent,
}

fn asks_for_no_more(request: &SigningRequest, context: &Context<'_>) -> Result<(), Denial> {
    let problem = match &request.subject {
        None => Some("the request names no agent".to_owned()),
        Some(subject) if subject.cluster != *context.cluster => {
            Some("the request names another agent".to_owned())
        }
        Some(subject) => subject.problem.clone(),
    };
    if let Some(problem) = problem {
        return Err((reason::NOT_AN_AGENTS_REQUEST, problem));
    }
    let mut usages: Vec<&str> = request.usages.iter().map(String::as_str).collect();
    usages.sort_unstable();
    if usages != USAGES {
        let message = format!("the usages of the request must be {}", USAGES.join(" and "));
        return Err((reason::NOT_AN_AGENTS_REQUEST, message));
    }
    let lasts = request.expiration_seconds.map(i64::from);
    if !lasts.is_some_and(|seconds| (1..=context.longest.as_secs()).contains(&seconds)) {
        let message = format!(
            "spec.expirationSeconds must be set and at most {}",
            context.longest.as_secs()
        );
        return Err((reason::LASTS_TOO_LONG, message));
    }
    Ok(())
}

fn requester(request: &SigningRequest, context: &Context<'_>) -> Result<Requester, Denial> {
    let cluster = context.cluster.as_str();
    if request.user == names::bootstrap_user(cluster) {
        return Ok(Requester::Bootstrap);
    }
    if request.user == names::agent_user(cluster) {
        return Ok(Requester::Agent);
    }
    let message = format!(
        "{} may not ask for the certificate of the agent of {cluster}",
        request.user
    );
    Err((reason::FOREIGN_REQUESTER, message))
}

fn is_member<'a>(context: &Context<'a>) -> Result<&'a Member, Denial> {
    let cluster = context.cluster;
    let Some(member) = context.member else {
        let message = format!("there is no ManagedCluster {cluster}");
        return Err((reason::UNKNOWN_CLUSTER, message));
    };
    if !member.is_accepted {
        let message =
            format!("ManagedCluster {cluster} is not accepted (spec.hubAcceptsClient) or is being removed");
        return Err((reason::NOT_ACCEPTED, message));
    }
    Ok(member)
}

fn shows_its_certificate(
    request: &SigningRequest,
    requester: &Requester,
    member: &Member,
) -> Result<(), Denial> {
    let is_known = match (requester, request.credentials.as_slice()) {
        (Requester::Bootstrap, _) => true,
        (Requester::Agent, [credential]) => member.ledger.knows(credential),
        // Without a credential, or with several, the certificate that was used is unknown.
        (Requester::Agent, _) => false,
    };
    if is_known {
        return Ok(());
    }
    let message = "the request was not made with a certificate that is recorded for the cluster (the API server names the \
                   certificate from Kubernetes 1.32 on); give the agent a new bootstrap token";
    Err((reason::UNKNOWN_CERTIFICATE, message.to_owned()))
}

/// Allows one unsigned request at a time, so that nobody keeps the signer busy without end.
fn is_alone(context: &Context<'_>) -> Result<(), Denial> {
    match context.pending {
        None => Ok(()),
        Some(name) => {
            let message = format!(
                "CertificateSigningRequest {name} of the same cluster is approved but not signed yet; try again after it is \
                 signed, or delete it"
            );
            Err((reason::ANOTHER_PENDING, message))
        }
    }
}
