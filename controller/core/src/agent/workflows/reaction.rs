//! Detects that nobody has reacted to a change of a run or to its creation, and writes the object
//! again so that Argo processes it.
//!
//! Argo's workflow-controller puts each object that it has written into the store of its informer
//! (`INFORMER_WRITE_BACK` of Argo 3). This overwrites newer versions that the watch has delivered
//! in the meantime. A change of that time is lost to the controller until its next resync, after 20
//! minutes. Another write of the object replaces the stale entry. The store has one entry for each
//! name, so the last write of a run that was deleted may hide the next attempt in the same way.
//!
//! Any newer version counts as a reaction, except after a shutdown: that version may be the very write
//! that hides it, so only the end of the run shows that Argo has seen it. Argo has seen a new attempt
//! if its phase is not `Pending`: Argo also gives this phase to one that it then forgets.
//!
//! Not here: the changes themselves (`verbs`). An agent that restarts has no record of the time of
//! an earlier change and does not write again because of it.

use jiff::{SignedDuration, Timestamp};

use super::{AgentAction, AgentInput, RunIndex, verbs::note, views::ObjectView};
use crate::{
    Change, Decision, OriginUid,
    index::rare::Rare,
    model::{control::Applied, json_patch::JsonPatch},
};

/// Delays without a reaction before the first, the second and the third additional write. Argo
/// reacts to most changes within a second. To some it does not react at all, such as the suspension
/// of a run whose steps are still running.
const PAUSES: [SignedDuration; 3] = [
    SignedDuration::from_secs(5),
    SignedDuration::from_secs(15),
    SignedDuration::from_secs(45),
];

/// A change or creation of a run that nobody has reacted to.
#[derive(Debug)]
pub(super) struct Unnoticed {
    /// Resource version of the changed or created object.
    version: String,
    since: Timestamp,
}

/// The state of a run before an input was processed.
pub(super) struct Before {
    origin: OriginUid,
    /// `None` if the index had no object.
    applied: Option<Rare<Applied>>,
}

impl RunIndex {
    /// The present state of the run that `input` is about.
    pub(super) fn before(&self, input: &AgentInput) -> Option<Before> {
        let AgentInput::Object(Change::Apply(seen)) = input else {
            return None;
        };
        let origin = seen.0.origin.as_ref()?;
        let object = self.objects.get(origin);
        Some(Before {
            origin: origin.clone(),
            applied: object.map(|object| object.applied.clone()),
        })
    }

    /// Stores a change of a run, and forgets one that somebody has reacted to.
    pub(super) fn on_reaction(&mut self, before: Option<Before>, now: Timestamp) {
        let Some(Before { origin, applied }) = before else {
            return;
        };
        match self.objects.get(&origin) {
            Some(object) if applied.map_or(awaits_argo(object), |applied| object.applied != applied) => {
                let version = object.resource_version.clone();
                self.unnoticed.insert(origin, Unnoticed { version, since: now });
            }
            Some(object) if self.is_unnoticed(&origin, object) => {}
            Some(object) if shuts_down(object) || awaits_argo(object) => {
                let version = object.resource_version.clone();
                if let Some(change) = self.unnoticed.get_mut(&origin) {
                    change.version = version;
                }
            }
            _ => {
                self.unnoticed.remove(&origin);
            }
        }
    }

    fn is_unnoticed(&self, origin: &OriginUid, object: &ObjectView) -> bool {
        self.unnoticed
            .get(origin)
            .is_some_and(|change| change.version == object.resource_version)
    }

    /// Writes the object again if nobody has reacted to its last change.
    pub(super) fn write_again(
        &self,
        origin: &OriginUid,
        object: &ObjectView,
        now: Timestamp,
    ) -> Decision<AgentAction> {
        let again = object.applied.again;
        let pause = usize::try_from(again).ok().and_then(|times| PAUSES.get(times));
        let change = self.unnoticed.get(origin).zip(pause);
        let is_over = object.is_final || object.deleted_at.is_some() || !self.is_unnoticed(origin, object);
        let Some((change, pause)) = change.filter(|_| !is_over) else {
            return Decision::rest();
        };
        let at = change.since.saturating_add(*pause).unwrap_or(Timestamp::MAX);
        if now < at {
            return Decision::requeue_at(at);
        }
        let done = Applied {
            again: again + 1,
            ..Applied::clone(&object.applied)
        };
        AgentAction::Control {
            key: object.key.clone(),
            pods: Vec::new(),
            patch: note(JsonPatch::guarded(&object.uid, &object.resource_version), &done),
        }
        .into()
    }
}

fn shuts_down(object: &ObjectView) -> bool {
    object.applied.shutdown.is_some() && !object.is_final
}

/// True if Argo has yet to begin an attempt that follows another one. Of the first attempt there is no
/// former object, and an Argo that is busy is given no more work.
fn awaits_argo(object: &ObjectView) -> bool {
    object.attempt > 1 && !object.has_begun
}
