//! The agent's loop for objects of any kind, and the watches of its cluster.
//!
//! Not here: Workflows that run once, which have their own index, and the watches of the mailbox
//! (`mailbox::watch`).

mod execute;
mod kinds;
mod review;

use argosy_api::{AppliedManifestWork, names};
use argosy_core::agent::manifests::{ApplierConfig, ApplyInput, ManifestIndex};
use kube::Api;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{Member, OBJECTS, mailbox::Mailbox};
use kinds::Wanted;

use crate::runtime::{
    admin::Readiness,
    engine,
    lenient::Lenient,
    supervise::{OrphanLog, supervise},
    watch::{follow, selecting},
    x509::hexadecimal,
};

/// Name of the loop.
const ENGINE: &str = "agent_objects";

/// Runs the loop until `stop`, also with the inputs that others send. Tells `mailbox` about the
/// ManifestWorks.
pub(super) async fn run(
    member: &Member,
    (sender, receiver): (mpsc::Sender<ApplyInput>, mpsc::Receiver<ApplyInput>),
    mailbox: Mailbox,
    readiness: Readiness,
    stop: CancellationToken,
) {
    let mut tasks = JoinSet::new();
    let hub_hash = hub_hash(&member.hub);
    watch_records(member, &sender, &mut tasks);
    let (wanted, kinds) = watch::channel(Wanted::default());
    let index = ManifestIndex::new(ApplierConfig {
        cluster: member.cluster.clone(),
        hub_hash: hub_hash.clone(),
        argo_instance: member.argo_instance.clone(),
    });
    let following = kinds::follow(
        member.wec.clone(),
        member.cluster.clone(),
        kinds,
        index.named_objects(),
        sender,
    );
    tasks.spawn(following.in_current_span());
    let mut orphans = OrphanLog::new(member.metrics.orphans(ENGINE));
    readiness.tell(OBJECTS, index.unlisted());
    let observe = move |index: &mut ManifestIndex| {
        mailbox.learn(index);
        wanted.send_if_modified(|known| {
            let is_same =
                known.kinds.iter().eq(index.kinds()) && known.objects.iter().eq(index.watched_by_name());
            if !is_same {
                known.kinds = index.kinds().cloned().collect();
                known.objects = index.watched_by_name().cloned().collect();
            }
            !is_same
        });
        readiness.tell(OBJECTS, index.unlisted());
        orphans.look(
            index.is_synced(),
            || index.orphans().count(),
            "records without their ManifestWork",
        );
    };
    let executor = execute::Executor::new(member, hub_hash);
    let reactions = member.metrics.reactions(ENGINE);
    let driving = engine::drive(index, executor, receiver, stop, reactions, observe);
    supervise(driving, tasks).await;
}

/// The hash by which OCM's agents identify a hub in their records.
fn hub_hash(address: &str) -> String {
    hexadecimal(address.as_bytes())
}

fn watch_records(member: &Member, sender: &mpsc::Sender<ApplyInput>, tasks: &mut JoinSet<()>) {
    // Records of Workflows belong to the other index.
    let own = format!(
        "{}={},!{}",
        names::CLUSTER_LABEL,
        member.cluster,
        names::ORIGIN_UID_LABEL
    );
    let records: Api<Lenient<AppliedManifestWork>> = Api::all(member.wec.clone());
    tasks.spawn(
        follow(
            records,
            selecting(&own),
            sender.clone(),
            ApplyInput::Record,
            |_| None,
        )
        .in_current_span(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_is_named_as_ocm_names_it() {
        // printf %s https://127.0.0.1:6443 | sha256sum
        assert_eq!(
            hub_hash("https://127.0.0.1:6443"),
            "6c5003f4dd1691967bd3047645092380ef15affc718a40bf6cc43496f96e552a"
        );
    }
}
