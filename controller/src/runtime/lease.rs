//! Writes the Leases that say that a cluster or a virtual Node is alive, cheaply: a thousand agents
//! renew theirs a hundred times a second. Not here: the Leases of leader election (`leader`).

use argosy_core::Failure;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, api::Patch};
use serde_json::{Value, json};

use super::{
    lenient::Lenient,
    requests::{NO_MANAGED_FIELDS, creating, found, patching, read},
};

/// Writes the labels, annotations and spec of `lease`, removes those of `annotations` that it does not
/// have, and creates the Lease if there is none. Returns the Lease as it is stored.
///
/// A merge patch of a Lease without managed fields takes an API server half the processor time of a
/// server-side apply.
pub(crate) async fn renew(
    leases: &Api<Lenient<Lease>>,
    manager: &str,
    lease: &Lease,
    annotations: &[&str],
) -> Result<Lease, Failure> {
    let name = lease.metadata.name.as_deref().unwrap_or_default();
    let patch = Patch::Merge(renewal(lease, annotations));
    let renewed = async || found(read(leases.patch(name, &patching(manager), &patch)).await);
    if let Some(renewed) = renewed().await? {
        return Ok(renewed);
    }
    match read(leases.create(&creating(manager), &lease.clone().into())).await {
        // Another agent, such as OCM's, has created it in the meantime.
        Err(Failure::Foreign(_)) => renewed().await?.ok_or(Failure::Conflict),
        created => created,
    }
}

fn renewal(lease: &Lease, annotations: &[&str]) -> Value {
    let known = lease.metadata.annotations.clone().unwrap_or_default();
    let removed = annotations.iter().filter(|name| !known.contains_key(**name));
    let removed = removed.map(|name| ((*name).to_owned(), Value::Null));
    let kept = known.iter().map(|(name, value)| (name.clone(), json!(value)));
    let annotations = kept.chain(removed).collect();
    let mut patch = json!(lease);
    if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
        metadata.insert("managedFields".to_owned(), json!(NO_MANAGED_FIELDS));
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renewal_of(lease: &Value, annotations: &[&str]) -> Value {
        let lease = serde_json::from_value(lease.clone()).unwrap();
        renewal(&lease, annotations)
    }

    #[test]
    fn a_renewal_writes_only_what_is_said_and_removes_only_the_named_annotations() {
        let plain = json!({ "metadata": { "name": "l" }, "spec": { "holderIdentity": "a" } });
        let patch = renewal_of(&plain, &[]);
        assert_eq!(
            patch["metadata"],
            json!({ "name": "l", "annotations": {}, "managedFields": [{}] })
        );
        assert_eq!(patch["spec"], json!({ "holderIdentity": "a" }));
        assert_eq!(
            renewal_of(&plain, &["tunnel"]).pointer("/metadata/annotations"),
            Some(&json!({ "tunnel": null }))
        );
        let told = json!({ "metadata": { "name": "l", "annotations": { "tunnel": "t" } }, "spec": {} });
        assert_eq!(
            renewal_of(&told, &["tunnel"]).pointer("/metadata/annotations"),
            Some(&json!({ "tunnel": "t" }))
        );
    }
}
