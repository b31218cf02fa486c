//! The verdict on a Workflow that runs on every cluster: of each run, more is to be asked by its own name.

use argosy_api::{conditions::workflow as types, workflow};

use super::{Findings, Standing, Verdict, by};
use crate::why::{course::Claimed, labels::list};

impl Findings<'_> {
    pub(super) fn runs_everywhere(&self) -> bool {
        let mut policies = self.policies.iter();
        self.only.is_none() && policies.any(|policy| policy.selects && policy.runs_everywhere)
    }

    /// The verdict on one that is not claimed yet, where any cluster matches.
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
        Verdict::new(Standing::WillBeSent, sentence, remarks)
    }

    /// The verdict on one that is claimed.
    pub(super) fn everywhere(&self, claim: &Claimed) -> Verdict {
        let object = self.object;
        let mut conditions = self.course.conditions.iter();
        let told = conditions.find(|known| known.type_ == types::DISPATCHED);
        let is_refused = told.is_some_and(|told| told.status == "False");
        let phase = self.course.phase.as_str();
        let (standing, what) = if workflow::is_final(phase) {
            let what = format!("{object} has ended on every cluster, {phase}");
            (Standing::Ended, what)
        } else if claim.has_started {
            (
                Standing::Sent,
                format!("{object} runs on every cluster that matches"),
            )
        } else if is_refused {
            (
                Standing::NotSent,
                format!("{object} is not sent to every cluster"),
            )
        } else {
            let what = format!("{object} is sent to every cluster that matches");
            (Standing::Sent, what)
        };
        let clusters = self.matched();
        let policies = self.policies_for(|policy| clusters.iter().any(|one| self.is_matched(one, policy)));
        let mut remarks: Vec<String> = told.map(|told| told.message.clone()).into_iter().collect();
        remarks.push("each run is a Workflow of its own: ask for it by its name".to_owned());
        let sentence = if policies.is_empty() {
            if standing != Standing::Ended {
                remarks.push("the runs that it has stay".to_owned());
            }
            format!("{what}; no policy sends it to any cluster any more")
        } else {
            format!("{what}: {}", by(&policies))
        };
        Verdict::new(standing, sentence, remarks)
    }
}
