//! Rules for namespaces, service accounts and their tokens.

use serde_json::Value;

use super::{map_at, retain_annotations, retain_elements, text_is};
use crate::object::retain_keys;

/// The label with its name that the API server sets on every Namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Type of a Secret that the token controller fills in for a service account.
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";

/// The keys that it fills in: a token that only this cluster's API server accepts, the CA of that
/// API server, and the namespace.
const TOKEN_DATA: [&str; 3] = ["ca.crt", "namespace", "token"];

/// UID of the service account of the token. On another cluster, the account with that name has
/// another UID, and the token controller deletes Secrets with a wrong UID.
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Length and alphabet of the suffix of a generated name.
const SUFFIX: (usize, &str) = (5, "bcdfghjklmnpqrstvwxz2456789");

/// Removes the finalizer and the name label of a Namespace, because an API server sets both on
/// every Namespace.
pub(super) fn namespace(object: &mut Value) {
    if let Some(metadata) = map_at(object, &["metadata"]) {
        retain_keys(metadata, "labels", |key| key != NAMESPACE_NAME);
    }
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("finalizers");
        if spec.is_empty() {
            fields.remove("spec");
        }
    }
}

/// Removes references to generated tokens of the account. Secrets with other names, and image pull
/// secrets, belong to the user.
pub(super) fn service_account(object: &mut Value) {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    let Some(prefix) = name.map(|name| format!("{name}-token-")) else {
        return;
    };
    let is_generated = |secret: &str| {
        secret
            .strip_prefix(&prefix)
            .is_some_and(|end| end.len() == SUFFIX.0 && end.chars().all(|c| SUFFIX.1.contains(c)))
    };
    if let Some(account) = object.as_object_mut() {
        retain_elements(account, "secrets", |secret| {
            !text_is(secret, "name", is_generated)
        });
    }
}

/// Removes the data of a token Secret. The token controller of the WEC fills it in for the account
/// with the same name there.
pub(super) fn secret(object: &mut Value) {
    if !text_is(object, "type", |kind| kind == TOKEN_TYPE) {
        return;
    }
    retain_annotations(object, |key| key != ACCOUNT_UID);
    if let Some(fields) = object.as_object_mut() {
        retain_keys(fields, "data", |key| !TOKEN_DATA.contains(&key));
    }
}
