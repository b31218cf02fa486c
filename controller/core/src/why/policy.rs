//! One policy and one object: its clauses, and what in it cannot be used.

use argosy_api::BindingPolicy;
use kube::ResourceExt;
use serde::Serialize;

use super::{
    Subject,
    clause::{ClauseAnswer, Test},
};
use crate::{lost, placement::Rules};

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
    /// What in the policy cannot be used, as in its status.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

impl PolicyAnswer {
    /// What `policy` says of `subject`.
    pub(super) fn new(policy: &BindingPolicy, subject: Subject<'_>) -> Self {
        let mut problems = Vec::new();
        // Only for the problems, so that they are the same sentences as in the policy's status.
        let _ = Rules::compile(policy, &mut problems);
        let legacy = policy.spec.want_singleton_reported_state.unwrap_or_default();
        let clauses: Vec<ClauseAnswer> = policy
            .spec
            .downsync
            .iter()
            .enumerate()
            .map(|(index, clause)| ClauseAnswer::new(index, clause, legacy, subject))
            .collect();
        let lost_after = lost::asked(policy.metadata.annotations.as_ref());
        Self {
            name: policy.name_any(),
            selects: clauses.iter().any(ClauseAnswer::selects),
            clauses,
            reruns_lost: lost_after.is_ok_and(|after| after.is_some()),
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
