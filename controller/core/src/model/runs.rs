//! The policy annotations [`names::RUNS_ANNOTATION`] and [`names::WHEN_FULL_ANNOTATION`]: the
//! clusters on which a selected Workflow runs, and the wait for room.

use std::collections::BTreeMap;

use argosy_api::names;

/// The clusters on which a policy has Workflows run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Runs {
    /// The only one that matches.
    #[default]
    Only,
    /// The best of those that match.
    Best,
    /// Each one that matches.
    Every,
    /// The policy has an unknown value. Its Workflows wait, because they could run where its author
    /// does not want them.
    Unknown,
}

/// Reads the annotations of a policy.
///
/// # Errors
///
/// The error in the annotations, as a sentence for the policy's status.
pub(crate) fn asked(annotations: Option<&BTreeMap<String, String>>) -> Result<Runs, String> {
    match annotations.and_then(|annotations| annotations.get(names::RUNS_ANNOTATION)) {
        None => Ok(Runs::Only),
        Some(value) if value == names::EVERY_CLUSTER => Ok(Runs::Every),
        Some(value) if value == names::BEST_CLUSTER => Ok(Runs::Best),
        Some(other) => Err(format!(
            "annotation {}: {other} is not known; the values are {} and {}",
            names::RUNS_ANNOTATION,
            names::BEST_CLUSTER,
            names::EVERY_CLUSTER
        )),
    }
}

/// True if the policy wants Workflows to wait while no cluster has room.
///
/// # Errors
///
/// The error in the annotations, as a sentence for the policy's status.
pub(crate) fn waits(annotations: Option<&BTreeMap<String, String>>) -> Result<bool, String> {
    match annotations.and_then(|annotations| annotations.get(names::WHEN_FULL_ANNOTATION)) {
        None => Ok(false),
        Some(value) if value == "send" => Ok(false),
        Some(value) if value == "wait" => Ok(true),
        Some(other) => Err(format!(
            "annotation {}: {other} is not known; the values are send and wait",
            names::WHEN_FULL_ANNOTATION
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_waits_for_room_only_if_the_policy_says_so() {
        let with = |value: &str| [(names::WHEN_FULL_ANNOTATION.to_owned(), value.to_owned())].into();
        assert_eq!(waits(None), Ok(false));
        assert_eq!(waits(Some(&with("send"))), Ok(false));
        assert_eq!(waits(Some(&with("wait"))), Ok(true));
        assert!(
            waits(Some(&with("queue")))
                .unwrap_err()
                .contains("queue is not known")
        );
    }

    #[test]
    fn every_and_best_cluster_are_only_asked_for_by_those_words() {
        let asked_with = |value: &str| {
            asked(Some(
                &[(names::RUNS_ANNOTATION.to_owned(), value.to_owned())].into(),
            ))
        };
        assert_eq!(asked(None), Ok(Runs::Only));
        assert_eq!(asked_with("every-cluster"), Ok(Runs::Every));
        assert_eq!(asked_with("best-cluster"), Ok(Runs::Best));
        let problem = asked_with("everywhere").unwrap_err();
        assert!(problem.contains("everywhere is not known"), "{problem}");
    }
}
