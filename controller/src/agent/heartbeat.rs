//! What the agent says about its cluster: the Lease while the WEC answers, conditions and facts on the ManagedCluster.
//!
//! The Lease goes first and alone, so that a slow check of the artifact repository cannot make the cluster look dead. Nothing is
//! written that stands there already.

mod argo_version;
mod facts;

use std::{collections::BTreeMap, time::Duration};

use argosy_api::{
    ManagedCluster, ManagedClusterStatus,
    conditions::{condition, managed_cluster as types, reason, set_condition},
    issued::replaced_before,
    names, workflow,
};
use argosy_core::{
    Failure,
    facts::{Facts, set_claim, status_patch},
};
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{Condition, MicroTime},
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, timeout},
};

use self::facts::Teller;
use super::Member;
use crate::{
    artifacts,
    outcome::{call, patching, read},
    tolerant::Tolerant,
};

/// How often the artifact repository is looked at while it is fine.
const CHECK_EVERY: Duration = Duration::from_mins(5);
/// How often it is looked at while something is wrong with it.
const RECHECK_EVERY: Duration = Duration::from_secs(15);
/// How often version, nodes and the like are looked at, as by OCM's registration agent (`--cluster-healthcheck-period`).
const LOOK_EVERY: Duration = Duration::from_mins(1);

/// Between two tries to find out, or tell, which cluster this is.
const AGAIN: Duration = Duration::from_secs(1);

/// When the last renewal of the Lease began that has succeeded; of none, `None`.
pub(super) type LastRenewal = watch::Receiver<Option<Instant>>;

/// What tells the agent's cluster from another one of its name; `None` where that may not be read. Waits until its API server answers.
pub(super) async fn cluster_id(member: &Member) -> Option<String> {
    let mut ticks = interval(AGAIN);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match facts::cluster_id(&member.wec).await {
            Ok(id) => return id,
            Err(failure) => tracing::warn!(error = %failure, "cannot read which cluster this is"),
        }
    }
}

/// Renews the Lease and keeps the conditions, for ever. The hub is told first which cluster this is: it takes the one that it knows of for
/// the one that is alive.
pub(super) async fn run(member: Member, cluster_id: Option<String>, renewed: watch::Sender<Option<Instant>>) {
    if let Some(id) = cluster_id {
        introduce(&member, &id).await;
    }
    tokio::join!(renew_lease(&member, &renewed), describe(&member));
}

/// Tells the hub which cluster this is, unless OCM's agent does.
async fn introduce(member: &Member, id: &str) {
    let mut ticks = interval(AGAIN);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match write_id(member, id).await {
            Ok(()) => return,
            Err(failure @ (Failure::Refused(_) | Failure::NotFound { .. } | Failure::Unserved(_))) => {
                tracing::warn!(error = %failure, "cannot tell the hub which cluster this is");
                return;
            }
            Err(failure) => tracing::debug!(error = %failure, "cannot tell the hub which cluster this is"),
        }
    }
}

async fn write_id(member: &Member, id: &str) -> Result<(), Failure> {
    if facts::serves_claims(&member.wec).await? {
        return Ok(());
    }
    let api: Api<ManagedCluster> = Api::all(member.its.clone());
    let cluster = call(api.get(member.cluster.as_str())).await?;
    let known = cluster.status.unwrap_or_default();
    let mut status = known.clone();
    set_claim(&mut status, names::CLUSTER_ID_CLAIM, Some(id));
    let Some(change) = status_patch(&known, &status) else {
        return Ok(());
    };
    let patch = Patch::Merge(json!({
        "metadata": { "resourceVersion": cluster.metadata.resource_version },
        "status": change,
    }));
    call(api.patch_status(member.cluster.as_str(), &patching(names::AGENT), &patch)).await?;
    Ok(())
}

