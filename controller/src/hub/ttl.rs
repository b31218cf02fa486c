//! The controller's loop that deletes ManifestWorks of other creators some time after they are complete.

use argosy_api::{ManifestWork, names};
use argosy_core::{
    Change, Failure,
    hub::ttl::{Expire, Expiry, ExpiryInput, ExpiryKey, ObservedExpiring},
};
use kube::{Api, Client};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::runtime::{
    engine::{self, Execute},
    lenient::Lenient,
    metrics::Metrics,
    requests::{deleting_version, left},
    supervise::supervise,
    watch::{Projected, follow_projected, selecting},
};

/// Capacity of the queue of inputs. A full queue delays the watch and loses nothing.
const QUEUE: usize = 256;

/// Runs until `stop`. If several control clusters share an ITS, all of them act alike, and the
/// first write wins.
pub async fn run(its: Client, metrics: Metrics, stop: CancellationToken) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let mut watches = JoinSet::new();
    let of_others = format!(
        "!{},!{},!{}",
        names::ORIGIN_UID_LABEL,
        names::OBJECT_UID_LABEL,
        names::REPLICA_SET_LABEL
    );
    watches.spawn(follow_projected(
        Api::<Projected<ManifestWork, ObservedExpiring>>::all(its.clone()),
        selecting(&of_others),
        sender,
        Projected::into_view,
        ExpiryInput::Work,
    ));
    let (index, reactions) = (Expiry::default(), metrics.reactions("expiry"));
    let driving = engine::drive(index, Executor { its }, receiver, stop, reactions, |_| {});
    supervise(driving, watches).await;
}

#[derive(Clone)]
struct Executor {
    its: Client,
}

impl Execute<Expiry> for Executor {
    fn at_once(&self) -> usize {
        16
    }

    async fn execute(&self, key: &ExpiryKey, action: &Expire) -> Result<ExpiryInput, Failure> {
        let works: Api<Lenient<ManifestWork>> = Api::namespaced(self.its.clone(), key.cluster.as_str());
        let params = deleting_version(&action.uid, &action.resource_version);
        Ok(match left(&works, key.work.as_str(), &params).await? {
            Some(work) if work.metadata.deletion_timestamp.is_some() => {
                ExpiryInput::work(Change::Apply(Box::new(work)))
            }
            _ => ExpiryInput::Gone(key.clone()),
        })
    }
}
