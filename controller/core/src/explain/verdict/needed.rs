//! The verdict on an object that no policy sends and that Workflows need on their clusters.

use super::{Evidence, Verdict, VerdictKind};
use crate::explain::{
    history::{DependencyState, WorkState},
    labels::list,
};

impl Evidence<'_> {
    /// The verdict on such an object; `None` if it is sent to no cluster for the sake of Workflows.
    pub(super) fn needed(&self) -> Option<Verdict> {
        let copies = self.course.copies.iter();
        let needed: Vec<(&str, &WorkState)> = copies
            .filter_map(|copy| Some((copy.cluster.as_str(), copy.work.as_ref()?)))
            .filter(|(_, work)| work.dependency.is_some() && !work.is_deleting)
            .collect();
        if needed.is_empty() {
            return None;
        }
        let clusters: Vec<&str> = needed.iter().map(|(cluster, _)| *cluster).collect();
        let is_found = |work: &WorkState| work.dependency == Some(DependencyState::Found);
        let is_there = |work: &WorkState| work.is_created() || is_found(work);
        let obstacle = |work: &WorkState| work.obstacle().filter(|_| !is_found(work));
        let failing = needed.iter().filter(|(_, work)| obstacle(work).is_some());
        let failing: Vec<&str> = failing.map(|(cluster, _)| *cluster).collect();
        let object = &self.object;
        let (standing, sentence) = if failing.is_empty() {
            let are_there = needed.iter().all(|(_, work)| is_there(work));
            let what = if are_there { "is on" } else { "is sent to" };
            let sentence = format!("{object} {what} {}, because Workflows need it", list(&clusters));
            (VerdictKind::Sent, sentence)
        } else {
            let sentence = format!(
                "{object}, which Workflows need, cannot be applied on {}",
                list(&failing)
            );
            (VerdictKind::NotSent, sentence)
        };
        let mut remarks = Vec::new();
        for (cluster, work) in &needed {
            if is_found(work) {
                remarks.push(format!(
                    "an object of this name was on {cluster} before and is used as it is"
                ));
            }
            let obstacle = obstacle(work);
            remarks.extend(obstacle.map(|obstacle| format!("{cluster} cannot apply it: {obstacle}")));
            remarks.extend(self.away(cluster));
        }
        Some(Verdict::new(standing, sentence, remarks))
    }
}
