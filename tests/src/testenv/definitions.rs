//! Installs CustomResourceDefinitions, and waits until the API server serves each of them.

use anyhow::{Context, Result};
use argosy_api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{objects, waiting};

/// Installs the definitions for WDS and ITS on one API server: the KubeStellar group, the
/// inventory, and Argo's Workflow.
pub async fn install_on_control(client: &Client) -> Result<()> {
    let mut definitions = crds::kubestellar();
    definitions.extend(crds::open_cluster_management());
    definitions.push(argo_workflow()?);
    install(client, definitions).await
}

/// Installs the definitions that the agent needs on a WEC, and creates the namespace of its Lease.
pub async fn install_for_agent(client: &Client) -> Result<()> {
    objects::create_namespace(client, objects::CONTROLLER_NAMESPACE).await?;
    install(client, crds::agent()).await
}

/// Installs Argo's Workflow.
pub async fn install_argo(client: &Client) -> Result<()> {
    install(client, vec![argo_workflow()?]).await
}

/// Installs the full definition of Argo's Workflow in place of the minimal one.
pub async fn install_argo_in_full(client: &Client) -> Result<()> {
    let text = include_str!("../../fixtures/argo-workflow-crd-full.yaml");
    let definition = serde_saphyr::from_str(text).context("Argo's full Workflow CRD")?;
    install(client, vec![definition]).await
}

/// Installs a minimal definition of Argo's WorkflowTemplate.
pub async fn install_argo_templates(client: &Client) -> Result<()> {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = serde_json::from_value(json!({
        "metadata": { "name": "workflowtemplates.argoproj.io" },
        "spec": {
            "group": "argoproj.io", "scope": "Namespaced",
            "names": { "kind": "WorkflowTemplate", "plural": "workflowtemplates" },
            "versions": [{ "name": "v1alpha1", "served": true, "storage": true, "schema": { "openAPIV3Schema": open } }],
        },
    }));
    install(client, vec![definition.context("Argo's WorkflowTemplate CRD")?]).await
}

/// Installs Argo's CronWorkflow.
pub async fn install_argo_cron(client: &Client) -> Result<()> {
    let text = include_str!("../../fixtures/argo-cron-workflow-crd.yaml");
    let definition = serde_saphyr::from_str(text).context("Argo's CronWorkflow CRD")?;
    install(client, vec![definition]).await
}

/// Installs the definition that OCM's registration agent brings to a WEC.
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

/// True if objects of the definition can be written.
pub fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|known| known.type_ == "Established" && known.status == "True")
}
