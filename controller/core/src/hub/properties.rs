//! The properties of clusters that templates and transforms may use, from the ITS: labels and
//! annotations of ManagedClusters, ConfigMaps, and Secrets, which only the templates in Secrets may
//! use.
//!
//! Not here: the syntax of templates, and the keys that count as properties (crate
//! `argosy-transforms`).

use std::collections::{BTreeMap, BTreeSet};

use argosy_transforms::template::{self, Dialect};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use serde_json::Value;

use super::inventory::Cluster;
use crate::{Change, ClusterName};

/// ConfigMaps and Secrets with properties, by their names.
#[derive(Debug, Default)]
pub(crate) struct Properties {
    maps: BTreeMap<String, ConfigMap>,
    secrets: BTreeMap<String, Secret>,
}

impl Properties {
    /// Learns ConfigMaps, and returns the clusters whose properties may have changed.
    pub(crate) fn learn(&mut self, change: Change<ConfigMap>) -> BTreeSet<ClusterName> {
        let is_same = |known: &ConfigMap, new: &ConfigMap| {
            (&known.data, &known.binary_data) == (&new.data, &new.binary_data)
        };
        let names = learn(&mut self.maps, change, is_same);
        names
            .iter()
            .map(|name| ClusterName::from(name.as_str()))
            .collect()
    }

    /// The same for Secrets.
    pub(crate) fn learn_secrets(&mut self, change: Change<Secret>) -> BTreeSet<ClusterName> {
        let names = learn(&mut self.secrets, change, |known, new| known.data == new.data);
        let clusters = names.iter().filter_map(|name| name.split('.').next());
        clusters.map(ClusterName::from).collect()
    }

    /// The properties of a cluster whose ManagedCluster has these labels and annotations.
    pub(crate) fn of(&self, name: &ClusterName, cluster: &Cluster) -> BTreeMap<String, String> {
        let map = self.maps.get(name.as_str());
        let binary = map.and_then(|map| map.binary_data.as_ref()).into_iter().flatten();
        template::properties(
            name.as_str(),
            Some(&cluster.labels),
            Some(&cluster.annotations),
            map.and_then(|map| map.data.as_ref()),
            binary.map(|(key, value)| (key, value.0.as_slice())),
        )
    }

    /// The properties that only the templates in Secrets of a namespace may use: those in the
    /// cluster's Secret (`CLUSTER`), and those of the namespace (`CLUSTER.NAMESPACE`), which win.
    pub(crate) fn secret(&self, cluster: &ClusterName, namespace: &str) -> BTreeMap<String, String> {
        let names = [cluster.to_string(), format!("{cluster}.{namespace}")];
        let secrets = names.iter().filter_map(|name| self.secrets.get(name));
        let data = secrets.flat_map(|secret| secret.data.iter().flatten());
        let known = data.filter(|(key, _)| template::is_property_name(key));
        known
            .map(|(key, value)| (key.clone(), String::from_utf8_lossy(&value.0).into_owned()))
            .collect()
    }
}

/// Learns objects, and returns the names of those whose content, according to `is_same`, has changed.
fn learn<K: ResourceExt>(
    known: &mut BTreeMap<String, K>,
    change: Change<K>,
    is_same: impl Fn(&K, &K) -> bool,
) -> BTreeSet<String> {
    match change {
        Change::Apply(object) => {
            let name = object.name_any();
            let is_known = known.get(&name).is_some_and(|known| is_same(known, &object));
            known.insert(name.clone(), *object);
            if is_known { BTreeSet::new() } else { [name].into() }
        }
        Change::Delete(object) => {
            let name = object.name_any();
            known.remove(&name);
            [name].into()
        }
        Change::Reset(live) => {
            let live = live.into_iter().map(|object| (object.name_any(), object));
            let before = std::mem::replace(known, live.collect());
            let names = known.keys().chain(before.keys());
            let is_kept = |name: &String| match (before.get(name), known.get(name)) {
                (Some(before), Some(after)) => is_same(before, after),
                _ => false,
            };
            names.filter(|name| !is_kept(name)).cloned().collect()
        }
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

/// Expands the templates in a Secret.
///
/// # Errors
///
/// The path of each template that cannot be expanded. The reason would quote the Secret.
pub(crate) fn expand_secret(
    object: &mut Value,
    properties: &BTreeMap<String, String>,
) -> Result<(), Vec<String>> {
    let errors = template::expand_secret(object, properties);
    let sentence = |path: &str| {
        format!(
            "{path}: the template cannot be expanded; argosy render prints the reason to those who may read the Secret"
        )
    };
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.iter().map(|error| sentence(&error.path)).collect())
    }
}

/// True if an object asks for its templates to be expanded.
pub(crate) fn is_templated(annotations: Option<&BTreeMap<String, String>>) -> bool {
    annotations
        .and_then(|annotations| annotations.get(argosy_api::names::EXPAND_TEMPLATES_ANNOTATION))
        .is_some_and(|value| value == "true")
}
