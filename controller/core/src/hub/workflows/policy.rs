//! A BindingPolicy in the controller's index: its rules.
//!
//! Not here: its status (`hub/objects`).

use std::sync::Arc;

use argosy_api::BindingPolicy;

use crate::{index::store::versioned, policy::Rules};

versioned!(Policy);

/// A BindingPolicy.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) generation: i64,
    pub(super) rules: Arc<Rules>,
}

impl Policy {
    /// Compiles a policy. Invalid rules are left out.
    pub(super) fn compile(policy: BindingPolicy) -> Self {
        Self {
            rules: Arc::new(Rules::compile(&policy, &mut Vec::new())),
            uid: policy.metadata.uid.unwrap_or_default(),
            resource_version: policy.metadata.resource_version.unwrap_or_default(),
            generation: policy.metadata.generation.unwrap_or_default(),
        }
    }
}
