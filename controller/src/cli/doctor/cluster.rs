//! One cluster of the inventory: what its ManagedCluster, its Lease, its mailbox and its kubeconfig say.
//!
//! Not here: what the agent may do there (`rights`), and what lies in the mailbox (`works`).

use std::error::Error as _;

use argosy_api::{ManagedCluster, conditions::managed_cluster as types, names};
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
    finding::Judgement,
};
use crate::{
    cli::cluster::is_removed,
    client::Error,
    kubeconfig::from_secret,
    outcome::{call, found, list},
    tolerant::Tolerant,
};

/// Whether the hub's administrator wants it.
pub(super) fn accepted(cluster: &ManagedCluster) -> Judgement {
    let name = cluster.name_any();
    if cluster.metadata.deletion_timestamp.is_some() {
        return Judgement::failed(
            "the ManagedCluster is being deleted",
            format!("kubectl get managedcluster {name} -o yaml shows which finalizers it waits for"),
        );
    }
    if is_removed(cluster) {
        return Judgement::failed(
            "the cluster is being taken out of the fleet",
            format!("argosy cluster remove {name} ends that, and says what it waits for"),
        );
    }
    if cluster.spec.hub_accepts_client {
        return Judgement::ok("the hub has accepted the cluster");
    }
    Judgement::failed(
        "the hub has not accepted the cluster",
        format!("argosy cluster accept {name}"),
    )
}

/// Whether its agent renews its Lease, as the controller has seen it.
pub(super) async fn lease(its: &Client, cluster: &ManagedCluster) -> Judgement {
    let api: Api<Lease> = Api::namespaced(its.clone(), &cluster.name_any());
    match found(call(api.get(names::CLUSTER_LEASE)).await) {
        Ok(lease) => judge_lease(cluster, lease.as_ref(), Timestamp::now()),
        Err(failure) => Judgement::unasked("read the cluster's Lease", &failure),
    }
}

fn judge_lease(cluster: &ManagedCluster, lease: Option<&Lease>, now: Timestamp) -> Judgement {
    let mend = "look at the log of the cluster's agent (argosy-agent there, or the controller's for push), and whether it reaches the hub";
    let spec = lease.and_then(|lease| lease.spec.as_ref());
    let Some(renewed) = spec.and_then(|spec| spec.renew_time.as_ref()) else {
        return Judgement::failed("its agent has never renewed a Lease", mend);
    };
    let age = now.duration_since(renewed.0);
    let duration = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(60);
    let duration = SignedDuration::from_secs(i64::from(duration));
    let renewed = format!("its agent has renewed its Lease {} ago", human(age));
    match condition(cluster, types::AVAILABLE) {
        None => Judgement::failed(
            format!("{renewed}, but the controller has not said that it is available"),
            "see the check controller",
        ),
        Some(available) if available.status != "True" => {
            Judgement::failed(format!("{}: {}", available.reason, available.message), mend)
        }
        // The controller does not compare clocks, so that it may be right; or it is not there to age the Lease.
        Some(_) if age > duration * 2 || age < -duration => Judgement::warning(
            format!("the controller says that the cluster is available, but by the clock here {renewed}"),
            "compare the clocks of the cluster and of this machine, and see the check controller",
        ),
        Some(_) => Judgement::ok(renewed),
    }
}

/// Whether its agent is of our version.
pub(super) fn agent(cluster: &ManagedCluster) -> Judgement {
    judge_agent(claimed(cluster, names::AGENT_VERSION_CLAIM), VERSION)
}

fn judge_agent(theirs: &str, ours: &str) -> Judgement {
    let mend =
        "upgrade the chart argosy-agent on the cluster; a hosted agent is upgraded with the controller";
    if theirs.is_empty() {
        Judgement::warning("its agent does not tell its version", mend)
    } else if theirs == ours {
        Judgement::ok(format!("its agent is of version {theirs}"))
    } else {
        let message = format!("its agent is of version {theirs}; this command is of version {ours}");
        Judgement::warning(message, mend)
    }
}

/// Whether it serves Argo's API.
pub(super) fn argo(cluster: &ManagedCluster) -> Judgement {
    match condition(cluster, types::ARGO_READY) {
        None => Judgement::failed(
            "its agent has not said whether Argo is there",
            "see the check lease",
        ),
        Some(ready) if ready.status != "True" => {
            Judgement::failed(ready.message.clone(), "install Argo Workflows on the cluster")
        }
        Some(_) => match claimed(cluster, names::ARGO_VERSION_CLAIM) {
            "" => Judgement::ok("Argo is there; no Deployment of a usual name tells its version"),
            version => Judgement::ok(format!("Argo is there, {version}")),
        },
    }
}

