//! The requests of the pods of a cluster: how much is left for runs, and how much runs use.
//!
//! Each pod is reduced to its node, its owner and its requests as soon as it arrives. Pods of runs that
//! this agent has created are told apart from all others, also from those of other Workflows. Not here:
//! the requests of one pod (`model::demand`), and the claim that tells the sums (`model::room`).

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Pod;

use super::{pods::owner, workflows::ObservedObject};
use crate::{
    Change,
    index::interner::Interner,
    model::{amounts::Amounts, demand::pod_requests, room::Usage},
};

/// A UID as a number (RFC 9562), to save memory. API servers create no others.
type Uid = u128;

fn uid(text: Option<&str>) -> Option<Uid> {
    let digits: String = text?.split('-').collect();
    Uid::from_str_radix(&digits, 16).ok()
}

/// A pod as it was received.
#[derive(Clone, Debug)]
pub struct ObservedPod {
    uid: Option<Uid>,
    owner: Option<Uid>,
    node: Option<String>,
    requests: Amounts,
}

impl From<Pod> for ObservedPod {
    fn from(pod: Pod) -> Self {
        let owner = owner(&pod.metadata).and_then(|(_, owner)| uid(Some(owner)));
        let spec = pod.spec.unwrap_or_default();
        Self {
            uid: uid(pod.metadata.uid.as_deref()),
            owner,
            requests: pod_requests(&spec),
            node: spec.node_name.filter(|node| !node.is_empty()),
        }
    }
}

/// A pod that is counted.
#[derive(Debug)]
struct Counted {
    /// The Workflow that owns it.
    owner: Option<Uid>,
    /// `None` until it is scheduled.
    node: Option<Arc<String>>,
    requests: Arc<Amounts>,
}

/// All unfinished pods of a cluster that request something.
#[derive(Debug)]
pub struct PodTally {
    pods: HashMap<Uid, Counted>,
    nodes: Interner<String>,
    requests: Interner<Amounts>,
    is_listed: bool,
}

impl Default for PodTally {
    fn default() -> Self {
        Self {
            pods: HashMap::new(),
            nodes: Interner::new(),
            requests: Interner::new(),
            is_listed: false,
        }
    }
}

impl PodTally {
    /// Notes a change of the unfinished pods. A pod that has ended is deleted from them.
    pub fn learn(&mut self, change: Change<ObservedPod>) {
        match change {
            Change::Apply(pod) => self.count(*pod),
            Change::Delete(pod) => {
                if let Some(uid) = pod.uid {
                    self.pods.remove(&uid);
                }
            }
            Change::Reset(pods) => {
                self.pods = HashMap::with_capacity(pods.len());
                for pod in pods {
                    self.count(pod);
                }
                self.is_listed = true;
            }
        }
    }

    fn count(&mut self, pod: ObservedPod) {
        let Some(uid) = pod.uid else { return };
        if pod.requests.is_empty() {
            self.pods.remove(&uid);
            return;
        }
        let counted = Counted {
            owner: pod.owner,
            node: pod.node.map(|node| self.nodes.share(node)),
            requests: self.requests.share(pod.requests),
        };
        self.pods.insert(uid, counted);
    }

    /// The sums. `None` until the pods were listed. Pods of others on cordoned nodes take nothing,
    /// because these nodes are not a part of the cluster's size.
    pub fn usage(&self, runs: &Runs, cordoned: &BTreeSet<String>) -> Option<Usage> {
        let mut usage = Usage::default();
        for pod in self.pods.values() {
            let is_ours = pod.owner.is_some_and(|owner| runs.0.contains(&owner));
            let takes_room = |node: &Arc<String>| !cordoned.contains(node.as_str());
            if is_ours {
                usage.own.add(&pod.requests);
            } else if pod.node.as_ref().is_some_and(takes_room) {
                usage.foreign.add(&pod.requests);
            }
        }
        self.is_listed.then_some(usage)
    }
}

/// The UIDs of the runs that this agent has created.
#[derive(Debug, Default)]
pub struct Runs(HashSet<Uid>);

