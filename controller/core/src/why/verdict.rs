//! The first line of an explanation: whether the object is sent, and where; and what its user can do where it is not.

mod everywhere;
mod run;

use argosy_api::{Workflow, names};
use serde::Serialize;

use super::{
    ObjectName,
    cluster::{ClusterAnswer, Reachability},
    course::{Course, WorkState},
    labels::list,
    policy::PolicyAnswer,
};
use crate::downsync::kind::{object_stays, stays};

/// Whether an object is sent, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// How it stands.
    pub standing: Standing,
    /// The same in one sentence, with the cluster and the policy.
    pub sentence: String,
    /// What else is to be known of it, and what to do where it is not sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// How an object stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Standing {
    /// It is sent, or claimed for a cluster.
    Sent,
    /// Nothing stands in its way.
    WillBeSent,
    /// A Workflow that has ended on its cluster.
    Ended,
    /// It is not sent unless something changes.
    NotSent,
}

impl Verdict {
    /// Whether it is, was or will be sent.
    pub fn is_sent(&self) -> bool {
        self.standing != Standing::NotSent
    }

    fn new(standing: Standing, sentence: String, remarks: Vec<String>) -> Self {
        Self {
            standing,
            sentence,
            remarks,
        }
    }
}

/// What a verdict is found from.
pub(super) struct Findings<'a> {
    pub(super) object: &'a ObjectName,
    pub(super) policies: &'a [PolicyAnswer],
    pub(super) clusters: &'a [ClusterAnswer],
    pub(super) course: &'a Course,
    /// The only cluster that a Workflow may go to, where its labels say so.
    pub(super) only: Option<&'a str>,
}

impl Findings<'_> {
    /// The verdict on a Workflow, `run`, or on any other object.
    pub(super) fn verdict(&self, run: Option<&Workflow>) -> Verdict {
        let mut verdict = match (run, &self.course.claim) {
            (Some(_), Some(claim)) if claim.cluster == names::EVERY_CLUSTER => self.everywhere(claim),
            (Some(_), Some(claim)) => self.claimed(claim),
            (Some(run), None) => self.unclaimed(run),
            (None, _) => self.copied(),
        };
        if self.course.is_deleting {
            verdict.remarks.push("it is being deleted".to_owned());
        }
        verdict
    }

    /// The verdict on an object that is no Workflow: it goes to every cluster that matches.
    fn copied(&self) -> Verdict {
        let ObjectName {
            group,
            resource,
            namespace,
            name,
        } = self.object;
        if stays(group, resource) || object_stays(group, resource, namespace, name) {
            let sentence = format!("{} is never sent: every cluster has its own", self.object);
            return Verdict::new(Standing::NotSent, sentence, Vec::new());
        }
        if let Some(verdict) = self.unselected(None).or_else(|| self.unmatched()) {
            return verdict;
        }
        let clusters = self.matched();
        let work = |cluster: &str| self.course.copy(cluster).and_then(|copy| copy.work.as_ref());
        let missing: Vec<&str> = clusters
            .iter()
            .copied()
            .filter(|one| work(one).is_none())
            .collect();
        let (standing, what) = if !missing.is_empty() {
            (Standing::WillBeSent, "will be sent to")
        } else if clusters
            .iter()
            .filter_map(|one| work(one))
            .all(WorkState::is_created)
        {
            (Standing::Sent, "is on")
        } else {
            (Standing::Sent, "is sent to")
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
    fn unselected(&self, run: Option<&Workflow>) -> Option<Verdict> {
        if self.policies.iter().any(|policy| policy.selects) {
            return None;
        }
        let mut remarks = Vec::new();
        if self.policies.is_empty() {
            remarks.push("there is no BindingPolicy".to_owned());
        }
        if run.is_some_and(|run| run.spec.get("suspend") == Some(&serde_json::Value::Bool(true))) {
            remarks.push("it is suspended, so it waits".to_owned());
        }
        let left: Vec<&str> = self
            .course
            .copies
            .iter()
            .map(|copy| copy.cluster.as_str())
            .collect();
        if !left.is_empty() {
            remarks.push(format!(
                "something of it is still in the mailbox of {}",
                list(&left)
            ));
        }
        let sentence = format!("{} is not sent: no policy selects it", self.object);
        Some(Verdict::new(Standing::NotSent, sentence, remarks))
    }

    /// The verdict on an object that is selected for no cluster.
    fn unmatched(&self) -> Option<Verdict> {
        if !self.matched().is_empty() {
            return None;
        }
        let sentence = format!(
            "{} is not sent: no cluster matches (selected by {})",
            self.object,
            by(&self.policies_for(|_| true))
        );
        let none = self
            .clusters
            .is_empty()
            .then(|| "there is no ManagedCluster".to_owned());
        Some(Verdict::new(
            Standing::NotSent,
            sentence,
            none.into_iter().collect(),
        ))
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

    /// That a cluster cannot be reached.
    fn away(&self, cluster: &str) -> Option<String> {
        let known = self.clusters.iter().find(|one| one.name == cluster);
        match known.map(|known| &known.reachability) {
            None => Some(format!("there is no ManagedCluster {cluster} any more")),
            Some(Reachability::Unreachable { since, message, .. }) => {
                Some(format!("{cluster} cannot be reached since {since}: {message}"))
            }
            Some(_) => None,
        }
    }
}

/// The policies and their clauses that select an object.
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
