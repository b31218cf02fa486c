//! Kubeconfigs from Secrets: they must not open files of this process, run programs, or use a
//! connection without TLS.
//!
//! The person who provides the kubeconfig of a cluster need not be an administrator of this
//! cluster; `tokenFile` alone would send them this process's own token. So fields are allowed by a
//! list, and all others are refused. Not here: kubeconfigs that are given on the command line
//! (`runtime/client`).

use kube::config::Kubeconfig;
use serde_json::{Map, Value};

use crate::runtime::client::Error;

const TOP: [&str; 8] = [
    "apiVersion",
    "kind",
    "preferences",
    "extensions",
    "clusters",
    "users",
    "contexts",
    "current-context",
];

const CLUSTER: [&str; 7] = [
    "server",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
    "tls-server-name",
    // An address, like `server`.
    "proxy-url",
    "disable-compression",
    "extensions",
];

const USER: [&str; 10] = [
    "token",
    "client-certificate-data",
    "client-key-data",
    "username",
    "password",
    "as",
    "as-uid",
    "as-groups",
    "as-user-extra",
    "extensions",
];

const CONTEXT: [&str; 4] = ["cluster", "user", "namespace", "extensions"];

/// Parses the kubeconfig `text` of the Secret `origin`.
pub(crate) fn from_secret(text: &str, origin: &str) -> Result<Kubeconfig, Error> {
    let kubeconfig = from_trusted_secret(text, origin)?;
    match problem(&kubeconfig) {
        None => Ok(kubeconfig),
        Some(problem) => Err(Error::Refused {
            origin: origin.to_owned(),
            problem,
        }),
    }
}

/// Like [`from_secret`], without the check of fields.
pub(crate) fn from_trusted_secret(text: &str, origin: &str) -> Result<Kubeconfig, Error> {
    Kubeconfig::from_yaml(text).map_err(|source| Error::Kubeconfig {
        origin: origin.to_owned(),
        source,
    })
}

/// Returns the first field that is not allowed, and the field to use instead. Checks the parsed
/// kubeconfig, not the text.
fn problem(kubeconfig: &Kubeconfig) -> Option<String> {
    let Ok(Value::Object(fields)) = serde_json::to_value(kubeconfig) else {
        return Some("it is not an object".to_owned());
    };
    unlisted("", &fields, &TOP)
        .or_else(|| flaw_of_entries(&fields, "clusters", "cluster", &CLUSTER))
        .or_else(|| flaw_of_entries(&fields, "users", "user", &USER))
        .or_else(|| flaw_of_entries(&fields, "contexts", "context", &CONTEXT))
        .or_else(|| kubeconfig.clusters.iter().find_map(flaw_of_server))
}

fn flaw_of_entries(fields: &Map<String, Value>, list: &str, inner: &str, listed: &[&str]) -> Option<String> {
    let entries = fields.get(list).and_then(Value::as_array);
    entries.into_iter().flatten().find_map(|entry| {
        let entry = entry.as_object()?;
        let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
        let path = format!("{list}[{name}].");
        unlisted(&path, entry, &["name", inner]).or_else(|| {
            let content = entry.get(inner)?.as_object()?;
            unlisted(&format!("{path}{inner}."), content, listed)
        })
    })
}

fn unlisted(path: &str, fields: &Map<String, Value>, listed: &[&str]) -> Option<String> {
    let is_there = |value: &Value| !value.is_null() && value.as_str() != Some("");
    let mut unlisted = fields
        .iter()
        .filter(|(name, value)| is_there(value) && !listed.contains(&name.as_str()));
    let (name, _) = unlisted.next()?;
    let why = match name.as_str() {
        "exec" | "auth-provider" => {
            "runs a program; use token instead, or client-certificate-data and client-key-data"
        }
        "tokenFile" => "opens a file; use token instead",
        "certificate-authority" => "opens a file; use certificate-authority-data instead",
        "client-certificate" => "opens a file; use client-certificate-data instead",
        "client-key" => "opens a file; use client-key-data instead",
        _ => "is an unknown field; remove it",
    };
    Some(format!("{path}{name} {why}"))
}

