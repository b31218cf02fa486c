//! Checks of one cluster of the inventory: its ManagedCluster, its Lease, its mailbox and its
//! kubeconfig.
//!
//! Not here: the rights of its agent (`rights`), and the content of the mailbox (`works`).

use std::error::Error as _;

use argosy_api::{ManagedCluster, conditions::managed_cluster as types, names};
use argosy_core::model::room::Room;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Namespace, Secret},
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::{
    super::{get::age::human, get::clusters::claimed, version::VERSION},
    finding::Judgment,
};
use crate::{
    cli::cluster::is_removed,
    runtime::{
        client::Error,
        kubeconfig::from_secret,
        lenient::Lenient,
        requests::{call, found, list},
    },
};

/// Checks that the hub's administrator has accepted the cluster.
pub(super) fn accepted(cluster: &ManagedCluster) -> Judgment {
    let name = cluster.name_any();
    if cluster.metadata.deletion_timestamp.is_some() {
        return Judgment::failed(
            "the ManagedCluster is being deleted",
            format!("kubectl get managedcluster {name} -o yaml shows the finalizers that it waits for"),
        );
    }
    if is_removed(cluster) {
        return Judgment::failed(
            "the cluster is being removed from the fleet",
            format!("argosy cluster remove {name} completes the removal, and shows what it waits for"),
        );
    }
    if cluster.spec.hub_accepts_client {
        return Judgment::ok("the hub has accepted the cluster");
    }
    Judgment::failed(
        "the hub has not accepted the cluster",
        format!("argosy cluster accept {name}"),
    )
}

/// Checks that its agent renews its Lease, as the controller reports it.
pub(super) async fn lease(its: &Client, cluster: &ManagedCluster) -> Judgment {
    let api: Api<Lease> = Api::namespaced(its.clone(), &cluster.name_any());
    match found(call(api.get(names::CLUSTER_LEASE)).await) {
        Ok(lease) => judge_lease(cluster, lease.as_ref(), Timestamp::now()),
        Err(failure) => Judgment::unasked("read the cluster's Lease", &failure),
    }
}

fn judge_lease(cluster: &ManagedCluster, lease: Option<&Lease>, now: Timestamp) -> Judgment {
    let fix = "check the log of the cluster's agent (argosy-agent there; with push, the controller's log), \
        and if it reaches the hub";
    let spec = lease.and_then(|lease| lease.spec.as_ref());
    let Some(renewed) = spec.and_then(|spec| spec.renew_time.as_ref()) else {
        return Judgment::failed("its agent has never renewed a Lease", fix);
    };
    let age = now.duration_since(renewed.0);
    let duration = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(60);
    let duration = SignedDuration::from_secs(i64::from(duration));
    let renewed = format!("its agent has renewed its Lease {} ago", human(age));
    match condition(cluster, types::AVAILABLE) {
        None => Judgment::failed(
            format!("{renewed}, but the controller has not reported it as available"),
            "see the check controller",
        ),
        Some(available) if available.status != "True" => {
            Judgment::failed(format!("{}: {}", available.reason, available.message), fix)
        }
        // The controller does not compare clocks, so it may be right; or it does not run and cannot
        // age the Lease.
        Some(_) if age > duration * 2 || age < -duration => Judgment::warning(
            format!(
                "the controller reports the cluster as available, but by the clock of this machine \
                {renewed}"
            ),
            "compare the clocks of the cluster and of this machine, and see the check controller",
        ),
        Some(_) => Judgment::ok(renewed),
    }
}

/// Checks that its agent has the version of this command.
pub(super) fn agent(cluster: &ManagedCluster) -> Judgment {
    judge_agent(claimed(cluster, names::AGENT_VERSION_CLAIM), VERSION)
}

fn judge_agent(theirs: &str, ours: &str) -> Judgment {
    let fix = "upgrade the chart argosy-agent on the cluster; a hosted agent is upgraded with the controller";
    if theirs.is_empty() {
        Judgment::warning("its agent does not report its version", fix)
    } else if theirs == ours {
        Judgment::ok(format!("its agent has version {theirs}"))
    } else {
        let message = format!("its agent has version {theirs}; this command has version {ours}");
        Judgment::warning(message, fix)
    }
}

/// Checks that it serves Argo's API.
pub(super) fn argo(cluster: &ManagedCluster) -> Judgment {
    match condition(cluster, types::ARGO_READY) {
        None => Judgment::failed(
            "its agent has not reported if Argo is installed",
            "see the check lease",
        ),
        Some(ready) if ready.status != "True" => {
            Judgment::failed(ready.message.clone(), "install Argo Workflows on the cluster")
        }
        Some(_) => match claimed(cluster, names::ARGO_VERSION_CLAIM) {
            "" => Judgment::ok(
                "Argo is installed; its version is unknown, because no Deployment has a \
                usual name",
            ),
            version => Judgment::ok(format!("Argo is installed, {version}")),
        },
    }
}

