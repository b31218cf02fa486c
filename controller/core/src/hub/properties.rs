//! The properties of clusters that templates and transforms may use, from the ITS: labels and
//! annotations of ManagedClusters, and ConfigMaps.
//!
//! Not here: the syntax of templates, and the keys that count as properties (crate
//! `argosy-transforms`).

use std::collections::{BTreeMap, BTreeSet};

use argosy_transforms::template::{self, Dialect};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde_json::Value;

use super::inventory::Cluster;
use crate::{Change, ClusterName};

/// ConfigMaps with properties, by cluster.
#[derive(Debug, Default)]
pub(crate) struct Properties(BTreeMap<ClusterName, ConfigMap>);

impl Properties {
    /// Learns ConfigMaps, and returns the clusters whose properties may have changed.
    pub(crate) fn learn(&mut self, change: Change<ConfigMap>) -> BTreeSet<ClusterName> {
        let name_of = |map: &ConfigMap| ClusterName::from(map.name_any().as_str());
        match change {
            Change::Apply(map) => {
                let name = name_of(&map);
                self.0.insert(name.clone(), *map);
                [name].into()
            }
            Change::Delete(map) => {
                let name = name_of(&map);
                self.0.remove(&name);
                [name].into()
            }
            Change::Reset(live) => {
                let before: BTreeSet<ClusterName> = self.0.keys().cloned().collect();
                self.0 = live.into_iter().map(|map| (name_of(&map), map)).collect();
                self.0.keys().cloned().chain(before).collect()
            }
        }
    }

    /// The properties of a cluster whose ManagedCluster has these labels and annotations.
    pub(crate) fn of(&self, name: &ClusterName, cluster: &Cluster) -> BTreeMap<String, String> {
        let map = self.0.get(name);
        let binary = map.and_then(|map| map.binary_data.as_ref()).into_iter().flatten();
        template::properties(
            name.as_str(),
            Some(&cluster.labels),
            Some(&cluster.annotations),
            map.and_then(|map| map.data.as_ref()),
            binary.map(|(key, value)| (key, value.0.as_slice())),
        )
    }
}

/// Expands the templates in an object of this group with the properties of a cluster.
///
/// # Errors
///
/// One sentence for each template that cannot be expanded.
pub(crate) fn expand(
    object: &mut Value,
    group: &str,
    properties: &BTreeMap<String, String>,
) -> Result<(), Vec<String>> {
    let errors = template::expand(object, properties, Dialect::of_group(group));
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.iter().map(ToString::to_string).collect())
    }
}

/// True if an object asks for its templates to be expanded.
pub(crate) fn is_templated(annotations: Option<&BTreeMap<String, String>>) -> bool {
    annotations
        .and_then(|annotations| annotations.get(argosy_api::names::EXPAND_TEMPLATES_ANNOTATION))
        .is_some_and(|value| value == "true")
}
