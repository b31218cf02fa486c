//! The verdict on a Workflow: one run has one cluster.
//!
//! The choice of that is `placement::Placement::choice`, and the order of the reasons that of the controller (`hub::unclaimed`), so
//! that the verdict says today what the controller does next.

use argosy_api::{Workflow, conditions::workflow as types, names, workflow};

use super::{Findings, Standing, Verdict, by};
use crate::{
    hub::why_not_dispatchable,
    why::{
        cluster::ClusterAnswer,
        course::{Claimed, WorkState},
        labels::list,
    },
};

impl Findings<'_> {
    pub(super) fn claimed(&self, claim: &Claimed) -> Verdict {
        let (object, cluster) = (self.object, claim.cluster.as_str());
        let place = format!("{cluster} (attempt {})", claim.attempt);
        let phase = self.course.phase.as_str();
        let mut remarks = Vec::new();
        if let Some(lost) = &claim.lost {
            remarks.push(format!(
                "it is a rerun: {lost} was lost, where what had begun may run on"
            ));
        }
        if let Some(parent) = &claim.run_of {
            let namespace = &object.namespace;
            remarks.push(format!("it is the run of {namespace}/{parent} on this cluster"));
        }
        let obstacle = self.obstacle(claim);
        let (standing, what) = if workflow::is_final(phase) {
            let what = format!("{object} has ended on {place}, {phase}");
            (Standing::Ended, what)
        } else if claim.has_started {
            (Standing::Sent, format!("{object} runs on {place}"))
        } else if obstacle.is_none() {
            (Standing::Sent, format!("{object} is sent to {place}"))
        } else if self.is_in_mailbox(cluster) {
            let what = format!("{object} is sent to {place}, but has not started");
            (Standing::Sent, what)
        } else {
            let what = format!("{object} is claimed for {place}, but not sent");
            (Standing::NotSent, what)
        };
        remarks.extend(obstacle);
        if standing != Standing::Ended {
            remarks.extend(self.away(cluster));
        }
        let policies = self.policies_for(|policy| self.is_matched(cluster, policy));
        let sentence = if policies.is_empty() {
            remarks.extend(fate(claim, standing));
            format!("{what}; no policy sends it to {cluster} any more")
        } else {
            format!("{what}: {}", by(&policies))
        };
        Verdict::new(standing, sentence, remarks)
    }

    /// What keeps a claimed Workflow from starting, as the controller says, or the agent where the controller has not heard it yet.
    fn obstacle(&self, claim: &Claimed) -> Option<String> {
        if claim.has_started {
            return None;
        }
        let mut conditions = self.course.conditions.iter();
        let dispatched = conditions.find(|known| known.type_ == types::DISPATCHED);
        let told = dispatched.filter(|known| known.status == "False");
        let work = self
            .course
            .copy(&claim.cluster)
            .and_then(|copy| copy.work.as_ref());
        told.map(|told| told.message.clone())
            .or_else(|| work.and_then(WorkState::obstacle))
    }

    /// Whether its ManifestWork is there, or may be, because the mailboxes could not be read.
    fn is_in_mailbox(&self, cluster: &str) -> bool {
        let copy = self.course.copy(cluster);
        copy.is_some_and(|copy| copy.work.is_some()) || !self.course.not_read.is_empty()
    }

    pub(super) fn unclaimed(&self, run: &Workflow) -> Verdict {
        if let Some(verdict) = self.unselected(Some(run)) {
            return verdict;
        }
        let object = self.object;
        let not_sent = |why: String, remarks| {
            Verdict::new(Standing::NotSent, format!("{object} is not sent: {why}"), remarks)
        };
        if let Some(condition) = why_not_dispatchable(run) {
            return not_sent(condition.message, Vec::new());
        }
        if let Some(verdict) = self.unmatched() {
            return verdict;
        }
        let names = list(&self.matched());
        if self.open().next().is_none() {
            return not_sent(
                format!("every cluster that matches is cordoned: {names}"),
                Vec::new(),
            );
        }
        if self.runs_everywhere() {
            return self.everywhere_soon();
        }
        let Some(cluster) = self.choice() else {
            return if self.reruns_lost() {
                let why = format!("none of the clusters that match can be reached: {names}");
                not_sent(
                    why,
                    self.matched()
                        .into_iter()
                        .filter_map(|one| self.away(one))
                        .collect(),
                )
            } else {
                not_sent(format!("several clusters match: {names}"), self.advice())
            };
        };
        let mut remarks: Vec<String> = self.away(cluster).into_iter().collect();
        let former = self.course.copies.iter().filter(|copy| copy.work.is_some());
        remarks.extend(former.map(|copy| {
            format!(
                "it waits until its former ManifestWork for {} is gone",
                copy.cluster
            )
        }));
        let policies = self.policies_for(|policy| self.is_matched(cluster, policy));
        let sentence = format!("{object} will be sent to {cluster}: {}", by(&policies));
        Verdict::new(Standing::WillBeSent, sentence, remarks)
    }

    /// As `placement::Placement::choice`.
    fn choice(&self) -> Option<&str> {
        let mut matched = self.open();
        if self.reruns_lost() {
            return matched
                .filter(|cluster| cluster.is_reachable())
                .map(|cluster| cluster.name.as_str())
                .min();
        }
        let first = matched.next()?;
        matched.next().is_none().then_some(first.name.as_str())
    }

    /// The clusters that match and take Workflows.
    fn open(&self) -> impl Iterator<Item = &ClusterAnswer> {
        self.matching().filter(|cluster| !cluster.is_cordoned)
    }

    fn reruns_lost(&self) -> bool {
        let mut policies = self.policies.iter();
        self.only.is_none() && policies.any(|policy| policy.selects && policy.reruns_lost)
    }

    /// What to do where several clusters match.
    fn advice(&self) -> Vec<String> {
        let mut advice = vec!["one run has one cluster, so it waits".to_owned()];
        let selecting = self.policies_for(|_| true);
        for policy in &selecting {
            let is_matched = |one: &&str| self.is_matched(one, &policy.name);
            let clusters: Vec<&str> = self.matched().into_iter().filter(is_matched).collect();
            if clusters.len() > 1 {
                advice.push(format!(
                    "policy {} matches {}: narrow its clusterSelectors so that one is left",
                    policy.name,
                    list(&clusters)
                ));
            } else if let [cluster] = clusters.as_slice() {
                advice.push(format!("policy {} matches {cluster} only", policy.name));
            }
        }
        if selecting.len() > 1 {
            let change = "change the labels of the Workflow, or the policies, so that policies for one cluster select it";
            advice.push(change.to_owned());
        }
        advice.push(format!(
            "or annotate one of the policies with {}=rerun: the first cluster that can be reached is taken, and a run whose \
             cluster is lost starts anew elsewhere",
            names::ON_LOST_ANNOTATION
        ));
        advice.push(format!(
            "or with {}={}, for a run of its own on each of them",
            names::RUNS_ANNOTATION,
            names::EVERY_CLUSTER
        ));
        advice
    }
}

/// What becomes of a claim that no policy stands for any more.
fn fate(claim: &Claimed, standing: Standing) -> Option<String> {
    let fate = if standing == Standing::Ended {
        return None;
    } else if claim.has_started || claim.is_retry {
        "it has started, so it stays"
    } else if claim.run_of.is_some() {
        "it is for this cluster for good"
    } else {
        "it has not started, so it is taken back"
    };
    Some(fate.to_owned())
}
