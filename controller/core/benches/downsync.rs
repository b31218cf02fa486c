//! The cost of one change for the index of objects, with ever more policies and objects: `cargo bench -p argosy-core`.
//!
//! Each object is selected by one policy, for one cluster of three. Times are of learning the change and of deciding every key that it
//! concerns; how many keys that are must not depend on how much there is.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use argosy_core::{
    Change, Reconcile,
    hub::objects::{DownsyncConfig, DownsyncInput, LINGER, ObjectIndex, kind::Kind},
};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Changes of each sort that are timed.
const ROUNDS: usize = 101;

struct Bench {
    index: ObjectIndex,
    version: usize,
    kind: Arc<Kind>,
}

#[expect(clippy::unwrap_used, reason = "what is read was written here")]
fn read<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn policy(number: usize, version: usize) -> Value {
    json!({
        "metadata": {
            "name": format!("p{number}"), "uid": format!("p{number}"),
            "generation": version, "resourceVersion": version.to_string(),
        },
        "spec": {
            "clusterSelectors": [{ "matchLabels": { "name": format!("cluster{}", number % 3) } }],
            "downsync": [{ "resources": ["configmaps"], "objectSelectors": [{ "matchLabels": { "of": format!("p{number}") } }] }],
        },
    })
}

fn object(number: usize, policies: usize, version: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "namespace": "n", "name": format!("c{number}"), "uid": format!("c{number}"),
            "labels": { "of": format!("p{}", number % policies) }, "resourceVersion": version.to_string(),
        },
        "data": { "version": version.to_string() },
    })
}

impl Bench {
    /// With so many policies and objects, and the time that the list of objects took.
    fn new(policies: usize, objects: usize) -> (Self, Duration) {
        let kind = Kind {
            group: String::new(),
            version: "v1".to_owned(),
            resource: "configmaps".to_owned(),
            kind: "ConfigMap".to_owned(),
            is_namespaced: true,
            has_status: false,
        };
        let mut bench = Self {
            index: ObjectIndex::new(DownsyncConfig {
                wds_name: "wds".to_owned(),
                is_guarded: true,
                linger: LINGER,
            }),
            version: 1,
            kind: Arc::new(kind.clone()),
        };
        let clusters = (0..3).map(|number| {
            let name = format!("cluster{number}");
            read(json!({ "metadata": { "name": name, "labels": { "name": name } }, "spec": {} }))
        });
        let all = (0..policies).map(|number| read(policy(number, 1)));
        for input in [
            DownsyncInput::Kinds(vec![kind]),
            DownsyncInput::Policy(Change::Reset(all.collect())),
            DownsyncInput::Transform(Change::Reset(Vec::new())),
            DownsyncInput::Namespace(Change::Reset(Vec::new())),
            DownsyncInput::Binding(Change::Reset(Vec::new())),
            DownsyncInput::Cluster(Change::Reset(clusters.collect())),
            DownsyncInput::Properties(Change::Reset(Vec::new())),
            DownsyncInput::SecretProperties(Change::Reset(Vec::new())),
            DownsyncInput::work(Change::Reset(Vec::new())),
            DownsyncInput::report(Change::Reset(Vec::new())),
            DownsyncInput::Collector(Change::Reset(Vec::new())),
            DownsyncInput::Combined(Change::Reset(Vec::new())),
        ] {
            bench.take(input);
        }
        let objects = (0..objects).map(|number| read(object(number, policies, 1)));
        let listed = DownsyncInput::object(Arc::clone(&bench.kind), Change::Reset(objects.collect()));
        let started = Instant::now();
        bench.take(listed);
        (bench, started.elapsed())
    }

    /// Learns, decides what that concerns, and says how many keys these are.
    fn take(&mut self, input: DownsyncInput) -> usize {
        let now = Timestamp::UNIX_EPOCH;
        let dirty = self.index.apply(input, now);
        for key in &dirty {
            std::hint::black_box(self.index.decide(key, now));
        }
        dirty.len()
    }

    /// Median time and number of keys of one change.
    fn measure(&mut self, size: usize, change: impl Fn(&Self, usize) -> DownsyncInput) -> (Duration, usize) {
        let mut times = Vec::with_capacity(ROUNDS);
        let mut keys = 0;
        for round in 0..ROUNDS {
            self.version += 1;
            let input = change(self, round * size / ROUNDS);
            let started = Instant::now();
            keys = self.take(input);
            times.push(started.elapsed());
        }
        times.sort_unstable();
        (times.get(ROUNDS / 2).copied().unwrap_or_default(), keys)
    }
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() {
    println!(
        "policies   objects     listed   one object changes   one policy changes   one cluster is relabeled and back"
    );
    for (policies, objects) in [(100, 100), (1_000, 1_000), (10_000, 10_000), (1_000, 100_000)] {
        let (mut bench, listed) = Bench::new(policies, objects);
        let (of_object, object_keys) = bench.measure(objects, |bench, number| {
            let change = Change::Apply(Box::new(read(object(number, policies, bench.version))));
            DownsyncInput::object(Arc::clone(&bench.kind), change)
        });
        let (of_policy, policy_keys) = bench.measure(policies, |bench, number| {
            DownsyncInput::Policy(Change::Apply(Box::new(read(policy(number, bench.version)))))
        });
        let (of_cluster, cluster_keys) = bench.measure(objects, |bench, _| {
            let name = if bench.version.is_multiple_of(2) {
                "cluster0"
            } else {
                "other"
            };
            let cluster =
                json!({ "metadata": { "name": "cluster0", "labels": { "name": name } }, "spec": {} });
            DownsyncInput::Cluster(Change::Apply(Box::new(read(cluster))))
        });
        println!(
            "{policies:>8}   {objects:>7}   {listed:>8.0?}   {of_object:>8.0?} {object_keys:>4} keys   {of_policy:>8.0?} {policy_keys:>4} keys   {of_cluster:>8.0?} {cluster_keys:>6} keys"
        );
    }
}
