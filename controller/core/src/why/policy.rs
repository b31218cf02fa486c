//! One policy and one object: its clauses, and what in it cannot be used.

use argosy_api::BindingPolicy;
use kube::ResourceExt;
use serde::Serialize;

use super::{
    Subject,
    clause::{ClauseAnswer, Test},
};
use crate::placement::Rules;

/// What one policy says of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAnswer {
    /// Name of the policy.
    pub name: String,
    /// Whether any clause selects the object.
    pub selects: bool,
    /// Every clause of `spec.downsync`.
    pub clauses: Vec<ClauseAnswer>,
    /// The policy asks for a rerun where a cluster is lost, so that the first cluster that can be reached is taken where several
    /// match.
    pub reruns_lost: bool,
    /// The policy asks for a run on every cluster that it matches.
    pub runs_everywhere: bool,
    /// What in the policy cannot be used, as in its status.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

impl PolicyAnswer {
    /// What `policy` says of `subject`.
    pub(super) fn new(policy: &BindingPolicy, subject: Subject<'_>) -> Self {
        let mut problems = Vec::new();
        // The clauses are looked at as they are written, so that it can be said what fails.
        let rules = Rules::compile(policy, &mut problems);
        let legacy = policy.spec.want_singleton_reported_state.unwrap_or_default();
        let clauses: Vec<ClauseAnswer> = policy
            .spec
            .downsync
            .iter()
            .enumerate()
            .map(|(index, clause)| ClauseAnswer::new(index, clause, legacy, subject))
            .collect();
        Self {
            name: policy.name_any(),
            selects: clauses.iter().any(ClauseAnswer::selects),
            clauses,
            reruns_lost: rules.lost_after.is_some(),
            runs_everywhere: rules.is_everywhere,
            problems,
        }
    }

    /// The clauses that select the object.
    pub fn selecting(&self) -> impl Iterator<Item = &ClauseAnswer> {
        self.clauses.iter().filter(|clause| clause.selects())
    }

    /// The clause that comes nearest to selecting the object: the one that fails last, and of those the first. `None` where one
    /// selects it, or there is none.
    pub fn nearest(&self) -> Option<&ClauseAnswer> {
        let failing = |clause: &ClauseAnswer| clause.failing.as_ref().map(|failing| failing.test);
        let best = self.clauses.iter().filter_map(failing).max()?;
        if self.selects {
            return None;
        }
        self.clauses.iter().find(|clause| failing(clause) == Some(best))
    }

    /// Greater for policies that come nearer to selecting the object; the greatest for those that do.
    pub(super) fn nearness(&self) -> (bool, Option<Test>) {
        let nearest = self.nearest().and_then(|clause| clause.failing.as_ref());
        (self.selects, nearest.map(|failing| failing.test))
    }
}
