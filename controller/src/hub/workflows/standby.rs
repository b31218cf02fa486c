//! A standby controller that serves the webhook: it watches only the objects that placement depends
//! on, and no Workflows.
//!
//! It makes no decisions and writes nothing. If this process becomes the leader, its engine starts
//! anew, from listing; the standby's snapshot is used until the engine has listed everything.

use std::sync::Arc;

use argosy_core::{
    Change, Reconcile,
    hub::{
        admission::Admission,
        workflows::{HubConfig, HubInput, WorkflowIndex},
    },
};
use jiff::Timestamp;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use super::{PART, QUEUE, Spaces, publish, watch_inventory, watch_rules};
use crate::runtime::{admin::Readiness, supervise::supervise};

/// Keeps the newest snapshot for the webhook in `snapshots`, until the future is dropped.
pub async fn run_standby(
    spaces: Spaces,
    readiness: Readiness,
    snapshots: watch::Sender<Option<Arc<Admission>>>,
) {
    let (sender, mut inputs) = mpsc::channel(QUEUE);
    let mut watches = JoinSet::new();
    watch_rules(&spaces.wds, &sender, &mut watches);
    watch_inventory(&spaces.its, &sender, &mut watches);
    drop(sender);
    let mut index = WorkflowIndex::new(HubConfig {
        wds_name: spaces.wds_name,
        is_guarded: spaces.is_guarded,
        request_lifetime: crate::runtime::requests::lifetime(spaces.request_lifetime),
        report_budget: argosy_core::REPORT_BUDGET,
        workflow_budget: argosy_core::WORKFLOW_BUDGET,
    });
    // Kinds that placement does not depend on count as listed.
    let now = Timestamp::now();
    index.apply(HubInput::Workflow(Change::Reset(Vec::new())), now);
    index.apply(HubInput::Work(Change::Reset(Vec::new())), now);
    index.apply(HubInput::Report(Change::Reset(Vec::new())), now);
    let learning = async {
        readiness.tell(PART, index.unlisted());
        while let Some(input) = inputs.recv().await {
            index.apply(input, Timestamp::now());
            // Only the leader uses these.
            drop(index.take_events());
            drop(index.count());
            readiness.tell(PART, index.unlisted());
            publish(&index, &snapshots);
        }
    };
    supervise(learning, watches).await;
}
