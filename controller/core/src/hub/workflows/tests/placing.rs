//! The placement of Workflows while policies, clusters, namespaces and labels change. It is the
//! same as if every Workflow were placed again each time, and a change examines only the objects
//! that it concerns.

mod naive;

use argosy_api::names;
use proptest::prelude::*;

use self::naive::Known;
use super::*;
use crate::{
    model::demand::Demand,
    policy::{Candidate, Labels, Loads},
    testing::{drawn, looks},
};

#[derive(Clone, Debug)]
enum Step {
    Policy(usize, Option<BindingPolicy>),
    Cluster(usize, Option<ManagedCluster>),
    Namespace(&'static str, Option<Labels>),
    Workflow(usize, Option<Labels>),
    /// A new list of each kind, without the objects that have gone since.
    List(usize, usize, usize),
}

const WORKFLOWS: [(&str, &str); 4] = [("n", "w"), ("n", "v"), ("m", "w"), ("o", "x")];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cluster = (0..4usize).prop_flat_map(|number| {
        let cluster = prop::option::weighted(0.8, drawn::cluster(&format!("c{number}")));
        cluster.prop_map(move |cluster| Step::Cluster(number, cluster))
    });
    let policy = (0..4usize, prop::option::weighted(0.8, drawn::policy()));
    let namespace = (
        prop::sample::select(vec!["n", "m"]),
        prop::option::weighted(0.8, drawn::labels()),
    );
    let workflow = (
        0..WORKFLOWS.len(),
        prop::option::weighted(0.9, drawn::own_labels()),
    );
    let step = prop_oneof![
        4 => policy.prop_map(|(number, policy)| Step::Policy(number, policy)),
        4 => cluster,
        1 => namespace.prop_map(|(name, labels)| Step::Namespace(name, labels)),
        4 => workflow.prop_map(|(number, labels)| Step::Workflow(number, labels)),
        1 => (0..6usize, 0..6usize, 0..6usize).prop_map(|(one, two, three)| Step::List(one, two, three)),
    ];
    prop::collection::vec(step, 1..30)
}

/// The index, and the objects that it should reflect.
struct Both {
    fleet: Fleet,
    known: Known,
}

impl Both {
    fn new() -> Self {
        let mut fleet = Fleet::new();
        fleet.learn(HubInput::Policy(Change::Reset(Vec::new())));
        fleet.learn(HubInput::Cluster(Change::Reset(Vec::new())));
        fleet.learn(HubInput::Namespace(Change::Reset(Vec::new())));
        Self {
            fleet,
            known: Known::default(),
        }
    }

    fn next_version(&mut self) -> String {
        self.fleet.version += 1;
        self.fleet.version.to_string()
    }

    fn workflow(&mut self, key: &WorkflowKey, labels: &Labels) -> Workflow {
        let version = self.next_version();
        read(json!({
            "metadata": {
                "namespace": *key.namespace, "name": *key.name, "uid": format!("{key}"), "labels": labels,
                "resourceVersion": version,
            },
            "spec": { "suspend": true },
        }))
    }

    fn namespace(name: &str, labels: &Labels) -> Namespace {
        read(json!({ "metadata": { "name": name, "labels": labels } }))
    }

    fn take(&mut self, step: Step) -> BTreeSet<HubKey> {
        match step {
            Step::Policy(number, policy) => {
                let name = format!("p{number}");
                let version = self.next_version();
                let change = match policy {
                    Some(mut policy) => {
                        policy.metadata.name = Some(name.clone());
                        policy.metadata.generation = version.parse().ok();
                        policy.metadata.resource_version = Some(version);
                        self.known.policies.insert(name, policy.clone());
                        Change::Apply(Box::new(policy))
                    }
                    None => match self.known.policies.remove(&name) {
                        Some(policy) => Change::Delete(Box::new(policy)),
                        None => return BTreeSet::new(),
                    },
                };
                self.fleet.learn(HubInput::Policy(change))
            }
            Step::Cluster(number, cluster) => {
                let version = self.next_version();
                let name = format!("c{number}");
                let change = match cluster {
                    Some(mut cluster) => {
                        cluster.metadata.resource_version = Some(version);
                        self.known.clusters.insert(name, cluster.clone());
                        Change::Apply(Box::new(cluster))
                    }
                    None => match self.known.clusters.remove(&name) {
                        Some(cluster) => Change::Delete(Box::new(cluster)),
                        None => return BTreeSet::new(),
                    },
                };
                self.fleet.learn(HubInput::Cluster(change))
            }
            Step::Namespace(name, labels) => {
                let change = if let Some(labels) = labels {
                    let namespace = Self::namespace(name, &labels);
                    self.known.namespaces.insert(name.to_owned(), labels);
                    Change::Apply(Box::new(namespace))
                } else {
                    self.known.namespaces.remove(name);
                    Change::Delete(Box::new(Self::namespace(name, &Labels::new())))
                };
                self.fleet.learn(HubInput::Namespace(change))
            }
            Step::Workflow(number, labels) => {
                let (namespace, name) = WORKFLOWS[number];
                let key = WorkflowKey::new(namespace, name);
                let labels_now = labels.clone().unwrap_or_default();
                let object = Box::new(self.workflow(&key, &labels_now));
                let change = match labels {
                    Some(labels) => {
                        self.known.workflows.insert(key, labels);
                        Change::Apply(object)
                    }
                    None if self.known.workflows.remove(&key).is_none() => return BTreeSet::new(),
                    None => Change::Delete(object),
                };
                self.fleet.learn(HubInput::workflow(change))
            }
            Step::List(policies, clusters, namespaces) => self.list([policies, clusters, namespaces]),
        }
    }

