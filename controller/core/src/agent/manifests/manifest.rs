//! Decides the next step for one manifest, and its status. No manifest waits for another.

use argosy_api::{conditions::reason, names};
use jiff::{SignedDuration, Timestamp};

use super::{
    Application, ApplyAction, CachedRead, Listing, ManifestIndex, ObjectKey, Obstacle, RetryState, backoff,
    desired::{Marks, marked, only_marks},
    drift::owns_object,
    ignored::without_ignored,
    object_view::ObjectView,
    resource_status::is_finished,
    rest_mapper::Resolution,
    rest_mapping::RestMapping,
    views::{How, Item, ManifestWorkView},
};
use crate::{Failure, WorkName, index::fingerprint::Fingerprint, model::cron::is_cron};

/// The next step for a manifest.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Send a request.
    Act(Box<ApplyAction>),
    /// Do nothing until the given time, unless an input arrives.
    Wait(Timestamp),
    /// Do nothing until an input arrives.
    Rest,
}

/// The result for a manifest, from which its `Applied` condition is made.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// There is no new result yet.
    Pending,
    /// The manifest is applied.
    Complete,
    /// The manifest is not applied any more, because the ManifestWork is complete.
    Finished,
    /// The manifest could not be applied, with reason and message.
    Failed(&'static str, String),
}

/// The next step and the result for a manifest.
#[derive(Debug, PartialEq)]
pub(super) struct Progress {
    pub(super) step: Step,
    pub(super) verdict: Verdict,
}

/// The number of corrections in a row that are made without delay.
const CORRECTIONS_AT_ONCE: u32 = 4;

