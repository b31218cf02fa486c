//! The relevant configuration of the WDS's own workflow-controller: limits of parallelism, the
//! archive, and the artifact repository.
//!
//! If it cannot be read, it does not matter: there is no Argo, or none that Argosy may read.

use std::time::Duration;

use argosy_core::{Change, Failure, hub::workflows::LocalArgo};
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::{Api, Client, core::Selector, runtime::watcher};
use serde_json::Value;

use crate::runtime::{
    lenient::Lenient,
    requests::{self, found},
};

/// Name of the ConfigMap (`docs/workflow-controller-configmap.md` of Argo).
const NAME: &str = "workflow-controller-configmap";

/// Delay after an unanswered request.
const AGAIN: Duration = Duration::from_secs(1);

/// Settings that limit the number of concurrent Workflows.
const LIMITS: [&str; 2] = ["parallelism", "namespaceParallelism"];

/// The API of the ConfigMap in Argo's namespace.
pub(super) fn api(wds: &Client, namespace: &str) -> Api<Lenient<ConfigMap>> {
    Api::namespaced(wds.clone(), namespace)
}

/// Restricts a watch to that one object.
pub(super) fn selected(config: watcher::Config) -> watcher::Config {
    config.fields(&format!("metadata.name={NAME}"))
}

/// Reads the current configuration. Waits for an unreachable API server: if a run's end were
/// mirrored before this is known, the run would not enter the archive.
pub(super) async fn read(api: &Api<Lenient<ConfigMap>>) -> LocalArgo {
    loop {
        match found(requests::read(api.get(NAME)).await) {
            Ok(config) => return config.as_ref().map(understand).unwrap_or_default(),
            Err(Failure::Unreachable(_)) => tokio::time::sleep(AGAIN).await,
            Err(failure) => {
                tracing::warn!(
                    kind = "ConfigMap",
                    name = NAME,
                    error = %failure,
                    "cannot read if the local Argo limits parallelism or has an archive; assuming neither"
                );
                return LocalArgo::default();
            }
        }
    }
}

/// Converts a change of the ConfigMap.
pub(super) fn learn(change: Change<ConfigMap>) -> LocalArgo {
    match change {
        Change::Apply(config) => understand(&config),
        Change::Delete(_) => LocalArgo::default(),
        Change::Reset(live) => live.first().map(understand).unwrap_or_default(),
    }
}

/// Parses the settings. They are keys of the ConfigMap with YAML values, or all together the YAML
/// value of its key `config`.
fn understand(config: &ConfigMap) -> LocalArgo {
    let mut settings = serde_json::Map::new();
    for (key, text) in config.data.iter().flatten() {
        let value = serde_saphyr::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()));
        match value {
            Value::Object(fields) if key == "config" => settings.extend(fields),
            value => drop(settings.insert(key.clone(), value)),
        }
    }
    let is_number = |value: &Value| {
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        number.is_some_and(|number| number > 0)
    };
    LocalArgo {
        namespace: config.metadata.namespace.clone().unwrap_or_default(),
        repository: settings
            .get("artifactRepository")
            .filter(|repository| repository.is_object())
            .cloned(),
        limits_parallelism: LIMITS
            .iter()
            .any(|name| settings.get(*name).is_some_and(is_number)),
        archives: settings.get("persistence").and_then(archive),
    }
}

/// Returns the selector of archived Workflows, if there is an archive.
fn archive(persistence: &Value) -> Option<Selector> {
    if persistence.get("archive") != Some(&Value::Bool(true)) {
        return None;
    }
    let Some(selector) = persistence.get("archiveLabelSelector") else {
        return Some(Selector::default());
    };
    let compiled = serde_json::from_value::<LabelSelector>(selector.clone())
        .map_err(|error| error.to_string())
        .and_then(|selector| Selector::try_from(selector).map_err(|error| error.to_string()));
    compiled
        .inspect_err(|error| {
            tracing::warn!(
                kind = "ConfigMap",
                name = NAME,
                %error,
                "persistence.archiveLabelSelector is invalid; no Workflow is archived"
            );
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn config(key: &str, value: &str) -> LocalArgo {
        understand(&ConfigMap {
            data: Some([(key.to_owned(), value.to_owned())].into()),
            ..ConfigMap::default()
        })
    }

    #[test]
    fn both_forms_of_the_configuration_are_read() {
        let limited = [
            ("parallelism", "2"),
            ("namespaceParallelism", "\"4\""),
            (
                "config",
                "artifactRepository:\n  archiveLogs: true\nparallelism: 10 # for now\n",
            ),
        ];
        for (key, value) in limited {
            assert!(config(key, value).limits_parallelism, "{key}: {value}");
        }
        let unlimited = [
            ("parallelism", "0"),
            ("parallelism", "{{ .Values.parallelism"),
            ("resourceRateLimit", "limit: 10"),
            ("config", "workflowDefaults:\n  spec:\n    parallelism: 3\n"),
        ];
        for (key, value) in unlimited {
            assert_eq!(config(key, value), LocalArgo::default(), "{key}: {value}");
        }
    }

    #[test]
    fn the_artifact_repository_is_seen_in_both_forms() {
        let repository = serde_json::json!({ "s3": { "bucket": "b" } });
        for (key, value) in [
            ("artifactRepository", "s3:\n  bucket: b\n"),
            ("config", "artifactRepository:\n  s3:\n    bucket: b\n"),
        ] {
            assert_eq!(
                config(key, value).repository,
                Some(repository.clone()),
                "{key}: {value}"
            );
        }
        assert_eq!(config("artifactRepository", "none").repository, None);
    }

    #[test]
    fn an_archive_is_seen_in_both_forms() {
        let archiving = [
            ("persistence", "archive: true\npostgresql: {host: db}\n"),
            ("config", "persistence:\n  archive: true\n"),
        ];
        for (key, value) in archiving {
            assert_eq!(
                config(key, value).archives,
                Some(Selector::default()),
                "{key}: {value}"
            );
        }
        let some = "archive: true\narchiveLabelSelector: {matchLabels: {team: a}}\n";
        let team = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        assert_eq!(
            config("persistence", some).archives,
            Some(Selector::from_iter(team))
        );
        for (key, value) in [
            ("persistence", "nodeStatusOffLoad: true\n"),
            ("persistence", "archive: false"),
            ("persistence", "archive: true\narchiveLabelSelector: team\n"),
        ] {
            assert!(config(key, value).archives.is_none(), "{key}: {value}");
        }
    }
}
