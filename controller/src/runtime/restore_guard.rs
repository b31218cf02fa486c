//! Detects that an API server was restored to an earlier state, as from a backup of its etcd.
//!
//! Its resource versions continue from the backup, so a watch that continues from a newer version
//! receives nothing until they have caught up, and an index takes all later objects for old. The
//! remedy is to start anew, as after a crash. An agent sees the version in each response about its
//! Lease. Not detected: a backup so recent that the versions catch up before the next check, or before
//! the next renewal of the Lease. If the versions were raised during the restore, watches list
//! again, and `runtime/watch.rs` detects it.

use std::{fmt::Debug, time::Duration};

use argosy_core::Failure;
use kube::{Api, Resource, api::ListParams, core::PartialObjectMeta};
use tokio::time::sleep;

use crate::runtime::{lenient::Lenient, requests::call};

/// Interval between checks of the WDS and the ITS.
pub const EVERY: Duration = Duration::from_secs(3);

/// Interval between checks of a WEC, where they are most of the requests of an agent at rest. Until one
/// is noticed, the agent shows runs that are gone; no run starts twice (`core/tests/model`,
/// `Restoration::is_unnoticed`).
pub const EVERY_OF_WEC: Duration = Duration::from_secs(30);

/// Returns when the API server's resource version for `api` is lower than before. Asks for it `every`
/// so often.
pub async fn until_restored<K>(api: Api<Lenient<PartialObjectMeta<K>>>, every: Duration)
where
    K: Resource + Clone + Debug,
    K::DynamicType: Default,
{
    let mut newest = Newest::default();
    loop {
        match version(&api).await {
            Ok(version) => {
                if newest.goes_back(&K::kind(&K::DynamicType::default()), version.as_deref()) {
                    return;
                }
            }
            // The watches log the cause.
            Err(failure) => {
                tracing::debug!(error = %failure, "cannot read the API server's resource version");
            }
        }
        sleep(every).await;
    }
}

/// The newest resource version that an API server has sent.
#[derive(Debug, Default)]
pub struct Newest(u64);

impl Newest {
    /// Records the version of a response about `kind`. Returns true, and logs it, if it is older
    /// than one before.
    pub fn goes_back(&mut self, kind: &str, version: Option<&str>) -> bool {
        let Some(version) = version.and_then(|version| version.parse().ok()) else {
            return false;
        };
        if version < self.0 {
            let newest = self.0;
            tracing::error!(
                kind,
                version,
                newest,
                "the API server was restored to an earlier state; restarting with new lists"
            );
            return true;
        }
        self.0 = version;
        false
    }
}

/// The resource version of the last write to the store (KEP-2340: a list without a version is as
/// new as the store).
async fn version<K>(api: &Api<Lenient<PartialObjectMeta<K>>>) -> Result<Option<String>, Failure>
where
    K: Resource + Clone + Debug,
{
    let list = call(api.list(&ListParams::default().limit(1))).await?;
    Ok(list.metadata.resource_version)
}
