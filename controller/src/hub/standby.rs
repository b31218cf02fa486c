//! A controller that does not lead, and answers the webhook all the same: it learns what placement depends on, and nothing of the Workflows
//! themselves.
//!
//! Nothing is decided here and nothing carried out. When this process leads, its engine begins anew, from listing; the
//! snapshot of here is used until that has listed everything.

use std::sync::Arc;

use argosy_core::{
    Change, Reconcile,
    admission::Admission,
    hub::{Hub, HubConfig, HubInput},
};
use jiff::Timestamp;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use super::{PART, QUEUE, Spaces, publish, watch_inventory, watch_rules};
use crate::{admin::Readiness, supervise::supervise};

/// Keeps the newest snapshot for the webhook in `snapshots`, until it is dropped.
pub async fn stand_by(
    spaces: Spaces,
    readiness: Readiness,
    snapshots: watch::Sender<Option<Arc<Admission>>>,
) {
    let (sender, mut inputs) = mpsc::channel(QUEUE);
    let mut watches = JoinSet::new();
    watch_rules(&spaces.wds, &sender, &mut watches);
    watch_inventory(&spaces.its, &sender, &mut watches);
    drop(sender);
    let mut index = Hub::new(HubConfig {
        wds_name: spaces.wds_name,
        is_guarded: spaces.is_guarded,
    });
    // What placement does not depend on counts as listed.
    let now = Timestamp::now();
    index.apply(HubInput::Workflow(Change::Reset(Vec::new())), now);
    index.apply(HubInput::Work(Change::Reset(Vec::new())), now);
    index.apply(HubInput::Report(Change::Reset(Vec::new())), now);
    let learning = async {
        readiness.tell(PART, index.unlisted());
        while let Some(input) = inputs.recv().await {
            index.apply(input, Timestamp::now());
            // For who leads.
            drop(index.take_notices());
            drop(index.take_census());
            readiness.tell(PART, index.unlisted());
            publish(&index, &snapshots);
        }
    };
    supervise(learning, watches).await;
}
