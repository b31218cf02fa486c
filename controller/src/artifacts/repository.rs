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
    key_format: Option<String>,
    key_prefix: Option<String>,
}

impl S3 {
    /// The part of all keys before the first parameter that differs between the Workflows of a
    /// namespace (Argo's docs, "Key Format"; `keyPrefix` is the former way).
    fn prefix(&self, namespace: &str) -> String {
        let format = self.key_format.as_deref().filter(|format| !format.is_empty());
        let prefix = self.key_prefix.as_deref().filter(|prefix| !prefix.is_empty());
        let format = format
            .map(|format| format.replace("{{workflow.namespace}}", namespace))
            .or_else(|| prefix.map(|prefix| format!("{prefix}/")));
        let format = format.unwrap_or_default();
        format.split("{{").next().unwrap_or_default().to_owned()
    }
}

#[derive(Deserialize)]
struct KeySelector {
    name: String,
    key: String,
}

/// Reads the settings of the Argo in `namespace`.
pub(super) async fn read(client: &Client, namespace: &str) -> Result<Settings, Problem> {
    let found = find(client, namespace).await?;
    settings(client, namespace, found).await
}

/// Reads the settings that Argo uses for the Workflows in `namespace`: the default of the namespace's
/// own ConfigMap, else Argo's, and the credentials from the namespace's Secrets.
pub(super) async fn read_for(
    client: &Client,
    namespace: &str,
    argo_namespace: &str,
) -> Result<Settings, Problem> {
    match read_own(client, namespace).await? {
        Some(settings) => Ok(settings),
        None => settings(client, namespace, find(client, argo_namespace).await?).await,
    }
}

/// Reads the settings of a namespace's own ConfigMap, if it has one with a default.
pub(super) async fn read_own(client: &Client, namespace: &str) -> Result<Option<Settings>, Problem> {
    match default_of(client, namespace).await? {
        Some(found) => settings(client, namespace, found).await.map(Some),
        None => Ok(None),
    }
}

async fn settings(
    client: &Client,
    namespace: &str,
    (origin, text): (String, String),
) -> Result<Settings, Problem> {
    let wrong = |what: &str| Problem::NotConfigured(format!("{origin} {what}"));
    let parsed: ArtifactRepository =
        serde_saphyr::from_str(&text).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    let s3 = parsed.s3.ok_or_else(|| wrong("names no s3 bucket"))?;
    if s3.endpoint.is_empty() || s3.bucket.is_empty() {
        return Err(wrong("lacks s3.endpoint or s3.bucket"));
    }
    let prefix = s3.prefix(namespace);
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
            prefix,
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
    default_of(client, namespace).await?.ok_or_else(|| {
        Problem::NotConfigured(format!(
            "namespace {namespace} has neither artifactRepository in ConfigMap {CONTROLLER_CONFIG} nor a default in ConfigMap {REPOSITORIES}"
        ))
    })
}

/// The same for the default of a namespace's own repositories, if there is one.
async fn default_of(client: &Client, namespace: &str) -> Result<Option<(String, String)>, Problem> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let repositories = get(&maps, namespace, REPOSITORIES).await?;
    Ok(repositories.and_then(|map| {
        let key = map.metadata.annotations?.remove(DEFAULT_REPOSITORY)?;
        let text = map.data?.remove(&key)?;
        Some((format!("{key} in ConfigMap {namespace}/{REPOSITORIES}"), text))
    }))
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
    fn the_fixed_part_of_the_keys_of_a_namespace_is_known() {
        for (field, value, prefix) in [
            ("keyFormat", "team-a/{{workflow.name}}/{{pod.name}}", "team-a/"),
            (
                "keyFormat",
                "logs/{{workflow.namespace}}/x-{{pod.name}}",
                "logs/team-a/x-",
            ),
            ("keyFormat", "", ""),
            ("keyFormat", "{{workflow.name}}/team-a", ""),
            ("keyPrefix", "artifacts", "artifacts/"),
            ("region", "eu", ""),
        ] {
            let s3: S3 = serde_json::from_value(serde_json::json!({ field: value })).unwrap();
            assert_eq!(s3.prefix("team-a"), prefix, "{field}: {value}");
        }
    }

    #[test]
    fn a_repository_that_is_not_s3_is_understood_as_such() {
        let parsed: ArtifactRepository = serde_saphyr::from_str("gcs: {bucket: b}").unwrap();
        assert!(parsed.s3.is_none());
    }
}
