//! The next step for one ManifestWork: its finalizer, the record, its objects one by one, what became of them.

use jiff::Timestamp;

use super::{
    Applier, ApplyAction,
    ending::{End, earlier, hold},
    item::Step,
    status::say_unreadable,
    views::Work,
};
use crate::{Decision, WorkName};

impl Applier {
    pub(super) fn decide_key(&self, name: &WorkName, now: Timestamp) -> Decision<ApplyAction> {
        match self.works.get(name) {
            // A mailbox that has lost a ManifestWork proves nothing about its objects.
            None => Decision::rest(),
            Some(work) if work.is_deleting => self.decide_end(name, work, now),
            Some(work) if !work.is_held() => hold(work).into(),
            Some(work) => match &work.flaw {
                Some(flaw) => say_unreadable(work, flaw, now).into(),
                None => self.decide_live(name, work, now),
            },
        }
    }

    fn decide_live(&self, name: &WorkName, work: &Work, now: Timestamp) -> Decision<ApplyAction> {
        // What is complete is not changed any more, nor what it has left from before.
        let is_recorded = work.object_uid.is_none() && !work.is_complete();
        if is_recorded && let Some(action) = self.record_ahead(name, work) {
            return action.into();
        }
        let mut wake = None;
        let mut verdicts = Vec::with_capacity(work.items.len());
        for item in &work.items {
            let progress = self.progress(name, work, item, now);
            match progress.step {
                Step::Act(action) => return (*action).into(),
                Step::Wait(at) => wake = Some(earlier(wake, at)),
                Step::Rest => {}
            }
            verdicts.push(progress.verdict);
        }
        let mut left = Vec::new();
        let leftovers = if work.is_complete() {
            Vec::new()
        } else {
            self.leftovers(name, work)
        };
        for key in leftovers {
            match self.end(name, work, &key, now) {
                End::Gone => continue,
                End::Going(Step::Act(action)) => return (*action).into(),
                End::Going(Step::Wait(at)) => wake = Some(earlier(wake, at)),
                End::Going(Step::Rest) => {}
            }
            left.push(key);
        }
        let action = is_recorded
            .then(|| self.record_after(name, work, &left))
            .flatten()
            .or_else(|| self.tell(name, work, now))
            .or_else(|| self.evaluate(name, work, &verdicts, true))
            .or_else(|| self.say(name, work, &verdicts, now))
            // After what is known was said, so that an object that never rests does not keep it unsaid.
            .or_else(|| self.evaluate(name, work, &verdicts, false));
        Decision {
            action,
            recheck_at: wake,
        }
    }
}
