//! What of the configuration of the WDS's own workflow-controller matters here: whether it limits parallelism.
//!
//! Where it cannot be read it does not matter either: there is no Argo, or none that we may know of.

use argosy_core::{Change, Failure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, runtime::watcher};

use crate::outcome::{call, found};

/// Name of the ConfigMap (`docs/workflow-controller-configmap.md` of Argo).
const NAME: &str = "workflow-controller-configmap";

/// Settings that limit how many Workflows run at a time.
const LIMITS: [&str; 2] = ["parallelism", "namespaceParallelism"];

/// The ConfigMap's API in the namespace of Argo.
pub(super) fn api(wds: &Client, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(wds.clone(), namespace)
}

/// The watch of that one object.
pub(super) fn selected(config: watcher::Config) -> watcher::Config {
    config.fields(&format!("metadata.name={NAME}"))
}

/// Whether parallelism is limited now.
pub(super) async fn read(api: &Api<ConfigMap>) -> bool {
    match found(call(api.get(NAME)).await) {
        Ok(config) => config.is_some_and(|config| limits(&config)),
        Err(failure) => {
            explain(&failure);
            false
        }
    }
}

fn explain(failure: &Failure) {
    tracing::warn!(%failure, config = NAME, "cannot see whether the local Argo limits parallelism; taken for no");
}

/// What a change of it means.
pub(super) fn learn(change: Change<ConfigMap>) -> bool {
    match change {
        Change::Apply(config) => limits(&config),
        Change::Delete(_) => false,
        Change::Reset(live) => live.iter().any(limits),
    }
}

/// Settings are keys of the ConfigMap, or lines of its key `config`, which is YAML.
fn limits(config: &ConfigMap) -> bool {
    let data = config.data.iter().flatten();
    let keys = data.clone().map(|(key, value)| (key.as_str(), value.as_str()));
    let lines = data
        .filter(|(key, _)| *key == "config")
        .flat_map(|(_, text)| text.lines())
        .filter_map(|line| line.split_once(':'));
    keys.chain(lines).any(|(key, value)| {
        let value = value
            .split('#')
            .next()
            .unwrap_or_default()
            .trim()
            .trim_matches(['"', '\'']);
        LIMITS.contains(&key) && !value.is_empty() && value != "0"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(key: &str, value: &str) -> ConfigMap {
        ConfigMap {
            data: Some([(key.to_owned(), value.to_owned())].into()),
            ..ConfigMap::default()
        }
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
            assert!(limits(&config(key, value)), "{key}: {value}");
        }
        let unlimited = [
            ("parallelism", "0"),
            ("resourceRateLimit", "limit: 10"),
            ("config", "workflowDefaults:\n  spec:\n    parallelism: 3\n"),
        ];
        for (key, value) in unlimited {
            assert!(!limits(&config(key, value)), "{key}: {value}");
        }
    }
}
