//! The parts of objects of known kinds that are not sent to a WEC.
//!
//! Owned here: the choice of the rules by group and resource; the rules themselves are in `kinds/`,
//! grouped by similar kinds. A rule exists for a field that an API server or a controller has
//! filled in and that is meaningful on that cluster only, or that a create request rejects. Rules
//! for every kind are in [`object`]. Kinds that need no further rule (CronJobs,
//! CustomResourceDefinitions, APIServices, webhook configurations with their CA bundle, Argo's
//! templates) have none. The checks and controllers named in the comments are those of Kubernetes
//! 1.34.

mod identity;
mod service;
mod storage;
mod workload;

use serde_json::{Map, Value};

use crate::{object, workflow};

/// Applies [`object::strip`], and removes the parts of objects of this resource that are not sent.
/// `resource` is the plural, in lower case; `group` is "" for the core group. The function is
/// idempotent.
pub fn strip(group: &str, resource: &str, object: &mut Value) {
    match (group, resource) {
        ("argoproj.io", "workflows") => return workflow::strip(object),
        ("argoproj.io", "cronworkflows") => return workflow::strip_cron(object),
        _ => object::strip(object),
    }
    match (group, resource) {
        ("batch", "jobs") => workload::job(object),
        ("apps", "deployments" | "replicasets" | "daemonsets" | "statefulsets") => workload::rollout(object),
        ("", "pods") => workload::pod(object),
        ("", "services") => service::service(object),
        ("", "persistentvolumeclaims") => storage::claim(object),
        ("", "persistentvolumes") => storage::volume(object),
        ("", "namespaces") => identity::namespace(object),
        ("", "serviceaccounts") => identity::service_account(object),
        ("", "secrets") => identity::secret(object),
        _ => {}
    }
}

/// The map at `path`, if there is one.
fn map_at<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let start = object.as_object_mut()?;
    path.iter()
        .try_fold(start, |map, key| map.get_mut(*key)?.as_object_mut())
}

/// Keeps only the annotations for which `keep` returns true.
fn retain_annotations(object: &mut Value, keep: impl Fn(&str) -> bool) {
    if let Some(metadata) = map_at(object, &["metadata"]) {
        object::retain_keys(metadata, "annotations", keep);
    }
}

/// Keeps only the elements of the list `map[field]` for which `keep` returns true, and removes the
/// list if it becomes empty.
fn retain_elements(map: &mut Map<String, Value>, field: &str, keep: impl Fn(&Value) -> bool) {
    let Some(elements) = map.get_mut(field).and_then(Value::as_array_mut) else {
        return;
    };
    elements.retain(|element| keep(element));
    if elements.is_empty() {
        map.remove(field);
    }
}

/// Returns true if `value` is a map whose `field` is a text for which `test` returns true.
fn text_is(value: &Value, field: &str, test: impl Fn(&str) -> bool) -> bool {
    value.get(field).and_then(Value::as_str).is_some_and(test)
}

#[cfg(test)]
mod tests;
