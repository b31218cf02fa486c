//! The approver: it decides on certificate requests of the fleet's agents, and records the issued
//! certificates.
//!
//! It watches ManagedClusters, and CertificateSigningRequests for client certificates. Not here:
//! the rules of the decision (`argosy_core::hub::approval`), and the signing (by Kubernetes, once a
//! request is approved).

mod content;
pub(crate) mod read;

use std::time::Duration;

use argosy_api::{ManagedCluster, conditions::signing_request as types, names};
use argosy_core::{
    Change, ClusterName, Failure,
    hub::approval::{ApprovalAction, ApprovalInput, Approvals, Verdict},
};
use jiff::SignedDuration;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use kube::{Api, Client, ResourceExt};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::runtime::{
    engine::{self, Execute},
    lenient::Lenient,
    metrics::Metrics,
    requests::{call, creating, json_patch, patching, read as read_object},
    supervise::supervise,
    watch::{follow_projected, selecting},
};

/// Capacity of the queue of inputs. A full queue delays the watches and loses nothing.
const QUEUE: usize = 256;

/// Runs until `stop`. `longest` is the maximum validity of a certificate. If several control
/// clusters share an ITS, all of them decide alike, and the first write wins.
pub async fn run(its: Client, longest: Duration, metrics: Metrics, stop: CancellationToken) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let mut watches = JoinSet::new();
    let clusters: Api<Lenient<ManagedCluster>> = Api::all(its.clone());
    watches.spawn(follow_projected(
        clusters,
        selecting(""),
        sender.clone(),
        Lenient::into_object,
        ApprovalInput::Cluster,
    ));
    let requests: Api<Lenient<CertificateSigningRequest>> = Api::all(its.clone());
    let for_clients = selecting("").fields(&format!("spec.signerName={}", names::CLIENT_SIGNER));
    watches.spawn(follow_projected(
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
                let api: Api<Lenient<ManagedCluster>> = Api::all(self.its.clone());
                let patch = json_patch(patch)?;
                let cluster =
                    read_object(api.patch(key.as_str(), &patching(names::CONTROLLER), &patch)).await?;
                tracing::info!(cluster = %key, "recorded the agent's certificate");
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
    /// Writes the verdict. The approval of a request is replaced as a whole, so the conditions of
    /// others are read first.
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
        tracing::info!(%cluster, name, reason, "approved a request for the agent's certificate");
    } else {
        tracing::warn!(%cluster, name, reason, error = message, "denied a request for the agent's certificate");
    }
}
