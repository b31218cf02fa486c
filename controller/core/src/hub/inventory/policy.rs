//! A BindingPolicy as both indexes of the hub know it: its rules and its errors.
//!
//! Not here: the rules themselves (`policy::Rules`), and the status of a policy
//! (`hub::objects::policy_view`).

use std::sync::Arc;

use argosy_api::BindingPolicy;

use crate::{index::store::versioned, policy::Rules};

versioned!(Policy);

/// A BindingPolicy.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) generation: i64,
    pub(crate) rules: Arc<Rules>,
    /// The parts of it that cannot be used, one message each.
    pub(crate) problems: Vec<String>,
}

impl Policy {
    /// Compiles a policy. Parts that cannot be used are left out.
    pub(crate) fn compile(policy: &BindingPolicy) -> Self {
        let mut problems = Vec::new();
        let rules = Arc::new(Rules::compile(policy, &mut problems));
        let metadata = &policy.metadata;
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            rules,
            problems,
        }
    }

    /// True if `other` is a version of the same policy with the same `spec`. Its annotations may
    /// differ.
    pub(crate) fn has_spec_of(&self, other: &Self) -> bool {
        (&self.uid, self.generation) == (&other.uid, other.generation)
    }
}
