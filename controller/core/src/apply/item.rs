//! The next step for one manifest, and what there is to say of it. No manifest waits for another.

use argosy_api::{conditions::reason, names};
use jiff::{SignedDuration, Timestamp};

use super::{
    Application, Applier, ApplyAction, Listing, Look, ObjectKey, Obstacle, Trouble,
    catalogue::Resolution,
    desired::{Marks, marked, only_marks, without_ignored},
    drift::{applied_by, owns_object},
    naming::Naming,
    pace,
    status::is_finished,
    views::{How, Item, Object, Work},
};
use crate::{Failure, WorkName, digest::Digest};

/// What to do next about a manifest.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// A request.
    Act(Box<ApplyAction>),
    /// Nothing before then, unless something is learnt.
    Wait(Timestamp),
    /// Nothing until something is learnt.
    Rest,
}

/// What there is to say of a manifest.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// Nothing new.
    Pending,
    /// It is applied.
    Complete,
    /// It is not applied any more, because the ManifestWork is complete.
    Finished,
    /// It is not: reason and message.
    Failed(&'static str, String),
}

/// Both.
#[derive(Debug, PartialEq)]
pub(super) struct Progress {
    pub(super) step: Step,
    pub(super) verdict: Verdict,
}

/// Corrections in a row that are made at once.
const CORRECTIONS_AT_ONCE: u32 = 4;

/// How old the reading may be that an object is applied on.
const FRESH: SignedDuration = SignedDuration::from_secs(5);

impl Progress {
    fn act(action: ApplyAction) -> Self {
        Self {
            step: Step::Act(Box::new(action)),
            verdict: Verdict::Pending,
        }
    }

    fn new(step: Step, verdict: Verdict) -> Self {
        Self { step, verdict }
    }

    /// The same, where nothing new is said of what is complete as a whole.
    fn of(self, work: &Work) -> Self {
        match self.verdict {
            Verdict::Complete | Verdict::Failed(..) if work.is_complete() => {
                Self::new(self.step, Verdict::Finished)
            }
            _ => self,
        }
    }

    fn failed(step: Step, message: impl Into<String>) -> Self {
        Self::new(step, Verdict::Failed(reason::MANIFEST_FAILED, message.into()))
    }
}

impl Applier {
    /// The next step for `item` of the ManifestWork `name`.
    pub(super) fn progress(&self, name: &WorkName, work: &Work, item: &Item, now: Timestamp) -> Progress {
        let key = match self.naming(item) {
            Naming::Malformed(message) => return Progress::failed(Step::Rest, message).of(work),
            Naming::Unknown => return self.discover(item, now).of(work),
            Naming::Known(key) => key,
        };
        if !self.listings.contains_key(&key.resource) {
            return Progress::new(Step::Rest, Verdict::Pending);
        }
        if let Some(trouble) = self.troubles.get(&(name.clone(), key.clone()))
            && let Some(progress) = troubled(trouble, &key, now)
        {
            return progress;
        }
        if !self.may_tell(name, work, &key) {
            return Progress::act(look(work, &key));
        }
        if work.how(&key) == How::ReadOnly {
            return Progress::new(self.look_on(name, work, &key, now), Verdict::Complete);
        }
        if work.is_complete() || is_finished(work, item, &key) {
            return self.look_after(&key, now).of(work);
        }
        match (self.objects.get(&key), self.looks.get(&key)) {
            (Some(there), _) => self.keep(name, work, item, &key, there, now),
            (None, Some(look)) => self.make(name, work, item, &key, look, now),
            (None, None) => Progress::act(ApplyAction::look(key)),
        }
    }

    /// Whether what is on the cluster may be told: an executor is told only what it may read itself.
    pub(super) fn may_tell(&self, name: &WorkName, work: &Work, key: &ObjectKey) -> bool {
        let has_rules = !work.feedback_rules(key).is_empty() || !work.condition_rules(key).is_empty();
        let tells = has_rules || work.wants_status || work.how(key) == How::ReadOnly;
        work.executor.is_none() || !tells || self.readers.contains_key(&(name.clone(), key.clone()))
    }

