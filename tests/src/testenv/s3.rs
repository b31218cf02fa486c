//! A real S3 server with one bucket, and the configuration that makes Argo use it.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use aws_sdk_s3::{
    Client, Config,
    config::{Credentials, Region, RequestChecksumCalculation, timeout::TimeoutConfig},
    primitives::ByteStream,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use tokio::time::{Instant, sleep};

use super::{
    folder,
    objects::create,
    process::{Launch, Process},
    store::free_port,
    toolchain,
    waiting::PATIENCE,
};

const BUCKET: &str = "artifacts";
const ACCESS_KEY: &str = "lab";
const SECRET_KEY: &str = "of-no-value";

/// An S3 server that is killed when this is dropped.
pub struct S3 {
    process: Process,
    client: Client,
    /// `HOST:PORT`.
    pub endpoint: String,
}

impl S3 {
    /// Starts a server and waits until it answers.
    pub async fn start() -> Result<Self> {
        let folder = folder::create("s3")?;
        fs::create_dir_all(folder.join("data").join(BUCKET))?;
        let endpoint = format!("127.0.0.1:{}", free_port()?);
        let process = Process::start(launch(&endpoint, &folder)?)?;
        let server = Self {
            process,
            client: client(&endpoint),
            endpoint,
        };
        server.wait_until_ready().await?;
        Ok(server)
    }

    async fn wait_until_ready(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.process.check_running()?;
            let answer = self.client.head_bucket().bucket(BUCKET).send().await;
            if answer.is_ok() {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("the S3 server at {} does not answer: {answer:?}", self.endpoint);
            }
            // The server cannot be watched.
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Writes an object.
    pub async fn put(&self, key: &str, content: &str) -> Result<()> {
        let body = ByteStream::from(content.as_bytes().to_vec());
        let request = self.client.put_object().bucket(BUCKET).key(key).body(body);
        request
            .send()
            .await
            .with_context(|| format!("cannot write {key}"))?;
        Ok(())
    }

    /// Kills it.
    pub fn kill(&self) -> Result<()> {
        self.process.kill()
    }

    /// Configures the Argo in `namespace` to keep its artifacts here.
    pub async fn configure(&self, client: &kube::Client, namespace: &str) -> Result<()> {
        let repository = format!(
            "s3: {{endpoint: '{}', bucket: {BUCKET}, insecure: true, accessKeySecret: {{name: s3, key: access}}, secretKeySecret: {{name: s3, key: secret}}}}",
            self.endpoint
        );
        let mut config = ConfigMap {
            data: Some([("artifactRepository".to_owned(), repository)].into()),
            ..ConfigMap::default()
        };
        config.metadata.name = Some("workflow-controller-configmap".to_owned());
        create(&Api::namespaced(client.clone(), namespace), &config).await?;
        let keys = [("access", ACCESS_KEY), ("secret", SECRET_KEY)];
        let keys: BTreeMap<String, String> = keys.map(|(name, key)| (name.to_owned(), key.to_owned())).into();
        let mut secret = Secret {
            string_data: Some(keys),
            ..Secret::default()
        };
        secret.metadata.name = Some("s3".to_owned());
        create(&Api::namespaced(client.clone(), namespace), &secret).await?;
        Ok(())
    }
}

fn launch(endpoint: &str, folder: &Path) -> Result<Launch> {
    // With the posix backend, a bucket is a folder.
    Ok(Launch::new(toolchain::binary("versitygw")?, folder.join("log"))
        .flag("--access", ACCESS_KEY)
        .flag("--secret", SECRET_KEY)
        .flag("--port", endpoint)
        .argument("--quiet")
        .argument("posix")
        .argument(folder.join("data")))
}

fn client(endpoint: &str) -> Client {
    let timeouts = TimeoutConfig::builder()
        .operation_timeout(Duration::from_secs(20))
        .build();
    let config = Config::builder()
        .behavior_version_latest()
        .endpoint_url(format!("http://{endpoint}"))
        .region(Region::new("us-east-1"))
        .force_path_style(true)
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .credentials_provider(Credentials::new(ACCESS_KEY, SECRET_KEY, None, None, "lab"))
        .timeout_config(timeouts)
        .build();
    Client::from_conf(config)
}
