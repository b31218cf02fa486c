//! Lost clusters: what a policy asks for with [`names::ON_LOST_ANNOTATION`], and the fence that keeps a lost cluster from
//! starting what starts elsewhere.
//!
//! Without a policy that asks, nothing starts elsewhere, because nobody can tell a cluster that is cut off from one that is
//! dead. With one, a run that has begun on the lost cluster may overlap with its rerun: this is at-least-once. What has not
//! begun there does not begin any more. Not here: when the controller does what (`hub::lost`).

use std::collections::BTreeMap;

use argosy_api::names;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::Failure;

/// How long after the end of its lease a cluster counts as lost, where a policy does not say.
const DEFAULT: SignedDuration = SignedDuration::from_mins(5);

/// The shortest. A lease is renewed several times in it, so that a living agent is never fenced for long.
const SHORTEST: SignedDuration = SignedDuration::from_secs(10);

/// The grace period that a policy with these annotations asks for; `None` where it asks for no rerun.
///
/// # Errors
///
/// What is wrong with them, as a sentence for the policy's status.
pub(crate) fn asked(
    annotations: Option<&BTreeMap<String, String>>,
) -> Result<Option<SignedDuration>, String> {
    let value = |name: &str| annotations.and_then(|annotations| annotations.get(name));
    match value(names::ON_LOST_ANNOTATION).map(String::as_str) {
        None => return Ok(None),
        Some("rerun") => {}
        Some(other) => {
            return Err(format!(
                "annotation {}: {other} is not known; rerun is what there is",
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
            "annotation {}: {text} is too short; {} seconds is the least",
            names::LOST_AFTER_ANNOTATION,
            SHORTEST.as_secs()
        ));
    }
    Ok(Some(grace))
}

/// The grace period that the agent of a ManifestWork is told, if any.
pub(crate) fn told(work: &ObjectMeta) -> Option<SignedDuration> {
    let text = work.annotations.as_ref()?.get(names::LOST_AFTER_ANNOTATION)?;
    text.parse().ok().map(SignedDuration::from_secs)
}

/// What must hold in the moment in which an agent creates an object whose Workflow may be started elsewhere once the cluster
/// is lost.
///
/// The controller asks for the attempt to be withdrawn, then reads the lease, and moves on only if that was last renewed
/// longer ago than `lost_after` and the duration of a lease. So the agent takes the time of its last renewal *before* it makes sure that
/// nobody has asked, and creates only while that renewal is younger than `lost_after`: either it sees that it is asked, or its
/// request is on its way for longer than a lease lasts when the controller moves on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The version of the ManifestWork that the creation was decided on; any other one may say something else.
    pub resource_version: String,
    /// How old the renewal may be.
    pub lost_after: SignedDuration,
}

impl Fence {
    /// Whether the object may be created now. `version` is that of the ManifestWork as it was read, `None` where there is none;
    /// `age` is how long ago the last renewal began that was known to have succeeded before that, `None` where none was.
    ///
    /// # Errors
    ///
    /// [`Failure::Conflict`] for another version, [`Failure::Fenced`] for a renewal that is too old.
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
