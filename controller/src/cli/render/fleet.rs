//! Reads a cluster's facts and the CustomTransforms of the fleet, as documents.
//!
//! Not here: their meaning (`render`, `cluster_properties`).

use anyhow::anyhow;
use argosy_api::{CustomTransform, ManagedCluster, names};
use argosy_core::Failure;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, Resource, ResourceExt, api::ListParams};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    cli::spaces::{Clients, Spaces},
    runtime::{
        lenient::Lenient,
        requests::{found, list, read},
    },
};

/// Documents of the fleet.
pub(super) struct Fleet {
    /// The CustomTransforms of the control cluster.
    pub(super) transforms: Vec<Value>,
    /// The ManagedCluster, and the ConfigMap with its properties.
    pub(super) cluster: Vec<Value>,
}

/// Reads the documents about a cluster.
pub(super) async fn read_fleet(spaces: &Spaces, name: &str) -> anyhow::Result<Fleet> {
    let Clients { wds, its } = spaces.connect().await?;
    let transforms = Api::<Lenient<CustomTransform>>::all(wds);
    let transforms = list(transforms.list(&ListParams::default()))
        .await
        .map_err(|failure| anyhow!("cannot read the CustomTransforms of the control cluster: {failure}"))?;
    let clusters = Api::<Lenient<ManagedCluster>>::all(its.clone());
    let cluster = found(read(clusters.get(name)).await)
        .map_err(|failure| anyhow!("cannot read ManagedCluster {name} of the ITS: {failure}"))?;
    let cluster = cluster
        .ok_or_else(|| anyhow!("there is no ManagedCluster {name}; list them: argosy get clusters"))?;
    let properties = Api::<Lenient<ConfigMap>>::namespaced(its.clone(), names::PROPERTIES_NAMESPACE);
    let properties = found(read(properties.get(name)).await).map_err(|failure| {
        anyhow!(
            "cannot read ConfigMap {name} in {}: {failure}",
            names::PROPERTIES_NAMESPACE
        )
    })?;
    let mut documents = vec![document(&cluster)?];
    documents.extend(properties.as_ref().map(document).transpose()?);
    documents.extend(secret_properties(its, name).await?);
    Ok(Fleet {
        transforms: transforms.iter().map(document).collect::<Result<_, _>>()?,
        cluster: documents,
    })
}

/// The Secrets with properties of a cluster, as far as the user may read them. Only Secrets are
/// rendered differently without them.
async fn secret_properties(its: Client, cluster: &str) -> anyhow::Result<Vec<Value>> {
    let secrets = Api::<Lenient<Secret>>::namespaced(its, names::PROPERTIES_NAMESPACE);
    match list(secrets.list(&ListParams::default())).await {
        Ok(secrets) => {
            let of_cluster = |secret: &&Secret| {
                let name = secret.name_any();
                name.split('.').next() == Some(cluster)
            };
            secrets.iter().filter(of_cluster).map(document).collect()
        }
        Err(Failure::Refused(_)) => Ok(Vec::new()),
        Err(failure) => Err(anyhow!(
            "cannot list the Secrets in {}: {failure}",
            names::PROPERTIES_NAMESPACE
        )),
    }
}

/// An object with its kind, which objects of a list lack.
fn document<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> anyhow::Result<Value> {
    let mut document = serde_json::to_value(object)?;
    if let Some(fields) = document.as_object_mut() {
        fields.insert("apiVersion".to_owned(), json!(K::api_version(&())));
        fields.insert("kind".to_owned(), json!(K::kind(&())));
    }
    Ok(document)
}
