//! Lost clusters: the policy annotation [`names::ON_LOST_ANNOTATION`], and the fence that keeps a
//! lost cluster from starting a Workflow that was started elsewhere.
//!
//! Unless a policy requests reruns, no Workflow of a lost cluster starts elsewhere, because a
//! partitioned cluster cannot be distinguished from a dead one. With such a policy, a run that has
//! begun on the lost cluster may overlap with its rerun, so the guarantee is at-least-once. A run
//! that has not begun there can no longer begin. Not here: the controller's steps and their times
//! (`hub::workflows::rerun`).

use std::collections::BTreeMap;

use argosy_api::names;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::Failure;

/// Default time after the expiry of a cluster's lease at which the cluster counts as lost.
const DEFAULT: SignedDuration = SignedDuration::from_mins(5);

/// The shortest allowed grace period. A lease is renewed several times in it, so a live agent is
/// never fenced for long.
const SHORTEST: SignedDuration = SignedDuration::from_secs(10);

/// Returns the grace period that a policy with these annotations requests, or `None` if it requests
/// no rerun.
///
/// # Errors
///
/// The error in the annotations, as a sentence for the policy's status.
pub(crate) fn asked(
    annotations: Option<&BTreeMap<String, String>>,
) -> Result<Option<SignedDuration>, String> {
    let value = |name: &str| annotations.and_then(|annotations| annotations.get(name));
    match value(names::ON_LOST_ANNOTATION).map(String::as_str) {
        None => return Ok(None),
        Some("rerun") => {}
        Some(other) => {
            return Err(format!(
                "annotation {}: {other} is not known; the only value is rerun",
                names::ON_LOST_ANNOTATION
            ));
        }
    }
    let Some(text) = value(names::LOST_AFTER_ANNOTATION) else {
        return Ok(Some(DEFAULT));
    };
    let grace: SignedDuration = text.parse().map_err(|error| {
        format!(
            "annotation {}: {text} is not a duration such as 10m: {error}",
            names::LOST_AFTER_ANNOTATION
        )
    })?;
    if grace < SHORTEST {
        return Err(format!(
            "annotation {}: {text} is too short; the minimum is {} seconds",
            names::LOST_AFTER_ANNOTATION,
            SHORTEST.as_secs()
        ));
    }
    Ok(Some(grace))
}

/// The grace period in a ManifestWork, which its agent has to respect, if there is one.
pub(crate) fn told(work: &ObjectMeta) -> Option<SignedDuration> {
    let text = work.annotations.as_ref()?.get(names::LOST_AFTER_ANNOTATION)?;
    text.parse().ok().map(SignedDuration::from_secs)
}

/// The condition under which an agent may create an object whose Workflow may be started elsewhere
/// once the cluster is lost.
///
/// The controller first requests the withdrawal of the attempt, then reads the lease. It continues
/// only if the last renewal is older than `lost_after` plus the duration of a lease. The agent
/// therefore takes the time of its last renewal *before* it verifies that no withdrawal was
/// requested, and creates the object only while that renewal is younger than `lost_after`. Either
/// the agent sees the request for withdrawal, or its create request has been under way for longer
/// than the duration of a lease when the controller continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Resource version of the ManifestWork on which the decision to create was based. Another
    /// version may ask for something else.
    pub resource_version: String,
    /// The maximum age of the last renewal.
    pub lost_after: SignedDuration,
}

impl Fence {
    /// Returns `Ok` if the object may be created now. `version` is the resource version of the
    /// ManifestWork that was just read, or `None` if there is no ManifestWork. `age` is the time
    /// since the start of the last renewal that was known to have succeeded before that read, or
    /// `None` if there was no renewal.
    ///
    /// # Errors
    ///
    /// [`Failure::Conflict`] for another version, [`Failure::Fenced`] for a renewal that is too
    /// old.
    pub fn check(&self, version: Option<&str>, age: Option<SignedDuration>) -> Result<(), Failure> {
        if version != Some(&self.resource_version) {
            return Err(Failure::Conflict);
        }
        if age.is_some_and(|age| age < self.lost_after) {
            return Ok(());
        }
        Err(Failure::Fenced(format!(
            "the lease was not renewed within {} s, so the Workflow may have been started elsewhere; waiting for a renewal",
            self.lost_after.as_secs()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_with(pairs: &[(&str, &str)]) -> Result<Option<SignedDuration>, String> {
        let annotations = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        asked(Some(&annotations.collect()))
    }

    #[test]
    fn a_rerun_is_only_asked_for_by_name() {
        let after = (names::LOST_AFTER_ANNOTATION, "10m");
        assert_eq!(asked(None), Ok(None));
        assert_eq!(asked_with(&[after]), Ok(None));
        assert_eq!(
            asked_with(&[(names::ON_LOST_ANNOTATION, "rerun")]),
            Ok(Some(DEFAULT))
        );
        assert_eq!(
            asked_with(&[(names::ON_LOST_ANNOTATION, "rerun"), after]),
            Ok(Some(SignedDuration::from_mins(10)))
        );
    }

    #[test]
    fn what_cannot_be_understood_is_said_and_asks_for_nothing() {
        let rerun = (names::ON_LOST_ANNOTATION, "rerun");
        for (pairs, what) in [
            (vec![(names::ON_LOST_ANNOTATION, "wait")], "wait is not known"),
            (
                vec![rerun, (names::LOST_AFTER_ANNOTATION, "soon")],
                "soon is not a duration",
            ),
            (
                vec![rerun, (names::LOST_AFTER_ANNOTATION, "2s")],
                "2s is too short",
            ),
        ] {
            let problem = asked_with(&pairs).unwrap_err();
            assert!(problem.contains(what), "{problem}");
        }
    }

    #[test]
    fn a_fence_asks_for_the_same_version_and_a_young_renewal() {
        let fence = Fence {
            resource_version: "7".to_owned(),
            lost_after: SignedDuration::from_mins(5),
        };
        let age = |minutes| Some(SignedDuration::from_mins(minutes));
        assert_eq!(fence.check(Some("7"), age(4)), Ok(()));
        assert_eq!(fence.check(Some("8"), age(4)), Err(Failure::Conflict));
        assert_eq!(fence.check(None, age(4)), Err(Failure::Conflict));
        for age in [None, age(5), age(6)] {
            assert!(matches!(fence.check(Some("7"), age), Err(Failure::Fenced(_))));
        }
    }
}
