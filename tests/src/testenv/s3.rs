//! A real S3 server with one bucket, and the configuration that makes Argo use it.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use aws_sdk_s3::{
    Client, Config,
    config::{Credentials, Region, RequestChecksumCalculation, timeout::TimeoutConfig},
    error::ProvideErrorMetadata,
    primitives::ByteStream,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use serde_json::{Value, json};
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

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
        fs::create_dir_all(folder.join("accounts"))?;
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

    /// Creates accounts that may read and write only objects whose keys begin with their name and a
    /// slash. Their secret key is [`secret_key_of`].
    pub async fn add_tenants(&self, tenants: &[&str]) -> Result<()> {
        let mut statements = Vec::new();
        for tenant in tenants {
            let created = Command::new(toolchain::binary("versitygw")?)
                .args(["admin", "--access", ACCESS_KEY, "--secret", SECRET_KEY])
                .args(["--endpoint-url", &format!("http://{}", self.endpoint)])
                .args(["create-user", "--role", "user", "--access", tenant])
                .args(["--secret", &secret_key_of(tenant)])
                .output()
                .await?;
            ensure!(created.status.success(), "cannot create {tenant}: {created:?}");
            statements.push(json!({
                "Effect": "Allow", "Principal": { "AWS": [tenant] },
                "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
                "Resource": format!("arn:aws:s3:::{BUCKET}/{tenant}/*"),
            }));
        }
        let policy = json!({ "Version": "2012-10-17", "Statement": statements });
        let request = self.client.put_bucket_policy().bucket(BUCKET);
        request.policy(policy.to_string()).send().await?;
        Ok(())
    }

    /// The default of Argo's ConfigMap `artifact-repositories` for the namespace of a tenant, whose keys
    /// begin with `prefix` and whose credentials are in the Secret `s3`.
    pub fn repository_of(&self, prefix: &str) -> Value {
        let repository = format!(
            "s3: {{endpoint: '{}', bucket: {BUCKET}, insecure: true, keyFormat: '{prefix}/{{{{workflow.name}}}}', \
             accessKeySecret: {{name: s3, key: access}}, secretKeySecret: {{name: s3, key: secret}}}}",
            self.endpoint
        );
        json!({
            "metadata": {
                "name": "artifact-repositories",
                "annotations": { "workflows.argoproj.io/default-artifact-repository": "default" },
            },
            "data": { "default": repository },
        })
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

    /// True if a tenant can read the object with this key; false if that is denied.
    pub async fn reads_as(&self, tenant: &str, key: &str) -> Result<bool> {
        let client = client_as(&self.endpoint, tenant, &secret_key_of(tenant));
        match client.get_object().bucket(BUCKET).key(key).send().await {
            Ok(_) => Ok(true),
            Err(error) if error.as_service_error().and_then(|error| error.code()) == Some("AccessDenied") => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
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

/// The secret key of a tenant.
pub fn secret_key_of(tenant: &str) -> String {
    format!("secret-of-{tenant}")
}

fn launch(endpoint: &str, folder: &Path) -> Result<Launch> {
    // With the posix backend, a bucket is a folder.
    Ok(Launch::new(toolchain::binary("versitygw")?, folder.join("log"))
        .flag("--access", ACCESS_KEY)
        .flag("--secret", SECRET_KEY)
        .flag("--port", endpoint)
        .flag("--iam-dir", folder.join("accounts"))
        .argument("--quiet")
        .argument("posix")
        .argument(folder.join("data")))
}

fn client(endpoint: &str) -> Client {
    client_as(endpoint, ACCESS_KEY, SECRET_KEY)
}

fn client_as(endpoint: &str, access_key: &str, secret_key: &str) -> Client {
    let timeouts = TimeoutConfig::builder()
        .operation_timeout(Duration::from_secs(20))
        .build();
    let config = Config::builder()
        .behavior_version_latest()
        .endpoint_url(format!("http://{endpoint}"))
        .region(Region::new("us-east-1"))
        .force_path_style(true)
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .credentials_provider(Credentials::new(access_key, secret_key, None, None, "lab"))
        .timeout_config(timeouts)
        .build();
    Client::from_conf(config)
}
