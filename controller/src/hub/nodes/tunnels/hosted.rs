//! An agent that this process hosts. Its answers break off when it is cut, as those of an agent whose
//! tunnel is closed.
//!
//! Not here: the time to cut it (`tunnels`).

use std::io;

use axum::body::Body;
use futures::{StreamExt, stream};
use tokio_util::sync::CancellationToken;
use tower::{ServiceExt, util::BoxCloneSyncService};

use crate::runtime::tunnel::Agent;

/// A hosted agent. A drop cuts it.
pub(super) struct HostedAgent {
    /// The number of its registration.
    pub(super) number: u64,
    agent: Agent,
    cut: CancellationToken,
}

impl HostedAgent {
    /// The agent with this registration.
    pub(super) fn new(number: u64, agent: Agent) -> Self {
        Self {
            number,
            agent,
            cut: CancellationToken::new(),
        }
    }

    /// The agent. Its answers last until it is cut.
    pub(super) fn agent(&self) -> Agent {
        let cut = self.cut.clone();
        let answering = self.agent.clone().map_response(move |response| {
            response.map(|body| {
                let whole = body.into_data_stream().map(|part| part.map_err(io::Error::other));
                let ended = cut.clone().cancelled_owned();
                let cut = cut.clone();
                let last = stream::once(async move { cut.is_cancelled() });
                let last = last.filter_map(|is_cut| async move {
                    is_cut.then(|| Err(io::Error::other("the cluster is not asked any more")))
                });
                Body::from_stream(whole.take_until(ended).chain(last))
            })
        });
        BoxCloneSyncService::new(answering)
    }

    /// Breaks off the answers that are in progress.
    pub(super) fn cut(&mut self) {
        self.cut.cancel();
        self.cut = CancellationToken::new();
    }
}

impl Drop for HostedAgent {
    fn drop(&mut self) {
        self.cut.cancel();
    }
}
