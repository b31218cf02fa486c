//! The parts of a ManagedCluster that its Node shows. Its agent writes the status, so everything is
//! bounded and checked here: a status that the API server refuses would leave the Node without one.

use argosy_api::{ManagedCluster, conditions::managed_cluster as types, managed_cluster::Resources, names};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use crate::{
    ClusterName,
    hub::inventory::is_cordon,
    index::store::{Incoming, Version, Versioned},
    model::quantity::is_quantity,
    policy::Labels,
};

/// Maximum number of resources that are shown.
const RESOURCES: usize = 32;

/// Maximum length of a text of the cluster, in bytes.
const LONGEST: usize = 1024;

/// Domains whose labels mean something to Kubernetes, a cloud, or Argosy on a Node.
const RESERVED: [&str; 4] = ["kubernetes.io", "k8s.io", "kubernetes.azure.com", "argosy.dev"];

/// A ManagedCluster.
#[derive(Clone, Debug)]
pub struct ObservedMember {
    pub(super) name: ClusterName,
    uid: String,
    pub(super) resource_version: String,
    /// Its labels that the Node may have.
    pub(super) labels: Labels,
    /// The offer of a tunnel.
    pub(super) offer: Option<String>,
    /// It was removed from the fleet, is being deleted, or is to have no Node.
    pub(super) is_left_out: bool,
    pub(super) is_cordoned: bool,
    /// Status, reason and message of its availability.
    pub(super) available: (String, String, String),
    /// Version of Kubernetes, such as `v1.34.4`; empty if it is unknown.
    pub(super) version: String,
    pub(super) capacity: Resources,
    pub(super) allocatable: Resources,
    is_gone: bool,
}

impl Incoming for ObservedMember {
    fn version(&self) -> Version<'_> {
        Versioned::version(self)
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }
}

impl Versioned for ObservedMember {
    fn version(&self) -> Version<'_> {
        Version {
            uid: &self.uid,
            resource_version: &self.resource_version,
        }
    }
}

impl ObservedMember {
    /// Its name.
    pub fn name(&self) -> &ClusterName {
        &self.name
    }

    /// True unless it was removed from the fleet, is being deleted, or is to have no Node.
    pub fn is_shown(&self) -> bool {
        !self.is_left_out && !self.is_gone
    }

    /// True if its agent renews its Lease.
    pub fn is_reachable(&self) -> bool {
        self.available.0 == "True"
    }
}

impl From<ManagedCluster> for ObservedMember {
    fn from(cluster: ManagedCluster) -> Self {
        let annotation = |key: &str| cluster.annotations().get(key);
        let is_left_out = annotation(names::REMOVED_ANNOTATION).is_some()
            || cluster.metadata.deletion_timestamp.is_some()
            || annotation(names::NODE_ANNOTATION).is_some_and(|value| value == names::NODE_OFF);
        let status = cluster.status.clone().unwrap_or_default();
        let mut conditions = status.conditions.into_iter();
        let available = conditions.find(|known| known.type_ == types::AVAILABLE);
        let available = available.map_or_else(
            || ("Unknown".to_owned(), "NeverJoined".to_owned(), String::new()),
            |known| (known.status, shortened(&known.reason), shortened(&known.message)),
        );
        let labels = cluster.labels().iter();
        Self {
            name: cluster.name_any().as_str().into(),
            uid: cluster.uid().unwrap_or_default(),
            resource_version: cluster.resource_version().unwrap_or_default(),
            labels: labels
                .filter(|(key, _)| may_be_copied(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            offer: annotation(names::TUNNEL_ANNOTATION).cloned(),
            is_left_out,
            is_cordoned: cluster.spec.taints.iter().any(is_cordon),
            available,
            version: version(&status.version.kubernetes),
            capacity: resources(status.capacity),
            allocatable: resources(status.allocatable),
            is_gone: crate::index::reconciler::is_gone(&cluster.metadata),
        }
    }
}

fn may_be_copied(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_in = |reserved: &&str| domain == *reserved || domain.ends_with(&format!(".{reserved}"));
    key != "type" && !RESERVED.iter().any(is_in)
}

fn version(text: &str) -> String {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".+-".contains(&byte);
    let is_version = text.len() <= 64 && text.bytes().all(is_part);
    if is_version {
        text.to_owned()
    } else {
        String::new()
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST / 4).collect()
}

/// The resources that a Node may have: with names and quantities that an API server takes.
fn resources(given: Resources) -> Resources {
    let usable = given.into_iter().filter(|(name, amount)| is_usable(name, amount));
    usable.take(RESOURCES).collect()
}

fn is_usable(name: &str, amount: &Quantity) -> bool {
    let is_positive = amount.0.len() <= 32 && amount.0.starts_with(|digit: char| digit.is_ascii_digit());
    if ["cpu", "memory", "ephemeral-storage"].contains(&name) {
        return is_positive && is_quantity(amount);
    }
    // An extended resource, such as `nvidia.com/gpu`, is counted in whole numbers.
    let is_part = |part: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        part.len() <= 63
            && part.bytes().all(is_inner)
            && is_end(part.bytes().next())
            && is_end(part.bytes().next_back())
    };
    let parts = name.split_once('/');
    parts.is_some_and(|(domain, name)| {
        domain == domain.to_lowercase() && is_part(domain) && is_part(name) && !domain.contains("..")
    }) && is_positive
        && amount.0.bytes().all(|digit| digit.is_ascii_digit())
}
