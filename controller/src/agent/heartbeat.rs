//! Reports about the agent's cluster: the Lease while the WEC responds, and conditions and facts on
//! the ManagedCluster.
//!
//! The Lease is renewed separately, so that a slow check of the artifact repository cannot make the
//! cluster look dead. A value that is up to date is not written again.

mod argo_version;
mod facts;
mod known;

use std::{collections::BTreeMap, time::Duration};

use argosy_api::{
    ManagedCluster, ManagedClusterStatus,
    conditions::{condition, managed_cluster as types, reason, set_condition},
    issued::replaced_before,
    names, workflow,
};
use argosy_core::{
    Failure,
    model::cluster_info::{Facts, set_claim, status_patch},
};
use backon::{BackoffBuilder, ConstantBuilder};
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{Condition, MicroTime},
};
use kube::{Api, api::Patch};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, timeout},
};

use self::{facts::Teller, known::Known};
use super::{Member, room::Room, tunnel::Advert};
use crate::{
    artifacts,
    runtime::{
        lease,
        lenient::Lenient,
        requests::{call, patching},
        restore_guard::Newest,
    },
};

/// Interval between checks of an artifact repository that works.
const CHECK_EVERY: Duration = Duration::from_mins(5);
/// Interval between checks of an artifact repository with a problem.
const RECHECK_EVERY: Duration = Duration::from_secs(15);
/// Interval between checks of version, nodes and the like, as in OCM's registration agent
/// (`--cluster-healthcheck-period`).
const LOOK_EVERY: Duration = Duration::from_mins(1);

/// Interval between attempts to read or report the identity of this cluster, and shortest pause
/// before the Lease is renewed again after the ITS has not answered. The longest is twice as long.
const AGAIN: Duration = Duration::from_secs(1);

/// Number of failed renewals in a row of which one is logged.
const REPORT_EVERY: u32 = 10;

/// Start of the last successful renewal of the Lease; `None` before the first one.
pub(super) type LastRenewal = watch::Receiver<Option<Instant>>;

/// Returns the ID that distinguishes the agent's cluster from another one of its name; `None` if
/// the agent may not read it. Waits until the cluster's API server responds.
pub(super) async fn cluster_id(member: &Member) -> Option<String> {
    let mut ticks = interval(AGAIN);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match facts::cluster_id(&member.wec).await {
            Ok(id) => return id,
            Err(failure) => tracing::warn!(error = %failure, "cannot read the ID of this cluster"),
        }
    }
}

/// Renews the Lease and updates the conditions, until the ITS is restored to an earlier state. The
/// cluster's ID is reported first: the hub takes the cluster that it knows for the one that is
/// alive.
pub(super) async fn run(
    member: Member,
    cluster_id: Option<String>,
    renewed: watch::Sender<Option<Instant>>,
    tunnel: Advert,
    room: Room,
) {
    if let Some(id) = cluster_id {
        introduce(&member, &id).await;
    }
    tokio::select! {
        () = renew_lease(&member, &tunnel, &renewed) => {}
        () = describe(&member, &tunnel, room) => {}
    }
}

