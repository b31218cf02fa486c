//! The objects and clusters to which a CustomTransform applies, by its selectors.
//!
//! Not here: the group and resource of the objects (`transforms`).

use argosy_api::CustomTransformSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::policy::{Labels, Selectors};

/// Maximum number of selectors in one list that are used.
const MOST: usize = 64;

/// The selectors of a transform.
#[derive(Debug)]
pub(super) struct Scope {
    sources: [Vec<LabelSelector>; 2],
    clusters: Selectors,
    objects: Selectors,
}

impl PartialEq for Scope {
    fn eq(&self, other: &Self) -> bool {
        self.sources == other.sources
    }
}

impl Scope {
    /// Compiles the selectors. An invalid selector matches nothing and is reported in `errors`.
    pub(super) fn compile(spec: &CustomTransformSpec, errors: &mut Vec<String>) -> Self {
        let mut compile = |selectors: &[LabelSelector], field: &str| {
            let used: Vec<_> = selectors.iter().take(MOST).cloned().collect();
            let path = format!("spec.{field}");
            let compiled = Selectors::compile(&used, &path, errors);
            if selectors.len() > MOST {
                errors.push(format!("{path}: only the first {MOST} selectors are used"));
            }
            (used, compiled)
        };
        let (of_clusters, clusters) = compile(&spec.cluster_selectors, "clusterSelectors");
        let (of_objects, objects) = compile(&spec.object_selectors, "objectSelectors");
        Self {
            sources: [of_clusters, of_objects],
            clusters,
            objects,
        }
    }

    /// True if the transform applies to some clusters only.
    pub(super) fn names_clusters(&self) -> bool {
        !self.clusters.is_empty()
    }

    /// True if the transform applies for a cluster with these labels.
    pub(super) fn has_cluster(&self, labels: &Labels) -> bool {
        self.clusters.is_empty() || self.clusters.matching(Some(labels)).is_some()
    }

    /// True if the transform applies to an object with these labels.
    pub(super) fn has_object(&self, labels: &Labels) -> bool {
        self.objects.is_empty() || self.objects.matching(Some(labels)).is_some()
    }

    /// True if the labels of an object matter.
    pub(super) fn names_objects(&self) -> bool {
        !self.objects.is_empty()
    }
}
