//! The life of the controller's third engine: it deletes ManifestWorks that others wrote, some time after they are complete.

use argosy_api::{ManifestWork, names};
use argosy_core::{
    Change, Failure,
    expiry::{Expire, Expiry, ExpiryInput, ExpiryKey},
};
use kube::{Api, Client};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    engine::{self, Execute},
    metrics::Metrics,
    outcome::{deleting_version, left},
    supervise::supervise,
    tolerant::Tolerant,
    watch::{follow, selecting},
};

/// Inputs waiting for the engine. A full queue holds the watch back, never loses anything.
const QUEUE: usize = 256;

/// Runs until `stop`. Where several control clusters share an ITS, each does the same, and the first to do it has done it.
pub async fn run(its: Client, metrics: Metrics, stop: CancellationToken) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let mut watches = JoinSet::new();
    let of_others = format!(
        "!{},!{},!{}",
        names::ORIGIN_UID_LABEL,
        names::OBJECT_UID_LABEL,
        names::REPLICA_SET_LABEL
    );
    let works: Api<Tolerant<ManifestWork>> = Api::all(its.clone());
    watches.spawn(follow(
        works,
        selecting(&of_others),
        sender,
        ExpiryInput::Work,
        |_| None,
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
        let works: Api<Tolerant<ManifestWork>> = Api::namespaced(self.its.clone(), key.cluster.as_str());
        let params = deleting_version(&action.uid, &action.resource_version);
        Ok(match left(works.delete(key.work.as_str(), &params)).await? {
            Some(work) if work.metadata.deletion_timestamp.is_some() => {
                ExpiryInput::Work(Change::Apply(Box::new(work)))
            }
            _ => ExpiryInput::Gone(key.clone()),
        })
    }
}
