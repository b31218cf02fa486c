//! The artifact repository of a cluster: its configuration in Argo, and the check that it can be
//! written and read.
//!
//! Argo itself stores and serves artifacts; Argosy only makes sure that all clusters share one
//! bucket.

mod bucket;
mod probe;
mod repository;
pub mod watchdog;

use std::fmt;

use argosy_api::conditions::reason;
use kube::Client;

pub use bucket::{Bucket, Content, open, open_for};

/// The bucket that a cluster's Argo keeps artifacts in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// Scheme, host and port, for example `http://s3.example:9000`.
    pub endpoint: String,
    /// Name of the bucket.
    pub bucket: String,
    /// The fixed beginning of all keys, as far as it is known; a tenant's key may reach no other ones.
    pub prefix: String,
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.endpoint, self.bucket)
    }
}

/// Reason that a cluster's artifact repository cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Problem {
    /// Argo's configuration contains no S3 bucket, or an invalid one.
    #[error("{0}")]
    NotConfigured(String),
    /// Argo's configuration, or a Secret that it names, cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// The bucket does not respond, or refuses.
    #[error("{repository}: {message}")]
    Unreachable {
        /// The bucket.
        repository: Repository,
        /// The operation and its error.
        message: String,
    },
}

impl Problem {
    /// The reason for conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotConfigured(_) | Self::Unreadable(_) => reason::NOT_CONFIGURED,
            Self::Unreachable { .. } => reason::UNREACHABLE,
        }
    }
}

/// Reads the configuration of the Argo in `namespace`, writes a small object to its bucket, reads
/// it back and deletes it. `cluster` is part of the object's key, so that checks of several
/// clusters do not collide.
pub async fn check(client: &Client, namespace: &str, cluster: &str) -> Result<Repository, Problem> {
    let settings = repository::read(client, namespace).await?;
    probe::probe(&settings, cluster).await?;
    Ok(settings.repository)
}

/// The same for the repository that Argo uses for the Workflows in `namespace`.
pub async fn check_namespace(
    client: &Client,
    namespace: &str,
    argo_namespace: &str,
) -> Result<Repository, Problem> {
    let settings = repository::read_for(client, namespace, argo_namespace).await?;
    probe::probe(&settings, namespace).await?;
    Ok(settings.repository)
}
