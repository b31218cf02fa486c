//! Changes that deserve an Event: a Workflow was dispatched, has started, stays although it was
//! relabeled, has ended, cannot be sent, or cannot be reached.
//!
//! They are derived from two versions of the WDS object, regardless of who wrote them. Facts from
//! the first list cause no Event, so a restart repeats none. Only a limited number is kept, and
//! nothing waits for them: Events are best effort.

use argosy_api::{
    conditions::{reason, workflow as types},
    workflow,
};
use serde_json::Value;

use super::{WorkflowIndex, view::WorkflowView};
use crate::{
    ClusterName, OriginUid, WorkflowKey,
    index::text::{LONGEST_MESSAGE, shortened},
    model::hold::no_policy,
};

/// Limit on the notices that wait for the shell; further ones are dropped.
const MOST: usize = 512;

/// The places among them that only warnings take, so that thousands of Workflows that are well, in one
/// list, are not the reason that a problem is not reported.
const FOR_WARNINGS: usize = 256;

/// Something worth an Event on a Workflow of the WDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Key of the Workflow.
    pub key: WorkflowKey,
    /// Its UID.
    pub uid: OriginUid,
    /// True if the user may have to act.
    pub is_warning: bool,
    /// One of [`reason`].
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// Condition types for which `True` is a warning. For the others, `False` is.
const WARNING_WHEN_TRUE: [&str; 2] = [types::NOT_DISPATCHABLE, types::AMBIGUOUS];

impl WorkflowIndex {
    /// The notices since the last call.
    pub fn take_events(&mut self) -> Vec<EventRecord> {
        std::mem::take(&mut self.events)
    }

    /// Adds a notice that the API server refuses writes to a Workflow, because only an Event can
    /// then report it. There is one for each version of the Workflow and reason.
    pub(super) fn record_refusal(&mut self, key: &WorkflowKey, message: &str) {
        let Some(view) = self.workflows.get(key) else {
            return;
        };
        if view.refusal.as_deref() == Some(message) {
            return;
        }
        let uid = view.uid.clone();
        let sentence = format!(
            "the control cluster's API server refuses Argosy's writes to this Workflow: {}",
            shortened(message, LONGEST_MESSAGE)
        );
        let is_kept = self.keep_event(key, uid, (true, reason::REFUSED.to_owned(), sentence));
        if let Some(view) = self.workflows.get_mut(key).filter(|_| is_kept) {
            view.refusal = Some(message.into());
        }
    }

    /// Adds a notice if there is a place. Returns false if it is dropped.
    fn keep_event(&mut self, key: &WorkflowKey, uid: OriginUid, (is_warning, reason, message): News) -> bool {
        let places = if is_warning { MOST } else { MOST - FOR_WARNINGS };
        let is_kept = self.events.len() < places;
        if is_kept {
            self.events.push(EventRecord {
                key: key.clone(),
                uid,
                is_warning,
                reason,
                message,
            });
        }
        is_kept
    }

    /// Adds a notice for a Workflow that names a cluster but runs on the control cluster. No policy
    /// selects it and nothing holds it, so only an Event can report it.
    pub(super) fn record_local_end(&mut self, key: &WorkflowKey, before: Option<&WorkflowView>) {
        let Some(view) = self.workflows.get(key).filter(|_| self.is_synced()) else {
            return;
        };
        let is_known = before.is_some_and(|before| before.uid == view.uid && runs_here(before).is_some());
        let Some(named) = runs_here(view).filter(|_| !is_known) else {
            return;
        };
        let message = format!(
            "{}, and it is not held, so it runs on the control cluster",
            no_policy(named)
        );
        let uid = view.uid.clone();
        self.keep_event(key, uid, (true, reason::NO_POLICY.to_owned(), message));
    }

    /// Adds notices for the changes from `before`, if it is known, to `after`, and counts the choice of
    /// a cluster among them.
    pub(super) fn record_event(
        &mut self,
        key: &WorkflowKey,
        before: Option<&WorkflowView>,
        after: &WorkflowView,
    ) {
        if !self.is_synced() {
            return;
        }
        self.counts.count_choice(before, after);
        for news in news(before, after) {
            self.keep_event(key, after.uid.clone(), news);
        }
    }
}