/// Without TLS, others can read the requests, the token first.
fn flaw_of_server(entry: &kube::config::NamedCluster) -> Option<String> {
    let server = entry.cluster.as_ref()?.server.as_deref()?;
    let is_encrypted = server
        .get(..8)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"));
    let name = &entry.name;
    (!is_encrypted).then(|| {
        format!("clusters[{name}].cluster.server does not begin with https://; use an https address")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const GOOD: &str = r#"{
        "apiVersion": "v1", "kind": "Config", "current-context": "x", "preferences": {},
        "clusters": [{ "name": "c", "cluster": {
            "server": "https://h", "certificate-authority-data": "Y2E=", "tls-server-name": "n", "proxy-url": "http://p:3128" } }],
        "users": [{ "name": "u", "user": {
            "token": "t", "client-certificate-data": "YQ==", "client-key-data": "Yg==", "as": "a", "tokenFile": "" } }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u", "namespace": "n" } }]
    }"#;

    fn refusal(text: &str) -> Option<String> {
        match from_secret(text, "in Secret argosy/s") {
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        }
    }

    #[test]
    fn what_is_in_the_kubeconfig_itself_is_taken() {
        assert_eq!(refusal(GOOD), None);
    }

    #[test]
    fn what_opens_a_file_runs_a_program_or_is_not_encrypted_is_refused_by_its_name() {
        let path = || json!("/var/run/secrets/kubernetes.io/serviceaccount/token");
        let exec = json!({ "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "interactiveMode": "Never" });
        for (list, inner, field, value, told) in [
            (
                "users",
                "user",
                "tokenFile",
                path(),
                "users[u].user.tokenFile opens a file; use token",
            ),
            (
                "users",
                "user",
                "client-certificate",
                path(),
                "use client-certificate-data",
            ),
            ("users", "user", "client-key", path(), "use client-key-data"),
            (
                "users",
                "user",
                "exec",
                exec,
                "users[u].user.exec runs a program; use token",
            ),
            (
                "users",
                "user",
                "auth-provider",
                json!({ "name": "gcp" }),
                "users[u].user.auth-provider runs",
            ),
            (
                "users",
                "user",
                "later",
                json!(true),
                "users[u].user.later is an unknown field",
            ),
            (
                "clusters",
                "cluster",
                "certificate-authority",
                path(),
                "use certificate-authority-data",
            ),
            (
                "clusters",
                "cluster",
                "server",
                json!("http://h"),
                "clusters[c].cluster.server does not begin with https://",
            ),
            (
                "clusters",
                "cluster",
                "server",
                json!("h:6443"),
                "does not begin with https://",
            ),
            (
                "clusters",
                "cluster",
                "later",
                json!({}),
                "clusters[c].cluster.later is an unknown field",
            ),
            (
                "contexts",
                "context",
                "later",
                json!([]),
                "contexts[x].context.later is an unknown field",
            ),
        ] {
            let mut kubeconfig: Value = serde_json::from_str(GOOD).unwrap();
            kubeconfig[list][0][inner][field] = value;
            let text = kubeconfig.to_string();
            let refusal = refusal(&text).unwrap_or_default();
            let begins = "cannot use the kubeconfig in Secret argosy/s: ";
            assert!(
                refusal.starts_with(begins) && refusal.contains(told),
                "{field}: {refusal}"
            );
            assert!(from_trusted_secret(&text, "in a Secret").is_ok(), "{field}");
        }
    }

    #[test]
    fn what_hides_in_a_second_document_or_an_unused_user_is_refused_too() {
        let hidden = r#"{"users": [{"name": "v", "user": {"tokenFile": "/t"}}]}"#;
        let refusal = refusal(&format!("{GOOD}\n---\n{hidden}\n"));
        assert!(refusal.is_some_and(|refusal| refusal.contains("users[v].user.tokenFile")));
    }
}
