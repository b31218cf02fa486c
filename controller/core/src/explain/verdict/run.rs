//! The verdict on a Workflow that runs on one cluster.
//!
//! The outlook of an unclaimed Workflow comes from the decision itself (`hub::workflows`), so that
//! the verdict predicts the controller's next action.

use argosy_api::{Workflow, conditions::workflow as types, names, workflow};
use serde_json::Value;

use super::{Evidence, Outlook, Verdict, VerdictKind, by};
use crate::{
    explain::{
        history::{Claimed, WorkState},
        labels::list,
    },
    hub::workflows::Blocked,
    model::{
        claim::is_held_from_birth,
        hold::{PENDING, named_cluster},
        hold_label::has_hold_label,
    },
    policy::{Chosen, Unplaced},
};

/// The possible reasons why Argo has not started a Workflow that is on its cluster.
const NOT_BEGUN: &str = "none of its steps runs there yet: the cluster's Argo may wait (parallelism, a mutex), be down, or have an instanceID \
                         that the agent does not know (argoInstanceID of chart argosy-agent)";

impl Evidence<'_> {
    pub(super) fn claimed(&self, claim: &Claimed) -> Verdict {
        let (object, cluster) = (self.object, claim.cluster.as_str());
        let place = format!("{cluster} (attempt {})", claim.attempt);
        let phase = self.course.phase.as_str();
        let mut remarks = Vec::new();
        if let Some(lost) = &claim.lost {
            remarks.push(format!(
                "it is a rerun, because {lost} was lost; a run that has begun there may continue"
            ));
        }
        if let Some(parent) = &claim.run_of {
            let namespace = &object.namespace;
            remarks.push(format!("it is the run of {namespace}/{parent} on this cluster"));
        }
        let obstacle = self.obstacle(claim);
        let (standing, what) = if workflow::is_final(phase) {
            let what = format!("{object} has ended on {place}, {phase}");
            (VerdictKind::Ended, what)
        } else if claim.has_started {
            (VerdictKind::Sent, format!("{object} runs on {place}"))
        } else if obstacle.is_none() {
            (VerdictKind::Sent, format!("{object} is sent to {place}"))
        } else if self.is_in_mailbox(cluster) {
            let what = format!("{object} is sent to {place}, but has not started");
            (VerdictKind::Sent, what)
        } else {
            let what = format!("{object} is claimed for {place}, but not sent");
            (VerdictKind::NotSent, what)
        };
        remarks.extend(obstacle);
        if claim.has_started && phase == PENDING {
            remarks.push(NOT_BEGUN.to_owned());
        }
        if standing != VerdictKind::Ended {
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

    /// The obstacle that keeps a claimed Workflow from starting, as reported by the controller, or
    /// by the agent if the controller has not received its report yet.
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

    /// Returns true if the ManifestWork exists, or may exist because the mailboxes could not be
    /// read.
    fn is_in_mailbox(&self, cluster: &str) -> bool {
        let copy = self.course.copy(cluster);
        copy.is_some_and(|copy| copy.work.is_some()) || !self.course.not_read.is_empty()
    }

    pub(super) fn unclaimed(&self, run: &Workflow, outlook: &Outlook) -> Verdict {
        match outlook {
            Ok(chosen) if chosen.cluster.as_str() == names::EVERY_CLUSTER => self.everywhere_soon(),
            Ok(chosen) => self.will_be_sent(chosen),
            Err(blocked) => self.blocked(run, blocked),
        }
    }

    fn will_be_sent(&self, chosen: &Chosen) -> Verdict {
        let cluster = chosen.cluster.as_str();
        let mut remarks: Vec<String> = self.away(cluster).into_iter().collect();
        remarks.extend(chosen.reason.as_ref().map(|reason| format!("it is {reason}")));
        let former = self.course.copies.iter().filter(|copy| copy.work.is_some());
        remarks.extend(former.map(|copy| {
            format!(
                "it waits until its former ManifestWork for {} is gone",
                copy.cluster
            )
        }));
        let policies = self.policies_for(|policy| self.is_matched(cluster, policy));
        let sentence = format!("{} will be sent to {cluster}: {}", self.object, by(&policies));
        Verdict::new(VerdictKind::WillBeSent, sentence, remarks)
    }

    fn blocked(&self, run: &Workflow, blocked: &Blocked) -> Verdict {
        let names = list(&self.matched());
        let (why, remarks) = match blocked {
            Blocked::NoPolicy => return self.without_policy(Some(run)),
            Blocked::NotDispatchable { reason, message } => (format!("{reason}: {message}"), Vec::new()),
            Blocked::Leaving { message }
            | Blocked::NotStarted { message, .. }
            | Blocked::RunMissing { message, .. } => (message.clone(), Vec::new()),
            Blocked::Moving => ("its former ManifestWork is not gone yet".to_owned(), Vec::new()),
            Blocked::Unplaced(Unplaced::NoCluster) => return self.without_cluster(),
            Blocked::Unplaced(Unplaced::Cordoned) => (
                format!("every cluster that matches is cordoned: {names}"),
                Vec::new(),
            ),
            Blocked::Unplaced(Unplaced::Unreachable | Unplaced::ByLoad) => {
                let matched = self.matched().into_iter();
                let remarks = matched.filter_map(|one| self.away(one)).collect();
                (
                    format!("none of the matching clusters is reachable: {names}"),
                    remarks,
                )
            }
            Blocked::Unplaced(Unplaced::Full) => (
                format!("none of the clusters has room, and a policy wants it to wait: {names}"),
                Vec::new(),
            ),
            Blocked::Unplaced(Unplaced::Unknown) => (
                "an annotation of a policy has an unknown value".to_owned(),
                Vec::new(),
            ),
            Blocked::Unplaced(Unplaced::Unfit) => {
                let unfit = self
                    .matching()
                    .filter_map(|one| Some((&one.name, one.unfit.as_ref()?)));
                let remarks = unfit.map(|(name, unfit)| format!("{name} {unfit}")).collect();
                ("none of the reachable clusters can run it".to_owned(), remarks)
            }
            Blocked::Unplaced(Unplaced::Ambiguous) => {
                (format!("several clusters match: {names}"), self.advice())
            }
        };
        Verdict::new(
            VerdictKind::NotSent,
            format!("{} is not sent: {why}", self.object),
            remarks,
        )
    }

    /// The advice if several clusters match.
    fn advice(&self) -> Vec<String> {
        let mut advice = vec!["one run has one cluster, so it waits".to_owned()];
        let selecting = self.policies_for(|_| true);
        for policy in &selecting {
            let is_matched = |one: &&str| self.is_matched(one, &policy.name);
            let clusters: Vec<&str> = self.matched().into_iter().filter(is_matched).collect();
            if clusters.len() > 1 {
                advice.push(format!(
                    "policy {} matches {}: narrow its clusterSelectors so that only one matches",
                    policy.name,
                    list(&clusters)
                ));
            } else if let [cluster] = clusters.as_slice() {
                advice.push(format!("policy {} matches {cluster} only", policy.name));
            }
        }
        if selecting.len() > 1 {
            let change = "change the labels of the Workflow, or the policies, so that only policies for one cluster select it";
            advice.push(change.to_owned());
        }
        advice.push(format!(
            "or annotate one of the policies with {}={}: the reachable cluster with the most room is chosen",
            names::RUNS_ANNOTATION,
            names::BEST_CLUSTER
        ));
        advice.push(format!(
            "or annotate one of them with {}={}, for one run on each of these clusters",
            names::RUNS_ANNOTATION,
            names::EVERY_CLUSTER
        ));
        advice
    }
}

/// The verdict's words on a Workflow that no policy selects, and an additional remark.
pub(super) fn fate_without_policy(run: &Workflow) -> (String, Option<String>) {
    let phase = workflow::phase(run.status.as_ref());
    if workflow::is_final(phase) {
        return (format!("has ended on the control cluster, {phase}"), None);
    }
    let labels = run.metadata.labels.clone().unwrap_or_default();
    let label = names::KUBESTELLAR_CLUSTER_LABEL;
    let named = named_cluster(labels.get(label).map(String::as_str));
    let not_sent = "is not sent".to_owned();
    if is_held_from_birth(&run.metadata) {
        let named = named.map(|named| {
            format!("it names {named} ({label}) and is held until a policy selects it; if you remove the label, it is handed back suspended")
        });
        (not_sent, named)
    } else if run.spec.get("suspend") == Some(&Value::Bool(true)) {
        (not_sent, Some("it is suspended, so it waits".to_owned()))
    } else if has_hold_label(&labels) {
        (not_sent, None)
    } else {
        let named =
            named.map(|named| format!("it names {named} ({label}), but was not held when it was created"));
        ("runs on the control cluster".to_owned(), named)
    }
}

/// The remark on a claim that no policy supports any more.
fn fate(claim: &Claimed, standing: VerdictKind) -> Option<String> {
    let fate = if standing == VerdictKind::Ended {
        return None;
    } else if claim.has_started || claim.is_retry {
        "it has started, so it stays"
    } else if claim.run_of.is_some() {
        "the run belongs to this cluster, so it stays"
    } else {
        "it has not started, so it is withdrawn"
    };
    Some(fate.to_owned())
}
