//! A BindingPolicy: its rules, what is wrong with it, whom it selects, and the status that says so.

use std::{cell::Cell, collections::BTreeSet, sync::Arc};

use argosy_api::{
    BindingPolicy, BindingPolicyStatus,
    conditions::{binding_policy as types, condition, reason, set_condition},
};
use jiff::{SignedDuration, Timestamp};

use super::{Downsync, DownsyncAction, tally::Tally};
use crate::{ClusterName, Decision, OriginUid, placement::Rules};

/// A BindingPolicy.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) generation: i64,
    pub(super) rules: Arc<Rules>,
    problems: Vec<String>,
    warnings: Vec<String>,
    status: Option<BindingPolicyStatus>,
    /// The clusters that its selectors match.
    pub(super) clusters: BTreeSet<ClusterName>,
    /// The objects that it selects, Workflows among them.
    pub(super) selected: BTreeSet<OriginUid>,
    /// When it was last looked whether its status is right, and its Binding: that looks at everything that is selected.
    pub(super) status_at: Cell<Option<Timestamp>>,
    pub(super) binding_at: Cell<Option<Timestamp>>,
}

/// What is said of a policy that was written for KubeStellar before 0.26.
const LEGACY: &str = "spec.wantSingletonReportedState counts for every clause; its place is spec.downsync[].wantSingletonReportedState";

/// How long the objects of a kind may take to be listed before numbers are told without them.
const LISTING: SignedDuration = SignedDuration::from_secs(10);

/// Between two looks at a status: while many objects arrive, its numbers change with each.
const STATUS_PAUSE: SignedDuration = SignedDuration::from_secs(1);

impl Policy {
    /// Compiles a policy. What cannot be used is left out and said in its status.
    pub(super) fn compile(policy: BindingPolicy) -> Self {
        let mut problems = Vec::new();
        // KubeStellar 0.26 moved it to the clauses.
        let is_legacy = policy.spec.want_singleton_reported_state.is_some();
        let warnings = is_legacy.then(|| LEGACY.to_owned()).into_iter().collect();
        let rules = Arc::new(Rules::compile(&policy, &mut problems));
        Self {
            uid: policy.metadata.uid.unwrap_or_default(),
            resource_version: policy.metadata.resource_version.unwrap_or_default(),
            generation: policy.metadata.generation.unwrap_or_default(),
            rules,
            problems,
            warnings,
            status: policy.status,
            clusters: BTreeSet::new(),
            selected: BTreeSet::new(),
            status_at: Cell::new(None),
            binding_at: Cell::new(None),
        }
    }

    /// Becomes a newer version of itself with the same specification; whom it selects is the same.
    pub(super) fn renew(&mut self, newer: Self) {
        let mut former = std::mem::replace(self, newer);
        self.clusters = std::mem::take(&mut former.clusters);
        self.succeed(former);
    }

    /// Takes over what `former`, which has the same name, selects, until that is tested anew; returns its rules.
    pub(super) fn succeed(&mut self, former: Self) -> Arc<Rules> {
        if former.uid == self.uid {
            self.status_at = former.status_at;
            self.binding_at = former.binding_at;
        }
        self.selected = former.selected;
        former.rules
    }

    /// The status that the policy should have, or `None` if it has that one.
    fn wanted_status(&self, tally: &Tally, now: Timestamp) -> Option<BindingPolicyStatus> {
        let known = self.status.clone().unwrap_or_default();
        let mut errors = self.problems.clone();
        errors.extend(tally.errors.iter().cloned());
        let warnings = self.warnings.iter().chain(&tally.warnings).cloned().collect();
        let mut wanted = BindingPolicyStatus {
            observed_generation: self.generation,
            clusters: i64::try_from(self.clusters.len()).unwrap_or(i64::MAX),
            objects: i64::try_from(self.selected.len()).unwrap_or(i64::MAX),
            applied: (tally.copies > 0).then(|| format!("{}/{}", tally.applied, tally.copies)),
            conditions: known.conditions.clone(),
            errors,
            warnings,
        };
        let (ready, why, message) = self.readiness();
        set_condition(
            &mut wanted.conditions,
            condition(types::READY, ready, why, &message, now),
        );
        match tally.synced() {
            Some((synced, why, message)) => {
                let synced = condition(types::SYNCED, synced, why, &message, now);
                set_condition(&mut wanted.conditions, synced);
            }
            None => wanted.conditions.retain(|known| known.type_ != types::SYNCED),
        }
        match &tally.missing_collectors {
            Some(missing) => {
                let (available, why, message) = collectors_available(missing);
                let available = condition(types::COLLECTORS_AVAILABLE, available, why, &message, now);
                set_condition(&mut wanted.conditions, available);
            }
            None => wanted
                .conditions
                .retain(|known| known.type_ != types::COLLECTORS_AVAILABLE),
        }
        (self.status.as_ref() != Some(&wanted)).then_some(wanted)
    }

    fn readiness(&self) -> (bool, &'static str, String) {
        if !self.problems.is_empty() {
            return (false, reason::INVALID, self.problems.join("; "));
        }
        if self.clusters.is_empty() {
            let hint = if self.rules.has_no_cluster_selector() {
                "spec.clusterSelectors is empty, which selects no cluster"
            } else {
                "spec.clusterSelectors match no ManagedCluster; compare them with `kubectl get managedclusters --show-labels`"
            };
            return (false, reason::NO_CLUSTER, hint.to_owned());
        }
        if self.rules.has_no_clause() {
            let hint = "spec.downsync has no clause, so that nothing is selected";
            return (false, reason::NOTHING_SELECTED, hint.to_owned());
        }
        if self.selected.is_empty() {
            let message = "no object matches spec.downsync at present";
            return (true, reason::NOTHING_SELECTED, message.to_owned());
        }
        let message = "objects and clusters are selected";
        (true, reason::READY, message.to_owned())
    }
}

/// KubeStellar's reasons and words.
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

impl Downsync {
    pub(super) fn decide_policy(&self, name: &str, now: Timestamp) -> Decision<DownsyncAction> {
        let Some(policy) = self.policies.get(name) else {
            return Decision::rest();
        };
        if let Some(later) = self.counts_later(policy, now) {
            return Decision::wait_until(later);
        }
        if let Some(next) = pause(policy.status_at.get(), STATUS_PAUSE).filter(|next| *next > now) {
            return Decision::wait_until(next);
        }
        policy.status_at.set(Some(now));
        let status = policy.wanted_status(&self.tally(name, policy), now);
        status
            .map(|status| DownsyncAction::PolicyStatus {
                name: name.to_owned(),
                status,
            })
            .into()
    }

    /// Until when numbers are not told, because objects that the policy selects are still being listed. That does not take long; a kind
    /// that cannot be listed holds nothing up for ever.
    pub(super) fn counts_later(&self, policy: &Policy, now: Timestamp) -> Option<Timestamp> {
        let given_up = pause(self.synced_at, LISTING)?;
        let selectable = self
            .wanted_kinds
            .iter()
            .filter(|(kind, _)| policy.rules.may_select(&kind.group, &kind.resource));
        let mut unknown =
            selectable.filter(|(kind, _)| !self.listed.contains(kind) && !self.unreadable.contains_key(kind));
        (now < given_up && (self.catalogue.is_none() || unknown.next().is_some())).then_some(given_up)
    }
}

/// When a look may follow the one at `last`.
pub(super) fn pause(last: Option<Timestamp>, pause: SignedDuration) -> Option<Timestamp> {
    last.map(|last| last.saturating_add(pause).unwrap_or(Timestamp::MAX))
}
