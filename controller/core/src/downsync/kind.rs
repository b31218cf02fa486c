//! Kinds of the WDS as discovery tells of them, and those that never travel.

use std::{collections::BTreeMap, fmt, sync::Arc};

use argosy_api::workflow;

/// One kind, in the version that its API server prefers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// API group, empty for core.
    pub group: String,
    /// API version, such as `v1`.
    pub version: String,
    /// Lower-case plural.
    pub resource: String,
    /// The kind itself, such as `ConfigMap`.
    pub kind: String,
    /// Whether its objects lie in namespaces.
    pub is_namespaced: bool,
    /// Whether its status is a subresource.
    pub has_status: bool,
}

/// Group and plural, which name a kind whatever its version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindName {
    /// API group, empty for core.
    pub group: Arc<str>,
    /// Lower-case plural.
    pub resource: Arc<str>,
}

impl Kind {
    /// Group and plural.
    pub fn name(&self) -> KindName {
        KindName::new(&self.group, &self.resource)
    }

    /// `group/version`, or the version alone in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether its objects are runs, which are claimed and sent by the other index (`hub`).
    pub fn is_run(&self) -> bool {
        self.group == workflow::GROUP && self.resource == workflow::PLURAL
    }

    /// Whether the status of its objects may be written. KubeStellar leaves these two alone, because their own controllers decide by it.
    pub(crate) fn takes_status(&self) -> bool {
        !matches!(
            (self.group.as_str(), self.resource.as_str()),
            ("", "namespaces") | ("apiextensions.k8s.io", "customresourcedefinitions")
        )
    }
}

impl KindName {
    /// The name of a group and a plural.
    pub fn new(group: &str, resource: &str) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
        }
    }
}

impl fmt::Display for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.resource)
        } else {
            write!(f, "{}.{}", self.resource, self.group)
        }
    }
}

/// Groups whose kinds describe one API server, or this very fleet. The first five as in KubeStellar.
const GROUPS_THAT_STAY: [&str; 9] = [
    "flowcontrol.apiserver.k8s.io",
    "discovery.k8s.io",
    "apiregistration.k8s.io",
    "coordination.k8s.io",
    "control.kubestellar.io",
    "cluster.open-cluster-management.io",
    "work.open-cluster-management.io",
    "events.k8s.io",
    "metrics.k8s.io",
];

/// Kinds of the core and storage groups that describe one cluster, as in KubeStellar.
const KINDS_THAT_STAY: [(&str, &str); 5] = [
    ("", "events"),
    ("", "nodes"),
    ("", "endpoints"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "csistoragecapacities"),
];

/// Objects that every cluster makes for itself; another cluster's would break it.
const OBJECTS_THAT_STAY: [(&str, &str, Option<&str>, &str); 2] = [
    ("", "configmaps", None, "kube-root-ca.crt"),
    ("", "services", Some("default"), "kubernetes"),
];

/// Whether objects of the kind are never sent.
pub fn stays(group: &str, resource: &str) -> bool {
    GROUPS_THAT_STAY.contains(&group) || KINDS_THAT_STAY.contains(&(group, resource))
}

/// Whether this object is never sent.
pub(crate) fn object_stays(group: &str, resource: &str, namespace: &str, name: &str) -> bool {
    OBJECTS_THAT_STAY
        .iter()
        .any(|(of_group, of_resource, of_namespace, of_name)| {
            (*of_group, *of_resource, *of_name) == (group, resource, name)
                && of_namespace.is_none_or(|known| known == namespace)
        })
}

/// The kinds of the WDS.
#[derive(Clone, Debug, Default)]
pub(super) struct Catalogue(BTreeMap<KindName, Arc<Kind>>);

impl Catalogue {
    /// Those of `kinds` that may travel.
    pub(super) fn new(kinds: Vec<Kind>) -> Self {
        let may_travel = kinds
            .into_iter()
            .filter(|kind| !stays(&kind.group, &kind.resource));
        Self(may_travel.map(|kind| (kind.name(), Arc::new(kind))).collect())
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&KindName, &Arc<Kind>)> {
        self.0.iter()
    }

    /// The kind of that name, if the WDS serves it.
    pub(super) fn get(&self, name: &KindName) -> Option<&Arc<Kind>> {
        self.0.get(name)
    }

    /// Whether the WDS serves the kind.
    pub(super) fn has(&self, name: &KindName) -> bool {
        self.0.contains_key(name)
    }
}
