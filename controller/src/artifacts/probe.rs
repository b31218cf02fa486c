//! Writes a small object to a bucket, reads it back and deletes it.

use std::time::Duration;

use aws_sdk_s3::{error::DisplayErrorContext, primitives::ByteStream};

use super::{Problem, bucket::connect, repository::Settings};

/// Timeout of all requests of one probe together.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// Fails unless the content that is read equals the content that was written.
pub(super) async fn probe(settings: &Settings, cluster: &str) -> Result<(), Problem> {
    let unreachable = |message: String| Problem::Unreachable {
        repository: settings.repository.clone(),
        message,
    };
    match tokio::time::timeout(PROBE_TIMEOUT, round_trip(settings, cluster)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(message)) => Err(unreachable(message)),
        Err(_) => Err(unreachable(format!(
            "no answer within {} s",
            PROBE_TIMEOUT.as_secs()
        ))),
    }
}

async fn round_trip(settings: &Settings, cluster: &str) -> Result<(), String> {
    let client = connect(settings);
    let bucket = &settings.repository.bucket;
    let now = jiff::Timestamp::now();
    // The key is unique, because two checks of one cluster may run at the same time.
    let prefix = &settings.repository.prefix;
    let key = format!("{prefix}.argosy/check-{cluster}-{}", now.as_nanosecond());
    let content = format!("written by Argosy for {cluster} at {now}");
    let body = ByteStream::from(content.clone().into_bytes());
    let written = client
        .put_object()
        .bucket(bucket)
        .key(&key)
        .body(body)
        .send()
        .await;
    written.map_err(|error| format!("cannot write {key}: {}", DisplayErrorContext(&error)))?;
    let read = client.get_object().bucket(bucket).key(&key).send().await;
    let read = read.map_err(|error| format!("cannot read {key}: {}", DisplayErrorContext(&error)))?;
    let bytes = read
        .body
        .collect()
        .await
        .map_err(|error| format!("cannot read {key}: {error}"))?
        .into_bytes();
    let deleted = client.delete_object().bucket(bucket).key(&key).send().await;
    deleted.map_err(|error| format!("cannot delete {key}: {}", DisplayErrorContext(&error)))?;
    if bytes != content.as_bytes() {
        return Err(format!(
            "{key} was read back with other content than was written; do two fleets share the bucket?"
        ));
    }
    Ok(())
}