    /// An object that is only looked at is read unless its watch tells of it, and always in time to ask whether the executor may
    /// still read it.
    fn look_on(&self, name: &WorkName, work: &Work, key: &ObjectKey, now: Timestamp) -> Step {
        let reading = if self.is_followed(key) {
            Step::Rest
        } else {
            self.read(key, now)
        };
        let reviewed = self.readers.get(&(name.clone(), key.clone()));
        let review_at = reviewed
            .filter(|_| work.executor.is_some())
            .map(|at| at.saturating_add(pace::REVIEW).unwrap_or(Timestamp::MAX));
        match (reading, review_at) {
            (Step::Act(_), _) => Step::Act(Box::new(look(work, key))),
            (_, Some(at)) if at <= now => Step::Act(Box::new(look(work, key))),
            (Step::Wait(read_at), Some(at)) => Step::Wait(read_at.min(at)),
            (Step::Rest, Some(at)) => Step::Wait(at),
            (step, None) => step,
        }
    }

    fn discover(&self, item: &Item, now: Timestamp) -> Progress {
        let (problem, ask_at) = match self.catalogue.resolve(&item.api, &item.kind) {
            Resolution::Unknown { problem, ask_at } => (problem, ask_at),
            Resolution::Known { .. } => (None, None),
        };
        match ask_at.filter(|at| *at > now) {
            None => Progress::act(ApplyAction::Discover(item.api.clone())),
            Some(at) => {
                let unknown = || format!("the cluster does not serve {} of {}", item.kind, item.api);
                Progress::failed(Step::Wait(at), problem.unwrap_or_else(unknown))
            }
        }
    }

    /// Reads an object that no watch tells of, less often the longer it stays the same.
    fn read(&self, key: &ObjectKey, now: Timestamp) -> Step {
        let next = self
            .looks
            .get(key)
            .map(|look| pace::READING.next(look.at, look.times));
        match next.filter(|at| *at > now) {
            Some(at) => Step::Wait(at),
            None => Step::Act(Box::new(ApplyAction::look(key.clone()))),
        }
    }

    /// An object that is complete is neither applied nor made again; what is told of it is kept up to date.
    fn look_after(&self, key: &ObjectKey, now: Timestamp) -> Progress {
        let is_known = self.objects.contains_key(key) || self.looks.contains_key(key);
        let step = match self.unwatched(key) {
            None if is_known => Step::Rest,
            _ => self.read(key, now),
        };
        Progress::new(step, Verdict::Complete)
    }

    /// Why the objects of a kind cannot be watched, if so.
    pub(super) fn unwatched(&self, key: &ObjectKey) -> Option<&str> {
        match self.listings.get(&key.resource) {
            Some(Listing::Obstructed(Obstacle::Refused(message))) => Some(message),
            _ => None,
        }
    }

    /// The object is there, and marked as this cluster's.
    fn keep(
        &self,
        name: &WorkName,
        work: &Work,
        item: &Item,
        key: &ObjectKey,
        there: &Object,
        now: Timestamp,
    ) -> Progress {
        let rest = || match self.unwatched(key) {
            Some(_) => self.read(key, now),
            None => Step::Rest,
        };
        if let Some(message) = self.foreign(name, key, there) {
            return Progress::new(rest(), Verdict::Failed(reason::FOREIGN_OBJECT, message));
        }
        if there.is_deleting {
            return Progress::failed(
                rest(),
                format!("{key} is being deleted; it is applied when it is gone"),
            );
        }
        let application = match self.application(name, work, item, key, Some(there)) {
            Ok(application) => application,
            Err(message) => return Progress::failed(rest(), message),
        };
        if self.is_as_wanted(work, item, there, &application) {
            return Progress::new(rest(), Verdict::Complete);
        }
        match self.held_back(&application, now) {
            Some(at) => Progress::new(Step::Wait(at), Verdict::Pending),
            None => Progress::act(ApplyAction::Apply(Box::new(application))),
        }
    }

    /// Until when a correction has to wait, because somebody else keeps undoing it.
    fn held_back(&self, application: &Application, now: Timestamp) -> Option<Timestamp> {
        let applied = self.applied.get(&application.key)?;
        let tries = applied.corrections.checked_sub(CORRECTIONS_AT_ONCE)?;
        let at = pace::CORRECTION.next(applied.at, tries);
        (application.is_correction && at > now).then_some(at)
    }

