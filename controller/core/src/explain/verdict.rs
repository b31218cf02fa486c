//! The first line of an explanation: the placement of the object, and advice for its user if it is
//! not sent.

mod everywhere;
mod needed;
mod run;

use argosy_api::{Workflow, conditions::workflow as types, names, workflow};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{
    ObjectName,
    cluster::{ClusterAnswer, Reachability},
    history::{History, WorkState},
    labels::list,
    policy::PolicyAnswer,
};
use crate::{
    hub::{
        objects::kind::{object_stays, stays},
        workflows::Blocked,
    },
    model::{cron::FIRES_HERE, hold::keeps_suspend},
    policy::Chosen,
};

/// The placement of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The placement in one word.
    pub standing: VerdictKind,
    /// The placement in one sentence, with the cluster and the policy.
    pub sentence: String,
    /// Additional facts, and advice if the object is not sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// The placement of an object in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum VerdictKind {
    /// The object is sent, or claimed for a cluster.
    Sent,
    /// The object will be sent; there is no obstacle.
    WillBeSent,
    /// The object is a Workflow that has ended on its cluster.
    Ended,
    /// The object is not sent unless something changes.
    NotSent,
}

impl Verdict {
    /// Returns true if the object is, was or will be sent.
    pub fn is_sent(&self) -> bool {
        self.standing != VerdictKind::NotSent
    }

    fn new(standing: VerdictKind, sentence: String, remarks: Vec<String>) -> Self {
        Self {
            standing,
            sentence,
            remarks,
        }
    }
}

/// The cluster that an unclaimed Workflow will be claimed for, or the reason why it is not.
pub(super) type Outlook = Result<Chosen, Blocked>;

/// The inputs of a verdict.
pub(super) struct Evidence<'a> {
    pub(super) object: &'a ObjectName,
    pub(super) policies: &'a [PolicyAnswer],
    pub(super) clusters: &'a [ClusterAnswer],
    pub(super) course: &'a History,
    /// The only cluster that a Workflow may be sent to, if its labels restrict it.
    pub(super) only: Option<&'a str>,
}

