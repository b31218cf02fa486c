//! The watches of Argo's templates of the WDS, for what Workflows ask for.
//!
//! A control cluster may serve no templates, and the controller may lack the right to read them. Then
//! there are none, and nothing waits for them.

use std::time::Duration;

use argosy_api::workflow;
use argosy_core::{
    Change, Failure,
    hub::{template_demand::ObservedTemplate, workflows::HubInput},
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
    core::PartialObjectMeta,
};
use tokio::{sync::mpsc, time::sleep};

use crate::runtime::{
    lenient::Lenient,
    requests::list,
    watch::{Projected, follow_kind, is_unknown_kind, selecting},
};

/// Interval between attempts to list a kind that is not served, or not without a right. Nothing tells
/// when that changes.
const AGAIN: Duration = Duration::from_secs(20);

/// The same while the API server does not answer.
const UNREACHABLE: Duration = Duration::from_secs(2);

/// Watches the WorkflowTemplates, or the ClusterWorkflowTemplates, until the receiver of `inputs` is
/// dropped.
pub(super) async fn follow(wds: Client, is_cluster_scoped: bool, inputs: mpsc::Sender<HubInput>) {
    let (kind, input): (_, fn(Change<ObservedTemplate>) -> HubInput) = if is_cluster_scoped {
        ("ClusterWorkflowTemplate", HubInput::ClusterTemplate)
    } else {
        ("WorkflowTemplate", HubInput::Template)
    };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(workflow::GROUP, workflow::VERSION, kind));
    let metadata: Api<Lenient<PartialObjectMeta<DynamicObject>>> = Api::all_with(wds.clone(), &resource);
    loop {
        let pause = match list(metadata.list(&ListParams::default().limit(1))).await {
            Ok(_) => break,
            Err(failure @ (Failure::Unserved(_) | Failure::Refused(_))) => {
                tracing::debug!(kind, error = %failure, "not watched; what their Workflows ask for is not known");
                if inputs.send(input(Change::Reset(Vec::new()))).await.is_err() {
                    return;
                }
                AGAIN
            }
            Err(_) => UNREACHABLE,
        };
        sleep(pause).await;
    }
    let templates: Api<Projected<DynamicObject, ObservedTemplate>> = Api::all_with(wds, &resource);
    let missing = |error: &_| is_unknown_kind(error).then(|| input(Change::Reset(Vec::new())));
    follow_kind(
        kind.to_owned(),
        templates,
        selecting(""),
        inputs,
        Projected::into_view,
        input,
        missing,
    )
    .await;
}