/// The maximum age of the read that an apply is based on.
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

    /// Turns the verdict into `Finished` if the ManifestWork is complete, so that the `Applied`
    /// condition of the manifest stays as it is.
    fn of(self, work: &ManifestWorkView) -> Self {
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

impl ManifestIndex {
    /// The next step for `item` of the ManifestWork `name`.
    pub(super) fn progress(
        &self,
        name: &WorkName,
        work: &ManifestWorkView,
        item: &Item,
        now: Timestamp,
    ) -> Progress {
        let key = match self.naming(item) {
            RestMapping::Malformed(message) => return Progress::failed(Step::Rest, message).of(work),
            RestMapping::Unknown => return self.discover(item, now).of(work),
            RestMapping::Known(key) => key,
        };
        if !self.listings.contains_key(&key.resource) {
            return Progress::new(Step::Rest, Verdict::Pending);
        }
        if let Some(trouble) = self.troubles.get(&(name.clone(), key.clone()))
            && let Some(progress) = troubled(work, trouble, &key, now)
        {
            return progress;
        }
        if !self.may_tell(name, work, &key) {
            return Progress::act(look(work, &key));
        }
        if work.how(&key) == How::ReadOnly {
            return Progress::new(self.poll(name, work, &key, now), Verdict::Complete);
        }
        if work.is_complete() || is_finished(work, item, &key) {
            return self.observe(&key, now).of(work);
        }
        match (self.objects.get(&key), self.looks.get(&key)) {
            (Some(there), _) => self.keep(name, work, item, &key, there, now),
            (None, Some(look)) => self.make(name, work, item, &key, look, now),
            (None, None) => Progress::act(ApplyAction::look(key)),
        }
    }

    /// True if the state of an object may be reported. An executor must be allowed to read the
    /// object itself.
    pub(super) fn may_tell(&self, name: &WorkName, work: &ManifestWorkView, key: &ObjectKey) -> bool {
        let has_rules = !work.feedback_rules(key).is_empty() || !work.condition_rules(key).is_empty();
        let tells = has_rules || work.wants_status || work.how(key) == How::ReadOnly;
        work.executor.is_none() || !tells || self.readers.contains_key(&(name.clone(), key.clone()))
    }

    /// Reads a read-only object if it has no watch of its own. It is also read in time to check
    /// again that the executor may read it.
    fn poll(&self, name: &WorkName, work: &ManifestWorkView, key: &ObjectKey, now: Timestamp) -> Step {
        let reading = if self.is_followed(key) {
            Step::Rest
        } else {
            self.read(key, now)
        };
        let reviewed = self.readers.get(&(name.clone(), key.clone()));
        let review_at = reviewed
            .filter(|_| work.executor.is_some())
            .map(|at| at.saturating_add(backoff::REVIEW).unwrap_or(Timestamp::MAX));
        match (reading, review_at) {
            (Step::Act(_), _) => Step::Act(Box::new(look(work, key))),
            (_, Some(at)) if at <= now => Step::Act(Box::new(look(work, key))),
            (Step::Wait(read_at), Some(at)) => Step::Wait(read_at.min(at)),
            (Step::Rest, Some(at)) => Step::Wait(at),
            (step, None) => step,
        }
    }

    fn discover(&self, item: &Item, now: Timestamp) -> Progress {
        let (problem, ask_at) = match self.catalog.resolve(&item.api, &item.kind) {
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

    /// Reads an object without a watch. The longer the object stays the same, the longer the delay.
    fn read(&self, key: &ObjectKey, now: Timestamp) -> Step {
        let next = self
            .looks
            .get(key)
            .map(|look| backoff::READING.next(look.at, look.times));
        match next.filter(|at| *at > now) {
            Some(at) => Step::Wait(at),
            None => Step::Act(Box::new(ApplyAction::look(key.clone()))),
        }
    }

    /// The step for a complete object, which is neither applied nor created again. Its reported
    /// state is kept up to date.
    fn observe(&self, key: &ObjectKey, now: Timestamp) -> Progress {
        let is_known = self.objects.contains_key(key) || self.looks.contains_key(key);
        let step = match self.unwatched(key) {
            None if is_known => Step::Rest,
            _ => self.read(key, now),
        };
        Progress::new(step, Verdict::Complete)
    }

    /// The API server's message if it does not allow the agent to watch the kind of the object.
    pub(super) fn unwatched(&self, key: &ObjectKey) -> Option<&str> {
        match self.listings.get(&key.resource) {
            Some(Listing::Obstructed(Obstacle::Refused(message))) => Some(message),
            _ => None,
        }
    }

    /// The step for an object that exists and has this cluster's label.
    fn keep(
        &self,
        name: &WorkName,
        work: &ManifestWorkView,
        item: &Item,
        key: &ObjectKey,
        there: &ObjectView,
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
                format!("{key} is being deleted; it will be applied after that"),
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

    /// The time until which a correction is delayed because somebody keeps changing the object
    /// back.
    fn held_back(&self, application: &Application, now: Timestamp) -> Option<Timestamp> {
        let applied = self.applied.get(&application.key)?;
        let tries = applied.corrections.checked_sub(CORRECTIONS_AT_ONCE)?;
        let at = backoff::CORRECTION.next(applied.at, tries);
        (application.is_correction && at > now).then_some(at)
    }

    /// The step for an object that does not exist or does not have this cluster's label.
    fn make(
        &self,
        name: &WorkName,
        work: &ManifestWorkView,
        item: &Item,
        key: &ObjectKey,
        look: &CachedRead,
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
            let message = format!("{key} is being deleted; it will be applied after that");
            return Progress::failed(self.read(key, now), message);
        }
        if now.duration_since(look.at) > FRESH {
            return Progress::act(ApplyAction::look(key.clone()));
        }
        match self.application(name, work, item, key, there) {
            Ok(application) => Progress::act(ApplyAction::Apply(Box::new(application))),
            Err(message) => Progress::failed(self.read(key, now), message),
        }
    }

    /// The apply request for a manifest.
    fn application(
        &self,
        name: &WorkName,
        work: &ManifestWorkView,
        item: &Item,
        key: &ObjectKey,
        there: Option<&ObjectView>,
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
            argo_instance: self
                .config
                .argo_instance
                .as_deref()
                .filter(|_| is_ours_to_fire(work, key)),
        };
        let is_mark = there.is_some() && work.how(key) == How::CreateOnly;
        let is_applied =
            |there: &ObjectView| there.digest() == Some(item.digest) && there.holder() == Some(name.as_str());
        let object = match there {
            Some(there) if is_mark => only_marks(item, key, &marks, there),
            Some(there) => {
                let manifest = item.manifest.value();
                let object = without_ignored(manifest, ignore, there, manager, is_applied(there))?;
                marked(object, item, key, &marks)
            }
            None => marked(item.manifest.value(), item, key, &marks),
        };
        Ok(Application {
            key: key.clone(),
            object,
            version: there
                .filter(|_| !ignore.is_empty())
                .map(|there| there.resource_version.clone()),
            manager: manager.to_owned(),
            force,
            executor: work.executor.clone(),
            is_correction: there.is_some_and(is_applied),
            is_mark,
        })
    }

    /// True if an object needs no write. With `CreateOnly`, an object is written once and left
    /// alone after that.
    fn is_as_wanted(
        &self,
        work: &ManifestWorkView,
        item: &Item,
        there: &ObjectView,
        application: &Application,
    ) -> bool {
        let is_marked = there.cluster() == Some(self.config.cluster.as_str());
        if work.how(&application.key) == How::CreateOnly {
            return is_marked
                && there
                    .holder()
                    .is_some_and(|holder| is_held_from(application, holder));
        }
        // `is_correction` is true only if both the digest and the name of the ManifestWork match.
        let is_current = is_marked && application.is_correction && there.digest() == Some(item.digest);
        let is_owned = || {
            let owned = there.applied_by(&application.manager);
            owned.is_some_and(|owned| owns_object(&owned, &application.object))
        };
        let is_settled = self.applied.get(&application.key).is_some_and(|applied| {
            applied.resource_version == there.resource_version
                && applied.sent == Fingerprint::of(&application.object)
        });
        is_settled || (is_current && is_owned())
    }
}

/// True if the object is a CronWorkflow that Argosy's controller has sent.
pub(super) fn is_ours_to_fire(work: &ManifestWorkView, key: &ObjectKey) -> bool {
    work.object_uid.is_some() && is_cron(&key.resource.api.group, &key.resource.plural)
}

/// Reads an object; the executor, if there is one, must be allowed to read it.
fn look(work: &ManifestWorkView, key: &ObjectKey) -> ApplyAction {
    ApplyAction::Look {
        key: key.clone(),
        executor: work.executor.clone(),
    }
}

/// The progress of a manifest whose last request failed. `None` if the request can be retried now.
fn troubled(
    work: &ManifestWorkView,
    trouble: &RetryState,
    key: &ObjectKey,
    now: Timestamp,
) -> Option<Progress> {
    if matches!(trouble.failure, Failure::NotFound { namespace: true, .. }) {
        return Some(Progress::act(ApplyAction::MakeNamespace {
            namespace: key.namespace.to_string(),
            key: key.clone(),
            executor: work.executor.clone(),
        }));
    }
    let at = backoff::RETRY.next(trouble.at, trouble.tries);
    (at > now).then(|| match &trouble.failure {
        Failure::Conflict => Progress::new(Step::Wait(at), Verdict::Pending),
        failure => Progress::failed(Step::Wait(at), failure.to_string()),
    })
}

/// True if the object to apply has the mark of the ManifestWork `holder`.
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