/// Checks that it has resources for pods. For cordoned nodes, the agent counts only the capacity.
pub(super) fn capacity(cluster: &ManagedCluster) -> Judgment {
    let status = cluster.status.clone().unwrap_or_default();
    let amount = |resource: &str| {
        status
            .allocatable
            .get(resource)
            .map_or("0", |known| known.0.as_str())
    };
    let (cpu, memory) = (amount("cpu"), amount("memory"));
    if let Some(problem) = Room::problem(cluster) {
        return Judgment::failed(
            format!(
                "annotation {}: {problem}, so the cluster counts as full",
                names::ROOM_ANNOTATION
            ),
            "write it as cpu=64,memory=256Gi,runs=200",
        );
    }
    if let Some(counted) = condition(cluster, types::PODS_COUNTED).filter(|known| known.status != "True") {
        return Judgment::warning(
            counted.message.clone(),
            "install the chart argosy-agent on the cluster with the value capacity: pods, which grants the \
            right, or with capacity: nodes",
        );
    }
    if status.capacity.is_empty() {
        if let Some(room) = cluster.annotations().get(names::ROOM_ANNOTATION) {
            return Judgment::ok(format!(
                "{room}, as annotation {} says; its agent reports no nodes",
                names::ROOM_ANNOTATION
            ));
        }
        return Judgment::warning(
            "its agent reports no nodes",
            format!(
                "run kubectl get nodes on the cluster, and check that the agent may list nodes (chart \
                argosy-agent of this version); if its value capacity is none, write the annotation {}",
                names::ROOM_ANNOTATION
            ),
        );
    }
    if cpu == "0" || memory == "0" {
        return Judgment::failed(
            "the cluster has no node that takes pods",
            "run kubectl get nodes on the cluster, and check if all nodes are cordoned",
        );
    }
    Judgment::ok(format!("cpu {cpu}, memory {memory} for pods"))
}

/// Checks that its mailbox exists.
pub(super) async fn mailbox(its: &Client, cluster: &str) -> Judgment {
    let api: Api<Namespace> = Api::all(its.clone());
    match found(call(api.get(cluster)).await) {
        Ok(namespace) => judge_mailbox(cluster, namespace.as_ref()),
        Err(failure) => Judgment::unasked("read the mailbox namespace", &failure),
    }
}

fn judge_mailbox(cluster: &str, namespace: Option<&Namespace>) -> Judgment {
    match namespace {
        None => Judgment::failed(
            format!("the mailbox namespace {cluster} is missing"),
            format!(
                "argosy cluster join {cluster} creates it (pull), or the chart argosy, if its values list \
                the cluster"
            ),
        ),
        Some(namespace) if namespace.metadata.deletion_timestamp.is_some() => Judgment::failed(
            format!("the mailbox namespace {cluster} is being deleted"),
            format!("kubectl get namespace {cluster} -o yaml shows what it waits for"),
        ),
        Some(_) => Judgment::ok("its mailbox exists"),
    }
}

/// Checks the kubeconfig of a cluster whose agent the controller hosts. Opens no connection,
/// because the cluster need not be reachable from here.
pub(super) async fn kubeconfig(wds: &Client, namespace: &str, cluster: &str) -> Judgment {
    let api: Api<Lenient<Secret>> = Api::namespaced(wds.clone(), namespace);
    let params = ListParams::default().labels(&format!("{}={cluster}", names::WEC_KUBECONFIG_LABEL));
    match list(api.list(&params)).await {
        Ok(all) => judge_kubeconfig(&all),
        Err(failure) => Judgment::unasked("read the cluster's kubeconfig Secret", &failure),
    }
}

fn judge_kubeconfig(secrets: &[Secret]) -> Judgment {
    let fix = "write the Secret again, with a kubeconfig of the cluster under the key kubeconfig";
    match secrets {
        [] => Judgment::skipped("its agent runs on the cluster (pull)"),
        [secret] => {
            let name = secret.name_any();
            let key = secret
                .data
                .as_ref()
                .and_then(|data| data.get(names::KUBECONFIG_KEY));
            let Some(text) = key.and_then(|bytes| std::str::from_utf8(&bytes.0).ok()) else {
                return Judgment::failed(format!("Secret {name} has no key {}", names::KUBECONFIG_KEY), fix);
            };
            match from_secret(text, "in the Secret") {
                Ok(known) if !known.clusters.is_empty() => {
                    Judgment::ok(format!("Secret {name} contains a valid kubeconfig"))
                }
                Ok(_) => Judgment::failed(format!("the kubeconfig in Secret {name} names no cluster"), fix),
                Err(Error::Refused { problem, .. }) => Judgment::failed(
                    format!("the kubeconfig in Secret {name} is refused: {problem}"),
                    "write the Secret again, without this field; argosy-controller \
                    --trust-kubeconfig-secrets accepts it unchanged",
                ),
                Err(error) => {
                    let why = error.source().map(ToString::to_string).unwrap_or_default();
                    Judgment::failed(format!("Secret {name} contains no valid kubeconfig: {why}"), fix)
                }
            }
        }
        several => Judgment::failed(
            format!(
                "{} Secrets are labeled as the cluster's kubeconfig",
                several.len()
            ),
            "keep only one of them",
        ),
    }
}

/// Returns the condition of this type.
fn condition<'a>(cluster: &'a ManagedCluster, type_: &str) -> Option<&'a Condition> {
    let mut conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    conditions.find(|known| known.type_ == type_)
}

#[cfg(test)]
mod tests;
