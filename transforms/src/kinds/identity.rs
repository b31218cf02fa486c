//! Rules for namespaces, service accounts and their tokens.

use serde_json::Value;

use super::{map_at, retain_annotations, retain_elements, text_is};
use crate::object::retain_keys;

/// The label that the API server puts on every Namespace, with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Type of a Secret that the token controller fills in for a service account.
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";

/// What it fills in: a token that only this cluster's API server accepts, that API server's authority, and the namespace.
const TOKEN_DATA: [&str; 3] = ["ca.crt", "namespace", "token"];

/// The service account that the token is for. On another cluster the account of that name is another one, and the token
/// controller deletes Secrets whose UID does not fit.
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// How many characters, and which, end a generated name.
const SUFFIX: (usize, &str) = (5, "bcdfghjklmnpqrstvwxz2456789");

/// The finalizer of a Namespace and its name label; an API server gives every Namespace its own.
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

/// References to tokens that were generated for this account; Secrets of other names, and what images are pulled with, are the user's.
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

/// A token Secret goes down empty, and the token controller of the WEC fills it in for the account of that name there.
pub(super) fn secret(object: &mut Value) {
    if !text_is(object, "type", |kind| kind == TOKEN_TYPE) {
        return;
    }
    retain_annotations(object, |key| key != ACCOUNT_UID);
    if let Some(fields) = object.as_object_mut() {
        retain_keys(fields, "data", |key| !TOKEN_DATA.contains(&key));
    }
}
