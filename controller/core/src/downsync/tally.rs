//! What a policy's status counts: copies that are on their clusters, those that are not, and why.
//!
//! Counted anew for each look, of which there is at most one a second for each policy.

use std::collections::BTreeSet;

use argosy_api::conditions::reason;

use super::{
    Downsync, Object, Policy,
    kind::{KindName, stays},
};
use crate::{ClusterName, OriginUid};

/// Sentences that a status says; more are only counted.
const MOST: usize = 10;

/// The copies of a policy.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Objects times clusters, Workflows left out.
    pub(super) copies: usize,
    /// Those that their agents have applied.
    pub(super) applied: usize,
    failing: usize,
    /// What is wrong, at most [`MOST`] sentences and one that counts the rest.
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// The StatusCollectors that the policy names and that cannot be used; `None` where it names none.
    pub(super) missing_collectors: Option<BTreeSet<String>>,
}

impl Tally {
    fn fail(&mut self, sentence: impl FnOnce() -> String) {
        self.failing += 1;
        if self.errors.len() < MOST {
            self.errors.push(sentence());
        }
    }

    /// Whether everything is where it is to be, with reason and message; `None` where there is nothing to be anywhere.
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

impl Downsync {
    pub(super) fn tally(&self, name: &str, policy: &Policy) -> Tally {
        let mut tally = Tally::default();
        for origin in &policy.selected {
            let Some(object) = self.objects.get(origin) else {
                continue;
            };
            if object.kind.is_run() {
                continue;
            }
            if let Some(failure) = self.object_failures.get(origin) {
                tally.fail(|| format!("{} cannot be read or written here: {failure}", object.title()));
            }
            for cluster in &policy.clusters {
                tally.copies += 1;
                self.count(&mut tally, origin, object, cluster);
            }
        }
        let unsaid = tally.failing.saturating_sub(tally.errors.len());
        if unsaid > 0 {
            tally.errors.push(format!("and {unsaid} more"));
        }
        tally.errors.extend(self.misuse(name, policy));
        tally.warnings = self.useless_kinds(policy);
        self.say_unreadable(policy, &mut tally);
        tally.missing_collectors = self.missing_collectors(policy);
        tally
    }

    fn count(&self, tally: &mut Tally, origin: &OriginUid, object: &Object, cluster: &ClusterName) {
        let address = (origin.clone(), cluster.clone());
        if let Some(flaw) = &object.flaw {
            return tally.fail(|| format!("{cluster}: {} is not sent: {flaw}", object.title()));
        }
        if let Some(errors) = self.template_errors.get(&address) {
            return tally.fail(|| format!("{cluster}: {}: {}", object.title(), errors.join("; ")));
        }
        if let Some(failure) = self.send_failures.get(&address) {
            return tally.fail(|| format!("{cluster}: {}: {failure}", object.title()));
        }
        let work = self.works.get(origin).and_then(|works| works.get(cluster));
        match work.and_then(|work| work.applied.as_ref()) {
            Some(Ok(())) => tally.applied += 1,
            Some(Err(failure)) => tally.fail(|| format!("{cluster}: {}: {failure}", object.title())),
            None => {}
        }
    }

    /// What is to be said of the kinds that a policy names one by one.
    pub(super) fn useless_kinds(&self, policy: &Policy) -> Vec<String> {
        let named = policy
            .rules
            .named_kinds()
            .map(|(group, resource)| KindName::new(group, resource));
        named
            .filter_map(|kind| {
                if stays(&kind.group, &kind.resource) {
                    Some(format!(
                        "{kind} are never sent, because they describe one cluster"
                    ))
                } else if self
                    .catalogue
                    .as_ref()
                    .is_some_and(|catalogue| !catalogue.has(&kind))
                {
                    Some(format!("{kind} is no kind of this API server (yet)"))
                } else {
                    None
                }
            })
            .collect()
    }

    /// Says which kinds may not be read: an error where the policy names the kind, else no more than a hint, as a policy for all
    /// kinds selects many that nobody means.
    fn say_unreadable(&self, policy: &Policy, tally: &mut Tally) {
        let selectable = self.unreadable.iter();
        let (named, others): (Vec<_>, Vec<_>) = selectable
            .filter(|(kind, _)| policy.rules.may_select(&kind.group, &kind.resource))
            .partition(|(kind, _)| policy.rules.names_resource(&kind.resource));
        let sentences = named.iter().take(MOST);
        tally
            .errors
            .extend(sentences.map(|(kind, message)| format!("{kind} cannot be watched: {message}")));
        if let Some((first, _)) = others.first() {
            let count = others.len();
            tally.warnings.push(format!(
                "{count} kinds may not be read, such as {first}, so that nothing of them is selected; name the kinds that are meant, or see \
                 objects.rules of the chart"
            ));
        }
    }
}