/// Whether it has anything for pods. Of nodes that are cordoned, the agent counts the capacity only.
pub(super) fn capacity(cluster: &ManagedCluster) -> Judgement {
    let status = cluster.status.clone().unwrap_or_default();
    let amount = |resource: &str| {
        status
            .allocatable
            .get(resource)
            .map_or("0", |known| known.0.as_str())
    };
    let (cpu, memory) = (amount("cpu"), amount("memory"));
    if status.capacity.is_empty() {
        return Judgement::warning(
            "its agent tells of no nodes",
            "kubectl get nodes on the cluster; may the agent list them? (chart argosy-agent of this version)",
        );
    }
    if cpu == "0" || memory == "0" {
        return Judgement::failed(
            "it has no node that takes pods",
            "kubectl get nodes on the cluster; are all cordoned?",
        );
    }
    Judgement::ok(format!("cpu {cpu}, memory {memory} for pods"))
}

/// Whether its mailbox is there.
pub(super) async fn mailbox(its: &Client, cluster: &str) -> Judgement {
    let api: Api<Namespace> = Api::all(its.clone());
    match found(call(api.get(cluster)).await) {
        Ok(namespace) => judge_mailbox(cluster, namespace.as_ref()),
        Err(failure) => Judgement::unasked("read the mailbox namespace", &failure),
    }
}

fn judge_mailbox(cluster: &str, namespace: Option<&Namespace>) -> Judgement {
    match namespace {
        None => Judgement::failed(
            format!("the mailbox namespace {cluster} is missing"),
            format!(
                "argosy cluster join {cluster} makes it (pull), or the chart argosy, if its values list the cluster"
            ),
        ),
        Some(namespace) if namespace.metadata.deletion_timestamp.is_some() => Judgement::failed(
            format!("the mailbox namespace {cluster} is being deleted"),
            format!("kubectl get namespace {cluster} -o yaml shows what it waits for"),
        ),
        Some(_) => Judgement::ok("its mailbox is there"),
    }
}

/// Of a cluster whose agent the controller hosts: whether the kubeconfig can be used. Nothing is dialled, because the cluster need
/// not be reachable from here.
pub(super) async fn kubeconfig(wds: &Client, namespace: &str, cluster: &str) -> Judgement {
    let api: Api<Tolerant<Secret>> = Api::namespaced(wds.clone(), namespace);
    let params = ListParams::default().labels(&format!("{}={cluster}", names::WEC_KUBECONFIG_LABEL));
    match list(api.list(&params)).await {
        Ok(all) => judge_kubeconfig(&all),
        Err(failure) => Judgement::unasked("read the cluster's kubeconfig Secret", &failure),
    }
}

fn judge_kubeconfig(secrets: &[Secret]) -> Judgement {
    let mend = "write the Secret anew, with a kubeconfig of the cluster under the key kubeconfig";
    match secrets {
        [] => Judgement::skipped("its agent runs on the cluster (pull)"),
        [secret] => {
            let name = secret.name_any();
            let key = secret
                .data
                .as_ref()
                .and_then(|data| data.get(names::KUBECONFIG_KEY));
            let Some(text) = key.and_then(|bytes| std::str::from_utf8(&bytes.0).ok()) else {
                return Judgement::failed(
                    format!("Secret {name} has no key {}", names::KUBECONFIG_KEY),
                    mend,
                );
            };
            match from_secret(text, "in the Secret") {
                Ok(known) if !known.clusters.is_empty() => {
                    Judgement::ok(format!("Secret {name} holds a kubeconfig"))
                }
                Ok(_) => Judgement::failed(format!("the kubeconfig in Secret {name} names no cluster"), mend),
                Err(Error::Refused { flaw, .. }) => Judgement::failed(
                    format!("the kubeconfig in Secret {name} is refused: {flaw}"),
                    "write the Secret anew; argosy-controller --trust-kubeconfig-secrets takes it as it is",
                ),
                Err(error) => {
                    let why = error.source().map(ToString::to_string).unwrap_or_default();
                    Judgement::failed(format!("Secret {name} holds no kubeconfig: {why}"), mend)
                }
            }
        }
        several => Judgement::failed(
            format!(
                "{} Secrets are labelled as the cluster's kubeconfig",
                several.len()
            ),
            "leave one of them",
        ),
    }
}

/// The condition of that type.
fn condition<'a>(cluster: &'a ManagedCluster, type_: &str) -> Option<&'a Condition> {
    let mut conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    conditions.find(|known| known.type_ == type_)
}

#[cfg(test)]
mod tests;