/// Reports the cluster's ID to the hub, unless OCM's agent does.
async fn introduce(member: &Member, id: &str) {
    let mut ticks = interval(AGAIN);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match write_id(member, id).await {
            Ok(()) => return,
            Err(failure @ (Failure::Refused(_) | Failure::NotFound { .. } | Failure::Unserved(_))) => {
                tracing::warn!(error = %failure, "cannot report the ID of this cluster to the hub");
                return;
            }
            Err(failure) => tracing::debug!(
                error = %failure,
                "cannot report the ID of this cluster to the hub"
            ),
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

/// Renews the Lease three times within its duration, so that one lost request does not end it.
/// Returns when a response shows that the ITS was restored to an earlier state.
async fn renew_lease(member: &Member, tunnel: &Advert, renewed: &watch::Sender<Option<Instant>>) {
    let slice = member.lease_duration / 3;
    let renewals = member.metrics.lease(member.cluster.as_str());
    let mut ticks = interval(slice);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut newest = Newest::default();
    // Before the first renewal, the controller does not know the token.
    let (mut is_lapsed, mut failures) = (true, 0_u32);
    // All agents of a fleet notice at the same time that the ITS is back.
    let again = ConstantBuilder::default().with_delay(AGAIN).with_jitter();
    let mut pauses = again.without_max_times().build();
    loop {
        ticks.tick().await;
        match timeout(slice, call(member.wec.apiserver_version())).await {
            Ok(Ok(_)) => {}
            answer => {
                tracing::warn!(
                    error = ?answer,
                    "this cluster's API server does not answer, so the lease is not renewed"
                );
                is_lapsed = true;
                continue;
            }
        }
        let begun = Instant::now();
        match timeout(slice, write_lease(member, tunnel.annotation.as_deref())).await {
            Ok(Ok(version)) => {
                if newest.goes_back("Lease", version.as_deref()) {
                    return;
                }
                renewed.send_replace(Some(begun));
                renewals.renewed();
                failures = 0;
                if std::mem::take(&mut is_lapsed) {
                    tunnel.renewed.notify_one();
                }
            }
            answer => {
                if failures.is_multiple_of(REPORT_EVERY) {
                    tracing::warn!(error = ?answer, "cannot renew the lease in the mailbox");
                }
                is_lapsed = true;
                failures = failures.saturating_add(1);
                if !matches!(answer, Ok(Err(Failure::Refused(_) | Failure::NotFound { .. }))) {
                    // The cluster is unreachable until the next renewal.
                    ticks.reset_after(pauses.next().unwrap_or(AGAIN).min(slice));
                }
            }
        }
    }
}

/// Renews the Lease, with the annotation about the tunnel, and returns its resource version.
async fn write_lease(member: &Member, tunnel: Option<&str>) -> Result<Option<String>, Failure> {
    let api: Api<Lenient<Lease>> = Api::namespaced(member.its.clone(), member.cluster.as_str());
    let mut lease = Lease::default();
    lease.metadata.name = Some(names::CLUSTER_LEASE.to_owned());
    let label = (names::OCM_CLUSTER_LABEL.to_owned(), member.cluster.to_string());
    lease.metadata.labels = Some([label].into());
    lease.metadata.annotations =
        tunnel.map(|tunnel| [(names::TUNNEL_ANNOTATION.to_owned(), tunnel.to_owned())].into());
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(names::AGENT.to_owned()),
        lease_duration_seconds: i32::try_from(member.lease_duration.as_secs()).ok(),
        renew_time: Some(MicroTime(Timestamp::now())),
        ..LeaseSpec::default()
    });
    let written = lease::renew(&api, names::AGENT, &lease, &[names::TUNNEL_ANNOTATION]).await?;
    Ok(written.metadata.resource_version)
}

type Checked = Result<artifacts::Repository, artifacts::Problem>;

async fn describe(member: &Member, tunnel: &Advert, mut room: Room) {
    let mut ticks = interval(member.lease_duration / 3);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut repository = None;
    let mut next_check = Instant::now();
    let mut teller = Teller::Us(Facts::default());
    let mut argo = None;
    let mut next_look = Instant::now();
    let mut claimed = Claims::new();
    let mut known = Known::of(member);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = known.follow() => {}
            () = room.follow() => {}
        }
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
            match facts::read(&member.wec, member.capacity).await {
                Ok(read) => (teller, next_look) = (read, Instant::now() + LOOK_EVERY),
                Err(failure) => {
                    tracing::warn!(
                        error = %failure,
                        "cannot read the facts about this cluster that are reported to the hub"
                    );
                }
            }
            argo = argo_version::read(&member.wec, &member.artifact_namespace, argo).await;
        }
        let Some(repository) = &repository else { continue };
        let claims = claims(repository, argo.as_deref(), room.claim(teller.nodes()));
        let news = News {
            repository,
            teller: &teller,
            claims: &claims,
            room: &room,
        };
        let told = tell(member, &mut known, news, &mut claimed).await;
        if let Ok(cluster) = known.get().await {
            tunnel.read(&cluster);
        }
        if let Err(failure) = told {
            tracing::warn!(error = %failure, "cannot report the facts about this cluster to the hub");
        }
    }
}

