//! Decides the next step for one ManifestWork: its finalizer, the record, each object, and the
//! status.

use jiff::Timestamp;

use super::{
    ApplyAction, ManifestIndex,
    deletion::{End, earlier, hold},
    manifest::Step,
    status::say_unreadable,
    views::ManifestWorkView,
};
use crate::{Decision, WorkName};

impl ManifestIndex {
    pub(super) fn decide_key(&self, name: &WorkName, now: Timestamp) -> Decision<ApplyAction> {
        match self.works.get(name) {
            // The mailbox may have lost the ManifestWork, so its absence is no reason to delete
            // objects.
            None => Decision::rest(),
            Some(work) if work.is_deleting => self.decide_end(name, work, now),
            Some(work) if !work.is_held() => hold(work).into(),
            Some(work) => match &work.decode_error {
                Some(decode_error) => say_unreadable(work, decode_error, now).into(),
                None => self.decide_live(name, work, now),
            },
        }
    }

    fn decide_live(&self, name: &WorkName, work: &ManifestWorkView, now: Timestamp) -> Decision<ApplyAction> {
        // After a ManifestWork is complete, nothing of it is changed, not even its leftover
        // objects.
        let is_recorded = !work.is_complete() && self.is_recorded(name, work);
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
            .or_else(|| self.write_status(name, work, &verdicts, now))
            // This comes after the status is written. Otherwise an object that changes all the time
            // would keep the status from ever being written.
            .or_else(|| self.evaluate(name, work, &verdicts, false));
        Decision {
            action,
            requeue_at: wake,
            ..Decision::rest()
        }
    }
}
