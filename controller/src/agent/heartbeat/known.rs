//! The agent's ManagedCluster from a watch, so that nothing is requested from the ITS while nothing
//! changes. If the agent may not watch it, as with the role of an earlier release, or if a watch
//! has failed, it is read instead, and that read restarts the watch.

use argosy_api::ManagedCluster;
use argosy_core::Failure;
use futures::{StreamExt, stream::BoxStream};
use kube::{
    Api,
    runtime::watcher::{self, Event, watcher},
};

use crate::{
    agent::Member,
    runtime::{lenient::Lenient, requests::read, watch::named},
};

type Events = BoxStream<'static, watcher::Result<Event<Lenient<ManagedCluster>>>>;

/// The ManagedCluster of an agent.
pub(super) struct Known {
    api: Api<Lenient<ManagedCluster>>,
    name: String,
    events: Option<Events>,
    cluster: Option<ManagedCluster>,
}

impl Known {
    /// Creates the state for the ManagedCluster of `member`.
    pub(super) fn of(member: &Member) -> Self {
        Self {
            api: Api::all(member.its.clone()),
            name: member.cluster.to_string(),
            events: None,
            cluster: None,
        }
    }

    /// Applies the events of the watch. Never returns, and is cancel-safe.
    pub(super) async fn follow(&mut self) {
        while let Some(events) = &mut self.events {
            match events.next().await {
                Some(Ok(Event::InitApply(cluster) | Event::Apply(cluster))) => {
                    self.cluster = Some(cluster.into_object());
                }
                Some(Ok(Event::Init | Event::InitDone)) => {}
                Some(Ok(Event::Delete(_))) => self.cluster = None,
                Some(Err(error)) => {
                    tracing::debug!(%error, "the watch of the ManagedCluster has failed");
                    (self.events, self.cluster) = (None, None);
                }
                None => self.events = None,
            }
        }
        std::future::pending::<()>().await;
    }

    /// Returns the ManagedCluster from the watch, or reads it.
    pub(super) async fn get(&mut self) -> Result<ManagedCluster, Failure> {
        if let Some(cluster) = &self.cluster {
            return Ok(cluster.clone());
        }
        if self.events.is_none() {
            self.events = Some(watcher(self.api.clone(), named(&self.name)).boxed());
        }
        read(self.api.get(&self.name)).await
    }

    /// Forces a read next time: a response has shown that the known state is outdated.
    pub(super) fn forget(&mut self) {
        self.cluster = None;
    }
}
