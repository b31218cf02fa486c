//! The real work agent of Open Cluster Management, which applies the ManifestWorks of one mailbox
//! to one WEC.
//!
//! It runs with its default feature gates. It does not report readiness, so a test waits for its
//! effects.

use std::path::Path;

use anyhow::Result;

use super::{
    folder,
    process::{Launch, Process},
    store::free_port,
    toolchain,
};

/// A running work agent of OCM.
#[derive(Debug)]
pub struct WorkAgent {
    process: Process,
}

/// A release line of OCM.
#[derive(Clone, Copy, Debug)]
pub enum Line {
    /// The newest: it applies a ManifestWork again when its spec or labels change, and every four
    /// to six minutes.
    Current,
    /// 1.0, which KubeStellar 0.30 installs: it applies a ManifestWork again at every event of it,
    /// including changes of its own status.
    KubeStellars,
}

impl Line {
    /// A short name that is valid in object names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::KubeStellars => "kubestellar",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Current => "ocm-work",
            Self::KubeStellars => "ocm10-work",
        }
    }
}

impl WorkAgent {
    /// Starts the agent of `cluster`.
    pub fn start(line: Line, cluster: &str, its: &Path, wec: &Path) -> Result<Self> {
        let log = folder::create(&format!("ocm-{cluster}"))?.join("log");
        let launch = Launch::new(toolchain::binary(line.program())?, log)
            .argument("agent")
            .flag("--spoke-cluster-name", cluster)
            // Records of Argosy's agent have the cluster here; OCM's agent must not take them for
            // its own.
            .flag("--agent-id", format!("ocm-{cluster}"))
            .flag("--hub-kubeconfig", its)
            .flag("--workload-source-config", its)
            .flag("--kubeconfig", wec)
            .flag("--namespace", "default")
            .argument("--disable-leader-election")
            // The default of ten seconds would only make the tests longer.
            .flag("--status-sync-interval", "2s")
            .flag("--listen", format!("127.0.0.1:{}", free_port()?));
        Ok(Self {
            process: Process::start(launch)?,
        })
    }

    /// Fails with the end of its log if it has ended.
    pub fn check_running(&self) -> Result<()> {
        self.process.check_running()
    }
}
