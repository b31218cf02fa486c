//! The API servers of the fleet, and the effect of each write on the promises.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use argosy_api::names;
use argosy_core::hub::admission::Admission;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    api_server::{ApiServer, Kind},
    ledger::Ledger,
    script::Space,
    shadows,
};

pub(crate) const CLUSTERS: [&str; 2] = ["cluster1", "cluster2"];

pub(crate) const POLICIES: [&str; 6] = ["cluster1", "cluster2", "any", "spare", "every", "best"];

/// The grace period of the policy `spare`, and the duration of a Lease.
pub(crate) const LOST_AFTER: SignedDuration = SignedDuration::from_mins(5);
pub(crate) const LEASE: SignedDuration = SignedDuration::from_secs(30);

pub(crate) struct Servers {
    pub(crate) wds: ApiServer,
    pub(crate) its: ApiServer,
    pub(crate) wecs: Vec<ApiServer>,
    /// Identifies a cluster among several of the same name.
    pub(crate) cluster_ids: Vec<String>,
    pub(crate) now: Timestamp,
    /// The controller draws one of the clusters that admit a Workflow, whatever their loads.
    pub(crate) draws_clusters: bool,
    /// Webhook and admission policies protect the WDS.
    pub(crate) is_guarded: bool,
    pub(crate) is_webhook_down: bool,
    /// API servers that answer with errors; `Wec` with its number.
    pub(crate) ailing: BTreeSet<(Space, usize)>,
    /// The state that webhook and policies use: the latest that the controller has published, or an
    /// older one.
    pub(crate) admission: Arc<Admission>,
    pub(crate) ledger: Ledger,
    /// Clusters that are marked as removed, and true if their agents have lost their rights.
    pub(crate) removed: BTreeMap<&'static str, bool>,
}

pub(crate) fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"]
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["annotations"]
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A policy with this name. It selects Workflows whose label has the same value.
pub(crate) fn policy(name: &str, clusters: &Value) -> Value {
    let mut annotations = match name {
        "spare" => json!({
            names::ON_LOST_ANNOTATION: "rerun",
            names::LOST_AFTER_ANNOTATION: format!("{}s", LOST_AFTER.as_secs()),
        }),
        "every" => json!({ names::RUNS_ANNOTATION: names::EVERY_CLUSTER }),
        "best" => json!({ names::RUNS_ANNOTATION: names::BEST_CLUSTER, names::WHEN_FULL_ANNOTATION: "wait" }),
        _ => json!({}),
    };
    if let Some((_, shown)) = shadows::POLICIES.iter().find(|(policy, _)| *policy == name) {
        annotations[names::PODS_ANNOTATION] = json!(shown);
    }
    json!({
        "apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy",
        "metadata": { "name": name, "annotations": annotations },
        "spec": {
            "clusterSelectors": [{ "matchLabels": clusters }],
            "downsync": [{
                "apiGroup": "argoproj.io", "resources": ["workflows"], "wantSingletonReportedState": true,
                "objectSelectors": [{ "matchLabels": { names::KUBESTELLAR_CLUSTER_LABEL: name } }],
            }],
        },
    })
}

/// The clusters that a policy selects, by its name.
pub(crate) fn clusters_of(policy: &str) -> Value {
    if ["any", "spare", "every", "best"].contains(&policy) {
        json!({})
    } else {
        json!({ "name": policy })
    }
}

/// True if the unchanged policy of this name selects this cluster for its Workflows.
pub(crate) fn selects(policy: &str, cluster: &str) -> bool {
    POLICIES.contains(&policy) && (clusters_of(policy) == json!({}) || policy == cluster)
}

pub(crate) fn lease(cluster: &str, now: Timestamp) -> Value {
    json!({
        "metadata": { "namespace": cluster, "name": names::CLUSTER_LEASE },
        "spec": { "renewTime": format!("{now:.6}"), "leaseDurationSeconds": LEASE.as_secs() },
    })
}

