//! The finding of a check, its output, and the exit code of all findings. Pure.

use argosy_core::Failure;
use schemars::JsonSchema;
use serde::Serialize;

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    /// The check passed.
    Ok,
    /// The check passed, but something is not as it should be.
    Warning,
    /// The check failed.
    Failed,
    /// The check was skipped: it does not apply, or got no answer.
    Skipped,
}

/// The judgment of a check.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Judgment {
    /// Outcome of the check.
    pub(super) outcome: Outcome,
    /// Reason, in one line.
    pub(super) message: String,
    /// Fix, in one line; absent if there is nothing to fix.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) fix: String,
    /// True if there was no answer, or not for this user; otherwise absent.
    #[serde(rename = "couldNotBeAsked", skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_unasked: bool,
}

impl Judgment {
    fn new(outcome: Outcome, message: impl Into<String>, fix: impl Into<String>) -> Self {
        let in_one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            outcome,
            message: in_one_line(message.into()),
            fix: in_one_line(fix.into()),
            is_unasked: false,
        }
    }

    /// The check passed.
    pub(super) fn ok(message: impl Into<String>) -> Self {
        Self::new(Outcome::Ok, message, "")
    }

    /// The check passed, but something is not as it should be.
    pub(super) fn warning(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(Outcome::Warning, message, fix)
    }

    /// The check failed.
    pub(super) fn failed(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(Outcome::Failed, message, fix)
    }

    /// The check does not apply.
    pub(super) fn skipped(message: impl Into<String>) -> Self {
        Self::new(Outcome::Skipped, message, "")
    }

    /// The check got no answer.
    pub(super) fn unasked(what: &str, failure: &Failure) -> Self {
        let fix = match failure {
            Failure::Refused(_) => "use the kubeconfig of a user with this permission",
            _ => "check that the API server works, and try again",
        };
        Self::new(Outcome::Skipped, format!("cannot {what}: {failure}"), fix).unanswered()
    }

    /// Marks the judgment as one without an answer.
    pub(super) fn unanswered(self) -> Self {
        Self {
            is_unasked: true,
            ..self
        }
    }
}

/// A judgment and its subject.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Finding {
    /// Name of the check.
    pub(super) check: &'static str,
    /// The checked cluster; absent for the control cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<String>,
    /// The judgment.
    #[serde(flatten)]
    pub(super) judgment: Judgment,
}

impl Finding {
    /// Formats the finding as one line, and the fix as another.
    pub(super) fn lines(&self) -> String {
        let mark = match self.judgment.outcome {
            Outcome::Ok => "ok",
            Outcome::Warning => "warning",
            Outcome::Failed => "failed",
            Outcome::Skipped => "skipped",
        };
        let link = match &self.cluster {
            Some(cluster) => format!("{cluster}/{}", self.check),
            None => self.check.to_owned(),
        };
        let Judgment { message, fix, .. } = &self.judgment;
        let text = format!("{mark:<8} {link:<24} {message}\n");
        if fix.is_empty() {
            text
        } else {
            format!("{text}{:<8} {:<24} -> {fix}\n", "", "")
        }
    }
}

/// Formats the last line: the number of findings per outcome.
pub(super) fn summary(findings: &[Finding]) -> String {
    let count = |outcome| {
        findings
            .iter()
            .filter(|found| found.judgment.outcome == outcome)
            .count()
    };
    format!(
        "{} ok, {} warnings, {} failed, {} skipped\n",
        count(Outcome::Ok),
        count(Outcome::Warning),
        count(Outcome::Failed),
        count(Outcome::Skipped)
    )
}

/// Returns 1 if a check failed, else 2 if one got no answer, else 0.
pub(super) fn exit_code(findings: &[Finding]) -> u8 {
    let has = |test: fn(&Judgment) -> bool| findings.iter().any(|found| test(&found.judgment));
    if has(|judgment| judgment.outcome == Outcome::Failed) {
        1
    } else if has(|judgment| judgment.is_unasked) {
        2
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(judgment: Judgment) -> Finding {
        Finding {
            check: "webhook",
            cluster: None,
            judgment,
        }
    }

    #[test]
    fn a_finding_is_a_line_and_what_to_do_another() {
        let mut finding = found(Judgment::ok("registered"));
        assert_eq!(finding.lines(), "ok       webhook                  registered\n");
        finding.cluster = Some("cluster1".to_owned());
        finding.judgment = Judgment::failed("it is\n  away", "bring it back");
        assert_eq!(
            finding.lines(),
            "failed   cluster1/webhook         it is away\n                                  -> bring it back\n"
        );
        let expected = json!({ "check": "webhook", "cluster": "cluster1", "outcome": "failed", "message": "it is away", "fix": "bring it back" });
        assert_eq!(serde_json::to_value(&finding).unwrap(), expected);
    }

    #[test]
    fn a_failure_counts_more_than_silence_and_a_warning_not_at_all() {
        let ok = found(Judgment::ok("fine"));
        let warning = found(Judgment::warning("odd", ""));
        let skipped = found(Judgment::skipped("not here"));
        let refused = Failure::Refused("forbidden".to_owned());
        let unasked = found(Judgment::unasked("list Secrets", &refused));
        let failed = found(Judgment::failed("broken", ""));
        for (findings, code) in [
            (vec![], 0),
            (vec![ok.clone(), warning.clone(), skipped.clone()], 0),
            (vec![ok.clone(), unasked.clone()], 2),
            (vec![failed.clone(), unasked.clone(), warning.clone()], 1),
        ] {
            assert_eq!(exit_code(&findings), code, "{findings:?}");
        }
        assert_eq!(unasked.judgment.message, "cannot list Secrets: forbidden");
        assert_eq!(
            summary(&[ok, warning, skipped, unasked, failed]),
            "1 ok, 1 warnings, 1 failed, 2 skipped\n"
        );
    }
}
