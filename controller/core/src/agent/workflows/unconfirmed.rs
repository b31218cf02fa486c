//! Unconfirmed objects: an object may exist, or may still be created, although the index has none.
//!
//! A request without an answer may be carried out later, because it waits in admission or behind a
//! slow etcd disk. The same is true of a request by an earlier process of this agent, which ended
//! between request and answer; this process has no record of that request. As long as such a
//! request may be carried out, no withdrawal is promised and no ManifestWork is released. After
//! that, the object is read once, because the watch may lag behind. Not here: the consequences of
//! an object's absence (`decide`).

use jiff::Timestamp;

use super::{AgentAction, AgentInput, ArgoApi, Awaited, RunIndex, Sought, views::ManifestWorkView};
use crate::{Change, Decision, OriginUid};

/// The reason why an object may exist although the index has none.
#[derive(Debug)]
pub(super) enum Unconfirmed {
    /// A creation was not answered. It may be carried out until the given time.
    Creation(Sought, Timestamp),
    /// The ManifestWork is older than this process, so an earlier process may have sent a creation.
    /// It may be carried out until the given time.
    Inherited(Sought, Timestamp),
    /// The object was in the index but missing from a list, which may be older than our own write;
    /// or the API server stopped serving the kind.
    Unlisted(Sought),
}

impl Unconfirmed {
    pub(super) fn sought(&self) -> &Sought {
        match self {
            Self::Creation(sought, _) | Self::Inherited(sought, _) | Self::Unlisted(sought) => sought,
        }
    }
}

impl RunIndex {
    /// Adds a doubt for each ManifestWork of the first list, because an earlier process of this
    /// agent may have sent its creation.
    pub(super) fn inherit(&mut self, input: &AgentInput, now: Timestamp) {
        let AgentInput::Work(Change::Reset(live)) = input else {
            return;
        };
        if self.synced.has(Awaited::Works) {
            return;
        }
        let lifetime = self.config.request_lifetime;
        let until = now.saturating_add(lifetime).unwrap_or(Timestamp::MAX);
        for seen in live {
            let origin = seen.0.origin.as_ref();
            let sought = seen.0.view.sought();
            if let Some((origin, sought)) = origin.zip(sought)
                && !seen.0.view.is_known_to_have_started()
            {
                self.unconfirmed
                    .insert(origin.clone(), Unconfirmed::Inherited(sought, until));
            }
        }
    }

    /// The time until which a creation without an answer may still be carried out, if there is one.
    pub(super) fn lands_until(&self, origin: &OriginUid, now: Timestamp) -> Option<Timestamp> {
        match self.unconfirmed.get(origin)? {
            Unconfirmed::Creation(_, until) | Unconfirmed::Inherited(_, until) => {
                Some(*until).filter(|until| now < *until)
            }
            Unconfirmed::Unlisted(_) => None,
        }
    }

    /// Confirms the absence of an object before anything is decided because of it.
    pub(super) fn decide_doubt(
        &self,
        origin: &OriginUid,
        work: Option<&ManifestWorkView>,
        now: Timestamp,
    ) -> Option<Decision<AgentAction>> {
        let attempt = work.map_or(0, |work| work.attempt);
        let is_recorded = self
            .records
            .get(origin)
            .is_some_and(|record| record.attempt >= attempt && record.outcome.is_some());
        if is_recorded {
            return None;
        }
        let doubt = self.unconfirmed.get(origin);
        if self.argo == Some(ArgoApi::Missing) {
            // An API server that has just started does not serve its custom kinds for a moment. If
            // Argo was really removed from the cluster, every object was released before that and
            // has a record.
            let is_known = doubt.is_some_and(|doubt| !matches!(doubt, Unconfirmed::Inherited(..)));
            let was_here = is_known || work.is_some_and(|work| self.was_created(origin, work));
            if was_here {
                return Some(Decision::rest());
            }
        }
        let is_asked_back = work.is_none_or(|work| work.is_deleting || work.withdraw == Some(work.attempt));
        match doubt? {
            // No read is needed: if the earlier creation was carried out, the next one finds the
            // name taken.
            Unconfirmed::Creation(..) | Unconfirmed::Inherited(..) if !is_asked_back => None,
            Unconfirmed::Inherited(..) if work.is_some_and(|work| self.was_created(origin, work)) => None,
            Unconfirmed::Creation(_, until) | Unconfirmed::Inherited(_, until) if now < *until => {
                Some(Decision::requeue_at(*until))
            }
            Unconfirmed::Inherited(..) if self.argo == Some(ArgoApi::Missing) => None,
            Unconfirmed::Creation(sought, _)
            | Unconfirmed::Inherited(sought, _)
            | Unconfirmed::Unlisted(sought) => Some(self.look(origin, sought).into()),
        }
    }

    /// Reads the object. If its UID is known, a copy that has taken its name is not its answer.
    pub(super) fn look(&self, origin: &OriginUid, sought: &Sought) -> AgentAction {
        let known = || self.run_uid(origin, sought.attempt).map(ToOwned::to_owned);
        AgentAction::Look(Sought {
            uid: sought.uid.clone().or_else(known),
            ..sought.clone()
        })
    }
}

impl ManifestWorkView {
    fn is_known_to_have_started(&self) -> bool {
        self.has_started || self.is_applied
    }

    /// The object that the attempt is created as.
    fn sought(&self) -> Option<Sought> {
        Some(Sought {
            key: self.manifest.as_ref()?.key.clone(),
            attempt: self.attempt,
            uid: None,
        })
    }
}
