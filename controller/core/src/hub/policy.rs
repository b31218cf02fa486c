//! A BindingPolicy as the index keeps it: its rules, what is wrong with it, and the status that says so.

use std::sync::Arc;

use argosy_api::{
    BindingPolicy, BindingPolicyStatus,
    conditions::{condition, reason, set_condition},
};
use jiff::Timestamp;

use crate::placement::Rules;

/// A BindingPolicy.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) uid: Option<String>,
    pub(super) resource_version: String,
    pub(super) generation: i64,
    pub(super) rules: Arc<Rules>,
    problems: Vec<String>,
    warnings: Vec<String>,
    status: Option<BindingPolicyStatus>,
    /// Number of Workflows it selects, kept by the index.
    pub(super) selected: usize,
}

/// What is said of a policy that was written for KubeStellar before 0.26.
const LEGACY: &str = "spec.wantSingletonReportedState counts for every clause; its place is spec.downsync[].wantSingletonReportedState";

impl Policy {
    /// Compiles a policy. What cannot be used is left out and said in its status.
    pub(super) fn compile(policy: BindingPolicy) -> Self {
        let mut problems = Vec::new();
        // KubeStellar 0.26 moved it to the clauses.
        let is_legacy = policy.spec.want_singleton_reported_state.is_some();
        let warnings = is_legacy.then(|| LEGACY.to_owned()).into_iter().collect();
        let rules = Arc::new(Rules::compile(&policy, &mut problems));
        Self {
            uid: policy.metadata.uid,
            resource_version: policy.metadata.resource_version.unwrap_or_default(),
            generation: policy.metadata.generation.unwrap_or_default(),
            rules,
            problems,
            warnings,
            status: policy.status,
            selected: 0,
        }
    }

    /// The status that the policy should have if it matches `clusters` clusters, or `None` if it has that one.
    pub(super) fn wanted_status(&self, clusters: usize, now: Timestamp) -> Option<BindingPolicyStatus> {
        let known = self.status.clone().unwrap_or_default();
        let mut wanted = BindingPolicyStatus {
            observed_generation: self.generation,
            clusters: i64::try_from(clusters).unwrap_or(i64::MAX),
            conditions: known.conditions.clone(),
            errors: self.problems.clone(),
            warnings: self.warnings.clone(),
        };
        let (ready, why, message) = self.readiness(clusters);
        set_condition(
            &mut wanted.conditions,
            condition("Ready", ready, why, &message, now),
        );
        (self.status.as_ref() != Some(&wanted)).then_some(wanted)
    }

    fn readiness(&self, clusters: usize) -> (bool, &'static str, String) {
        if !self.problems.is_empty() {
            return (false, reason::INVALID, self.problems.join("; "));
        }
        if clusters == 0 {
            let hint = if self.rules.has_no_cluster_selector() {
                "spec.clusterSelectors is empty, which selects no cluster".to_owned()
            } else {
                "spec.clusterSelectors match no ManagedCluster; compare them with `kubectl get managedclusters --show-labels`"
                    .to_owned()
            };
            return (false, reason::NO_CLUSTER, hint);
        }
        if self.rules.has_no_clause() {
            let hint =
                "no clause of spec.downsync can match a Workflow (group argoproj.io, resource workflows)";
            return (false, reason::NOTHING_SELECTED, hint.to_owned());
        }
        if self.selected == 0 {
            return (
                true,
                reason::NOTHING_SELECTED,
                "no Workflow matches spec.downsync at present".to_owned(),
            );
        }
        (
            true,
            reason::READY,
            "Workflows and clusters are selected".to_owned(),
        )
    }
}
