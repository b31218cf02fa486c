//! The cost of one change for the placement of Workflows, with ever more clusters, policies and Workflows: `cargo bench -p argosy-core`.
//!
//! Each cluster has a policy of its own, and a fourth of the policies ask for reruns; one more policy matches every cluster and selects a
//! tenth of the Workflows. Times are of learning the change alone, and the number of Workflows that it concerns is beside them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use argosy_core::{
    Change, Reconcile,
    hub::workflows::{HubConfig, HubInput, HubKey, WorkflowIndex},
};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Changes of each sort that are timed.
const ROUNDS: usize = 51;

struct Bench {
    index: WorkflowIndex,
    version: usize,
    /// As the webhook has it: a change copies what it changes.
    published: Arc<argosy_core::hub::admission::Admission>,
}

#[expect(clippy::unwrap_used, reason = "what is read was written here")]
fn read<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn cluster(number: usize, name_label: &str, status: &str, version: usize) -> Value {
    json!({
        "metadata": {
            "name": format!("c{number}"), "labels": { "name": name_label, "fleet": "all" },
            "resourceVersion": version.to_string(),
        },
        "spec": {},
        "status": { "conditions": [{
            "type": "ManagedClusterConditionAvailable", "status": status, "reason": "LeaseRenewed", "message": "",
            "lastTransitionTime": "2026-11-21T09:00:00Z",
        }] },
    })
}

fn policy(name: &str, clusters: &Value, objects: &Value, annotations: &Value, version: usize) -> Value {
    json!({
        "metadata": {
            "name": name, "uid": name, "generation": version, "resourceVersion": version.to_string(),
            "annotations": annotations,
        },
        "spec": {
            "clusterSelectors": [{ "matchLabels": clusters }],
            "downsync": [{ "resources": ["workflows"], "objectSelectors": [{ "matchLabels": objects }] }],
        },
    })
}

fn of_cluster(number: usize, version: usize) -> Value {
    let name = format!("c{number}");
    let annotations = if number.is_multiple_of(4) {
        json!({ "argosy.dev/on-lost": "rerun" })
    } else {
        json!({})
    };
    policy(
        &name,
        &json!({ "name": name }),
        &json!({ "to": name }),
        &annotations,
        version,
    )
}

fn workflow(number: usize, clusters: usize, version: usize) -> Value {
    let to = format!("c{}", number % clusters);
    let labels = if number.is_multiple_of(10) {
        json!({ "to": to, "anywhere": "true" })
    } else {
        json!({ "to": to })
    };
    json!({
        "metadata": {
            "namespace": "n", "name": format!("w{number}"), "uid": format!("w{number}"), "labels": labels,
            "resourceVersion": version.to_string(),
        },
        "spec": { "suspend": true },
    })
}

impl Bench {
    fn new(clusters: usize, workflows: usize) -> Self {
        let config = HubConfig {
            request_lifetime: argosy_core::index::reconciler::REQUEST_LIFETIME,
            report_budget: argosy_core::REPORT_BUDGET,
            workflow_budget: argosy_core::WORKFLOW_BUDGET,
            wds_name: "wds".to_owned(),
            is_guarded: true,
        };
        let mut bench = Self {
            index: WorkflowIndex::new(config),
            version: 1,
            published: Arc::default(),
        };
        let all = policy(
            "anywhere",
            &json!({ "fleet": "all" }),
            &json!({ "anywhere": "true" }),
            &json!({}),
            1,
        );
        let policies = (0..clusters).map(|number| of_cluster(number, 1)).chain([all]);
        let inventory = (0..clusters).map(|number| read(cluster(number, &format!("c{number}"), "True", 1)));
        for input in [
            HubInput::Policy(Change::Reset(policies.map(read).collect())),
            HubInput::Transform(Change::Reset(Vec::new())),
            HubInput::Namespace(Change::Reset(Vec::new())),
            HubInput::Template(Change::Reset(Vec::new())),
            HubInput::ClusterTemplate(Change::Reset(Vec::new())),
            HubInput::Cluster(Change::Reset(inventory.collect())),
            HubInput::Lease(Change::Reset(Vec::new())),
            HubInput::work(Change::Reset(Vec::new())),
            HubInput::report(Change::Reset(Vec::new())),
        ] {
            bench.take(input);
        }
        let live = (0..workflows).map(|number| read(workflow(number, clusters, 1)));
        bench.take(HubInput::workflow(Change::Reset(live.collect())));
        bench
    }

    /// Learns, publishes, and says how many Workflows that concerns.
    fn take(&mut self, input: HubInput) -> usize {
        let dirty = self.index.apply(input, Timestamp::UNIX_EPOCH);
        self.published = Arc::clone(self.index.admission());
        let is_workflow = |key: &&HubKey| matches!(key, HubKey::Workflow(_));
        dirty.iter().filter(is_workflow).count()
    }

    /// Median time and number of Workflows of one change.
    fn measure(&mut self, of: usize, change: impl Fn(usize, usize) -> HubInput) -> (Duration, usize) {
        let mut times = Vec::with_capacity(ROUNDS);
        let mut keys = 0;
        for round in 0..ROUNDS {
            self.version += 1;
            let input = change(round * of / ROUNDS, self.version);
            let started = Instant::now();
            keys = self.take(input);
            times.push(started.elapsed());
        }
        times.sort_unstable();
        (times.get(ROUNDS / 2).copied().unwrap_or_default(), keys)
    }
}

fn apply<K: DeserializeOwned>(object: Value) -> Change<K> {
    Change::Apply(Box::new(read(object)))
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() {
    println!(
        "clusters  Workflows   list all   relabeled   lost       policy     new Workflow   (median, Workflows concerned)"
    );
    for (clusters, workflows) in [(10, 10_000), (1_000, 10_000), (1_000, 100_000)] {
        let started = Instant::now();
        let mut bench = Bench::new(clusters, workflows);
        let listed = started.elapsed();
        let (labels, by_labels) = bench.measure(clusters, |number, version| {
            let label = if version.is_multiple_of(2) { "other" } else { "c0" };
            HubInput::Cluster(apply(cluster(number, label, "True", version)))
        });
        let (lost, by_lost) = bench.measure(1, |number, version| {
            let status = if version.is_multiple_of(2) {
                "Unknown"
            } else {
                "True"
            };
            HubInput::Cluster(apply(cluster(number, "c0", status, version)))
        });
        let (rules, by_rules) = bench.measure(clusters, |number, version| {
            HubInput::Policy(apply(of_cluster(number, version)))
        });
        let (new, by_new) = bench.measure(clusters, |number, version| {
            HubInput::workflow(apply(workflow(workflows + number, clusters, version)))
        });
        println!(
            "{clusters:>8}  {workflows:>9}   {listed:>8.0?}   {labels:>7.0?} {by_labels}   {lost:>7.0?} {by_lost}   {rules:>7.0?} {by_rules}   {new:>7.0?} {by_new}"
        );
    }
}
