//! Installing CustomResourceDefinitions, each waited for until the API server serves it.

use anyhow::{Context, Result};
use argosy_api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};

use super::{objects, waiting};

/// What WDS and ITS on one API server need: the KubeStellar group, the inventory, and Argo's Workflow.
pub async fn install_on_control(client: &Client) -> Result<()> {
    let mut definitions = crds::kubestellar();
    definitions.extend(crds::open_cluster_management());
    definitions.push(argo_workflow()?);
    install(client, definitions).await
}

/// What the agent needs on a WEC, and the namespace of its Lease.
pub async fn install_for_agent(client: &Client) -> Result<()> {
    objects::create_namespace(client, objects::CONTROLLER_NAMESPACE).await?;
    install(client, crds::agent()).await
}

/// Argo's Workflow.
pub async fn install_argo(client: &Client) -> Result<()> {
    install(client, vec![argo_workflow()?]).await
}

/// What OCM's registration agent brings to a WEC.
pub async fn install_cluster_claims(client: &Client) -> Result<()> {
    let text = include_str!("../../fixtures/ocm-cluster-claim-crd.yaml");
    install(
        client,
        vec![serde_saphyr::from_str(text).context("OCM's ClusterClaim CRD")?],
    )
    .await
}

fn argo_workflow() -> Result<CustomResourceDefinition> {
    serde_saphyr::from_str(include_str!("../../fixtures/argo-workflow-crd.yaml"))
        .context("Argo's Workflow CRD")
}

async fn install(client: &Client, definitions: Vec<CustomResourceDefinition>) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("argosy-lab").force();
    for definition in &definitions {
        let name = definition.metadata.name.as_deref().context("a CRD has a name")?;
        api.patch(name, &params, &Patch::Apply(definition))
            .await
            .with_context(|| format!("CRD {name}"))?;
    }
    for definition in &definitions {
        let name = definition.metadata.name.as_deref().unwrap_or_default();
        waiting::until(&api, name, "the CRD is established", is_established).await?;
    }
    Ok(())
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|known| known.type_ == "Established" && known.status == "True")
}