    /// The object is not there, or is not marked as ours.
    fn make(
        &self,
        name: &WorkName,
        work: &Work,
        item: &Item,
        key: &ObjectKey,
        look: &Look,
        now: Timestamp,
    ) -> Progress {
        let there = look.object.as_ref();
        if let Some(message) = there.and_then(|there| self.foreign(name, key, there)) {
            return Progress::new(
                self.read(key, now),
                Verdict::Failed(reason::FOREIGN_OBJECT, message),
            );
        }
        if there.is_some_and(|there| there.is_deleting) {
            let message = format!("{key} is being deleted; it is applied when it is gone");
            return Progress::failed(self.read(key, now), message);
        }
        if now.duration_since(look.at) > FRESH {
            return Progress::act(ApplyAction::look(key.clone()));
        }
        match self.application(name, work, item, key, there) {
            Ok(application) => Progress::act(ApplyAction::Apply(Box::new(application))),
            Err(message) => Progress::failed(Step::Rest, message),
        }
    }

    /// What is to be applied.
    fn application(
        &self,
        name: &WorkName,
        work: &Work,
        item: &Item,
        key: &ObjectKey,
        there: Option<&Object>,
    ) -> Result<Application, String> {
        let own = if work.object_uid.is_some() {
            names::APPLIER
        } else {
            names::WORK_AGENT
        };
        let (manager, force, ignore) = match work.how(key) {
            How::Apply {
                manager,
                force,
                ignore,
            } => (manager, force, ignore),
            How::CreateOnly | How::ReadOnly => (own, true, Default::default()),
        };
        let marks = Marks {
            cluster: self.config.cluster.as_str(),
            work: name.as_str(),
            is_adopted: there.is_some_and(|there| self.adopts(name, there, manager)),
        };
        let is_mark = there.is_some() && work.how(key) == How::CreateOnly;
        let object = match there {
            Some(there) if is_mark => only_marks(item, key, &marks, there),
            Some(there) => without_ignored(marked(item, key, &marks), ignore, there, manager)?,
            None => marked(item, key, &marks),
        };
        let is_applied =
            |there: &Object| there.digest() == Some(item.digest) && there.holder() == Some(name.as_str());
        Ok(Application {
            key: key.clone(),
            object,
            manager: manager.to_owned(),
            force,
            executor: work.executor.clone(),
            is_correction: there.is_some_and(is_applied),
            is_mark,
        })
    }

    /// Whether an object needs no write. What is created only was written once, and is nobody's business after that.
    fn is_as_wanted(&self, work: &Work, item: &Item, there: &Object, application: &Application) -> bool {
        let is_marked = there.cluster() == Some(self.config.cluster.as_str());
        if work.how(&application.key) == How::CreateOnly {
            return is_marked
                && there
                    .holder()
                    .is_some_and(|holder| is_held_from(application, holder));
        }
        // A digest of another manifest makes it no correction, so this says that digest and name of the ManifestWork are right.
        let is_current = is_marked && application.is_correction && there.digest() == Some(item.digest);
        let is_owned = applied_by(there.metadata(), &application.manager)
            .is_some_and(|owned| owns_object(owned, &application.object));
        let is_settled = self.applied.get(&application.key).is_some_and(|applied| {
            applied.resource_version == there.resource_version
                && applied.sent == Digest::of(&application.object)
        });
        (is_current && is_owned) || is_settled
    }
}

/// Reads an object in the name of the executor, if there is one.
fn look(work: &Work, key: &ObjectKey) -> ApplyAction {
    ApplyAction::Look {
        key: key.clone(),
        executor: work.executor.clone(),
    }
}

/// What becomes of a manifest whose last request failed; `None` when it is to be tried again.
fn troubled(trouble: &Trouble, key: &ObjectKey, now: Timestamp) -> Option<Progress> {
    if matches!(trouble.failure, Failure::NotFound { namespace: true, .. }) {
        return Some(Progress::act(ApplyAction::MakeNamespace {
            namespace: key.namespace.to_string(),
            key: key.clone(),
        }));
    }
    let at = pace::RETRY.next(trouble.at, trouble.tries);
    (at > now).then(|| match &trouble.failure {
        Failure::Conflict => Progress::new(Step::Wait(at), Verdict::Pending),
        failure => Progress::failed(Step::Wait(at), failure.to_string()),
    })
}

/// Whether the object that is applied is marked with the ManifestWork `holder`.
fn is_held_from(application: &Application, holder: &str) -> bool {
    let annotation = format!(
        "/metadata/annotations/{}",
        names::MANIFEST_WORK_ANNOTATION.replace('/', "~1")
    );
    application
        .object
        .pointer(&annotation)
        .and_then(serde_json::Value::as_str)
        == Some(holder)
}
