//! What an object of a known kind does not take along to a WEC.
//!
//! Owns the choice of the rules by group and resource; the rules themselves are in `kinds/`, in groups of kinds that are
//! alike. A rule is here where a field was filled in by an API server or a controller and means something on that cluster only,
//! or where a fresh object that has it is refused. What holds for every kind is in [`object`]; kinds that need nothing
//! else (CronJobs, CustomResourceDefinitions, APIServices, webhook configurations with their CA bundle, Argo's templates and
//! CronWorkflows) have no rule. The checks and controllers named in the comments are those of Kubernetes 1.34.

mod identity;
mod service;
mod storage;
mod workload;

use serde_json::{Map, Value};

use crate::{object, workflow};

/// Does [`object::strip`], and removes what does not travel with objects of this resource. `resource` is the plural, in lower case;
/// `group` is "" for the core group. Done twice, it does the same.
pub fn strip(group: &str, resource: &str, object: &mut Value) {
    if (group, resource) == ("argoproj.io", "workflows") {
        workflow::strip(object);
        return;
    }
    object::strip(object);
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

/// Keeps those annotations for which `keep` holds.
fn retain_annotations(object: &mut Value, keep: impl Fn(&str) -> bool) {
    if let Some(metadata) = map_at(object, &["metadata"]) {
        object::retain_keys(metadata, "annotations", keep);
    }
}

/// Keeps those elements of the list `map[field]` for which `keep` holds, and drops the list when it is empty.
fn retain_elements(map: &mut Map<String, Value>, field: &str, keep: impl Fn(&Value) -> bool) {
    let Some(elements) = map.get_mut(field).and_then(Value::as_array_mut) else {
        return;
    };
    elements.retain(|element| keep(element));
    if elements.is_empty() {
        map.remove(field);
    }
}

/// Whether `value` is a map whose `field` is a text for which `test` holds.
fn text_is(value: &Value, field: &str, test: impl Fn(&str) -> bool) -> bool {
    value.get(field).and_then(Value::as_str).is_some_and(test)
}

#[cfg(test)]
mod tests;
