//! Accounts of a cluster with limited rights, and clients that act as them.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use super::{Cluster, NAMESPACE, until};
use crate::testenv::folder;

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

/// The user name of the ServiceAccount `name`.
fn user(name: &str) -> String {
    format!("system:serviceaccount:{NAMESPACE}:{name}")
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
        let user = user(name);
        for resource in resources {
            self.until_may(&user, "create", &format!("{resource}.{group}"))
                .await?;
        }
        let mut config = self.config().await?;
        config.auth_info.impersonate = Some(user);
        Ok(Client::try_from(config)?)
    }

    /// The cluster as an account sees it that may read logs, and what is needed for them, in the
    /// users' namespace, and may write nothing.
    pub async fn as_reader(&self, name: &str) -> Result<Self> {
        let rule = |group: &str, resources: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": ["get", "list", "watch"] });
        let rules = json!([
            rule("argoproj.io", &["workflows"]),
            rule("", &["pods", "pods/log", "configmaps", "secrets"]),
        ]);
        self.apply(&objects(name, &rules, false)).await?;
        let user = user(name);
        for resource in ["workflows.argoproj.io", "secrets"] {
            self.until_may(&user, "list", resource).await?;
        }
        let mut kubeconfig = Kubeconfig::read_from(self.kubeconfig())?;
        for known in &mut kubeconfig.auth_infos {
            known.auth_info.get_or_insert_default().impersonate = Some(user.clone());
        }
        let path = folder::create("reader")?.join(name);
        fs::write(&path, serde_saphyr::to_string(&kubeconfig)?)?;
        self.with_kubeconfig(path).await
    }

    /// Waits until a user has a right. The API server receives rights by a watch, and refuses
    /// everything until then.
    async fn until_may(&self, user: &str, verb: &str, resource: &str) -> Result<()> {
        until(LIMIT, &format!("{user} to have its rights"), async || {
            let asked = ["auth", "can-i", verb, resource, "--as", user];
            self.kubectl(&asked).await.map(Some)
        })
        .await?;
        Ok(())
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
