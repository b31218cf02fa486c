//! The status of a BindingPolicy, and the objects and clusters that it selects.
//!
//! Not here: its rules and errors (`hub::inventory`).

use std::{collections::BTreeSet, sync::Arc};

use argosy_api::{
    BindingPolicy, BindingPolicyStatus,
    conditions::{binding_policy as types, condition, reason, set_condition},
};
use jiff::{SignedDuration, Timestamp};

use super::{
    DownsyncAction, ObjectIndex,
    kind::KindName,
    needs,
    pace::{Pace, later},
    sync_summary::SyncSummary,
};
use crate::{
    ClusterName, Decision, OriginUid,
    hub::inventory::Policy,
    index::store::{Version, Versioned},
    policy::{Modulation, ObjectAttributes, Rules},
};

/// A BindingPolicy with the objects and clusters that it selects.
#[derive(Debug)]
pub(super) struct PolicyView {
    policy: Policy,
    warnings: Vec<String>,
    status: Option<BindingPolicyStatus>,
    /// The clusters that its selectors match.
    pub(super) clusters: BTreeSet<ClusterName>,
    /// The objects that it selects, Workflows among them.
    pub(super) selected: BTreeSet<OriginUid>,
    pub(super) status_pace: Pace,
    pub(super) binding_pace: Pace,
}

/// The warning about a policy that was written for KubeStellar before 0.26.
const LEGACY: &str = "spec.wantSingletonReportedState applies to every clause; use spec.downsync[].wantSingletonReportedState instead";

/// The message about a policy that the admission policy has no room for.
const UNGUARDED: &str = "the selectors of the BindingPolicies do not fit into the admission policy argosy-create: while the webhook does not \
                         answer, a Workflow that this policy selects can be created without spec.suspend: true, and then runs on \
                         the control cluster; select by labels instead of long lists of names";

/// The time that the objects of a kind may take to be listed before numbers are reported without
/// them.
const LISTING: SignedDuration = SignedDuration::from_secs(10);

/// The same for Workflows, of which there may be so many that a list takes minutes. Numbers without
/// them would be written for each policy, and then written again.
const LISTING_OF_RUNS: SignedDuration = SignedDuration::from_mins(5);

/// Minimum time between two checks of a status. While many objects arrive, its numbers change with
/// each.
const STATUS_PAUSE: SignedDuration = SignedDuration::from_secs(1);

impl Versioned for PolicyView {
    fn version(&self) -> Version<'_> {
        self.policy.version()
    }
}

impl PolicyView {
    /// Compiles a policy. Parts that cannot be used are left out and reported in its status.
    pub(super) fn compile(policy: BindingPolicy) -> Self {
        // KubeStellar 0.26 moved the field to the clauses.
        let is_legacy = policy.spec.want_singleton_reported_state.is_some();
        let warnings = is_legacy.then(|| LEGACY.to_owned()).into_iter().collect();
        Self {
            policy: Policy::compile(&policy),
            warnings,
            status: policy.status,
            clusters: BTreeSet::new(),
            selected: BTreeSet::new(),
            status_pace: Pace::default(),
            binding_pace: Pace::default(),
        }
    }

    pub(super) fn uid(&self) -> &str {
        &self.policy.uid
    }

    /// True if the status does not tell of the newest specification, for which its author waits.
    fn is_unobserved(&self) -> bool {
        let status = self.status.as_ref();
        status.is_none_or(|status| status.observed_generation != self.policy.generation)
    }

    pub(super) fn generation(&self) -> i64 {
        self.policy.generation
    }

    pub(super) fn rules(&self) -> &Arc<Rules> {
        &self.policy.rules
    }

    /// The wishes of the policy for the object, or `None` if it does not select the object. It
    /// selects CronWorkflows only if it sends them.
    pub(super) fn select(&self, subject: &ObjectAttributes<'_>) -> Option<Modulation> {
        self.policy.rules.select_to_send(subject)
    }

    /// True if the policy may select objects of the kind, or asks for them as dependencies.
    pub(super) fn concerns(&self, kind: &KindName) -> bool {
        let rules = &self.policy.rules;
        rules.may_select(&kind.group, &kind.resource) || needs::sends(rules.asked, kind)
    }

    /// True if `other` is a version of the same policy with the same selection.
    pub(super) fn selects_as(&self, other: &Self) -> bool {
        let annotated = |view: &Self| (view.policy.rules.sends_crons, view.policy.rules.asked);
        self.policy.has_spec_of(&other.policy) && annotated(self) == annotated(other)
    }

    /// Becomes a newer version of itself with the same specification, so its clusters and objects
    /// stay.
    pub(super) fn renew(&mut self, newer: Self) {
        let mut former = std::mem::replace(self, newer);
        self.clusters = std::mem::take(&mut former.clusters);
        self.succeed(former);
    }

    /// Takes over the objects of `former`, which has the same name, until they are tested anew.
    /// Returns the rules of `former`.
    pub(super) fn succeed(&mut self, former: Self) -> Arc<Rules> {
        if former.policy.uid == self.policy.uid {
            self.status_pace = former.status_pace;
            self.binding_pace = former.binding_pace;
        }
        self.selected = former.selected;
        former.policy.rules
    }