/// Three renewals within the lease's duration, so that one lost request does not end it.
async fn renew_lease(member: &Member, renewed: &watch::Sender<Option<Instant>>) {
    let slice = member.lease_duration / 3;
    let renewals = member.metrics.lease(member.cluster.as_str());
    let mut ticks = interval(slice);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match timeout(slice, call(member.wec.apiserver_version())).await {
            Ok(Ok(_)) => {}
            answer => {
                tracing::warn!(
                    error = ?answer,
                    "this cluster's API server does not answer, so the lease is not renewed"
                );
                continue;
            }
        }
        let begun = Instant::now();
        match timeout(slice, write_lease(member)).await {
            Ok(Ok(())) => {
                renewed.send_replace(Some(begun));
                renewals.renewed();
            }
            answer => tracing::warn!(error = ?answer, "cannot renew the lease in the mailbox"),
        }
    }
}

async fn write_lease(member: &Member) -> Result<(), Failure> {
    let api: Api<Tolerant<Lease>> = Api::namespaced(member.its.clone(), member.cluster.as_str());
    let mut lease = Lease::default();
    lease.metadata.name = Some(names::CLUSTER_LEASE.to_owned());
    let label = (names::OCM_CLUSTER_LABEL.to_owned(), member.cluster.to_string());
    lease.metadata.labels = Some([label].into());
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(names::AGENT.to_owned()),
        lease_duration_seconds: i32::try_from(member.lease_duration.as_secs()).ok(),
        renew_time: Some(MicroTime(Timestamp::now())),
        ..LeaseSpec::default()
    });
    let params = PatchParams::apply(names::AGENT).force();
    call(api.patch(names::CLUSTER_LEASE, &params, &Patch::Apply(&lease))).await?;
    Ok(())
}

type Checked = Result<artifacts::Repository, artifacts::Problem>;

async fn describe(member: &Member) {
    let mut ticks = interval(member.lease_duration / 3);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut repository = None;
    let mut next_check = Instant::now();
    let mut teller = Teller::Us(Facts::default());
    let mut argo = None;
    let mut next_look = Instant::now();
    let mut claimed = Claims::new();
    loop {
        ticks.tick().await;
        if Instant::now() >= next_check {
            let checked =
                artifacts::check(&member.wec, &member.artifact_namespace, member.cluster.as_str()).await;
            next_check = Instant::now()
                + if checked.is_ok() {
                    CHECK_EVERY
                } else {
                    RECHECK_EVERY
                };
            repository = Some(checked);
        }
        if Instant::now() >= next_look {
            match facts::read(&member.wec).await {
                Ok(read) => (teller, next_look) = (read, Instant::now() + LOOK_EVERY),
                Err(failure) => {
                    tracing::warn!(error = %failure, "cannot read what the hub is told about this cluster");
                }
            }
            argo = argo_version::read(&member.wec, &member.artifact_namespace, argo).await;
        }
        let Some(repository) = &repository else { continue };
        let claims = claims(repository, argo.as_deref());
        if let Err(failure) = tell(member, repository, &teller, &claims, &mut claimed).await {
            tracing::warn!(error = %failure, "cannot write what the hub is told about this cluster");
        }
    }
}

/// What the agent claims, by the name of the claim; empty where it claims nothing.
type Claims = BTreeMap<&'static str, String>;

fn claims(repository: &Checked, argo: Option<&str>) -> Claims {
    let repository = repository
        .as_ref()
        .map_or_else(|_| String::new(), ToString::to_string);
    [
        (names::ARTIFACT_REPOSITORY_CLAIM, repository),
        (names::ARGO_VERSION_CLAIM, argo.unwrap_or_default().to_owned()),
        (names::AGENT_VERSION_CLAIM, env!("CARGO_PKG_VERSION").to_owned()),
    ]
    .into()
}

/// Tells the hub. `claimed` is what OCM's agent was last given to claim, if anything.
async fn tell(
    member: &Member,
    repository: &Checked,
    teller: &Teller,
    claims: &Claims,
    claimed: &mut Claims,
) -> Result<(), Failure> {
    let argo = serves_argo(member).await?;
    let facts = match teller {
        Teller::Ocm => {
            for (name, value) in claims {
                if claimed.get(name) == Some(value) {
                    continue;
                }
                match facts::claim_by_ocm(&member.wec, name, value).await {
                    // As with the chart of an earlier release: the rest is told.
                    Err(Failure::Refused(why)) => {
                        tracing::warn!(name, error = why, "a claim may not be written");
                    }
                    claimed => claimed?,
                }
                claimed.insert(name, value.clone());
            }
            None
        }
        Teller::Us(facts) => Some((facts, claims)),
    };
    write_status(member, argo, repository, facts).await
}