impl Runs {
    /// Notes a change of the cluster's Workflows with our labels.
    pub fn learn(&mut self, change: &Change<ObservedObject>) {
        match change {
            Change::Apply(object) => self.0.extend(uid(object.run())),
            Change::Delete(object) => {
                if let Some(uid) = uid(object.run()) {
                    self.0.remove(&uid);
                }
            }
            Change::Reset(objects) => {
                self.0 = objects.iter().filter_map(|object| uid(object.run())).collect();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use argosy_api::{Workflow, names};
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{read, with};

    fn id(number: u32) -> String {
        format!("00000000-0000-4000-8000-{number:012x}")
    }

    /// A pod that asks for CPU on a node.
    fn pod(number: u32, cpu: &str, node: &str, more: Value) -> ObservedPod {
        let pod: Pod = read(with(
            json!({
                "metadata": { "name": "p", "uid": id(number) },
                "spec": { "nodeName": node, "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] },
            }),
            more,
        ));
        pod.into()
    }

    /// The part of a pod that names its owner.
    fn of(kind: &str, api: &str, owner: u32, controls: bool) -> Value {
        let owner =
            json!({ "apiVersion": api, "kind": kind, "name": "w", "uid": id(owner), "controller": controls });
        json!({ "metadata": { "ownerReferences": [owner] } })
    }

    fn by_workflow(owner: u32) -> Value {
        of("Workflow", "argoproj.io/v1alpha1", owner, true)
    }

    fn run(number: u32, born_as: &str) -> ObservedObject {
        let run: Workflow = read(json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
            "metadata": {
                "name": "w", "namespace": "argo", "uid": id(number),
                "labels": { names::ORIGIN_UID_LABEL: "o", names::CLUSTER_LABEL: "c" },
                "annotations": { names::BORN_AS_ANNOTATION: born_as },
            },
            "spec": {},
        }));
        run.into()
    }

    fn told(tally: &PodTally, runs: &Runs) -> (String, String) {
        let usage = tally.usage(runs, &["cordoned".to_owned()].into()).unwrap();
        (usage.foreign.to_string(), usage.own.to_string())
    }

    #[test]
    fn only_scheduled_pods_of_others_and_all_pods_of_our_runs_count() {
        let mut runs = Runs::default();
        runs.learn(&Change::Reset(vec![run(101, "argo/w"), run(102, "argo/other")]));
        for (one, foreign, own) in [
            (pod(1, "2", "n", json!({})), "cpu=2", ""),
            (pod(1, "2", "", json!({})), "", ""),
            (pod(1, "2", "cordoned", json!({})), "", ""),
            (pod(1, "2", "n", by_workflow(101)), "", "cpu=2"),
            (pod(1, "2", "", by_workflow(101)), "", "cpu=2"),
            // On a node that no other pod gets, it is a part of what its run requests.
            (pod(1, "2", "cordoned", by_workflow(101)), "", "cpu=2"),
            // Of a copy of a run, of another Workflow, and of what only looks like one.
            (pod(1, "2", "n", by_workflow(102)), "cpu=2", ""),
            (pod(1, "2", "n", by_workflow(7)), "cpu=2", ""),
            (
                pod(1, "2", "n", of("Workflow", "argoproj.io/v1alpha1", 101, false)),
                "cpu=2",
                "",
            ),
            (pod(1, "2", "n", of("Job", "batch/v1", 101, true)), "cpu=2", ""),
            (pod(1, "0", "n", json!({})), "cpu=0", ""),
            (pod(1, "2", "n", json!({ "metadata": { "uid": "none" } })), "", ""),
        ] {
            let mut tally = PodTally::default();
            let shown = format!("{one:?}");
            tally.learn(Change::Reset(vec![one]));
            assert_eq!(
                told(&tally, &runs),
                (foreign.to_owned(), own.to_owned()),
                "{shown}"
            );
        }
    }

    #[test]
    fn the_sums_follow_the_pods_and_the_runs() {
        let (mut tally, mut runs) = (PodTally::default(), Runs::default());
        assert_eq!(tally.usage(&runs, &BTreeSet::new()), None, "nothing was listed");
        tally.learn(Change::Apply(Box::new(pod(9, "1", "n", json!({})))));
        assert_eq!(tally.usage(&runs, &BTreeSet::new()), None, "only some are known");
        tally.learn(Change::Reset(vec![
            pod(1, "1", "n", json!({})),
            pod(2, "500m", "m", json!({})),
            pod(3, "4", "n", by_workflow(101)),
        ]));
        let sums = |foreign: &str, own: &str| (foreign.to_owned(), own.to_owned());
        assert_eq!(told(&tally, &runs), sums("cpu=5500m", ""));
        // The pod may arrive before its run.
        runs.learn(&Change::Apply(Box::new(run(101, "argo/w"))));
        assert_eq!(told(&tally, &runs), sums("cpu=1500m", "cpu=4"));
        // It is resized in place, and scheduled.
        tally.learn(Change::Apply(Box::new(pod(1, "3", "n", json!({})))));
        tally.learn(Change::Apply(Box::new(pod(4, "1", "", json!({})))));
        assert_eq!(told(&tally, &runs), sums("cpu=3500m", "cpu=4"));
        tally.learn(Change::Apply(Box::new(pod(4, "1", "n", json!({})))));
        assert_eq!(told(&tally, &runs), sums("cpu=4500m", "cpu=4"));
        for number in [1, 3, 8] {
            tally.learn(Change::Delete(Box::new(pod(number, "1", "n", json!({})))));
        }
        assert_eq!(told(&tally, &runs), sums("cpu=1500m", ""));
        runs.learn(&Change::Delete(Box::new(run(101, "argo/w"))));
        tally.learn(Change::Reset(vec![pod(5, "1", "n", by_workflow(101))]));
        assert_eq!(told(&tally, &runs), sums("cpu=1", ""));
    }
}
