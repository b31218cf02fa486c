//! A BindingPolicy as the controller's index keeps it: its rules. What its status says is decided elsewhere (`downsync`).

use std::sync::Arc;

use argosy_api::BindingPolicy;

use crate::placement::Rules;

/// A BindingPolicy.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) uid: Option<String>,
    pub(super) resource_version: String,
    pub(super) generation: i64,
    pub(super) rules: Arc<Rules>,
}

impl Policy {
    /// Compiles a policy. What cannot be used is left out.
    pub(super) fn compile(policy: BindingPolicy) -> Self {
        Self {
            rules: Arc::new(Rules::compile(&policy, &mut Vec::new())),
            uid: policy.metadata.uid,
            resource_version: policy.metadata.resource_version.unwrap_or_default(),
            generation: policy.metadata.generation.unwrap_or_default(),
        }
    }
}
