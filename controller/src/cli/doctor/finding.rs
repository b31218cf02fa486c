//! What a check has found, how that is printed, and what all findings together come to. Pure.

use argosy_core::Failure;
use serde::Serialize;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    /// The link holds.
    Ok,
    /// It holds, but not as it should.
    Warning,
    /// It does not hold.
    Failed,
    /// It was not looked at: it does not apply, or could not be asked.
    Skipped,
}

/// What a check says of one link.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Judgement {
    /// How it ended.
    pub(super) outcome: Outcome,
    /// Why, in one line.
    pub(super) message: String,
    /// What to do, in one line; empty where nothing is to be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) mend: String,
    /// Nobody answered, or not to this user.
    #[serde(rename = "couldNotBeAsked", skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_unasked: bool,
}

impl Judgement {
    fn new(outcome: Outcome, message: impl Into<String>, mend: impl Into<String>) -> Self {
        let in_one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            outcome,
            message: in_one_line(message.into()),
            mend: in_one_line(mend.into()),
            is_unasked: false,
        }
    }

    /// The link holds.
    pub(super) fn ok(message: impl Into<String>) -> Self {
        Self::new(Outcome::Ok, message, "")
    }

    /// It holds, but not as it should.
    pub(super) fn warning(message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::new(Outcome::Warning, message, mend)
    }

    /// It does not hold.
    pub(super) fn failed(message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::new(Outcome::Failed, message, mend)
    }

    /// It does not apply.
    pub(super) fn skipped(message: impl Into<String>) -> Self {
        Self::new(Outcome::Skipped, message, "")
    }

    /// It could not be asked.
    pub(super) fn unasked(what: &str, failure: &Failure) -> Self {
        let mend = match failure {
            Failure::Refused(_) => "use a kubeconfig of a user who may",
            _ => "look whether the API server is well, and try again",
        };
        Self::new(Outcome::Skipped, format!("cannot {what}: {failure}"), mend).unanswered()
    }

    /// The same, of what nobody answered.
    pub(super) fn unanswered(self) -> Self {
        Self {
            is_unasked: true,
            ..self
        }
    }
}

/// A judgement, and what it is about.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    /// Name of the check.
    pub(super) check: &'static str,
    /// Of this cluster; of the control cluster where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<String>,
    /// What it says.
    #[serde(flatten)]
    pub(super) judgement: Judgement,
}

impl Finding {
    /// A line, and another one with what to do.
    pub(super) fn lines(&self) -> String {
        let mark = match self.judgement.outcome {
            Outcome::Ok => "ok",
            Outcome::Warning => "warning",
            Outcome::Failed => "failed",
            Outcome::Skipped => "skipped",
        };
        let link = match &self.cluster {
            Some(cluster) => format!("{cluster}/{}", self.check),
            None => self.check.to_owned(),
        };
        let Judgement { message, mend, .. } = &self.judgement;
        let text = format!("{mark:<8} {link:<24} {message}\n");
        if mend.is_empty() {
            text
        } else {
            format!("{text}{:<8} {:<24} -> {mend}\n", "", "")
        }
    }
}

/// The last line: how many ended how.
pub(super) fn summary(findings: &[Finding]) -> String {
    let count = |outcome| {
        findings
            .iter()
            .filter(|found| found.judgement.outcome == outcome)
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

/// 1 where something failed, else 2 where something could not be asked, else 0.
pub(super) fn exit_code(findings: &[Finding]) -> u8 {
    let has = |test: fn(&Judgement) -> bool| findings.iter().any(|found| test(&found.judgement));
    if has(|judgement| judgement.outcome == Outcome::Failed) {
        1
    } else if has(|judgement| judgement.is_unasked) {
        2
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(judgement: Judgement) -> Finding {
        Finding {
            check: "webhook",
            cluster: None,
            judgement,
        }
    }

    #[test]
    fn a_finding_is_a_line_and_what_to_do_another() {
        let mut finding = found(Judgement::ok("registered"));
        assert_eq!(finding.lines(), "ok       webhook                  registered\n");
        finding.cluster = Some("cluster1".to_owned());
        finding.judgement = Judgement::failed("it is\n  away", "bring it back");
        assert_eq!(
            finding.lines(),
            "failed   cluster1/webhook         it is away\n                                  -> bring it back\n"
        );
        let expected = json!({ "check": "webhook", "cluster": "cluster1", "outcome": "failed", "message": "it is away", "mend": "bring it back" });
        assert_eq!(serde_json::to_value(&finding).unwrap(), expected);
    }

    #[test]
    fn a_failure_counts_more_than_silence_and_a_warning_not_at_all() {
        let ok = found(Judgement::ok("fine"));
        let warning = found(Judgement::warning("odd", ""));
        let skipped = found(Judgement::skipped("not here"));
        let refused = Failure::Refused("forbidden".to_owned());
        let unasked = found(Judgement::unasked("list Secrets", &refused));
        let failed = found(Judgement::failed("broken", ""));
        for (findings, code) in [
            (vec![], 0),
            (vec![ok.clone(), warning.clone(), skipped.clone()], 0),
            (vec![ok.clone(), unasked.clone()], 2),
            (vec![failed.clone(), unasked.clone(), warning.clone()], 1),
        ] {
            assert_eq!(exit_code(&findings), code, "{findings:?}");
        }
        assert_eq!(unasked.judgement.message, "cannot list Secrets: forbidden");
        assert_eq!(
            summary(&[ok, warning, skipped, unasked, failed]),
            "1 ok, 1 warnings, 1 failed, 2 skipped\n"
        );
    }
}
