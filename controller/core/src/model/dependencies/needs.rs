//! The objects that the agent finds on its cluster before it creates a Workflow: the annotation
//! [`names::NEEDS_ANNOTATION`] of the ManifestWork.
//!
//! Not here: the policies that ask ([`Asked`]), and the requests to the cluster.

use std::{collections::BTreeSet, fmt};

use argosy_api::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Asked, Dependency, DependencyKind, is_name};

/// Maximum number of objects that are listed by name.
const MOST_LISTED: usize = 16;

/// The objects that must be on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The kinds that the policies send. All objects of these kinds that the run cannot do without
    /// must be there.
    pub asked: Asked,
    /// Objects that the control cluster has: those that the run could do without, and ServiceAccounts,
    /// which arrive with the rights of Argo's executor.
    pub listed: BTreeSet<Dependency>,
}

impl Needs {
    /// The needs that the annotations of a ManifestWork tell. Anything that is unknown is left out.
    pub fn of(work: &ObjectMeta) -> Self {
        let annotations = work.annotations.as_ref();
        let text = annotations.and_then(|annotations| annotations.get(names::NEEDS_ANNOTATION));
        let mut needs = Self::default();
        for item in text.into_iter().flat_map(|text| text.split(',')) {
            match item.split_once('/') {
                None => needs.asked = needs.asked.with(Asked::listed(item)),
                Some((kind, name)) => needs.listed.extend(listed(kind, name)),
            }
        }
        while needs.listed.len() > MOST_LISTED {
            needs.listed.pop_last();
        }
        needs
    }

    /// True if nothing has to be on the cluster.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.listed.is_empty()
    }
}

fn listed(kind: &str, name: &str) -> Option<Dependency> {
    let kinds = [
        DependencyKind::ConfigMap,
        DependencyKind::Secret,
        DependencyKind::ServiceAccount,
    ];
    let kind = kinds.into_iter().find(|known| known.to_string() == kind)?;
    is_name(name).then(|| Dependency {
        kind,
        name: name.into(),
    })
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.asked)?;
        for Dependency { kind, name } in self.listed.iter().take(MOST_LISTED) {
            write!(f, ",{kind}/{name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read(text: &str) -> Needs {
        let annotations = BTreeMap::from([(names::NEEDS_ANNOTATION.to_owned(), text.to_owned())]);
        Needs::of(&ObjectMeta {
            annotations: Some(annotations),
            ..ObjectMeta::default()
        })
    }

    #[test]
    fn needs_are_read_as_they_are_written_and_anything_unknown_is_left_out() {
        let text = "templates,configmaps,ConfigMap/artifact-repositories,Secret/registry";
        let needs = read(text);
        assert_eq!(needs.to_string(), text);
        assert!(needs.asked.has(DependencyKind::ClusterWorkflowTemplate));
        assert!(!needs.asked.has(DependencyKind::Secret));

        assert!(Needs::of(&ObjectMeta::default()).is_empty());
        assert!(read("").is_empty());
        assert!(read("volumes,Pod/x,ConfigMap/../../secrets/y,ConfigMap/").is_empty());

        let many: Vec<String> = (0..100).map(|index| format!("ConfigMap/c{index}")).collect();
        assert_eq!(read(&many.join(",")).listed.len(), MOST_LISTED);
    }
}