/// The cluster claims of the agent by name; an empty value means no claim.
type Claims = BTreeMap<&'static str, String>;

/// The claims to report. Without a value, the room stays as it was reported.
fn claims(repository: &Checked, argo: Option<&str>, room: Option<String>) -> Claims {
    let repository = repository
        .as_ref()
        .map_or_else(|_| String::new(), ToString::to_string);
    let mut claims: Claims = [
        (names::ARTIFACT_REPOSITORY_CLAIM, repository),
        (names::ARGO_VERSION_CLAIM, argo.unwrap_or_default().to_owned()),
        (names::AGENT_VERSION_CLAIM, env!("CARGO_PKG_VERSION").to_owned()),
    ]
    .into();
    claims.extend(room.map(|room| (names::ROOM_CLAIM, room)));
    claims
}

/// The facts to report.
#[derive(Clone, Copy)]
struct News<'a> {
    repository: &'a Checked,
    teller: &'a Teller,
    claims: &'a Claims,
    room: &'a Room,
}

/// Reports to the hub. `claimed` are the values that OCM's agent received last, if any.
async fn tell(
    member: &Member,
    known: &mut Known,
    news: News<'_>,
    claimed: &mut Claims,
) -> Result<(), Failure> {
    let argo = serves_argo(member).await?;
    if let Teller::Ocm { .. } = news.teller {
        for (name, value) in news.claims {
            if claimed.get(name) == Some(value) {
                continue;
            }
            match facts::claim_by_ocm(&member.wec, name, value).await {
                // The chart of an earlier release grants no right to it. The other claims are still
                // written.
                Err(Failure::Refused(why)) => {
                    tracing::warn!(
                        name,
                        error = why,
                        "the agent is not allowed to write a ClusterClaim"
                    );
                }
                claimed => claimed?,
            }
            claimed.insert(name, value.clone());
        }
    }
    write_status(member, known, argo, news).await
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

/// Number of attempts while others write the same ManagedCluster.
const ATTEMPTS: usize = 3;

async fn write_status(member: &Member, shown: &mut Known, argo: bool, news: News<'_>) -> Result<(), Failure> {
    let api: Api<Lenient<ManagedCluster>> = Api::all(member.its.clone());
    for _ in 0..ATTEMPTS {
        let cluster = shown.get().await?;
        pass_on(replaced_before(&cluster), &member.wish);
        let known = cluster.status.unwrap_or_default();
        let status = described(known.clone(), argo, news, Timestamp::now());
        let Some(change) = status_patch(&known, &status) else {
            return Ok(());
        };
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": cluster.metadata.resource_version },
            "status": change,
        }));
        match call(api.patch_status(member.cluster.as_str(), &patching(names::AGENT), &patch)).await {
            // The controller wrote at the same time, which it does when it first sees the agent.
            Err(Failure::Conflict) => shown.forget(),
            written => return written.map(|_| ()),
        }
    }
    // The next tick tries again.
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
    news: News<'_>,
    now: Timestamp,
) -> ManagedClusterStatus {
    let has_joined = |known: &Condition| known.type_ == types::JOINED && known.status == "True";
    // OCM's agent may have set the condition before, with its own message.
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
    for condition in [argo_ready(argo, now), repository_ready(news.repository, now)] {
        set_condition(&mut status.conditions, condition);
    }
    news.room.describe(&mut status.conditions, now);
    if let Teller::Us(facts) = news.teller {
        facts.describe(&mut status);
        for (name, value) in news.claims {
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

#[cfg(test)]
mod tests;
