//! Accounts of a cluster with limited rights, and clients that act as them.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use super::{Cluster, NAMESPACE, until};

/// Namespace of Argosy's own objects on every cluster.
const ARGOSY: &str = "argosy";

const LIMIT: Duration = Duration::from_secs(30);

/// The RBAC objects and the ServiceAccount of `name`. Namespaced rights apply in the users'
/// namespace.
fn objects(name: &str, rules: &Value, is_everywhere: bool) -> Value {
    let prefix = if is_everywhere { "Cluster" } else { "" };
    let metadata = json!({ "name": name, "namespace": NAMESPACE });
    json!({ "apiVersion": "v1", "kind": "List", "metadata": { "name": name }, "items": [
        { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata },
        { "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{prefix}Role"), "metadata": metadata, "rules": rules },
        { "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{prefix}RoleBinding"), "metadata": metadata,
          "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": format!("{prefix}Role"), "name": name },
          "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": NAMESPACE }] },
    ] })
}

impl Cluster {
    /// A client that acts as an account with all verbs on these resources of a group, either in the
    /// users' namespace or on the whole cluster.
    pub async fn account(
        &self,
        name: &str,
        group: &str,
        resources: &[&str],
        is_everywhere: bool,
    ) -> Result<Client> {
        let rules = json!([{ "apiGroups": [group], "resources": resources, "verbs": ["*"] }]);
        self.apply(&objects(name, &rules, is_everywhere)).await?;
        let user = format!("system:serviceaccount:{NAMESPACE}:{name}");
        // The API server receives the rights by a watch, and refuses everything until then.
        for resource in resources {
            let resource = format!("{resource}.{group}");
            until(LIMIT, &format!("{name} to have its rights"), async || {
                let asked = ["auth", "can-i", "create", &resource, "--as", &user];
                self.kubectl(&asked).await.map(Some)
            })
            .await?;
        }
        let mut config = self.config().await?;
        config.auth_info.impersonate = Some(user);
        Ok(Client::try_from(config)?)
    }

    /// A client with the credential that the agent of this cluster keeps for its mailbox.
    pub async fn agents_client(&self) -> Result<Client> {
        let secrets: Api<Secret> = Api::namespaced(self.client(), ARGOSY);
        let secret = secrets.get(argosy_api::names::IDENTITY_SECRET).await?;
        let data: BTreeMap<_, _> = secret.data.unwrap_or_default();
        let kubeconfig = data
            .get(argosy_api::names::KUBECONFIG_KEY)
            .context("the agent's Secret has no kubeconfig")?;
        let kubeconfig = Kubeconfig::from_yaml(std::str::from_utf8(&kubeconfig.0)?)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    async fn config(&self) -> Result<Config> {
        config_of(self.kubeconfig()).await
    }
}

/// The client configuration of a kubeconfig file.
pub(super) async fn config_of(kubeconfig: &Path) -> Result<Config> {
    let file = Kubeconfig::read_from(kubeconfig).with_context(|| format!("{}", kubeconfig.display()))?;
    Ok(Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?)
}