    /// Sends lists with at most these numbers of policies, clusters and namespaces.
    fn list(&mut self, counts: [usize; 3]) -> BTreeSet<HubKey> {
        let [policies, clusters, namespaces] = counts;
        let known = &mut self.known;
        known.policies = std::mem::take(&mut known.policies)
            .into_iter()
            .take(policies)
            .collect();
        known.clusters = std::mem::take(&mut known.clusters)
            .into_iter()
            .take(clusters)
            .collect();
        known.namespaces = std::mem::take(&mut known.namespaces)
            .into_iter()
            .take(namespaces)
            .collect();
        let policies = known.policies.values().cloned().collect();
        let clusters = known.clusters.values().cloned().collect();
        let namespaces = known.namespaces.iter();
        let namespaces = namespaces
            .map(|(name, labels)| Self::namespace(name, labels))
            .collect();
        let mut dirty = self.fleet.learn(HubInput::Policy(Change::Reset(policies)));
        dirty.extend(self.fleet.learn(HubInput::Cluster(Change::Reset(clusters))));
        dirty.extend(self.fleet.learn(HubInput::Namespace(Change::Reset(namespaces))));
        dirty
    }

    fn check(&self) {
        let hub = &self.fleet.hub;
        assert_eq!(hub.workflows.len(), self.known.workflows.len());
        let mut selected: BTreeMap<Arc<str>, BTreeSet<WorkflowKey>> = BTreeMap::new();
        for (key, view) in &hub.workflows {
            let (is, naive) = (&view.placement, self.known.place(key));
            let policies: BTreeSet<String> = is.policies().map(ToString::to_string).collect();
            assert_eq!(policies, naive.policies, "{key}");
            for policy in is.policies() {
                selected
                    .entry(Arc::clone(policy))
                    .or_default()
                    .insert(key.clone());
            }
            assert!(is.clusters().eq(naive.clusters.iter()), "{key}: {is:?} {naive:?}");
            for number in 0..4 {
                let cluster: ClusterName = format!("c{number}").as_str().into();
                assert_eq!(is.matches(&cluster), naive.clusters.contains(&cluster));
                let mut open = naive.clusters.difference(&naive.cordoned);
                let next = open.find(|other| !naive.unreachable.contains(*other) && **other != cluster);
                let next = next.filter(|_| naive.lost_after.is_some());
                let demand = Demand::unknown();
                let candidate = Candidate::new(&demand, None);
                let successor = is.successor(&cluster, hub.fleet(), &Loads::new(), candidate);
                assert_eq!(
                    successor.ok().map(|chosen| chosen.cluster).as_ref(),
                    next,
                    "{key}: {naive:?}"
                );
            }
            assert_eq!(is.choice(hub.fleet()), naive.choice(), "{key}: {naive:?}");
            let open = naive.clusters.difference(&naive.cordoned);
            assert!(is.open(hub.fleet()).eq(open), "{key}: {naive:?}");
            assert_eq!(
                (is.wants_status, is.wants_logs, is.lost_after),
                (naive.wants_status, naive.wants_logs, naive.lost_after),
                "{key}"
            );
        }
        assert_eq!(hub.selected, selected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_changes_each_workflow_is_placed_as_if_it_were_placed_anew(steps in steps()) {
        let mut both = Both::new();
        for step in steps {
            let before = both.known.place_all();
            let dirty = both.take(step);
            both.check();
            for (key, placement) in both.known.place_all() {
                let is_same = before.get(&key) == Some(&placement);
                prop_assert!(is_same || dirty.contains(&HubKey::Workflow(key.clone())), "{} is not looked at again", key);
            }
        }
    }
}

/// A fleet of `count` clusters with a policy for each of them and ten Workflows for each policy.
fn large(count: usize, annotations: &Value) -> Fleet {
    let mut fleet = Fleet::new();
    let name = |number: usize| format!("c{number:04}");
    let clusters = (0..count).map(|number| read(cluster(&name(number)))).collect();
    fleet.learn(HubInput::Cluster(Change::Reset(clusters)));
    let policies = (0..count).map(|number| {
        let policy = policy(&name(number), json!({ "name": name(number) }));
        read(with(
            policy,
            json!({ "metadata": { "annotations": annotations } }),
        ))
    });
    fleet.learn(HubInput::Policy(Change::Reset(policies.collect())));
    let workflows = (0..10 * count).map(|number| {
        let own = json!({ "metadata": { "name": format!("w{number}"), "uid": format!("u{number}"), "resourceVersion": "1" } });
        read(with(held(&name(number % count)), own))
    });
    fleet.learn(HubInput::workflow(Change::Reset(workflows.collect())));
    fleet
}

/// The number of Workflows that a change concerns, and of comparisons of a policy that it causes.
fn cost(fleet: &mut Fleet, input: HubInput) -> (usize, usize) {
    let (dirty, looks) = looks(|| fleet.learn(input));
    let is_workflow = |key: &&HubKey| matches!(key, HubKey::Workflow(_));
    (dirty.iter().filter(is_workflow).count(), looks)
}

#[test]
fn a_change_costs_what_it_concerns_beside_however_many_workflows() {
    let count = 100;
    let mut fleet = large(count, &json!({}));
    let relabeled = with(
        cluster("c0007"),
        json!({ "metadata": { "labels": { "name": "other" } } }),
    );
    let unavailable = with(
        cluster("c0007"),
        json!({ "status": { "conditions": [condition("ManagedClusterConditionAvailable", "Unknown", "LeaseExpired")] } }),
    );
    let cordoned = with(
        cluster("c0007"),
        json!({ "spec": { "taints": [{ "key": names::CORDONED_TAINT, "effect": "NoSelect" }] } }),
    );
    for (what, object, workflows, compared) in [
        ("relabeled", &relabeled, 10, count),
        ("labeled as before", &cluster("c0007"), 10, count),
        ("unreachable", &unavailable, 0, 0),
        ("reachable", &cluster("c0007"), 0, 0),
        ("cordoned", &cordoned, 10, 0),
        ("uncordoned", &cluster("c0007"), 10, 0),
    ] {
        let change = fleet.change(object.clone());
        assert_eq!(
            cost(&mut fleet, HubInput::Cluster(change)),
            (workflows, compared),
            "{what}"
        );
    }
    let pointed = policy("c0007", json!({ "name": "c0008" }));
    let change = fleet.change(with(pointed, json!({ "metadata": { "generation": 2 } })));
    // The policy is compared with every cluster and with the Workflows that have its label.
    assert_eq!(cost(&mut fleet, HubInput::Policy(change)), (10, count + 10));
    let one = with(
        held("c0007"),
        json!({ "metadata": { "name": "w7", "uid": "u7", "annotations": { "note": "mine" } } }),
    );
    let change = fleet.change(one.clone());
    assert_eq!(
        cost(&mut fleet, HubInput::workflow(change)),
        (1, 0),
        "its labels are the same"
    );
    let new = with(one, json!({ "metadata": { "name": "new", "uid": "new" } }));
    let change = fleet.change(new);
    assert_eq!(cost(&mut fleet, HubInput::workflow(change)), (1, 1));
}

#[test]
fn where_reruns_are_asked_for_a_cluster_that_is_lost_concerns_its_own_workflows() {
    let mut fleet = large(20, &json!({ names::ON_LOST_ANNOTATION: "rerun" }));
    let unavailable = with(
        cluster("c0007"),
        json!({ "status": { "conditions": [condition("ManagedClusterConditionAvailable", "Unknown", "LeaseExpired")] } }),
    );
    let change = fleet.change(unavailable);
    assert_eq!(cost(&mut fleet, HubInput::Cluster(change)), (10, 0));
}
