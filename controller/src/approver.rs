//! The approver: it decides on what the agents of the fleet ask for as certificates, and records what was issued.
//!
//! Watched are ManagedClusters, and CertificateSigningRequests for client certificates. Not here: what is decided
//! (`argosy_core::approval`), and who signs (Kubernetes, once a request is approved).

mod content;
pub(crate) mod read;

use std::time::Duration;

use argosy_api::{ManagedCluster, conditions::signing_request as types, names};
use argosy_core::{
    Change, ClusterName, Failure,
    approval::{ApprovalAction, ApprovalInput, Approvals, Verdict},
};
use jiff::SignedDuration;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use kube::{Api, Client, ResourceExt};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    engine::{self, Execute},
    metrics::Metrics,
    outcome::{call, creating, json_patch, patching, read as read_object},
    supervise::supervise,
    tolerant::Tolerant,
    watch::{follow_seen, selecting},
};

/// Inputs waiting for the engine. A full queue holds the watches back, never loses anything.
const QUEUE: usize = 256;

/// Runs until `stop`. No certificate is to last longer than `longest`. Where several control clusters share an ITS, each does the
/// same, and the first to do it has done it.
pub async fn run(its: Client, longest: Duration, metrics: Metrics, stop: CancellationToken) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let mut watches = JoinSet::new();
    let clusters: Api<Tolerant<ManagedCluster>> = Api::all(its.clone());
    watches.spawn(follow_seen(
        clusters,
        selecting(""),
        sender.clone(),
        Tolerant::into_object,
        ApprovalInput::Cluster,
    ));
    let requests: Api<Tolerant<CertificateSigningRequest>> = Api::all(its.clone());
    let for_clients = selecting("").fields(&format!("spec.signerName={}", names::CLIENT_SIGNER));
    watches.spawn(follow_seen(
        requests,
        for_clients,
        sender,
        |request| read::request(&request.into_object()),
        ApprovalInput::Request,
    ));
    let index = Approvals::new(SignedDuration::try_from(longest).unwrap_or(SignedDuration::MAX));
    let reactions = metrics.reactions("approvals");
    let driving = engine::drive(index, Executor { its }, receiver, stop, reactions, |_| {});
    supervise(driving, watches).await;
}

#[derive(Clone)]
struct Executor {
    its: Client,
}

impl Execute<Approvals> for Executor {
    fn at_once(&self) -> usize {
        16
    }

    async fn execute(&self, key: &ClusterName, action: &ApprovalAction) -> Result<ApprovalInput, Failure> {
        match action {
            ApprovalAction::Record(patch) => {
                let api: Api<Tolerant<ManagedCluster>> = Api::all(self.its.clone());
                let patch = json_patch(patch)?;
                let cluster =
                    read_object(api.patch(key.as_str(), &patching(names::CONTROLLER), &patch)).await?;
                tracing::info!(cluster = %key, "the agent's certificate is recorded");
                Ok(ApprovalInput::Cluster(Change::Apply(Box::new(cluster))))
            }
            ApprovalAction::Decide {
                name,
                uid,
                resource_version,
                verdict,
            } => {
                let version = (Some(uid.clone()), Some(resource_version.clone()));
                let written = self.decide(name, version, verdict).await?;
                report(key, name, verdict);
                Ok(ApprovalInput::Request(Change::Apply(Box::new(read::request(
                    &written,
                )))))
            }
        }
    }
}

impl Executor {
    /// The approval of a request is replaced as a whole, so that what others have put there must be known.
    async fn decide(
        &self,
        name: &str,
        version: (Option<String>, Option<String>),
        verdict: &Verdict,
    ) -> Result<CertificateSigningRequest, Failure> {
        let api: Api<CertificateSigningRequest> = Api::all(self.its.clone());
        let mut request = call(api.get(name)).await?;
        if (request.uid(), request.resource_version()) != version {
            return Err(Failure::Conflict);
        }
        let conditions = request
            .status
            .get_or_insert_default()
            .conditions
            .get_or_insert_default();
        conditions.push(condition(verdict));
        let params = creating(names::CONTROLLER);
        call(api.replace_subresource("approval", name, &params, &request)).await
    }
}

fn condition(verdict: &Verdict) -> CertificateSigningRequestCondition {
    let type_ = if verdict.is_approved {
        types::APPROVED
    } else {
        types::DENIED
    };
    CertificateSigningRequestCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: Some(verdict.reason.to_owned()),
        message: Some(verdict.message.clone()),
        ..CertificateSigningRequestCondition::default()
    }
}

fn report(cluster: &ClusterName, name: &str, verdict: &Verdict) {
    let Verdict {
        is_approved,
        reason,
        message,
    } = verdict;
    if *is_approved {
        tracing::info!(%cluster, name, reason, "a request for the agent's certificate is approved");
    } else {
        tracing::warn!(%cluster, name, reason, error = message, "a request for the agent's certificate is denied");
    }
}
