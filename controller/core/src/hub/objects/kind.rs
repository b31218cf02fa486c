//! Kinds of the WDS according to API discovery, and the kinds and objects that are never sent.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use argosy_api::workflow;

use crate::model::cron;

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
    /// True if its objects are namespaced.
    pub is_namespaced: bool,
    /// True if its status is a subresource.
    pub has_status: bool,
}

/// Group and plural, which identify a kind whatever its version.
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

    /// True if its objects are runs, which the other index (`hub::workflows`) claims and sends.
    pub fn is_run(&self) -> bool {
        self.group == workflow::GROUP && self.resource == workflow::PLURAL
    }

    /// True if its objects are CronWorkflows, which are not sent unless a policy asks for copies.
    pub fn is_cron(&self) -> bool {
        cron::is_cron(&self.group, &self.resource)
    }

    /// True if its objects are Secrets.
    pub(crate) fn is_secret(&self) -> bool {
        self.group.is_empty() && self.resource == "secrets"
    }

    /// True if its objects are ServiceAccounts.
    pub(crate) fn is_service_account(&self) -> bool {
        self.group.is_empty() && self.resource == "serviceaccounts"
    }

    /// True if the status of its objects may be written. KubeStellar does not write these two,
    /// because their own controllers decide by the status.
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

/// Groups whose kinds describe one API server, or this very fleet. The first five are
/// KubeStellar's.
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

/// Objects that every cluster creates for itself. Those of another cluster would break it.
const OBJECTS_THAT_STAY: [(&str, &str, Option<&str>, &str); 2] = [
    ("", "configmaps", None, "kube-root-ca.crt"),
    ("", "services", Some("default"), "kubernetes"),
];

/// True if objects of the kind are never sent.
pub fn stays(group: &str, resource: &str) -> bool {
    GROUPS_THAT_STAY.contains(&group) || KINDS_THAT_STAY.contains(&(group, resource))
}

/// True if this object is never sent.
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
pub(super) struct Catalog {
    kinds: BTreeMap<KindName, Arc<Kind>>,
    /// Kinds that are never sent.
    staying: BTreeSet<KindName>,
}

impl Catalog {
    /// The catalog of the kinds that the WDS serves.
    pub(super) fn new(kinds: Vec<Kind>) -> Self {
        let (staying, traveling): (Vec<_>, Vec<_>) = kinds
            .into_iter()
            .partition(|kind| stays(&kind.group, &kind.resource));
        let traveling = traveling.into_iter().map(|kind| (kind.name(), Arc::new(kind)));
        Self {
            kinds: traveling.collect(),
            staying: staying.iter().map(Kind::name).collect(),
        }
    }

    /// All kinds that may be sent.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&KindName, &Arc<Kind>)> {
        self.kinds.iter()
    }

    /// The kind of that name, if the WDS serves it and it may be sent.
    pub(super) fn get(&self, name: &KindName) -> Option<&Arc<Kind>> {
        self.kinds.get(name)
    }

    /// True if the WDS serves the resource, in that group or in any.
    pub(super) fn serves(&self, group: Option<&str>, resource: &str) -> bool {
        let all = self.kinds.keys().chain(&self.staying);
        let mut of_name = all.filter(|kind| &*kind.resource == resource);
        of_name.any(|kind| group.is_none_or(|group| &*kind.group == group))
    }

    /// The kind that may be meant by a resource which is not served: the plural of it, one with
    /// nearly the same spelling, or one of another group.
    pub(super) fn near(&self, group: Option<&str>, resource: &str) -> Option<&KindName> {
        let resource = resource.to_lowercase();
        let far = |name: &KindName, kind: &Kind| {
            if kind.kind.to_lowercase() == resource {
                return Some(0);
            }
            distance(&resource, &name.resource).filter(|distance| *distance <= FARTHEST)
        };
        let near = self.kinds.iter().filter_map(|(name, kind)| {
            let is_elsewhere = group.is_some_and(|group| &*name.group != group);
            Some(((far(name, kind)?, is_elsewhere), name))
        });
        near.min().map(|(_, name)| name)
    }
}

/// Maximum distance between the resource that is written and the one that may be meant.
const FARTHEST: usize = 2;

/// The number of letters to change, insert or remove to turn one word into the other (Levenshtein).
/// `None` if the words are too long, too short or too different for a suggestion.
fn distance(one: &str, other: &str) -> Option<usize> {
    const LONGEST: usize = 63;
    let is_comparable =
        one.len() <= LONGEST && other.len() <= LONGEST && one.len().abs_diff(other.len()) <= FARTHEST;
    if !is_comparable || one.len() <= FARTHEST {
        return None;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (number, letter) in one.bytes().enumerate() {
        let mut diagonal = number;
        let mut left = number + 1;
        for (place, of_other) in row.iter_mut().skip(1).zip(other.bytes()) {
            let changed = diagonal + usize::from(letter != of_other);
            diagonal = *place;
            left = changed.min(diagonal + 1).min(left + 1);
            *place = left;
        }
    }
    row.last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_written_nearly_right_is_found() {
        let kind = |group: &str, resource: &str, kind: &str| Kind {
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            kind: kind.to_owned(),
            is_namespaced: true,
            has_status: false,
        };
        let catalog = Catalog::new(vec![
            kind("", "configmaps", "ConfigMap"),
            kind("", "nodes", "Node"),
            kind("argoproj.io", "workflows", "Workflow"),
            kind("argoproj.io", "workflowtemplates", "WorkflowTemplate"),
            kind("networking.k8s.io", "ingresses", "Ingress"),
            kind("extensions", "ingresses", "Ingress"),
        ]);
        let long = "w".repeat(1 << 20);
        for (group, resource, wanted) in [
            (None, "workflow", Some("workflows.argoproj.io")),
            (None, "Workflows", Some("workflows.argoproj.io")),
            (None, "wrokflows", Some("workflows.argoproj.io")),
            (
                Some("argoproj.io"),
                "workflowtemplate",
                Some("workflowtemplates.argoproj.io"),
            ),
            (Some(""), "workflows", Some("workflows.argoproj.io")),
            (Some("apps"), "configmap", Some("configmaps")),
            (
                Some("networking.k8s.io"),
                "ingress",
                Some("ingresses.networking.k8s.io"),
            ),
            (None, "ingress", Some("ingresses.extensions")),
            (None, "widgets", None),
            (None, "wf", None),
            (None, &long, None),
        ] {
            let near = catalog.near(group, resource).map(ToString::to_string);
            assert_eq!(near.as_deref(), wanted, "{group:?} {resource:.20}");
        }
        for (group, resource, is_served) in [
            (None, "workflows", true),
            (Some("argoproj.io"), "workflows", true),
            (Some(""), "workflows", false),
            (None, "nodes", true),
            (None, "workflow", false),
        ] {
            assert_eq!(catalog.serves(group, resource), is_served, "{group:?} {resource}");
        }
    }

    #[test]
    fn the_distance_of_words_is_that_of_levenshtein() {
        for (one, other, wanted) in [
            ("abc", "abc", Some(0)),
            ("abc", "abd", Some(1)),
            ("abc", "ab", Some(1)),
            ("abc", "xabc", Some(1)),
            ("abcd", "bacd", Some(2)),
            ("kitten", "sittin", Some(2)),
            ("abc", "xyz", Some(3)),
            ("abc", "abcdef", None),
        ] {
            assert_eq!(distance(one, other), wanted, "{one} {other}");
        }
    }
}
