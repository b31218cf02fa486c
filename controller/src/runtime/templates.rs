//! The API of Argo's templates, of one namespace and cluster-scoped. Not here: the templates that a
//! Workflow refers to (`argosy_core::model::template_refs`), and the checks of their content.

use argosy_api::workflow;
use argosy_core::model::template_refs::TemplateKey;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};

use crate::runtime::lenient::Lenient;

/// Returns the API that serves a template to which a Workflow of `namespace` refers.
pub(crate) fn api(client: &Client, namespace: &str, key: &TemplateKey) -> Api<Lenient<DynamicObject>> {
    let kind =
        |kind: &str| ApiResource::from_gvk(&GroupVersionKind::gvk(workflow::GROUP, workflow::VERSION, kind));
    if key.is_cluster_scoped {
        Api::all_with(client.clone(), &kind("ClusterWorkflowTemplate"))
    } else {
        Api::namespaced_with(client.clone(), namespace, &kind("WorkflowTemplate"))
    }
}
