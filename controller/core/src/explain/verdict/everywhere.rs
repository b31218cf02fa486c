//! The verdict on a Workflow that runs on every cluster. Each of its runs has an explanation under
//! its own name.

use argosy_api::{conditions::workflow as types, workflow};

use super::{Evidence, Verdict, VerdictKind, by};
use crate::explain::{history::Claimed, labels::list};

impl Evidence<'_> {
    /// The verdict on such a Workflow that is not claimed yet, if any cluster matches.
    pub(super) fn everywhere_soon(&self) -> Verdict {
        let clusters = self.matched();
        let policies = self.policies_for(|policy| clusters.iter().any(|one| self.is_matched(one, policy)));
        let sentence = format!(
            "{} will run on every cluster that matches: {}: {}",
            self.object,
            list(&clusters),
            by(&policies)
        );
        let remarks = clusters.iter().filter_map(|one| self.away(one)).collect();
        Verdict::new(VerdictKind::WillBeSent, sentence, remarks)
    }

    /// The verdict on such a Workflow that is claimed.
    pub(super) fn everywhere(&self, claim: &Claimed) -> Verdict {
        let object = self.object;
        let mut conditions = self.course.conditions.iter();
        let told = conditions.find(|known| known.type_ == types::DISPATCHED);
        let is_refused = told.is_some_and(|told| told.status == "False");
        let phase = self.course.phase.as_str();
        let (standing, what) = if workflow::is_final(phase) {
            let what = format!("{object} has ended on every cluster, {phase}");
            (VerdictKind::Ended, what)
        } else if claim.has_started {
            (
                VerdictKind::Sent,
                format!("{object} runs on every cluster that matches"),
            )
        } else if is_refused {
            (
                VerdictKind::NotSent,
                format!("{object} is not sent to every cluster"),
            )
        } else {
            let what = format!("{object} is sent to every cluster that matches");
            (VerdictKind::Sent, what)
        };
        let clusters = self.matched();
        let policies = self.policies_for(|policy| clusters.iter().any(|one| self.is_matched(one, policy)));
        let mut remarks: Vec<String> = told.map(|told| told.message.clone()).into_iter().collect();
        remarks.push("each run is a Workflow of its own: run argosy why with the name of the run".to_owned());
        let sentence = if policies.is_empty() {
            if standing != VerdictKind::Ended {
                remarks.push("its existing runs stay".to_owned());
            }
            format!("{what}; no policy sends it to any cluster any more")
        } else {
            format!("{what}: {}", by(&policies))
        };
        Verdict::new(standing, sentence, remarks)
    }
}
