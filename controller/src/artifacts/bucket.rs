//! A bucket of a cluster's Argo: its client, a check, and its objects, which are read in pieces.
//!
//! Not here: the configuration of the bucket (`repository`), and the check that writes (`probe`).

use std::time::Duration;

use aws_sdk_s3::{
    Client,
    config::{
        BehaviorVersion, Credentials, Region, RequestChecksumCalculation, retry::RetryConfig,
        timeout::TimeoutConfig,
    },
    error::DisplayErrorContext,
    operation::get_object::GetObjectError,
    primitives::ByteStream,
};
use kube::Client as Kube;
use tokio::time::timeout;

use super::{
    Problem, Repository,
    repository::{self, Settings},
};

/// Timeout of a response, and of each of its pieces.
const PATIENCE: Duration = Duration::from_secs(30);

/// A bucket that can be read.
pub struct Bucket {
    client: Client,
    repository: Repository,
}

/// The content of an object, as a stream.
pub struct Content {
    stream: ByteStream,
    key: String,
}

/// Opens the bucket of the Argo in `namespace`. Makes no request to the bucket itself.
pub async fn open(client: &Kube, namespace: &str) -> Result<Bucket, Problem> {
    let settings = repository::read(client, namespace).await?;
    Ok(Bucket {
        client: connect(&settings),
        repository: settings.repository,
    })
}

/// The same for the repository of the Workflows in `namespace`, if that has its own, else for Argo's.
pub async fn open_for(client: &Kube, namespace: &str, argo_namespace: &str) -> Result<Bucket, Problem> {
    let settings = match repository::read_own(client, namespace).await? {
        Some(settings) => settings,
        None => repository::read(client, argo_namespace).await?,
    };
    Ok(Bucket {
        client: connect(&settings),
        repository: settings.repository,
    })
}

impl Bucket {
    /// The endpoint and the name of the bucket.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Lists one object, which shows that the bucket responds and can be read.
    pub async fn look(&self) -> Result<(), Problem> {
        let request = self.client.list_objects_v2().bucket(&self.repository.bucket);
        let answer = timeout(PATIENCE, request.max_keys(1).send()).await;
        match answer {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => {
                Err(self.unreachable(format!("cannot list the bucket: {}", DisplayErrorContext(&error))))
            }
            Err(_) => Err(self.unreachable(silent())),
        }
    }

    /// Reads the object with this key; `None` if it does not exist. `bucket` names another bucket
    /// of the same server.
    pub async fn read(&self, bucket: Option<&str>, key: &str) -> Result<Option<Content>, Problem> {
        let bucket = bucket.unwrap_or(&self.repository.bucket);
        let request = self.client.get_object().bucket(bucket).key(key);
        let answer = timeout(PATIENCE, request.send()).await;
        match answer.map_err(|_| self.unreachable(silent()))? {
            Ok(object) => Ok(Some(Content {
                stream: object.body,
                key: key.to_owned(),
            })),
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(GetObjectError::is_no_such_key) =>
            {
                Ok(None)
            }
            Err(error) => {
                let message = format!("cannot read {key}: {}", DisplayErrorContext(&error));
                Err(self.unreachable(message))
            }
        }
    }

    fn unreachable(&self, message: String) -> Problem {
        Problem::Unreachable {
            repository: self.repository.clone(),
            message,
        }
    }
}

impl Content {
    /// Returns the next piece, of a size that the server chooses; `None` at the end. An error
    /// explains the interruption.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        let cut = |why: &str| format!("cannot read the rest of {}: {why}", self.key);
        match timeout(PATIENCE, self.stream.next()).await {
            Ok(None) => Ok(None),
            Ok(Some(Ok(piece))) => Ok(Some(piece.to_vec())),
            Ok(Some(Err(error))) => Err(cut(&error.to_string())),
            Err(_) => Err(cut(&silent())),
        }
    }
}

fn silent() -> String {
    format!("no answer within {} s", PATIENCE.as_secs())
}

/// Creates a client for the server of a bucket.
pub(super) fn connect(settings: &Settings) -> Client {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(3))
        .operation_attempt_timeout(Duration::from_secs(5))
        .build();
    let credentials = Credentials::new(
        settings.access_key.clone(),
        settings.secret_key.clone(),
        None,
        None,
        "argo",
    );
    let region = settings.region.clone().unwrap_or_else(|| "us-east-1".to_owned());
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(&settings.repository.endpoint)
        // Servers other than AWS have no DNS name per bucket, and older ones fail on checksum
        // trailers.
        .force_path_style(true)
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .region(Region::new(region))
        .credentials_provider(credentials)
        .timeout_config(timeouts)
        .retry_config(RetryConfig::standard().with_max_attempts(2))
        .build();
    Client::from_conf(config)
}
