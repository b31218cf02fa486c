//! CronWorkflows: the choice of the Argo instance that fires them.
//!
//! The Argo of the control cluster fires them for the whole fleet, because the Workflows that it
//! creates are placed like any others. A copy of the CronWorkflow on an execution cluster would be
//! fired by that cluster's Argo as well, so no copy is sent. A policy can request copies with
//! [`names::CRON_ANNOTATION`], for clusters that have to fire while they are disconnected; the
//! CronWorkflow must then be suspended on the control cluster. Not here: sending objects
//! (`hub/objects`), removing them (`agent/manifests`), and the fields that are not sent
//! (`argosy-transforms`).

use std::collections::BTreeMap;

use argosy_api::{names, workflow};
use serde_json::Value;

use crate::ClusterName;

/// Returns true if objects of the kind are CronWorkflows.
pub fn is_cron(group: &str, resource: &str) -> bool {
    group == workflow::GROUP && resource == workflow::CRON_PLURAL
}

/// Returns true if Argo fires the CronWorkflow with these fields, that is, unless it is suspended.
pub fn fires(fields: &Value) -> bool {
    fields.pointer("/spec/suspend") != Some(&Value::Bool(true))
}

/// Returns true if a policy with these annotations sends its CronWorkflows to its clusters.
///
/// # Errors
///
/// The error in the annotations, as a sentence for the policy's status.
pub(crate) fn asked(annotations: Option<&BTreeMap<String, String>>) -> Result<bool, String> {
    match annotations.and_then(|annotations| annotations.get(names::CRON_ANNOTATION)) {
        None => Ok(false),
        Some(value) if value == names::EACH_CLUSTER => Ok(true),
        Some(other) => Err(format!(
            "annotation {}: {other:.40} is not known; the only value is {}",
            names::CRON_ANNOTATION,
            names::EACH_CLUSTER
        )),
    }
}

/// Explains why a policy without that annotation does not send CronWorkflows.
pub(crate) fn stays() -> String {
    format!(
        "CronWorkflows fire on the control cluster for the whole fleet and are not sent; to send them, annotate the policy with {}={}",
        names::CRON_ANNOTATION,
        names::EACH_CLUSTER
    )
}

/// Explains why a CronWorkflow that a policy selects is not sent.
pub(crate) const FIRES_HERE: &str =
    "it also fires on the control cluster; it is sent once its spec.suspend is true on the control cluster";

/// The message about a CronWorkflow whose copy on `cluster` is removed. With `is_wanted`, a policy
/// would send the CronWorkflow, but it fires on the control cluster.
pub(crate) fn taken_back(cluster: &ClusterName, is_wanted: bool) -> String {
    let why = if is_wanted {
        "because it also fires on the control cluster; it is sent again once its spec.suspend is true there"
            .to_owned()
    } else {
        format!(
            "because no policy with the annotation {}={} sends it there",
            names::CRON_ANNOTATION,
            names::EACH_CLUSTER
        )
    };
    format!("removed from {cluster}, {why}; the Workflows that it has created on {cluster} stay")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_suspended_does_not_fire() {
        for (fields, does) in [
            (json!({}), true),
            (json!({ "spec": {} }), true),
            (json!({ "spec": { "suspend": false } }), true),
            (json!({ "spec": { "suspend": "true" } }), true),
            (json!({ "spec": { "suspend": true } }), false),
        ] {
            assert_eq!(fires(&fields), does, "{fields}");
        }
    }

    #[test]
    fn a_policy_asks_for_copies_with_one_word() {
        let policy = |value: &str| {
            let annotations = [(names::CRON_ANNOTATION.to_owned(), value.to_owned())];
            asked(Some(&annotations.into()))
        };
        assert_eq!((asked(None), policy("each-cluster")), (Ok(false), Ok(true)));
        assert_eq!(
            policy("true"),
            Err("annotation argosy.dev/cron: true is not known; the only value is each-cluster".to_owned())
        );
    }
}