/// The cluster that a Workflow names although no policy selects it and nothing keeps it from
/// running on the control cluster.
fn runs_here(view: &WorkflowView) -> Option<&str> {
    let is_free = view.claim.is_none() && view.hold().is_none() && !view.has_hold_label();
    let is_live = !view.is_final() && !view.is_deleting;
    view.asked_cluster()
        .filter(|_| is_free && is_live && !view.placement.is_selected())
}

type News = (bool, String, String);

fn news(before: Option<&WorkflowView>, after: &WorkflowView) -> Vec<News> {
    let known = |field: fn(&WorkflowView) -> &str| before.map(field).unwrap_or_default();
    let mut news = Vec::new();
    let (was, is) = (known(|view| &view.status.phase), after.status.phase.as_str());
    let attempt = |view: &WorkflowView| view.claim.as_ref().map_or(0, |claim| claim.attempt);
    if let Some(claim) = after.claim.as_ref()
        && attempt(after) > before.map_or(0, attempt)
    {
        let chosen = claim.chosen.as_ref().map(|reason| format!("; {reason}"));
        let chosen = chosen.unwrap_or_default();
        let message = format!(
            "sent to {}, attempt {}{chosen}",
            claim.destination(),
            claim.attempt
        );
        let was_lost = before.and_then(|view| view.claim.as_ref()?.lost.as_ref());
        news.push(match claim.lost.as_ref().filter(|lost| was_lost != Some(lost)) {
            Some(lost) => {
                let message =
                    format!("{message}, because {lost} is lost; a run that has begun there may continue");
                (true, reason::RERUN.to_owned(), message)
            }
            None => (false, reason::DISPATCHED.to_owned(), message),
        });
    }
    if let Some(claim) = after.claim.as_ref().filter(|_| before.is_some()) {
        let had_started = before
            .and_then(|view| view.claim.as_ref())
            .is_some_and(|claim| claim.has_started);
        if claim.has_started && !had_started {
            let message = format!("started on {}, attempt {}", claim.destination(), claim.attempt);
            news.push((false, reason::STARTED.to_owned(), message));
        }
        if workflow::is_final(is) && !workflow::is_final(was) {
            let message = format!("{is} on {}", claim.destination());
            news.push((is != "Succeeded", reason::FINISHED.to_owned(), message));
        }
    }
    news.extend(before.and_then(|before| staying(before, after)));
    let old = before.map(|view| view.status.conditions()).unwrap_or_default();
    news.extend(
        after
            .status
            .conditions()
            .iter()
            .filter(|one| !old.contains(one))
            .filter_map(warning),
    );
    news
}

/// The notice that a run stays on its cluster although its labels have changed. A changed policy or
/// cluster causes none, because it concerns many runs and was not requested by their users.
fn staying(before: &WorkflowView, after: &WorkflowView) -> Option<News> {
    let claim = after.claim.as_ref().filter(|claim| claim.has_started)?;
    let cluster = &claim.cluster;
    let is_led_away = before.placement.matches(cluster) && !after.placement.matches(cluster);
    if before.labels == after.labels || !is_led_away || workflow::is_final(&after.status.phase) {
        return None;
    }
    let mut wanted = after.placement.clusters().map(ClusterName::as_str);
    let first = wanted.next().unwrap_or("no cluster");
    let more = if wanted.next().is_some() {
        " and others"
    } else {
        ""
    };
    let message = format!(
        "it stays on {cluster}, because it has started there; its new labels select {first}{more} and apply only to a new Workflow"
    );
    Some((true, reason::STAYS.to_owned(), message))
}

/// The warning of one of our conditions. Its reason is the first word of the condition's message.
fn warning(condition: &Value) -> Option<News> {
    let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
    let bad = if WARNING_WHEN_TRUE.contains(&text("type")) {
        "True"
    } else {
        "False"
    };
    if !types::ALL.contains(&text("type")) || text("status") != bad {
        return None;
    }
    let (reason, message) = text("message").split_once(": ")?;
    Some((true, reason.to_owned(), message.to_owned()))
}
