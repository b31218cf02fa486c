//! The CombinedStatus of one object and one policy: its name, labels and owner, and its size limit.
//!
//! Name, namespace, labels and owner are KubeStellar's. A value that is no legal label value is
//! shortened in the label, and complete in an annotation of the same key.

use std::{borrow::Cow, collections::BTreeMap};

use argosy_api::{CombinedStatus, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, core::ObjectMeta};
use serde_json::{Value, json};

use super::Results;
use crate::index::fingerprint::Fingerprint;

/// Maximum size of all tables in bytes. etcd accepts one and a half million bytes for an object.
const LARGEST: usize = 1024 * 1024;

/// Maximum length of a label value in bytes.
const LABEL: usize = 63;

/// The object in the WDS whose statuses are collected.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its API group, `""` for core.
    pub group: &'a str,
    /// Its API version, without the group.
    pub version: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// Its lower-case plural.
    pub resource: &'a str,
    /// Its namespace; none for a cluster-scoped object.
    pub namespace: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
}

/// The whole CombinedStatus of `subject` and a policy, to be created or to replace the stored one.
/// Its results are in the order of the collectors' names. The garbage collector deletes it with the
/// object. The caller deletes it when the policy is deleted or asks for no collectors any more.
pub fn combined_status(
    subject: &Subject<'_>,
    policy_name: &str,
    policy_uid: &str,
    mut results: Vec<Results>,
) -> CombinedStatus {
    results.sort_by(|one, other| one.combination.name.cmp(&other.combination.name));
    fit(&mut results);
    let (labels, mut annotations) = labels(subject, policy_name);
    annotations.extend(left_out(&results).map(|counts| (names::LEFT_OUT_ANNOTATION.to_owned(), counts)));
    let api_version = if subject.group.is_empty() {
        subject.version.to_owned()
    } else {
        format!("{}/{}", subject.group, subject.version)
    };
    CombinedStatus {
        api_version: CombinedStatus::api_version(&()).into_owned(),
        kind: CombinedStatus::kind(&()).into_owned(),
        metadata: ObjectMeta {
            name: Some(format!("{}.{policy_uid}", subject.uid)),
            namespace: Some(subject.namespace.unwrap_or(names::REPORT_NAMESPACE).to_owned()),
            labels: Some(labels),
            annotations: (!annotations.is_empty()).then_some(annotations),
            // In the same namespace, or cluster-scoped: the two cases that the garbage collector
            // supports.
            owner_references: Some(vec![OwnerReference {
                api_version,
                kind: subject.kind.to_owned(),
                name: subject.name.to_owned(),
                uid: subject.uid.to_owned(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        results: results.into_iter().map(|results| results.combination).collect(),
    }
}

/// Empties the tables that exceed the size limit, and counts their rows and errors.
fn fit(results: &mut [Results]) {
    let mut room = LARGEST;
    for results in results {
        let table = &mut results.combination;
        let bytes = serde_json::to_string(table).map_or(LARGEST, |text| text.len());
        if let Some(rest) = room.checked_sub(bytes) {
            room = rest;
            continue;
        }
        results.rows_left_out += std::mem::take(&mut table.rows).len();
        results.errors_left_out += std::mem::take(&mut table.row_errors).len();
    }
}

/// The numbers of rows and errors left out, by collector, as JSON; `None` if nothing is left out.
fn left_out(results: &[Results]) -> Option<String> {
    let incomplete = results
        .iter()
        .filter(|results| results.rows_left_out + results.errors_left_out > 0);
    let counts: BTreeMap<&str, Value> = incomplete
        .map(|results| {
            let counts = json!({ "rows": results.rows_left_out, "errors": results.errors_left_out });
            (results.combination.name.as_str(), counts)
        })
        .collect();
    (!counts.is_empty()).then(|| json!(counts).to_string())
}

/// The labels, and as annotations the values that had to be shortened.
fn labels(subject: &Subject<'_>, policy_name: &str) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let mut labels = BTreeMap::new();
    let mut annotations = BTreeMap::new();
    for (key, value) in [
        (names::COMBINED_GROUP_LABEL, subject.group),
        (names::COMBINED_RESOURCE_LABEL, subject.resource),
        (
            names::COMBINED_NAMESPACE_LABEL,
            subject.namespace.unwrap_or_default(),
        ),
        (names::COMBINED_NAME_LABEL, subject.name),
        (names::COMBINED_POLICY_LABEL, policy_name),
    ] {
        let label = label_value(value);
        if label != value {
            annotations.insert(key.to_owned(), value.to_owned());
        }
        labels.insert(key.to_owned(), label.into_owned());
    }
    (labels, annotations)
}

/// `text` as a label value: unchanged if it is a legal one, otherwise its beginning and a digest of
/// the whole, so that different texts stay different.
pub fn label_value(text: &str) -> Cow<'_, str> {
    let is_edge = |byte: u8| byte.is_ascii_alphanumeric();
    let is_inner = |byte: u8| is_edge(byte) || matches!(byte, b'-' | b'_' | b'.');
    let edges = [text.bytes().next(), text.bytes().last()];
    if text.len() <= LABEL && text.bytes().all(is_inner) && edges.into_iter().flatten().all(is_edge) {
        return Cow::Borrowed(text);
    }
    let digest = Fingerprint::of(&text.into()).to_string();
    let room = LABEL - digest.len() - 1;
    let legal = text
        .bytes()
        .map(|byte| if is_inner(byte) { char::from(byte) } else { '-' });
    let beginning: String = legal.take(room).collect();
    let beginning = beginning.trim_matches(|byte: char| !byte.is_ascii_alphanumeric());
    match beginning {
        "" => Cow::Owned(digest),
        _ => Cow::Owned(format!("{beginning}-{digest}")),
    }
}
