//! The label that makes Argo's controller skip an object.

use std::collections::BTreeMap;

use argosy_api::names;

/// Returns true if the object has the label that makes Argo's controller skip it.
pub(crate) fn has_hold_label(labels: &BTreeMap<String, String>) -> bool {
    is_hold(labels.get(names::ARGO_COMPLETED_LABEL).map(String::as_str))
}

/// Returns true if the label value makes Argo's controller skip the object.
pub(crate) fn is_hold(completed: Option<&str>) -> bool {
    completed == Some("true")
}
