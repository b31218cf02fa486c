//! One policy and one object: the policy's clauses, and its invalid parts.

use std::sync::Arc;

use argosy_api::BindingPolicy;
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;

use super::{ObjectAttributes, clause::ClauseAnswer};
use crate::{
    model::runs::Runs,
    policy::{Rules, Test},
};

/// The result of one policy for an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAnswer {
    /// Name of the policy.
    pub name: String,
    /// True if any clause selects the object.
    pub selects: bool,
    /// Every clause of `spec.downsync`.
    pub clauses: Vec<ClauseAnswer>,
    /// The policy requests reruns for lost clusters, so that the best reachable cluster is chosen
    /// if several match.
    pub reruns_lost: bool,
    /// The policy requests a run on every cluster that it matches.
    pub runs_everywhere: bool,
    /// The invalid parts of the policy, as in its status.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// A policy with its compiled rules.
#[derive(Debug)]
pub(super) struct CompiledPolicy {
    pub(super) name: String,
    pub(super) rules: Arc<Rules>,
    problems: Vec<String>,
}

impl CompiledPolicy {
    pub(super) fn new(policy: &BindingPolicy) -> Self {
        let mut problems = Vec::new();
        let rules = Arc::new(Rules::compile(policy, &mut problems));
        Self {
            name: policy.name_any(),
            rules,
            problems,
        }
    }
}

impl PolicyAnswer {
    /// The result of `policy` for `subject`.
    pub(super) fn new(policy: &CompiledPolicy, subject: ObjectAttributes<'_>) -> Self {
        let clauses = policy.rules.clauses.iter().enumerate();
        let clauses: Vec<ClauseAnswer> = clauses
            .map(|(index, clause)| {
                let failing = policy.rules.first_failing(clause, &subject);
                ClauseAnswer::new(index, clause, subject, failing)
            })
            .collect();
        Self {
            name: policy.name.clone(),
            selects: clauses.iter().any(ClauseAnswer::selects),
            clauses,
            reruns_lost: policy.rules.lost_after.is_some(),
            runs_everywhere: policy.rules.runs == Runs::Every,
            problems: policy.problems.clone(),
        }
    }

    /// The clauses that select the object.
    pub fn selecting(&self) -> impl Iterator<Item = &ClauseAnswer> {
        self.clauses.iter().filter(|clause| clause.selects())
    }

    /// The clause that comes nearest to selecting the object: the clause that fails last, and the
    /// first of several. `None` if a clause selects the object, or if there is none.
    pub fn nearest(&self) -> Option<&ClauseAnswer> {
        let failing = |clause: &ClauseAnswer| clause.failing.as_ref().map(|failing| failing.test);
        let best = self.clauses.iter().filter_map(failing).max()?;
        if self.selects {
            return None;
        }
        self.clauses.iter().find(|clause| failing(clause) == Some(best))
    }

    /// The sort key for nearness: greater for policies that come nearer to selecting the object,
    /// and greatest for those that select it.
    pub(super) fn nearness(&self) -> (bool, Option<Test>) {
        let nearest = self.nearest().and_then(|clause| clause.failing.as_ref());
        (self.selects, nearest.map(|failing| failing.test))
    }
}
