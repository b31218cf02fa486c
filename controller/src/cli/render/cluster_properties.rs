//! Reads the labels and properties of a cluster from documents.
//!
//! Owned here: the documents that may contain them. Not here: the meaning of a property, and the
//! precedence within a document (`argosy-transforms`).

use std::collections::BTreeMap;

use argosy_transforms::template;
use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::Value;

use super::{Rendered, items, kind};

/// The facts about a cluster on which transforms and templates depend.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Facts {
    /// The labels of its ManagedCluster, and the entries of plain maps.
    pub(super) labels: BTreeMap<String, String>,
    /// Its properties.
    pub(super) properties: BTreeMap<String, String>,
    /// The properties that only the templates in Secrets of a namespace may use, by namespace; those
    /// of all namespaces have an empty one.
    pub(super) secrets: BTreeMap<String, BTreeMap<String, String>>,
}

impl Facts {
    /// The properties for a Secret of this namespace.
    pub(super) fn for_secret(&self, namespace: &str) -> BTreeMap<String, String> {
        let secrets = ["", namespace]
            .into_iter()
            .filter_map(|name| self.secrets.get(name));
        let mut properties = self.properties.clone();
        properties.extend(secrets.flatten().map(|(key, text)| (key.clone(), text.clone())));
        properties
    }
}

/// Collects the facts in all documents; later ones win. Errors go to `rendered`.
pub(super) fn collect(documents: Vec<Value>, rendered: &mut Rendered) -> Facts {
    let mut facts = Facts::default();
    for document in documents.into_iter().flat_map(items) {
        let found = match kind(&document) {
            // An empty document, such as before the first `---`.
            _ if document.is_null() => continue,
            Some("ManagedCluster") if document.get("apiVersion").is_some() => {
                managed_cluster(&document, &mut facts.labels)
            }
            Some("ConfigMap") if document.get("apiVersion").is_some() => {
                config_map(document, &facts.properties)
            }
            Some("Secret") if document.get("apiVersion").is_some() => match secret(document) {
                Ok((namespace, found)) => {
                    facts.secrets.entry(namespace).or_default().extend(found);
                    continue;
                }
                Err(error) => Err(error),
            },
            Some(other) if document.get("apiVersion").is_some() => {
                Err(format!("a {other} does not contain properties of a cluster"))
            }
            _ => plain(document, rendered).inspect(|found| facts.labels.extend(found.clone())),
        };
        match found {
            Ok(found) => facts.properties.extend(found),
            Err(error) => rendered.errors.push(format!("cluster properties: {error}")),
        }
    }
    facts
}

fn managed_cluster(
    document: &Value,
    known: &mut BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, String> {
    let metadata = document.get("metadata").cloned().unwrap_or_default();
    let metadata: ObjectMeta = serde_json::from_value(metadata).map_err(|error| error.to_string())?;
    let name = metadata.name.as_deref().ok_or("a ManagedCluster has no name")?;
    let (labels, annotations) = (metadata.labels.as_ref(), metadata.annotations.as_ref());
    known.extend(labels.cloned().unwrap_or_default());
    Ok(template::properties(name, labels, annotations, None, []))
}

/// Reads a ConfigMap. Its name is the name of its cluster, unless another document has set that.
fn config_map(document: Value, known: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
    let config_map: ConfigMap = serde_json::from_value(document).map_err(|error| error.to_string())?;
    let name = known
        .get(template::CLUSTER_NAME)
        .or(config_map.metadata.name.as_ref());
    let name = name.ok_or("a ConfigMap has no name")?;
    let binary = config_map.binary_data.iter().flatten();
    let binary = binary.map(|(key, bytes)| (key, bytes.0.as_slice()));
    let data = config_map.data.as_ref();
    Ok(template::properties(name, None, None, data, binary))
}

/// Reads a Secret, whose name is `CLUSTER` or `CLUSTER.NAMESPACE`. Returns the namespace, too.
fn secret(document: Value) -> Result<(String, BTreeMap<String, String>), String> {
    let secret: Secret = serde_json::from_value(document).map_err(|error| error.to_string())?;
    let name = secret.metadata.name.unwrap_or_default();
    let namespace = name.split_once('.').map(|(_, namespace)| namespace);
    let data = secret.data.into_iter().flatten();
    let data = data.map(|(key, value)| (key, String::from_utf8_lossy(&value.0).into_owned()));
    let all = data.chain(secret.string_data.into_iter().flatten());
    let known = all.filter(|(key, _)| template::is_property_name(key));
    Ok((namespace.unwrap_or_default().to_owned(), known.collect()))
}

fn plain(document: Value, rendered: &mut Rendered) -> Result<BTreeMap<String, String>, String> {
    let properties: BTreeMap<String, String> = serde_json::from_value(document)
        .map_err(|error| format!("not a map of strings; quote values that look like numbers: {error}"))?;
    let (named, rest): (BTreeMap<_, _>, BTreeMap<_, _>) = properties
        .into_iter()
        .partition(|(key, _)| template::is_property_name(key));
    let sentences = rest.keys().map(|key| {
        format!("cluster properties: {key:?} is not a valid name of a property, so it is left out")
    });
    rendered.warnings.extend(sentences);
    Ok(named)
}

#[cfg(test)]
mod tests;
