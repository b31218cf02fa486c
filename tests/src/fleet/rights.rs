//! The rights of Argosy on a cluster of a fleet, from the roles that are bound there, and its
//! requests, from the audit log of the API server.

use std::{
    collections::BTreeSet,
    fmt, fs,
    io::{BufRead as _, BufReader},
    path::Path,
};

use anyhow::{Context as _, Result};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::Value;

use super::Cluster;

/// Prefixes of the user names of Argosy's programs.
const USERS: [&str; 4] = [
    "system:serviceaccount:argosy:",
    "system:serviceaccount:cluster1:argosy-",
    "system:serviceaccount:cluster2:argosy-",
    "argosy.dev:agent:",
];

/// A verb on a resource that a role permits.
#[derive(Clone, Debug)]
pub struct Right {
    /// Name of the role.
    pub role: String,
    users: BTreeSet<String>,
    /// The namespace in which it holds, or `None` for the whole cluster.
    namespace: Option<String>,
    /// API group, `""` for core, `*` for any.
    pub group: String,
    /// Lower-case plural, including a subresource: `manifestworks/status`.
    pub resource: String,
    /// `get`, `list` and so on.
    pub verb: String,
    /// The objects for which it holds, or empty for all.
    names: Vec<String>,
}

/// A request of Argosy from an audit log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    user: String,
    verb: String,
    group: String,
    resource: String,
    namespace: String,
    name: String,
    /// True if the answer was 403.
    pub is_refused: bool,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            role,
            group,
            resource,
            verb,
            ..
        } = self;
        write!(f, "{role}: {verb} {resource}.{group}")
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            user,
            verb,
            group,
            resource,
            namespace,
            name,
            ..
        } = self;
        write!(f, "{user}: {verb} {resource}.{group} {namespace}/{name}")
    }
}

impl Right {
    /// True if this right permits that request.
    pub fn allows(&self, asked: &Asked) -> bool {
        self.verb == asked.verb && self.is_about(asked)
    }

    /// True if this right permits any verb on the resource of the request.
    pub fn is_about(&self, asked: &Asked) -> bool {
        self.users.contains(&asked.user)
            && (self.group == "*" || self.group == asked.group)
            && (self.resource == "*" || self.resource == asked.resource)
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == asked.namespace)
            // A creation, a list or a watch may name no object.
            && (self.names.is_empty() || asked.name.is_empty() || self.names.contains(&asked.name))
    }
}

impl Cluster {
    /// Everything that any role permits Argosy on this cluster.
    pub async fn rights(&self) -> Result<Vec<Right>> {
        let all = ListParams::default();
        let mut rights = Vec::new();
        for binding in Api::<ClusterRoleBinding>::all(self.client()).list(&all).await? {
            let users = users(binding.subjects.as_deref(), None);
            rights.extend(self.of_role(&binding.role_ref, None, users).await?);
        }
        for binding in Api::<RoleBinding>::all(self.client()).list(&all).await? {
            let namespace = binding.namespace();
            let users = users(binding.subjects.as_deref(), namespace.as_deref());
            rights.extend(self.of_role(&binding.role_ref, namespace, users).await?);
        }
        Ok(rights)
    }

    async fn of_role(
        &self,
        role: &RoleRef,
        namespace: Option<String>,
        users: BTreeSet<String>,
    ) -> Result<Vec<Right>> {
        if users.is_empty() {
            return Ok(Vec::new());
        }
        let rules = if role.kind == "ClusterRole" {
            let found = Api::<ClusterRole>::all(self.client()).get_opt(&role.name).await?;
            found.and_then(|role| role.rules)
        } else {
            let api = Api::<Role>::namespaced(self.client(), namespace.as_deref().unwrap_or_default());
            api.get_opt(&role.name).await?.and_then(|role| role.rules)
        };
        let of_rule = |rule| each(rule, &role.name, namespace.as_deref(), &users);
        Ok(rules.unwrap_or_default().iter().flat_map(of_rule).collect())
    }
}

/// Argosy's users among the subjects of a binding.
fn users(subjects: Option<&[Subject]>, namespace: Option<&str>) -> BTreeSet<String> {
    let name = |subject: &Subject| match subject.kind.as_str() {
        "ServiceAccount" => {
            let namespace = subject.namespace.as_deref().or(namespace).unwrap_or_default();
            format!("system:serviceaccount:{namespace}:{}", subject.name)
        }
        _ => subject.name.clone(),
    };
    let names = subjects.unwrap_or_default().iter().map(name);
    names
        .filter(|name| USERS.iter().any(|user| name.starts_with(user)))
        .collect()
}

/// The individual rights of a rule.
fn each(allowed: &PolicyRule, role: &str, namespace: Option<&str>, users: &BTreeSet<String>) -> Vec<Right> {
    let of = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    let mut rights = Vec::new();
    for group in of(&allowed.api_groups) {
        for resource in of(&allowed.resources) {
            for verb in &allowed.verbs {
                rights.push(Right {
                    role: role.to_owned(),
                    users: users.clone(),
                    namespace: namespace.map(ToOwned::to_owned),
                    group: group.clone(),
                    resource: resource.clone(),
                    verb: verb.clone(),
                    names: of(&allowed.resource_names),
                });
            }
        }
    }
    rights
}

/// The distinct requests of Argosy in an audit log.
pub fn asked(log: &Path) -> Result<BTreeSet<Asked>> {
    let file = fs::File::open(log).with_context(|| log.display().to_string())?;
    let mut asked = BTreeSet::new();
    for line in BufReader::new(file).lines() {
        // The server may be writing the last line.
        let Ok(event) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        let text = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let user = text("/user/username");
        if !USERS.iter().any(|known| user.starts_with(known)) || text("/objectRef/resource").is_empty() {
            continue;
        }
        let resource = match text("/objectRef/subresource") {
            "" => text("/objectRef/resource").to_owned(),
            subresource => format!("{}/{subresource}", text("/objectRef/resource")),
        };
        asked.insert(Asked {
            user: user.to_owned(),
            verb: text("/verb").to_owned(),
            group: text("/objectRef/apiGroup").to_owned(),
            resource,
            namespace: text("/objectRef/namespace").to_owned(),
            name: text("/objectRef/name").to_owned(),
            is_refused: event.pointer("/responseStatus/code").and_then(Value::as_u64) == Some(403),
        });
    }
    Ok(asked)
}
