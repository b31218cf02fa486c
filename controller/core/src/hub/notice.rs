//! What is worth an Event: a Workflow was dispatched, has started, has ended, cannot be sent, cannot be reached.
//!
//! Read from two versions of the WDS object, whoever wrote them. What was there when it was first listed is no news, so a
//! restart tells nothing again. Few are kept, and none holds anything up: Events are a courtesy.

use argosy_api::{
    conditions::{reason, workflow as types},
    workflow,
};
use serde_json::Value;

use super::{Hub, workflow_view::WorkflowView};
use crate::{OriginUid, WorkflowKey};

/// Notices that wait for the shell; more are forgotten.
const MOST: usize = 256;

/// Something worth an Event on a Workflow of the WDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Which Workflow.
    pub key: WorkflowKey,
    /// Its UID.
    pub uid: OriginUid,
    /// Whether the user may have to do something.
    pub is_warning: bool,
    /// One of [`reason`].
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// Condition types of which `True` is a warning; of the others, `False` is.
const WARNING_WHEN_TRUE: [&str; 2] = [types::NOT_DISPATCHABLE, types::AMBIGUOUS];

impl Hub {
    /// What has become worth an Event since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Notes what has changed from `before`, if anything was known, to `after`.
    pub(super) fn notice(&mut self, key: &WorkflowKey, before: Option<&WorkflowView>, after: &WorkflowView) {
        if !self.is_synced() {
            return;
        }
        for (is_warning, reason, message) in news(before, after) {
            if self.notices.len() >= MOST {
                return;
            }
            self.notices.push(Notice {
                key: key.clone(),
                uid: after.uid.clone(),
                is_warning,
                reason,
                message,
            });
        }
    }
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
        let message = format!("to {}, attempt {}", claim.destination(), claim.attempt);
        let was_lost = before.and_then(|view| view.claim.as_ref()?.lost.as_ref());
        news.push(match claim.lost.as_ref().filter(|lost| was_lost != Some(lost)) {
            Some(lost) => {
                let message = format!("{message}, because {lost} is lost; what had begun there may run on");
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
            let message = format!("on {}, attempt {}", claim.destination(), claim.attempt);
            news.push((false, reason::STARTED.to_owned(), message));
        }
        if workflow::is_final(is) && !workflow::is_final(was) {
            let message = format!("{is} on {}", claim.destination());
            news.push((is != "Succeeded", reason::FINISHED.to_owned(), message));
        }
    }
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

/// What a condition of ours warns of, its reason being the first word of its message.
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