impl Evidence<'_> {
    /// The verdict on a Workflow with its outlook while it is not claimed, or on any other object.
    pub(super) fn verdict(&self, run: Option<(&Workflow, &Outlook)>) -> Verdict {
        let mut verdict = match (run, &self.course.claim) {
            (Some(_), Some(claim)) if claim.cluster == names::EVERY_CLUSTER => self.everywhere(claim),
            (Some(_), Some(claim)) => self.claimed(claim),
            (Some((run, outlook)), None) => self.unclaimed(run, outlook),
            (None, _) => self.copied(),
        };
        let run = run.map(|(run, _)| run);
        let suspended = self.suspended().or_else(|| self.looks_suspended(run));
        verdict.remarks.extend(suspended);
        if self.course.is_deleting {
            verdict.remarks.push("it is being deleted".to_owned());
        }
        verdict
    }

    /// The remark that the run starts no further step, and who has suspended it, from the
    /// controller's condition.
    fn suspended(&self) -> Option<String> {
        let mut conditions = self.course.conditions.iter();
        let told = conditions.find(|known| known.type_ == types::SUSPENDED && known.status == "True")?;
        let (_, by) = told.message.split_once(": ")?;
        Some(format!("it is suspended {by}"))
    }

    /// The remark that lists show the Workflow as suspended although only its manifest is.
    fn looks_suspended(&self, run: Option<&Workflow>) -> Option<String> {
        let is_kept = |run: &Workflow| is_suspended(run) && keeps_suspend(&run.metadata);
        let is_under_way = self.course.claim.is_some() && !workflow::is_final(&self.course.phase);
        (is_under_way && run.is_some_and(is_kept)).then(|| {
            "lists show it as suspended, because the tool that applies it keeps spec.suspend; its run is not suspended"
                .to_owned()
        })
    }

    /// The verdict on an object that is not a Workflow: it is sent to every cluster that matches.
    fn copied(&self) -> Verdict {
        let ObjectName {
            group,
            resource,
            namespace,
            name,
        } = self.object;
        if stays(group, resource) || object_stays(group, resource, namespace, name) {
            let sentence = format!("{} is never sent: every cluster has its own", self.object);
            return Verdict::new(VerdictKind::NotSent, sentence, Vec::new());
        }
        let unplaced = if !self.policies.iter().any(|policy| policy.selects) {
            Some(self.needed().unwrap_or_else(|| self.without_policy(None)))
        } else if self.matched().is_empty() {
            Some(self.needed().unwrap_or_else(|| self.without_cluster()))
        } else {
            None
        };
        if let Some(mut verdict) = unplaced {
            let fires =
                "it fires on the control cluster, and the Workflows that it creates are sent like any others"
                    .to_owned();
            verdict.remarks.extend(self.course.fires_here.then_some(fires));
            return verdict;
        }
        if self.course.fires_here {
            let sentence = format!("{} is not sent: {FIRES_HERE}", self.object);
            return Verdict::new(VerdictKind::NotSent, sentence, Vec::new());
        }
        let clusters = self.matched();
        let work = |cluster: &str| self.course.copy(cluster).and_then(|copy| copy.work.as_ref());
        let missing: Vec<&str> = clusters
            .iter()
            .copied()
            .filter(|one| work(one).is_none())
            .collect();
        let (standing, what) = if !missing.is_empty() {
            (VerdictKind::WillBeSent, "will be sent to")
        } else if clusters
            .iter()
            .filter_map(|one| work(one))
            .all(WorkState::is_created)
        {
            (VerdictKind::Sent, "is on")
        } else {
            (VerdictKind::Sent, "is sent to")
        };
        let mut remarks = Vec::new();
        if !missing.is_empty() && missing.len() < clusters.len() {
            remarks.push(format!("there is no ManifestWork yet for {}", list(&missing)));
        }
        for cluster in &clusters {
            let obstacle = work(cluster).and_then(WorkState::obstacle);
            remarks.extend(obstacle.map(|obstacle| format!("{cluster} cannot apply it: {obstacle}")));
            remarks.extend(self.away(cluster));
        }
        let policies = self.policies_for(|policy| clusters.iter().any(|one| self.is_matched(one, policy)));
        let sentence = format!("{} {what} {}: {}", self.object, list(&clusters), by(&policies));
        Verdict::new(standing, sentence, remarks)
    }

    /// The verdict on an object that no policy selects.
    fn without_policy(&self, run: Option<&Workflow>) -> Verdict {
        let mut remarks = Vec::new();
        if self.policies.is_empty() {
            remarks.push("there is no BindingPolicy".to_owned());
        }
        let (fate, remark) = run.map_or(("is not sent".to_owned(), None), run::fate_without_policy);
        remarks.extend(remark);
        let left: Vec<&str> = self
            .course
            .copies
            .iter()
            .map(|copy| copy.cluster.as_str())
            .collect();
        if !left.is_empty() {
            remarks.push(format!(
                "an object for it is still in the mailbox of {}",
                list(&left)
            ));
        }
        let sentence = format!("{} {fate}: no policy selects it", self.object);
        Verdict::new(VerdictKind::NotSent, sentence, remarks)
    }

    /// The verdict on a selected object for which no cluster matches.
    fn without_cluster(&self) -> Verdict {
        let sentence = format!(
            "{} is not sent: no cluster matches (selected by {})",
            self.object,
            by(&self.policies_for(|_| true))
        );
        let none = self
            .clusters
            .is_empty()
            .then(|| "there is no ManagedCluster".to_owned());
        let only = self.only.map(|only| {
            let named = self.clusters.iter().any(ClusterAnswer::is_matched);
            let others = if named { ", although they match others" } else { "" };
            format!("its labels allow {only} only, which the policies do not match{others}")
        });
        Verdict::new(
            VerdictKind::NotSent,
            sentence,
            none.into_iter().chain(only).collect(),
        )
    }

    fn matched(&self) -> Vec<&str> {
        let matched = self.matching();
        matched.map(|cluster| cluster.name.as_str()).collect()
    }

    fn matching(&self) -> impl Iterator<Item = &ClusterAnswer> {
        let matched = self.clusters.iter().filter(|cluster| cluster.is_matched());
        matched.filter(|cluster| self.only.is_none_or(|only| cluster.name == only))
    }

    fn is_matched(&self, cluster: &str, policy: &str) -> bool {
        let mut clusters = self.clusters.iter();
        clusters.any(|one| one.name == cluster && one.is_matched_by(policy))
    }

    fn policies_for(&self, is_meant: impl Fn(&str) -> bool) -> Vec<&PolicyAnswer> {
        let selecting = self.policies.iter().filter(|policy| policy.selects);
        selecting.filter(|policy| is_meant(&policy.name)).collect()
    }

    /// The remark that a cluster is unreachable.
    fn away(&self, cluster: &str) -> Option<String> {
        let known = self.clusters.iter().find(|one| one.name == cluster);
        match known.map(|known| &known.reachability) {
            None => Some(format!("there is no ManagedCluster {cluster} any more")),
            Some(Reachability::Unreachable { since, message, .. }) => {
                Some(format!("{cluster} has been unreachable since {since}: {message}"))
            }
            Some(Reachability::NotKnown) => Some(format!("{cluster} has not been reachable yet")),
            Some(Reachability::Reachable { .. }) => None,
        }
    }
}

fn is_suspended(run: &Workflow) -> bool {
    run.spec.get("suspend") == Some(&Value::Bool(true))
}

/// The policies that select an object, with their clauses, as text.
fn by(policies: &[&PolicyAnswer]) -> String {
    let clauses = |policy: &PolicyAnswer| {
        let places: Vec<String> = policy
            .selecting()
            .map(|clause| clause.index.to_string())
            .collect();
        let clauses = if places.len() == 1 { "clause" } else { "clauses" };
        format!("{clauses} {}", list(&places))
    };
    if let [policy] = policies {
        return format!("policy {}, {}", policy.name, clauses(policy));
    }
    let all: Vec<String> = policies
        .iter()
        .map(|policy| format!("{} ({})", policy.name, clauses(policy)))
        .collect();
    format!("policies {}", list(&all))
}
