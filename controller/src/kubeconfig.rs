//! Kubeconfigs in Secrets: they open no file of this process, run no program, and lead nowhere without TLS.
//!
//! Whoever hands over the kubeconfig of a cluster need not be an administrator of this one; `tokenFile` alone would send him this
//! process' own token. What may stand there is listed, and everything else refused. Not here: kubeconfigs that are given on the command
//! line (`client`).

use kube::config::Kubeconfig;
use serde_json::{Map, Value};

use crate::client::Error;

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
    // An address, as the server's is.
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

/// The kubeconfig that a Secret, `origin`, has as `text`.
pub(crate) fn from_secret(text: &str, origin: &str) -> Result<Kubeconfig, Error> {
    let kubeconfig = from_trusted_secret(text, origin)?;
    match flaw(&kubeconfig) {
        None => Ok(kubeconfig),
        Some(flaw) => Err(Error::Refused {
            origin: origin.to_owned(),
            flaw,
        }),
    }
}

/// The same, whatever it may do.
pub(crate) fn from_trusted_secret(text: &str, origin: &str) -> Result<Kubeconfig, Error> {
    Kubeconfig::from_yaml(text).map_err(|source| Error::Kubeconfig {
        origin: origin.to_owned(),
        source,
    })
}

/// The first field that may not be there, and what to write instead. Looked at is what was understood, not the text.
fn flaw(kubeconfig: &Kubeconfig) -> Option<String> {
    let Ok(Value::Object(fields)) = serde_json::to_value(kubeconfig) else {
        return Some("it is no object".to_owned());
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
            "runs a program; write token instead, or client-certificate-data and client-key-data"
        }
        "tokenFile" => "opens a file; write token instead",
        "certificate-authority" => "opens a file; write certificate-authority-data instead",
        "client-certificate" => "opens a file; write client-certificate-data instead",
        "client-key" => "opens a file; write client-key-data instead",
        _ => "is not known; leave it out",
    };
    Some(format!("{path}{name} {why}"))
}

/// What is sent in clear is read by others, the token first.
fn flaw_of_server(entry: &kube::config::NamedCluster) -> Option<String> {
    let server = entry.cluster.as_ref()?.server.as_deref()?;
    let is_encrypted = server
        .get(..8)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"));
    let name = &entry.name;
    (!is_encrypted)
        .then(|| format!("clusters[{name}].cluster.server does not begin with https://; write one that does"))
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
                "users[u].user.tokenFile opens a file; write token",
            ),
            (
                "users",
                "user",
                "client-certificate",
                path(),
                "write client-certificate-data",
            ),
            ("users", "user", "client-key", path(), "write client-key-data"),
            (
                "users",
                "user",
                "exec",
                exec,
                "users[u].user.exec runs a program; write token",
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
                "users[u].user.later is not known",
            ),
            (
                "clusters",
                "cluster",
                "certificate-authority",
                path(),
                "write certificate-authority-data",
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
                "clusters[c].cluster.later is not known",
            ),
            (
                "contexts",
                "context",
                "later",
                json!([]),
                "contexts[x].context.later is not known",
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
