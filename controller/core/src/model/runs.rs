//! The policy annotation [`names::RUNS_ANNOTATION`]: the clusters on which a selected Workflow runs.

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

#[cfg(test)]
mod tests {
    use super::*;

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