async fn serves_argo(member: &Member) -> Result<bool, Failure> {
    let version = format!("{}/{}", workflow::GROUP, workflow::VERSION);
    match call(member.wec.list_api_group_resources(&version)).await {
        Ok(list) => Ok(list
            .resources
            .iter()
            .any(|resource| resource.name == workflow::PLURAL)),
        Err(Failure::NotFound { .. } | Failure::Unserved(_)) => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Attempts to write while others write the same ManagedCluster.
const ATTEMPTS: usize = 3;

async fn write_status(
    member: &Member,
    argo: bool,
    repository: &Checked,
    facts: Option<(&Facts, &Claims)>,
) -> Result<(), Failure> {
    let api: Api<Tolerant<ManagedCluster>> = Api::all(member.its.clone());
    for _ in 0..ATTEMPTS {
        let cluster = read(api.get(member.cluster.as_str())).await?;
        pass_on(replaced_before(&cluster), &member.wish);
        let known = cluster.status.unwrap_or_default();
        let status = described(known.clone(), argo, repository, facts, Timestamp::now());
        let Some(change) = status_patch(&known, &status) else {
            return Ok(());
        };
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": cluster.metadata.resource_version },
            "status": change,
        }));
        match call(api.patch_status(member.cluster.as_str(), &patching(names::AGENT), &patch)).await {
            // The controller has written at the same moment, which it does when it first hears of the agent.
            Err(Failure::Conflict) => {}
            written => return written.map(|_| ()),
        }
    }
    // The next tick decides on what is there then.
    Ok(())
}

fn pass_on(wish: Option<Timestamp>, wishes: &watch::Sender<Option<Timestamp>>) {
    wishes.send_if_modified(|known| {
        let is_new = *known != wish;
        *known = wish;
        is_new
    });
}

fn described(
    mut status: ManagedClusterStatus,
    argo: bool,
    repository: &Checked,
    facts: Option<(&Facts, &Claims)>,
    now: Timestamp,
) -> ManagedClusterStatus {
    let has_joined = |known: &Condition| known.type_ == types::JOINED && known.status == "True";
    // OCM's agent may have said so before, in its own words.
    if !status.conditions.iter().any(has_joined) {
        let joined = condition(
            types::JOINED,
            true,
            reason::READY,
            "the cluster's agent has joined",
            now,
        );
        set_condition(&mut status.conditions, joined);
    }
    for condition in [argo_ready(argo, now), repository_ready(repository, now)] {
        set_condition(&mut status.conditions, condition);
    }
    if let Some((facts, claims)) = facts {
        facts.describe(&mut status);
        for (name, value) in claims {
            let value = Some(value.as_str()).filter(|value| !value.is_empty());
            set_claim(&mut status, name, value);
        }
    }
    status
}

fn argo_ready(argo: bool, now: Timestamp) -> Condition {
    let (why, message) = if argo {
        (reason::ARGO_PRESENT, "the cluster serves workflows.argoproj.io")
    } else {
        (
            reason::ARGO_MISSING,
            "the cluster does not serve workflows.argoproj.io; install Argo Workflows there",
        )
    };
    condition(types::ARGO_READY, argo, why, message, now)
}

fn repository_ready(repository: &Checked, now: Timestamp) -> Condition {
    let type_ = types::ARTIFACT_REPOSITORY_READY;
    match repository {
        Ok(repository) => condition(
            type_,
            true,
            reason::READY,
            &format!("{repository} was written and read back"),
            now,
        ),
        Err(problem) => condition(type_, false, problem.reason(), &problem.to_string(), now),
    }
}
