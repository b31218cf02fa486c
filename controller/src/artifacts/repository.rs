//! Reads Argo's configuration: `artifactRepository` of the ConfigMap
//! `workflow-controller-configmap`, or the default of the ConfigMap `artifact-repositories`, and
//! the credentials that it refers to (Argo's docs, "Configuring Your Artifact Repository").

use argosy_core::Failure;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use serde::Deserialize;

use super::{Problem, Repository};
use crate::runtime::requests::{call, found};

const CONTROLLER_CONFIG: &str = "workflow-controller-configmap";
const REPOSITORIES: &str = "artifact-repositories";
const DEFAULT_REPOSITORY: &str = "workflows.argoproj.io/default-artifact-repository";

/// A bucket with its credentials.
pub(super) struct Settings {
    pub(super) repository: Repository,
    pub(super) region: Option<String>,
    pub(super) access_key: String,
    pub(super) secret_key: String,
}

#[derive(Deserialize)]
struct ArtifactRepository {
    s3: Option<S3>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct S3 {
    #[serde(default)]
    endpoint: String,
    #[serde(default)]
    bucket: String,
    #[serde(default)]
    insecure: bool,
    region: Option<String>,
    access_key_secret: Option<KeySelector>,
    secret_key_secret: Option<KeySelector>,
}

#[derive(Deserialize)]
struct KeySelector {
    name: String,
    key: String,
}

/// Reads the settings of the Argo in `namespace`.
pub(super) async fn read(client: &Client, namespace: &str) -> Result<Settings, Problem> {
    let (origin, text) = find(client, namespace).await?;
    let wrong = |what: &str| Problem::NotConfigured(format!("{origin} {what}"));
    let parsed: ArtifactRepository =
        serde_saphyr::from_str(&text).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    let s3 = parsed.s3.ok_or_else(|| wrong("names no s3 bucket"))?;
    if s3.endpoint.is_empty() || s3.bucket.is_empty() {
        return Err(wrong("lacks s3.endpoint or s3.bucket"));
    }
    let access = s3
        .access_key_secret
        .ok_or_else(|| wrong("lacks s3.accessKeySecret"))?;
    let secret = s3
        .secret_key_secret
        .ok_or_else(|| wrong("lacks s3.secretKeySecret"))?;
    let scheme = if s3.insecure { "http" } else { "https" };
    Ok(Settings {
        repository: Repository {
            endpoint: format!("{scheme}://{}", s3.endpoint),
            bucket: s3.bucket,
        },
        region: s3.region.filter(|region| !region.is_empty()),
        access_key: credential(client, namespace, &access).await?,
        secret_key: credential(client, namespace, &secret).await?,
    })
}

/// Returns a description of the source, and the YAML of the repository.
async fn find(client: &Client, namespace: &str) -> Result<(String, String), Problem> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let config = get(&maps, namespace, CONTROLLER_CONFIG).await?;
    let configured = config.and_then(|map| map.data?.remove("artifactRepository"));
    if let Some(text) = configured {
        return Ok((
            format!("artifactRepository in ConfigMap {namespace}/{CONTROLLER_CONFIG}"),
            text,
        ));
    }
    let repositories = get(&maps, namespace, REPOSITORIES).await?;
    let default = repositories.and_then(|map| {
        let key = map.metadata.annotations?.remove(DEFAULT_REPOSITORY)?;
        let text = map.data?.remove(&key)?;
        Some((format!("{key} in ConfigMap {namespace}/{REPOSITORIES}"), text))
    });
    default.ok_or_else(|| {
        Problem::NotConfigured(format!(
            "namespace {namespace} has neither artifactRepository in ConfigMap {CONTROLLER_CONFIG} nor a default in ConfigMap {REPOSITORIES}"
        ))
    })
}

async fn get(maps: &Api<ConfigMap>, namespace: &str, name: &str) -> Result<Option<ConfigMap>, Problem> {
    found(call(maps.get(name)).await).map_err(|failure| cannot_read("ConfigMap", namespace, name, &failure))
}

async fn credential(client: &Client, namespace: &str, selector: &KeySelector) -> Result<String, Problem> {
    let KeySelector { name, key } = selector;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = call(secrets.get(name))
        .await
        .map_err(|failure| cannot_read("Secret", namespace, name, &failure))?;
    let value = secret.data.and_then(|mut data| data.remove(key));
    value
        .and_then(|bytes| String::from_utf8(bytes.0).ok())
        .ok_or_else(|| Problem::NotConfigured(format!("Secret {namespace}/{name} has no key {key}")))
}

fn cannot_read(kind: &str, namespace: &str, name: &str, failure: &Failure) -> Problem {
    let why = match failure {
        Failure::NotFound { .. } | Failure::Unserved(_) => {
            let message = format!("cannot read {kind} {namespace}/{name}: it does not exist");
            return Problem::NotConfigured(message);
        }
        Failure::Refused(message)
        | Failure::Foreign(message)
        | Failure::Missing(message)
        | Failure::Fenced(message)
        | Failure::Unreachable(message) => message,
        Failure::Conflict => "it keeps changing",
    };
    Problem::Unreadable(format!("cannot read {kind} {namespace}/{name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argos_own_form_of_a_repository_is_understood() {
        let text = "archiveLogs: true\ns3:\n  endpoint: 10.0.0.1:9000\n  bucket: b\n  insecure: true\n  keyFormat: \"{{workflow.name}}\"\n  accessKeySecret: {name: s3, key: accesskey}\n  secretKeySecret: {name: s3, key: secretkey}\n";
        let parsed: ArtifactRepository = serde_saphyr::from_str(text).unwrap();
        let s3 = parsed.s3.unwrap();
        assert_eq!(
            (s3.endpoint.as_str(), s3.bucket.as_str(), s3.insecure),
            ("10.0.0.1:9000", "b", true)
        );
        assert_eq!(s3.access_key_secret.unwrap().key, "accesskey");
    }

    #[test]
    fn a_repository_that_is_not_s3_is_understood_as_such() {
        let parsed: ArtifactRepository = serde_saphyr::from_str("gcs: {bucket: b}").unwrap();
        assert!(parsed.s3.is_none());
    }
}
