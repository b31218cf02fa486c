//! The numbers in a policy's status: the copies that are on their clusters, those that are not, and
//! the reasons.
//!
//! The copies are counted anew for each check of the status, which is at most once a second per
//! policy.

use std::collections::BTreeSet;

use argosy_api::conditions::reason;

use super::{
    ObjectIndex, ObjectView, PolicyView,
    arrival::{MOST, Obstacle},
    kind::{KindName, stays},
    needs,
};
use crate::{ClusterName, OriginUid, index::text::shortened, model::cron};

/// The counted copies of a policy.
#[derive(Debug, Default)]
pub(super) struct SyncSummary {
    /// The sum of objects times clusters, without Workflows.
    pub(super) copies: usize,
    /// Copies that their agents have applied.
    pub(super) applied: usize,
    failing: usize,
    /// Errors: at most [`MOST`] sentences about copies and one that counts the rest, then those
    /// about objects that Workflows need, misused statuses and unreadable kinds.
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// The StatusCollectors that the policy names and that are missing or unusable; `None` if it
    /// names none.
    pub(super) missing_collectors: Option<BTreeSet<String>>,
    /// The admission policy has no room for the policy's selection.
    pub(super) is_unguarded: bool,
    /// The policy names kinds, and no API serves any of them.
    pub(super) is_unserved: bool,
}

impl SyncSummary {
    fn fail(&mut self, sentence: impl FnOnce() -> String) {
        self.failing += 1;
        if self.errors.len() < MOST {
            self.errors.push(sentence());
        }
    }

    /// The condition `Synced` with reason and message: true if all copies are on their clusters.
    /// `None` if there are no copies.
    pub(super) fn synced(&self) -> Option<(bool, &'static str, String)> {
        let Self {
            copies,
            applied,
            failing,
            errors,
            ..
        } = self;
        if *copies == 0 {
            return None;
        }
        Some(match errors.first().filter(|_| *failing > 0) {
            Some(first) => {
                let message = format!("{failing} of {copies} cannot be applied: {first}");
                (false, reason::FAILING, message)
            }
            None if applied == copies => (
                true,
                reason::APPLIED,
                format!("all {copies} are on their clusters"),
            ),
            None => (false, reason::APPLYING, "on the way to their clusters".to_owned()),
        })
    }
}

/// A sentence that no API serves a kind, with the kind that may be meant.
fn unserved(kind: &KindName, near: Option<&KindName>) -> String {
    let meant = near
        .map(|near| format!("; did you mean {near}?"))
        .unwrap_or_default();
    // The name is shortened, because the policy's author may have written any text.
    format!(
        "no API serves {}{meant}",
        shortened(&kind.to_string(), LONGEST_NAME)
    )
}

/// Maximum length in bytes of an unserved kind in a sentence.
const LONGEST_NAME: usize = 100;

impl ObjectIndex {
    pub(super) fn summary(&self, name: &str, policy: &PolicyView) -> SyncSummary {
        let mut summary = SyncSummary::default();
        for origin in &policy.selected {
            let Some(object) = self.objects.get(origin) else {
                continue;
            };
            if object.kind.is_run() {
                continue;
            }
            if let Some(failure) = self.object_failures.get(origin) {
                summary.fail(|| format!("{} {}", object.title(), Obstacle::Unread(failure)));
            }
            for cluster in &policy.clusters {
                summary.copies += 1;
                self.count(&mut summary, origin, object, cluster);
            }
        }
        let unsaid = summary.failing.saturating_sub(summary.errors.len());
        if unsaid > 0 {
            summary.errors.push(format!("and {unsaid} more"));
        }
        summary.warnings = self.useless_kinds(policy);
        let (errors, warnings) = self.needed_obstacles(name, policy);
        summary.errors.extend(errors);
        summary.warnings.extend(warnings);
        summary.errors.extend(self.misuse(name, policy));
        summary.is_unserved = self.is_unserved(policy);
        self.say_unreadable(policy, &mut summary);
        summary.missing_collectors = self.missing_collectors(policy);
        summary.is_unguarded = self.unguarded.contains(name);
        summary
    }

    fn count(
        &self,
        summary: &mut SyncSummary,
        origin: &OriginUid,
        object: &ObjectView,
        cluster: &ClusterName,
    ) {
        match self.arrival(origin, object, cluster) {
            Ok(true) => summary.applied += 1,
            Ok(false) => {}
            Err(obstacle) => summary.fail(|| match obstacle {
                Obstacle::Unread(_) | Obstacle::NotSent(_) => {
                    format!("{cluster}: {} {obstacle}", object.title())
                }
                _ => format!("{cluster}: {}: {obstacle}", object.title()),
            }),
        }
    }

    /// Warnings about the kinds that a policy names one by one.
    pub(super) fn useless_kinds(&self, policy: &PolicyView) -> Vec<String> {
        let named = policy.rules().named_kinds();
        let useless = named.filter_map(|(group, resource)| {
            let kind = KindName::new(group.unwrap_or_default(), resource);
            if group.is_some() && stays(&kind.group, &kind.resource) {
                Some(format!(
                    "{kind} are never sent, because they describe one cluster"
                ))
            } else if !policy.rules().sends(&kind.group, &kind.resource) {
                Some(format!("{kind}: {}", cron::stays()))
            } else {
                let catalog = self.catalog.as_ref()?;
                let is_unserved = !catalog.serves(group, resource);
                is_unserved.then(|| unserved(&kind, catalog.near(group, resource)))
            }
        });
        useless.take(MOST).collect()
    }

    /// True if a policy can select nothing, because it consists of named kinds and no API serves
    /// any of them.
    fn is_unserved(&self, policy: &PolicyView) -> bool {
        let Some(catalog) = &self.catalog else {
            return false;
        };
        let mut named = policy.rules().named_kinds();
        policy.rules().names_kinds_only() && !named.any(|(group, resource)| catalog.serves(group, resource))
    }

    /// Reports the kinds that may not be read. This is an error if the policy names the kind or asks
    /// for it as a dependency, and otherwise only a warning, because a policy for all kinds selects
    /// many that nobody means.
    fn say_unreadable(&self, policy: &PolicyView, summary: &mut SyncSummary) {
        let selectable = self.unreadable.iter();
        let rules = policy.rules();
        let (named, others): (Vec<_>, Vec<_>) = selectable
            .filter(|(kind, _)| policy.concerns(kind))
            .partition(|(kind, _)| needs::sends(rules.asked, kind) || rules.names_resource(&kind.resource));
        let sentences = named.iter().take(MOST);
        summary
            .errors
            .extend(sentences.map(|(kind, message)| format!("{kind} cannot be watched: {message}")));
        if let Some((first, _)) = others.first() {
            let count = others.len();
            summary.warnings.push(format!(
                "the controller may not read {count} kinds, such as {first}, so no object of these kinds is selected; name the \
                 kinds that the policy needs, or see objects.rules of the chart"
            ));
        }
    }
}