impl Servers {
    pub(crate) fn new(is_guarded: bool) -> Self {
        let (mut wds, mut its) = (ApiServer::new("wds"), ApiServer::new("its"));
        let now = "2026-11-21T10:00:00Z".parse().expect("is a time");
        for name in CLUSTERS {
            let claim = json!({ "name": names::CLUSTER_ID_CLAIM, "value": name });
            let cluster = json!({
                "metadata": { "name": name, "labels": { "name": name } }, "spec": {}, "status": { "clusterClaims": [claim] },
            });
            its.create(Kind::Cluster, cluster).expect("is new");
            its.create(Kind::Lease, lease(name, now)).expect("is new");
            wds.create(Kind::Node, shadows::node(name)).expect("is new");
        }
        for name in POLICIES {
            wds.create(Kind::Policy, policy(name, &clusters_of(name)))
                .expect("is new");
        }
        Self {
            wds,
            its,
            wecs: CLUSTERS.iter().map(|name| ApiServer::new(name)).collect(),
            cluster_ids: CLUSTERS.iter().map(ToString::to_string).collect(),
            now,
            draws_clusters: false,
            is_guarded,
            is_webhook_down: false,
            ailing: BTreeSet::new(),
            admission: Arc::default(),
            ledger: Ledger::default(),
            removed: BTreeMap::new(),
        }
    }

    pub(crate) fn at(&self, space: Space, number: usize) -> &ApiServer {
        match space {
            Space::Wds => &self.wds,
            Space::Its => &self.its,
            Space::Wec => &self.wecs[number],
        }
    }

    pub(crate) fn at_mut(&mut self, space: Space, number: usize) -> &mut ApiServer {
        match space {
            Space::Wds => &mut self.wds,
            Space::Its => &mut self.its,
            Space::Wec => &mut self.wecs[number],
        }
    }

    /// Makes the ITS or a cluster answer with errors from now on, or ends that.
    pub(crate) fn ail(&mut self, which: usize) {
        let place = match which % (CLUSTERS.len() + 1) {
            0 => (Space::Its, 0),
            number => (Space::Wec, number - 1),
        };
        if !self.ailing.remove(&place) {
            self.ailing.insert(place);
        }
    }

    /// True if a space answers process `number` with errors.
    pub(crate) fn ails(&self, space: Space, number: usize) -> bool {
        let number = if space == Space::Wec { number } else { 0 };
        self.ailing.contains(&(space, number))
    }

    /// Checks every version that any Workflow has had since the last check.
    pub(crate) fn check(&mut self) {
        self.ledger.read_wds(&self.wds, self.is_guarded);
        for (number, wec) in self.wecs.iter().enumerate() {
            self.ledger.read_wec(number, wec);
        }
    }

    /// Writes the administrator's annotation with the room of a cluster.
    pub(crate) fn set_room(&mut self, cluster: &str, room: &str) -> bool {
        let Ok(there) = self.its.get(Kind::Cluster, "", cluster) else {
            return false;
        };
        let change = |there: &mut Value| {
            there["metadata"]["annotations"][names::ROOM_ANNOTATION] = json!(room);
        };
        self.its.edit(Kind::Cluster, &there, change).is_ok()
    }

    /// Publishes the identity of a cluster and renews its Lease, as its agent does.
    pub(crate) fn renew_lease(&mut self, cluster: &'static str, now: Timestamp) {
        self.ledger.renewed.insert(cluster, self.now);
        let number = CLUSTERS.iter().position(|name| *name == cluster);
        let id = json!(self.cluster_ids[number.expect("is a cluster")]);
        if let Ok(there) = self.its.get(Kind::Cluster, "", cluster)
            && there["status"]["clusterClaims"][0]["value"] != id
        {
            let change = |there: &mut Value| there["status"]["clusterClaims"][0]["value"] = id;
            self.its.edit(Kind::Cluster, &there, change).expect("is there");
        }
        let there = self.its.get(Kind::Lease, cluster, names::CLUSTER_LEASE);
        if let Ok(there) = there {
            let change = |there: &mut Value| there["spec"] = lease(cluster, now)["spec"].clone();
            self.its.edit(Kind::Lease, &there, change).expect("is there");
        }
    }
}
