//! The S3 server that all clusters of a fleet share, accessed with its own keys and without Argo.

use std::time::Duration;

use anyhow::{Context as _, Result};
use aws_sdk_s3::{
    Client, Config,
    config::{Credentials, Region, RequestChecksumCalculation, timeout::TimeoutConfig},
};

use super::variable;

/// The bucket of a fleet.
#[derive(Clone, Debug)]
pub struct Store {
    client: Client,
    bucket: String,
    /// Its URL, the same on every cluster.
    pub endpoint: String,
}

impl Store {
    /// The bucket that `.fleet/env` names.
    pub(super) fn from_environment() -> Result<Self> {
        let keys = (variable("S3_ACCESS_KEY")?, variable("S3_SECRET_KEY")?);
        let endpoint = variable("S3_ENDPOINT")?;
        let timeouts = TimeoutConfig::builder()
            .operation_timeout(Duration::from_secs(20))
            .build();
        let config = Config::builder()
            .behavior_version_latest()
            .endpoint_url(&endpoint)
            .region(Region::new("us-east-1"))
            .force_path_style(true)
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .credentials_provider(Credentials::new(keys.0, keys.1, None, None, "fleet"))
            .timeout_config(timeouts)
            .build();
        Ok(Self {
            client: Client::from_conf(config),
            bucket: variable("S3_BUCKET")?,
            endpoint,
        })
    }

    /// The keys that begin with `prefix`, 1,000 at most.
    pub async fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        let list = self.client.list_objects_v2().bucket(&self.bucket).prefix(prefix);
        let found = list
            .send()
            .await
            .with_context(|| format!("keys {prefix}… of bucket {}", self.bucket))?;
        let keys = found.contents().iter().filter_map(|object| object.key());
        Ok(keys.map(ToOwned::to_owned).collect())
    }

    /// The content of the object with this key.
    pub async fn get(&self, key: &str) -> Result<Vec<u8>> {
        let context = || format!("object {key} of bucket {}", self.bucket);
        let object = self
            .client
            .get_object()
            .bucket(&self.bucket)
            .key(key)
            .send()
            .await
            .with_context(context)?;
        Ok(object.body.collect().await.with_context(context)?.to_vec())
    }
}
