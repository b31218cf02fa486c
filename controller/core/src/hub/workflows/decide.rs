//! The rules about a Workflow, in the order in which they may speak.
//!
//! The first rule that does not pass decides. A rule is a function of a [`Case`]: it reads facts
//! (`facts`, `fan_out/runs`) and builds writes (`claim`, `hand_back`, `manifest_work`, `mirror_patch`,
//! `removal`, `withdrawal`), and uses nothing of another rule's file. The log names the rule of each
//! action (`rule=…`).
//!
//! Not here: requests whose name may still be taken by an earlier one (`unconfirmed`).

use jiff::Timestamp;

use super::{
    HubAction, WorkflowIndex,
    case::{Case, Next},
    cluster_removal, dispatch, fan_out, finalize, leftovers, mirror, place, rerun, reschedule, restore_claim,
    verbs,
};
use crate::{Decision, WorkflowKey, model::claim::Claim};

/// A rule: its name in the log, one sentence for the book, and the decision.
struct Rule<F> {
    name: &'static str,
    sentence: &'static str,
    decide: F,
}

type OfUnclaimed = fn(&Case<'_>) -> Next;
type OfClaimed = fn(&Case<'_>, &Claim) -> Next;

const fn rule<F>(name: &'static str, decide: F, sentence: &'static str) -> Rule<F>
where
    F: Copy,
{
    Rule {
        name,
        sentence,
        decide,
    }
}

/// A Workflow without a claim.
const UNCLAIMED: [Rule<OfUnclaimed>; 6] = [
    rule(
        "finalize",
        finalize::unclaimed,
        "A deleted Workflow: delete its runs and what is left of it in the ITS, then remove the finalizer.",
    ),
    rule(
        "restore-claim",
        restore_claim::restore,
        "Its claim was removed, and a ManifestWork or runs show that it has started: write the claim again.",
    ),
    rule(
        "release",
        place::release_unselected,
        "It is held, no policy selects it, and it names no cluster: hand it back to its user.",
    ),
    rule(
        "leftovers",
        leftovers::unclaimed,
        "An earlier claim has left a ManifestWork: withdraw it, then delete it.",
    ),
    rule(
        "claim",
        place::claim,
        "A policy selects it: claim it for the only or the best cluster that can take it, or write the reason why not.",
    ),
    rule(
        "let-go",
        place::unclaimed_finalizer,
        "It is not held, and nothing of it is left in the ITS: remove the finalizer.",
    ),
];

/// A Workflow that is claimed for one cluster.
const CLAIMED: [Rule<OfClaimed>; 10] = [
    rule(
        "rerun",
        rerun::rule,
        "Its cluster is lost and its policy asks for a rerun: withdraw the attempt, read the Lease, claim another cluster.",
    ),
    rule(
        "finalize",
        finalize::claimed,
        "A deleted Workflow: delete its ManifestWork, wait for the agent, then remove the finalizer.",
    ),
    rule(
        "cluster-removed",
        cluster_removal::rule,
        "Its cluster has left the fleet: claim another cluster if the attempt is withdrawn, wait for its rerun, or give the claim up; then release the ManifestWork.",
    ),
    rule(
        "restore-claim",
        restore_claim::restore_claimed,
        "A ManifestWork shows that a later attempt than the claimed one has started: claim that attempt.",
    ),
    rule(
        "reschedule",
        reschedule::rule,
        "It has not started, and its cluster is drained or no longer matched, or the attempt was asked to be withdrawn before: withdraw it, then claim the next cluster, or hand the Workflow back if it is no rerun.",
    ),
    rule(
        "hold",
        mirror::hold,
        "The hold, the finalizer or the report of a failed creation is not on the Workflow: write it first.",
    ),
    rule(
        "dispatch",
        dispatch::rule,
        "Its ManifestWork is missing, is of an earlier attempt, or names no cluster: create it, delete it, or name the cluster.",
    ),
    rule(
        "verbs",
        verbs::rule,
        "Its user has made a request that is not on the ManifestWork yet: write it there, or begin the retry as a new attempt.",
    ),
    rule(
        "mirror",
        mirror::rule,
        "The Workflow differs from the report: write status, labels and conditions.",
    ),
    rule(
        "leftovers",
        leftovers::claimed,
        "A ManifestWork of another claim is left: delete it, and withdraw it first if its attempt is not an earlier one.",
    ),
];

/// A Workflow that runs on every cluster.
const FANNED_OUT: [Rule<OfClaimed>; 11] = [
    rule(
        "finalize",
        fan_out::finalize,
        "A deleted Workflow: delete its runs, then remove the finalizer.",
    ),
    rule(
        "restore-claim",
        restore_claim::restore_claimed,
        "A ManifestWork shows that the Workflow itself was sent: claim that cluster.",
    ),
    rule(
        "reclaim",
        fan_out::reclaim,
        "Its claim cannot be the webhook's, because no policy asks for runs on every cluster and there are none: claim one cluster, or hand it back.",
    ),
    rule(
        "hold",
        fan_out::hold,
        "The hold or the finalizer is missing: write it first.",
    ),
    rule(
        "leftovers",
        leftovers::claimed,
        "A ManifestWork of another claim is left: delete it, and withdraw it first if its attempt is not an earlier one.",
    ),
    rule(
        "delete-stray",
        fan_out::delete_stray,
        "A cluster has a second run that has not started: delete it.",
    ),
    rule(
        "record-runs",
        fan_out::record_runs,
        "32 new runs, or fewer after a failure, are not in the record yet: write it.",
    ),
    rule(
        "create-run",
        fan_out::create_run,
        "A cluster has no run: create it.",
    ),
    rule(
        "propagate",
        fan_out::propagate,
        "A request for the Workflow has not been sent to one of its runs yet: send it.",
    ),
    rule(
        "summarize",
        fan_out::summarize,
        "The status of the Workflow differs from the sum of its runs: write the sum.",
    ),
    rule(
        "retry",
        fan_out::retry,
        "A creation or a request has failed: repeat the one with the fewest tries.",
    ),
];

/// The rules of a kind of Workflow: name and sentence, in the order in which they speak.
pub type RuleList = Vec<(&'static str, &'static str)>;

/// The rules, for the book: of an unclaimed Workflow, of one that is claimed for a cluster, and of
/// one that runs on every cluster.
pub fn rules() -> [(&'static str, RuleList); 3] {
    fn listed<F>(rules: &[Rule<F>]) -> RuleList {
        rules.iter().map(|rule| (rule.name, rule.sentence)).collect()
    }
    [
        ("A Workflow without a claim", listed(&UNCLAIMED)),
        ("A Workflow that is claimed for one cluster", listed(&CLAIMED)),
        ("A Workflow that runs on every cluster", listed(&FANNED_OUT)),
    ]
}

impl WorkflowIndex {
    pub(super) fn decide_workflow(&self, key: &WorkflowKey, now: Timestamp) -> Decision<HubAction> {
        let Some(view) = self.workflows.get(key) else {
            return Decision::rest();
        };
        let waits_by_its_demand = view.claim.is_none() && view.known_demand.is_some();
        if view.spec.is_none() && view.brings_status && !waits_by_its_demand {
            return Some(HubAction::ReadWorkflow {
                key: key.clone(),
                uid: view.uid.clone(),
            })
            .into();
        }
        let case = Case {
            index: self,
            key,
            view,
            now,
        };
        let decision = match &view.claim {
            None => first(&UNCLAIMED, |decide| decide(&case)),
            Some(claim) if claim.is_for_every_cluster() => first(&FANNED_OUT, |decide| decide(&case, claim)),
            Some(claim) => first(&CLAIMED, |decide| decide(&case, claim)),
        };
        let decision = Decision {
            action: decision.action.map(|action| self.read_first(key, action)),
            ..decision
        };
        self.put_off(view, decision, now)
    }

    pub(super) fn decide_transform(&self, name: &str) -> Option<HubAction> {
        let status = self.transforms.wanted_status(name)?;
        Some(HubAction::TransformStatus {
            name: name.to_owned(),
            status,
        })
    }
}

/// The decision of the first rule that does not pass.
fn first<F>(rules: &[Rule<F>], ask: impl Fn(&F) -> Next) -> Decision<HubAction> {
    let mut requeue_at = None;
    for rule in rules {
        let (at, is_last) = match ask(&rule.decide) {
            Next::Act(action) => {
                return Decision {
                    action: Some(action),
                    requeue_at,
                    rule: Some(rule.name),
                    ..Decision::rest()
                };
            }
            Next::Rest { requeue_at: at } => (at, true),
            Next::Pass { requeue_at: at } => (at, false),
        };
        requeue_at = requeue_at.into_iter().chain(at).min();
        if is_last {
            break;
        }
    }
    Decision {
        action: None,
        requeue_at,
        ..Decision::rest()
    }
}
