//! Notices that an API server was put back to an earlier state, as from a backup of its etcd.
//!
//! Its version numbers go on from there, so a watch that asks for what came after the newest known one is told nothing until
//! the numbers have caught up, and an index takes everything that it is told for old. The way out is to begin anew, as after
//! a crash. Not noticed: a backup so young that the numbers have caught up within [`EVERY`]. Where the numbers were made to go on,
//! watches list anew, and `watch.rs` notices.

use std::{fmt::Debug, time::Duration};

use argosy_core::Failure;
use kube::{Api, Resource, api::ListParams, core::PartialObjectMeta};
use tokio::time::sleep;

use crate::{outcome::call, tolerant::Tolerant};

/// How often the number is looked at.
pub const EVERY: Duration = Duration::from_secs(3);

/// Ends when the API server's number for `api` is lower than it was.
pub async fn until_restored<K>(api: Api<Tolerant<PartialObjectMeta<K>>>)
where
    K: Resource + Clone + Debug,
    K::DynamicType: Default,
{
    let mut newest = 0;
    loop {
        match version(&api).await {
            Ok(Some(version)) if version < newest => {
                tracing::error!(
                    kind = %K::kind(&K::DynamicType::default()),
                    version,
                    newest,
                    "the API server was put back to an earlier state; beginning anew"
                );
                return;
            }
            Ok(Some(version)) => newest = version,
            Ok(None) => {}
            // The watches say what is wrong.
            Err(failure) => tracing::debug!(error = %failure, "cannot see the API server's version"),
        }
        sleep(EVERY).await;
    }
}

/// The number of the last write of all (KEP-2340: a list without a version is as new as the store).
async fn version<K>(api: &Api<Tolerant<PartialObjectMeta<K>>>) -> Result<Option<u64>, Failure>
where
    K: Resource + Clone + Debug,
{
    let list = call(api.list(&ListParams::default().limit(1))).await?;
    Ok(list
        .metadata
        .resource_version
        .and_then(|version| version.parse().ok()))
}