    /// The status that the policy should have, or `None` if it has that one.
    fn wanted_status(&self, summary: &SyncSummary, now: Timestamp) -> Option<BindingPolicyStatus> {
        let known = self.status.clone().unwrap_or_default();
        let mut errors = self.policy.problems.clone();
        errors.extend(summary.errors.iter().cloned());
        let warnings = self.warnings.iter().chain(&summary.warnings).cloned().collect();
        let mut wanted = BindingPolicyStatus {
            observed_generation: self.policy.generation,
            clusters: i64::try_from(self.clusters.len()).unwrap_or(i64::MAX),
            objects: i64::try_from(self.selected.len()).unwrap_or(i64::MAX),
            applied: (summary.copies > 0).then(|| format!("{}/{}", summary.applied, summary.copies)),
            conditions: known.conditions.clone(),
            errors,
            warnings,
        };
        let (ready, why, message) = self.readiness(summary);
        set_condition(
            &mut wanted.conditions,
            condition(types::READY, ready, why, &message, now),
        );
        match summary.synced() {
            Some((synced, why, message)) => {
                let synced = condition(types::SYNCED, synced, why, &message, now);
                set_condition(&mut wanted.conditions, synced);
            }
            None => wanted.conditions.retain(|known| known.type_ != types::SYNCED),
        }
        match &summary.missing_collectors {
            Some(missing) => {
                let (available, why, message) = collectors_available(missing);
                let available = condition(types::COLLECTORS_AVAILABLE, available, why, &message, now);
                set_condition(&mut wanted.conditions, available);
            }
            None => wanted
                .conditions
                .retain(|known| known.type_ != types::COLLECTORS_AVAILABLE),
        }
        if summary.is_unguarded {
            let guarded = condition(types::GUARDED, false, reason::SELECTION_TOO_LONG, UNGUARDED, now);
            set_condition(&mut wanted.conditions, guarded);
        } else {
            wanted.conditions.retain(|known| known.type_ != types::GUARDED);
        }
        (self.status.as_ref() != Some(&wanted)).then_some(wanted)
    }

    fn readiness(&self, summary: &SyncSummary) -> (bool, &'static str, String) {
        if !self.policy.problems.is_empty() {
            return (false, reason::INVALID, self.policy.problems.join("; "));
        }
        if self.clusters.is_empty() {
            let hint = if self.policy.rules.has_no_cluster_selector() {
                "spec.clusterSelectors is empty, which selects no cluster"
            } else {
                "spec.clusterSelectors match no ManagedCluster; compare them with `kubectl get managedclusters --show-labels`"
            };
            return (false, reason::NO_CLUSTER, hint.to_owned());
        }
        if self.policy.rules.has_no_clause() {
            let hint = "spec.downsync has no clause, so nothing is selected";
            return (false, reason::NOTHING_SELECTED, hint.to_owned());
        }
        if summary.is_unserved {
            return (false, reason::NOT_SERVED, summary.warnings.join("; "));
        }
        if self.selected.is_empty() {
            let message = "no object matches spec.downsync at present";
            return (true, reason::NOTHING_SELECTED, message.to_owned());
        }
        let message = "objects and clusters are selected";
        (true, reason::READY, message.to_owned())
    }
}

/// Status, reason and message of the condition about StatusCollectors, as KubeStellar writes them.
fn collectors_available(missing: &BTreeSet<String>) -> (bool, &'static str, String) {
    if missing.is_empty() {
        return (
            true,
            "ReconcileSuccess",
            "All StatusCollector(s) are available".to_owned(),
        );
    }
    let names: Vec<&str> = missing.iter().map(String::as_str).collect();
    let message = format!("Missing StatusCollector(s) [{}]", names.join(", "));
    (false, "ReconcileError", message)
}

impl ObjectIndex {
    pub(super) fn decide_policy(&self, name: &str, now: Timestamp) -> Decision<DownsyncAction> {
        let Some(policy) = self.policies.get(name) else {
            return Decision::rest();
        };
        if let Some(later) = self.counts_later(policy, now) {
            return Decision::requeue_at(later);
        }
        let (pace, is_urgent) = (&policy.status_pace, policy.is_unobserved());
        if is_urgent {
            pace.hurry();
        }
        if let Some(next) = pace.wait(STATUS_PAUSE, now) {
            return Decision::requeue_at(next);
        }
        let Some(status) = policy.wanted_status(&self.summary(name, policy), now) else {
            pace.checked(now);
            return Decision::rest();
        };
        if is_urgent {
            pace.checked(now);
        } else if let Some(turn) = pace.take_turn(&self.rate_limiter, SignedDuration::ZERO, now) {
            return Decision::requeue_at(turn);
        }
        let name = name.to_owned();
        DownsyncAction::PolicyStatus { name, status }.into()
    }

    /// The time until which no numbers are reported, because kinds that the policy may select are
    /// still being listed. A kind that cannot be listed does not delay the numbers forever.
    pub(super) fn counts_later(&self, policy: &PolicyView, now: Timestamp) -> Option<Timestamp> {
        let selectable = self
            .wanted_kinds
            .iter()
            .filter(|(kind, _)| policy.rules().may_select(&kind.group, &kind.resource));
        let unknown =
            selectable.filter(|(kind, _)| !self.listed.contains(kind) && !self.unreadable.contains_key(kind));
        let limits = unknown.map(|(_, wanted)| {
            if wanted.kind.is_run() {
                LISTING_OF_RUNS
            } else {
                LISTING
            }
        });
        let limit = limits.chain(self.catalog.is_none().then_some(LISTING)).max()?;
        let given_up = self.synced_at.map(|synced| later(synced, limit));
        given_up.filter(|given_up| now < *given_up)
    }
}
